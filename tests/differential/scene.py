"""Two equal trees, one of them packed, and the actors that work in them."""

import collections
import contextlib
import hashlib
import os
import pathlib
import random
import select
import shutil
import signal
import stat
import subprocess
import time

PATIENCE = 30
USER = 1000
STRANGER = 1001

# The variable by which the processes of a scene are found.
MARK = "DIRECTORY_OF_THE_SCENE"


class Broken(Exception):
    """An actor ended or does not answer, or quell failed: a difference, too."""


class Actor:
    """A process that carries out operations."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.pid = self.process.pid
        self.descriptors = {}

    def send(self, line):
        try:
            os.write(self.process.stdin.fileno(), line.encode() + b"\n")
        except BrokenPipeError:
            pass

    def answer(self):
        """The answer to the operation that was sent."""
        output, received = self.process.stdout.fileno(), b""
        while not received.endswith(b"\n.\n"):
            if not select.select([output], [], [], PATIENCE)[0]:
                raise Broken(f"no answer for {PATIENCE} s")
            part = os.read(output, 1 << 20)
            if not part:
                said = self.process.stderr.read().decode(errors="replace")
                raise Broken(f"it ended with status {self.process.wait()}: {said.strip()}")
            received += part
        return received[:-3].decode("latin-1")

    def ask(self, line):
        self.send(line)
        return self.answer()

    def end(self):
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            # A script that it started, too.
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()


class Side:
    """One tree with its actors."""

    def __init__(self, root):
        self.root = root
        self.actors = {}
        self.observer = None


class Scene:
    """Both sides. `options`: `user`, the number of the acting user; `tree`, a number from which the tree's details follow."""

    def __init__(self, directory, tools, options):
        self.directory = pathlib.Path(directory)
        self.tools = tools
        self.user = int(options.get("user", 0))
        self.options = options
        self.plain, self.packed = Side(self.directory / "a/r"), Side(self.directory / "b/r")
        self.pinned, self.mounted, self.killed = [], [], set()
        self.first = None
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": "/nonexistent", MARK: str(self.directory)}

    def __enter__(self):
        try:
            self.prepare()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def prepare(self):
        self.directory.chmod(0o755)
        for side in (self.plain, self.packed):
            self.provide(side.root.parent)
            plant(side.root, self.options, self.user)
        if self.user:
            os.chown(self.directory, self.user, self.user)
        if not self.tools.plain and not self.is_covered():
            self.pack()
        time.sleep(0.02)
        self.began = time.time() - 0.01
        for side in (self.plain, self.packed):
            if not self.is_covered():
                side.observer = Actor([self.tools.actor, side.root], self.environment)
        self.start()
        self.pin()

    def provide(self, directory):
        """The file system of a side, where the options name one. Mounts are root's to make."""
        kind = self.options.get("fs", "here")
        directory.mkdir()
        if kind == "tmpfs":
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=200m", "differential", directory], check=True)
        elif kind == "failing-close":
            back = directory.with_suffix(".back")
            back.mkdir()
            subprocess.run([self.tools.failing_close(), back, directory, "-o", "allow_other,default_permissions"], check=True)
        self.mounted += [directory] if kind != "here" else []

    def as_user(self):
        if self.user == os.geteuid():
            return []
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "--"]

    def quell(self, *words, **more):
        command = [*self.as_user(), self.tools.quell, "-q", *words]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.directory, env=self.environment, **more)
        if done.returncode:
            raise Broken(f"quell {' '.join(map(str, words))}: {done.stderr}")

    def pack(self):
        script = recording(self.packed.root, self.options)
        self.quell("record", "-o", "app.qtrace", "--", self.tools.actor, self.packed.root, input=script)
        whole = ["--whole-files"] if self.options.get("whole") == "1" else []
        self.quell("pack", "app.qtrace", "-o", "app.qimg", "--root", self.packed.root, *whole)

    def is_scratch(self):
        """The packed side is a scratch directory, or gathered."""
        return ("scratch" in self.options or "gather" in self.options) and not self.tools.plain

    def is_covered(self):
        """The packed side is a scratch, gathered or buffered directory, which all its actors and the observer share."""
        return self.is_scratch() or "buffer" in self.options and not self.tools.plain

    def is_passed(self):
        """Requests are passed on to directories that judge them."""
        return "buffer" in self.options or "names" in self.options

    def is_gathered_by_the_kernel(self):
        """The kernel keeps what programs write in pages, also without options: it is a job of one node."""
        return "buffer" in self.options and "shared" not in self.options["buffer"]

    def is_gathered(self):
        return "gather" in self.options and not self.tools.plain

    def extracted(self):
        """Extracts what was gathered, and compares the trees. Shape: text, `None` where they are equal."""
        command = [*self.as_user(), self.tools.quell, "gather", "extract", "--force", self.packed.root]
        if "names" in self.options:
            # The directory is the real one, and has the permissions that programs gave it.
            self.packed.root.chmod(0o755)
        if any(name.name.endswith(".qout") for name in os.scandir(self.packed.root)):
            done = subprocess.run(command, capture_output=True, text=True, cwd=self.directory, env=self.environment)
            if done.returncode:
                return f"  extract: status {done.returncode}: {done.stderr}"
        # Names of a file that was there and that no process looked at lead to the old one.
        known = {os.lstat(self.plain.root / name).st_ino for name in [*HARD, *HARD.values()] if os.path.lexists(self.plain.root / name)} & self.planted
        one, other = facts(self.plain.root), facts(self.packed.root)
        split = {path for path in one if os.lstat(self.plain.root / path).st_ino in known}
        # Files of others become the user's own, with the permissions that the user sees.
        split |= {path for path in one if os.lstat(self.plain.root / path).st_uid != self.user}
        one, other = ({path: said for path, said in found.items() if path not in split} for found in (one, other))
        wrong = [f"  {path}\n    plain: {one.get(path)}\n    extracted: {other.get(path)}" for path in sorted(one.keys() | other.keys()) if one.get(path) != other.get(path)]
        return "\n".join(wrong) or None

    def start_covered(self):
        kind = ["--scratch", self.packed.root, "--scratch-memory", self.options["scratch"]] if "scratch" in self.options else ["--gather", self.packed.root / self.options.get("names", "")]
        if "buffer" in self.options:
            options = self.options["buffer"]
            kind = ["--buffer", f"{self.packed.root}" if options == "default" else f"{self.packed.root}:{options}"]
        run = [self.tools.quell, "-q", "run", "--require", *kind, "--"]
        environment = {**self.environment, "SLURM_JOB_ID": "1"}
        # The first rank starts the server, which has its limits.
        limit = [*self.as_user(), "prlimit", f"--nofile={self.options.get('descriptors', 1024)}"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.first = subprocess.Popen([*limit, *run, "cat"], env=environment, **pipes)
        self.first.stdin.write(b"there\n")
        self.first.stdin.flush()
        self.first.stdout.readline()
        for number in "1234":
            self.plain.actors[number] = Actor([*self.as_user(), self.tools.actor, self.plain.root], self.environment)
            self.packed.actors[number] = Actor([*self.as_user(), *run, self.tools.actor, self.packed.root], environment)
            self.packed.actors[number].ask("umask 022")
        self.plain.observer = Actor([*self.as_user(), self.tools.actor, self.plain.root], self.environment)
        self.packed.observer = Actor([*self.as_user(), *run, self.tools.actor, self.packed.root], environment)

    def start(self):
        """Actors 1 and 2 share a namespace because they have the same job number; 3 has another one."""
        if self.is_covered():
            return self.start_covered()
        for number in "1234":
            plain = [*self.as_user(), self.tools.actor]
            self.plain.actors[number] = Actor([*plain, self.plain.root], self.environment)
            command, environment = [*plain, self.packed.root], self.environment
            if number != "4" and not self.tools.plain:
                run = [self.tools.quell, "run", "--require", "--mode", "mount", "--check", "none", self.directory / "app.qimg", "--"]
                command = [*self.as_user(), *run, self.tools.actor, self.packed.root]
                environment = {**environment, "SLURM_JOB_ID": "2" if number == "3" else "1"}
            self.packed.actors[number] = Actor(command, environment)
        for number in "1234":
            self.packed.actors[number].ask("umask 022")

    def pin(self):
        """Holds every planted inode of the plain side, so that no later one gets its number."""
        for path, directories, files in os.walk(self.plain.root):
            for name in [".", *files, *(d for d in directories if os.path.islink(os.path.join(path, d)))]:
                self.pinned.append(os.open(os.path.join(path, name), os.O_PATH | os.O_NOFOLLOW))
        found = [os.fstat(descriptor) for descriptor in self.pinned]
        self.planted = {status.st_ino for status in found}
        self.planted_directories = {status.st_ino for status in found if stat.S_ISDIR(status.st_mode)}

    def processes(self, name, job):
        """Numbers of the processes of a namespace that are called `name`."""
        found = []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if pathlib.Path(entry.path, "comm").read_text().strip() != name:
                        continue
                    variables = pathlib.Path(entry.path, "environ").read_bytes().split(b"\0")
                    if f"{MARK}={self.directory}".encode() in variables and f"SLURM_JOB_ID={job}".encode() in variables:
                        found.append(int(entry.name))
        return found

    def open_for_writing(self):
        """Originals that a server or a holder has open for writing. Shape: text for each."""
        found = []
        for job in "12":
            for number in self.processes("quell-server", job) + self.processes("quell-holder", job):
                with contextlib.suppress(OSError):
                    for entry in os.scandir(f"/proc/{number}/fd"):
                        with contextlib.suppress(OSError):
                            path = os.readlink(entry.path)
                            flags = int(pathlib.Path(f"/proc/{number}/fdinfo/{entry.name}").read_text().split("flags:")[1].split()[0], 8)
                            if path.startswith(f"{self.packed.root}/") and flags & os.O_ACCMODE and not flags & os.O_PATH:
                                found.append(f"process {number} of namespace {job}: {path}")
        return found

    def kill(self, name, job):
        """Kills a server or a holder whose partner will replace it: a holder and its child, of which none is about to end."""
        until = time.monotonic() + PATIENCE
        while True:
            servers, holders = self.processes("quell-server", job), self.processes("quell-holder", job)
            if len(servers) == len(holders) == 1 and parent(servers[0]) == holders[0] and not self.killed & {*servers, *holders}:
                break
            if time.monotonic() > until:
                raise Broken(f"servers {servers} and holders {holders} of namespace {job}: one was not replaced")
            time.sleep(0.005)
        victim = (servers if name == "quell-server" else holders)[0]
        self.killed.add(victim)
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)

    def end(self):
        for side in (self.plain, self.packed):
            for actor in [*side.actors.values(), side.observer]:
                if actor:
                    actor.end()
        if self.first:
            self.first.communicate()
        for descriptor in self.pinned:
            os.close(descriptor)
        self.pinned = []
        until = time.monotonic() + 5
        while time.monotonic() < until and any(self.processes("quell-server", job) for job in "12"):
            time.sleep(0.01)
        for job in "12":
            for name in ("quell-holder", "quell-server"):
                for number in self.processes(name, job):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
        for directory in self.mounted:
            subprocess.run(["umount", "--lazy", directory], check=True)


