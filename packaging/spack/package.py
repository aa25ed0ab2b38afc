# Copyright the quell developers. Apache-2.0 OR MIT, at your choice.
#
# Spack recipe. quell has no public download address, so this recipe names none: the archive is the one that `make dist`
# writes, quell-VERSION-vendored.tar.gz, which holds every crate. Spack takes it from the directory in which it is
# called, or from a mirror. Of the two recipes use the one that `make dist` writes too, because it knows the archive's
# checksum:
#
#     make dist                                 # target/dist
#     spack repo add target/dist/spack
#     (cd target/dist && spack install quell)
#
# The binary is static, so the system needs the static C library: glibc-static on Red Hat's systems, glibc-devel-static
# on SUSE's.

import os

from spack.package import *

try:
    # Spack 1.0 keeps build systems in its package repository; earlier ones export them with the line above.
    from spack_repo.builtin.build_systems.generic import Package
except ImportError:
    pass


class Quell(Package):
    """Measures and removes the file-system metadata storm that programs raise when they start on many nodes."""

    url = "file://{0}/quell-0.1.0-vendored.tar.gz".format(os.getcwd())
    manual_download = True

    license("Apache-2.0 OR MIT", checked_by="quell")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("rust@1.93:", type="build")
    depends_on("gmake", type="build")

    conflicts("platform=darwin", msg="quell needs Linux")
    conflicts("platform=windows", msg="quell needs Linux")

    def url_for_version(self, version):
        return "file://{0}/quell-{1}-vendored.tar.gz".format(os.getcwd(), version)

    def setup_build_environment(self, env):
        # Cargo would take them in place of the flags in crates/cli/.cargo, which make the binary static.
        env.unset("RUSTFLAGS")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("install", "--path=crates/cli", "--root", str(prefix), "--no-track", "--frozen", "-j", str(make_jobs))
        Executable(join_path(self.stage.source_path, "packaging", "install"))(str(prefix.bin.quell), str(prefix))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_version(self):
        Executable(str(self.prefix.bin.quell))("--version")
