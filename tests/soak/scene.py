"""A tree, its images and the programs of the soaks, for the scripts beside this file."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

QUELL = os.environ.get("QUELL", "quell")
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
PATIENCE = 120

# Each works below $1 and leaves it as it was.
WORKLOADS = {
    "import": "cd $1; PYTHONPATH=lib python3 -B -c 'import package, json, decimal; print(package.total())'",
    "tar": "cd $1; tar -cf - --sort=name --mtime=@0 --owner=0 --group=0 . | sha256sum",
    "git": "cd $1; export HOME=$1 GIT_CONFIG_NOSYSTEM=1; rm -rf .git; git init -q .; git add data; git status --short | sha256sum; "
    "git -c user.name=a -c user.email=b commit -q -m all; git log --format=%T; git fsck 2>&1 | sha256sum; rm -rf .git",
    "write": "cd $1; for i in 1 2 3 4 5 6 7 8 9; do mkdir d$i; echo $i > d$i/a; echo more >> d$i/a; mv d$i/a d$i/b; ln d$i/b d$i/c; "
    "cat d$i/b d$i/c; chmod 600 d$i/b; stat -c %a d$i/c; rm -r d$i; done; ls",
    "walk": "cd $1; for i in 1 2 3; do find . -printf '%p %s %m\\n' | sort | sha256sum; ls absent-$i nothing/$i 2>&1 || :; done",
}


class Failure(Exception):
    """A run that differs from a plain one."""


class Scene:
    """A tree, its images, and what each workload prints without quell."""

    def __init__(self, directory):
        self.directory = directory
        self.root = directory / "env"
        self.user = NOBODY if os.geteuid() == 0 else []
        plant(self.root)
        directory.chmod(0o755)
        if self.user:
            # The image keeps owners.
            subprocess.run(["chown", "-R", "65534:65534", directory], check=True)
        self.binary = directory / "quell"
        shutil.copy(QUELL, self.binary)
        self.binary.chmod(0o755)
        self.plain, self.images = {}, []
        for name, text in WORKLOADS.items():
            command = [*self.user, "sh", "-c", text, name, self.root]
            self.plain[name] = subprocess.run(command, capture_output=True, check=True, cwd=directory).stdout
        # Output of the other workloads cannot be predicted.
        reading = "; ".join(f"({WORKLOADS[name]})" for name in ("import", "tar", "walk"))
        for options in ([], ["--compress"]):
            image = directory / f"image{len(self.images)}"
            trace = f"{image}.qtrace"
            self.quell("record", "-o", trace, "--", "sh", "-c", reading, "all", self.root)
            self.quell("pack", trace, "-o", image, "--root", self.root, "--whole-files", *options)
            self.images.append(image)
            if self.user:
                os.chown(image, 65534, 65534)

    def quell(self, *words):
        """Runs quell, which must succeed."""
        outcome = subprocess.run([self.binary, "-q", *words], capture_output=True, text=True, cwd=self.directory)
        if outcome.returncode:
            sys.exit(f"quell {' '.join(map(str, words))}: {outcome.stderr}")

    def processes(self):
        """Numbers and names of all processes of this scene that are quell's."""
        found = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    if str(self.directory).encode() in pathlib.Path(entry.path, "cmdline").read_bytes():
                        name = pathlib.Path(entry.path, "comm").read_text().strip()
                        found.update({int(entry.name): name} if name.startswith("quell") else {})
                except OSError:
                    pass
        return found

    def clear(self):
        """Kills processes that a failed run left."""
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def wait(self, holds, otherwise):
        """Waits for a condition that must come true."""
        end = time.monotonic() + 20
        while not holds():
            if time.monotonic() > end:
                raise Failure(f"{otherwise}: {self.processes()}")
            time.sleep(0.005)


def plant(root):
    """A package of many modules, and data."""
    package, data = root / "lib/package", root / "data"
    package.mkdir(parents=True)
    data.mkdir()
    names = [f"module{number}" for number in range(60)]
    for number, name in enumerate(names):
        (package / f"{name}.py").write_text(f"value = {number}\n" + "# text\n" * 500)
        (data / f"{name}.bin").write_bytes(bytes(range(256)) * number * 40)
    imports = "".join(f"from . import {name}\n" for name in names)
    total = " + ".join(f"{name}.value" for name in names)
    (package / "__init__.py").write_text(f"{imports}def total(): return {total}\n")
