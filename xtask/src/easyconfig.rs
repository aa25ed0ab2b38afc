//! The easyconfig for EasyBuild: what is written here, and every crate of `Cargo.lock` with its checksum.

use std::fmt::Write as _;

/// A crate that comes from the registry.
pub(crate) struct Locked {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) checksum: String,
}

/// The easyconfig of this version. Shape of the crates: in the order of the lock file, which is sorted.
pub(crate) fn easyconfig(lock: &str) -> String {
    let crates = locked(lock);
    let mut list = String::new();
    let mut sums = String::new();
    for Locked { name, version, checksum } in &crates {
        // Writing to a string cannot fail.
        _ = writeln!(list, "    ('{name}', '{version}'),");
        _ = writeln!(sums, "    {{'{name}-{version}.tar.gz': '{checksum}'}},");
    }
    TEMPLATE.replace("VERSION", env!("CARGO_PKG_VERSION")).replace("CRATES\n", &list).replace("SUMS\n", &sums)
}

/// The packages that have a checksum: those that are not of this workspace.
pub(crate) fn locked(lock: &str) -> Vec<Locked> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]\n").skip(1);
    let locked = packages.filter_map(|block| {
        let checksum = value(block, "checksum")?;
        Some(Locked { name: value(block, "name")?, version: value(block, "version")?, checksum })
    });
    locked.collect()
}

const TEMPLATE: &str = r#"# EasyBuild: made from Cargo.lock by `cargo xtask`; change xtask/src/easyconfig.rs.
#
# quell has no public address yet, so `homepage` is empty and there is no `source_urls`: `make dist` puts every archive
# that is named here into target/dist/easybuild, and
#
#     eb --sourcepath=target/dist/easybuild --robot target/dist/easybuild/quell-VERSION.eb
#
# builds without a network. The binary is static, so the system needs the static C library: glibc-static on Red Hat's
# systems, glibc-devel-static on SUSE's.

easyblock = 'Cargo'

name = 'quell'
version = 'VERSION'

homepage = ''
description = """quell measures and removes the file-system metadata storm that programs raise when they start on many
nodes of a machine with a shared file system."""

toolchain = {'name': 'GCCcore', 'version': '14.3.0'}

builddependencies = [
    ('binutils', '2.44'),
    ('Rust', '1.93.0'),
]

sources = [SOURCE_TAR_GZ]
checksums = [
    # The first is of quell itself, whose archive holds this file.
    None,
SUMS
]

crates = [
CRATES
]

# The binary's own package: the top of the source is a workspace without one.
start_dir = 'crates/cli'
enable_tests = False
# Cargo would take RUSTFLAGS, which EasyBuild sets for this very machine, in place of the flags in crates/cli/.cargo, which
# make the binary static and the same everywhere.
prebuildopts = preinstallopts = 'env -u RUSTFLAGS '
buildopts = '--frozen'
installopts = '--no-track --frozen'
# The manual pages, completions and the rest that cargo does not install.
postinstallcmds = ['../../packaging/install %(installdir)s/bin/quell %(installdir)s']

sanity_check_paths = {
    'files': ['bin/quell', 'share/man/man1/quell.1', 'share/man/man5/quell.toml.5'],
    'dirs': ['share/bash-completion/completions'],
}
sanity_check_commands = ['quell --version', 'quell config']

moduleclass = 'tools'
"#;