def facts(root):
    """What an extraction must bring back of a tree: types, modes, sizes, content, targets, names of one file. Shape: text by path."""
    found, names = {}, collections.defaultdict(list)
    for path, directories, files in os.walk(root):
        for name in sorted([*directories, *files]):
            whole = os.path.join(path, name)
            relative, status = os.path.relpath(whole, root), os.lstat(whole)
            kind = stat.S_IFMT(status.st_mode)
            if name.endswith(".qout") or kind == stat.S_IFSOCK:
                continue
            said = f"type={kind:o}"
            # Directories that were there keep their permissions.
            if kind == stat.S_IFREG:
                said += f" mode={status.st_mode & 0o7777:o} size={status.st_size} content={hashlib.sha256(pathlib.Path(whole).read_bytes()).hexdigest()[:16]}"
            elif kind == stat.S_IFLNK:
                said += f" target={os.readlink(whole)}"
            if kind != stat.S_IFDIR:
                names[status.st_ino].append(relative)
            found[relative] = said
    for paths in names.values():
        for path in paths:
            found[path] += f" names={sorted(paths)}"
    return found


def parent(number):
    """The parent of a process, or `None` when that has ended."""
    with contextlib.suppress(OSError):
        return int(pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    return None


# Path, length. Names at the top come last, so that a listing of the top is not in the order of creation.
FILES = {
    "d1/a": 12, "d1/b": 5000, "d1/s/a": 7, "d1/s/b": 40000, "d1/s/t/a": 1, "d2/a": 300, "d2/e": 0, "d2/x": 20,
    "a": 100, "b": 9000, "big": 200_000, "c": 10, "f": 70_000, "0400": 30, "0600": 30, "0666": 30, "theirs": 25, "d5/a": 9,
}  # fmt: skip
DIRECTORIES = ["d3", "d3/e", "d5"]
LINKS = {"l": "a", "d1/l": "../d2/a", "ld": "d1", "l0": "missing", "d2/up": "..", "loop": "loop"}
# Names of one inode, in two directories.
HARD = {"d1/h": "a", "d2/h": "d1/b", "d1/s/h": "d2/a", "d2/big": "big", "d3/h": "f"}
SPARSE = "sparse"
MODES = {"0400": 0o400, "0600": 0o600, "0666": 0o666, "theirs": 0o644, "d2/x": 0o755, "d1/s/b": 0o600}
STRANGERS = ["0666", "theirs", "d5", "d5/a"]


def plant(root, options, user):
    """The tree. Times are fixed, each file has its own; everything is of `user` but what `STRANGERS` names."""
    root.mkdir(parents=True)
    names = [name for name in [*FILES, SPARSE] if "/" in name] + [name for name in [*FILES, SPARSE] if "/" not in name]
    for name in DIRECTORIES:
        (root / name).mkdir(parents=True)
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if name == SPARSE:
            with open(root / name, "wb") as file:
                for offset in (0, 300_000, 900_000):
                    file.seek(offset)
                    file.write(b"sparse" * 100)
                file.truncate(1_000_000)
        else:
            (root / name).write_bytes((f"<{name}>" * (FILES[name] // (len(name) + 2) + 1)).encode()[: FILES[name]])
    for name, target in LINKS.items():
        (root / name).symlink_to(target)
    for name, target in HARD.items():
        if "names" in options and len({pathlib.PurePath(path).parts[0].startswith("d") for path in (name, target)}) > 1:
            continue
        os.link(root / target, root / name)
    if options.get("fifo") == "1":
        (root / "d4").mkdir()
        (root / "d4/a").write_text("beside a pipe\n")
        os.mkfifo(root / "d4/p")
    if options.get("many") == "1":
        # More names than one answer to getdents(2) holds.
        for number in range(400):
            (root / "d3" / f"name-{number:03}-of-a-directory-with-many-names").touch()
    number = 1_000_000_000
    for path, directories, files in os.walk(root, topdown=False):
        for name in sorted([*files, *directories]):
            whole, number = os.path.join(path, name), number + 1000
            relative = os.path.relpath(whole, root)
            status = os.lstat(whole)
            if not stat.S_ISLNK(status.st_mode):
                os.chmod(whole, MODES.get(relative, 0o755 if stat.S_ISDIR(status.st_mode) else 0o644))
            if os.geteuid() == 0:
                owner = (0 if user else STRANGER) if relative in STRANGERS else user
                os.lchown(whole, owner, owner)
                if relative == "d5":
                    os.chmod(whole, 0o777)
            os.utime(whole, (number, number), follow_symlinks=False)
    with contextlib.suppress(OSError):  # not every file system has them
        os.setxattr(root / "d1/a", "user.colour", b"green")
    if os.geteuid() == 0:
        os.chown(root, user, user)
    os.utime(root, (number, number))


def recording(root, options):
    """The program that is recorded: it lists some directories, and reads files whole, in part or not at all."""
    choices = random.Random(int(options.get("tree", 0)))
    everything = options.get("tree", "0") == "0"
    lines = []
    for path in [".", "d1", "d2", "d3", "d5", "d1/s", "d1/s/t", *(["d4"] if options.get("fifo") == "1" else [])]:
        if everything or choices.random() < 0.7:
            lines += [f"open 0 cwd {path} RDONLY|DIRECTORY 0", "getdents 0", "close 0"]
        for name in "abcehx":
            if everything or choices.random() < 0.4:
                lines.append(f"stat cwd {path}/{name} NONE")
    for name in FILES:
        fate = 1 if name == "b" else choices.random()
        if name in ("big", "f"):
            lines += [f"open 0 cwd {name} RDONLY 0", f"pread 0 5000 {8192 * choices.randrange(4)}", "close 0"]
        elif (everything and name != "c") or fate < 0.6:
            lines += [f"open 0 cwd {name} RDONLY 0", "read 0 1000000", "close 0"]
        elif fate < 0.8:
            lines.append(f"stat cwd {name} NONE")
    lines += [f"open 0 cwd {SPARSE} RDONLY 0", "pread 0 4096 299008", "close 0", "getxattr d1/a user.colour"]
    return "\n".join(lines) + "\n"
