"""Plays a program on both sides and stops at the first difference.

Instructions to the driver, whose actor is `-`:

    check outside         both trees as a plain process sees them, now
    check inside N        both trees as actor N sees them, within `BOUND`
    check closed          when no actor has a file open, no server has an original open for writing, within `BOUND`
    adopt N AT PATH       actor N makes a directory or a file live: by a name that comes and goes, by opening it for writing
    kill NAME JOB         kills `quell-server` or `quell-holder` of namespace 1 or 2
    kill-during NAME JOB MICROSECONDS   the same, while the next operation is on its way
    append-race PATH N    all four actors append N lines to one file at once; none may be lost
"""

import collections
import fnmatch
import dataclasses
import os
import re
import stat
import threading
import time

import known
from judge import Judge, View
from programs import ACTORS, NAMES, Op, quote, unquote
from scene import Broken
from views import NAMESPACES, Views

# Seconds within which a namespace must see others' changes in live directories and files. An upper bound: it is polled.
BOUND = 5.0

PROBES = sorted("a b c d e f g h l p s t u x n big sparse d1 d2 d3 log".split())

JOBS = {"first": "1", "second": "2"}


@dataclasses.dataclass
class Difference:
    """The first difference of a program."""

    number: int
    op: Op
    text: str

    def kind(self):
        """The property that stays the same while a program is made smaller."""
        unseen = re.match(r"  not seen by (\d)", self.text)
        if unseen:
            return "not seen", unseen.group(1)
        return self.op.name, self.op.words[:1] if self.op.actor == "-" else ""

    def __str__(self):
        return f"at operation {self.number}: {self.op}\n{self.text}"


class Player:
    """A program's run in a scene."""

    def __init__(self, scene, several, bound=BOUND, lingering=True):
        self.scene, self.judge, self.bound = scene, Judge(scene), bound
        self.several, self.lingering = several, lingering
        self.views = Views(scene)
        self.played, self.left_out, self.waits = [], collections.Counter(), []
        # Inodes whose mapped pages a namespace has changed and not written yet, with the actor that has to write them.
        self.unwritten = {}
        # Mapped files of the plain side, with the offsets of their mappings.
        self.mapped_files = {}
        # Mappings to which a write may set no time: an actor has written through them before.
        self.mappings_without_times = set()
        # Shared locks of fcntl(2), by actor and inode; inodes whose lock a close may not have taken away.
        self.shared_locks, self.lingering_locks = set(), set()
        # Inodes that a process in a namespace has closed, with the namespace.
        self.closed_in = set()
        self.killer = None

    def play(self, source):
        """Plays operations until a difference; `source` may look at the plain side before it gives the next one."""
        op = Op("-", "start")
        try:
            for op in source:
                difference = self.step(op)
                if difference:
                    return difference
        except Broken as broken:
            return Difference(len(self.played), op, f"  {broken}")
        finally:
            for file, _ in self.mapped_files.values():
                os.close(file)
        return None

    def step(self, op):
        self.played.append(op)
        if op.actor == "-":
            text = getattr(self, "do_" + op.name.replace("-", "_"))(*op.words)
        else:
            text = self.operate(op)
        return Difference(len(self.played), op, text) if text else None

    # Operations of actors.

    def operate(self, op):
        for quoted, leaves_out in known.LEFT_OUT + known.UNDETERMINED:
            if leaves_out(self, op):
                self.left_out[quoted[:30]] += 1
                return None
        here = ACTORS[op.actor]
        before = None
        if self.several and op.name in NAMES:
            touched = self.views.touched(op)
            if here in NAMESPACES and touched & self.views.stale[here] and op.name != "close":
                self.left_out["stale"] += 1
                return None
            text = self.write_mapped(here)
            if not text and here in NAMESPACES and touched & self.views.unseen[here]:
                text = self.catch_up(op.actor) or self.wait_for_hidden(op, touched)
            if text:
                return text
            before = self.views.subjects(op)
        if op.actor in "123" and self.meets_unwritten(op):
            text = self.write_mapped()
            if text:
                return text
        closed = self.views.closed(op)
        plain, packed = self.both(op)
        self.lose_locks(op.actor, closed)
        if here in NAMESPACES:
            self.closed_in |= {(here, inode) for inode in closed}
        packed = self.once_released(op, here, plain, packed)
        if self.several and not plain.startswith("-") and before is not None:
            self.views.changed(op, before)
        self.note(op, plain)
        different = self.judge.differs(op, plain, packed)
        return different and self.text(op, different)

    def once_released(self, op, here, plain, packed):
        """The packed answer, within `BOUND` once locks are gone with the open files that other namespaces closed."""
        if op.name not in known.RELEASED_LATER or packed == plain:
            return packed
        inodes = self.views.slots(op)
        if not any(inode in inodes and namespace != here for namespace, inode in self.closed_in):
            return packed
        until = time.monotonic() + BOUND
        side = self.scene.packed
        while packed != plain and time.monotonic() < until:
            time.sleep(0.02)
            side.actors[op.actor].send(" ".join([op.name, *op.words]))
            packed = side.actors[op.actor].answer()
        return packed

    def both(self, op):
        """Both answers of one operation."""
        sides = (self.scene.plain, self.scene.packed)
        for side in sides:
            words = [quote(self.placed(word, side)) for word in op.words]
            side.actors[op.actor].send(" ".join([op.name, *words]))
        answers = [side.actors[op.actor].answer() for side in sides]
        if self.killer:
            self.killer.join()
            self.killer = None
        return answers

    def placed(self, word, side):
        if word == "@" or word.startswith("@/"):
            return str(side.root) + word[1:]
        return word.replace(" @/", f" {side.root}/") if " " in word else word

    def unmap(self, op):
        if (op.actor, op.words[0]) in self.mapped_files:
            os.close(self.mapped_files.pop((op.actor, op.words[0]))[0])

    def text(self, op, different):
        one, other = (unquote(part) if op.name == "sh" else part for part in different)
        return f"  plain: {one}\n  quell: {other}"

    def note(self, op, plain):
        """Notes the descriptors and mapped pages of a plain answer."""
        actor = self.scene.plain.actors[op.actor]
        number = re.search(r" fd=(\d+)", plain)
        if number:
            actor.descriptors[op.words[1 if op.name == "dup" else 0]] = int(number.group(1))
        elif op.name == "close" and plain == "0":
            actor.descriptors.pop(op.words[0], None)
        elif op.name == "map" and plain == "0":
            inodes = self.views.slots(op)
            self.unmap(op)
            self.views.mapped[op.actor, op.words[0]] = inodes[0] if inodes else None
            self.mapped_files[op.actor, op.words[0]] = os.open(self.views.base(op.actor, op.words[1]), os.O_PATH), int(op.words[5])
            self.unwritten.pop((op.actor, op.words[0]), None)
            self.mappings_without_times.discard((op.actor, op.words[0]))
            # A tmpfs sets times at the first fault of a page, and not where it was mapped with its neighbours.
            if self.scene.options.get("fs") == "tmpfs":
                self.mappings_without_times.add((op.actor, op.words[0]))
        elif op.name == "mwrite" and not plain.startswith("-"):
            self.unwritten[op.actor, op.words[0]] = ACTORS[op.actor]
            self.mappings_without_times.add((op.actor, op.words[0]))
        elif op.name == "lock" and op.words[1] == "R" and plain == "0":
            self.shared_locks |= {(op.actor, inode) for inode in self.views.slots(op)}
        elif op.name in ("msync", "munmap"):
            self.unwritten.pop((op.actor, op.words[0]), None)

    def lose_locks(self, actor, inodes):
        """Notes that an actor closes descriptors of files, which ends its locks of them."""
        self.lingering_locks |= {inode for inode in inodes if (actor, inode) in self.shared_locks}

    def meets_unwritten(self, op):
        """Tells whether an operation sets times, or looks at those of a file with unwritten pages, which set them later."""
        if op.name in ("utimens", "futimens"):
            return True
        if op.name not in ("stat", "fstat") or not self.unwritten:
            return False
        return bool(self.views.touched(op) & {self.views.mapped.get(mapping) for mapping in self.unwritten})

    def write_mapped(self, but=None):
        """Has mapped pages written that an actor other than `but` is about to look at."""
        for (actor, number), namespace in list(self.unwritten.items()):
            if namespace != but:
                plain, packed = self.both(Op(actor, "msync", (number,)))
                del self.unwritten[actor, number]
                if plain != packed:
                    return f"  msync of mapping {number} by {actor}\n  plain: {plain}\n  quell: {packed}"
        return None

    # Questions of the table of exceptions.

    def mount(self, path):
        """The mount that a path of the plain side lies in on the other side, as text."""
        return self.mount_of_real(os.path.realpath(path))

    def mount_of_name(self, place):
        """The mount in which a name lies. Of names at the top a pattern says where each lies."""
        directory, name = os.path.split(place)
        directory = os.path.realpath(directory)
        return self.mount_of_real(os.path.join(directory, name) if "names" in self.scene.options else directory)

    def mount_of_real(self, real):
        real, root = real + "/", str(self.scene.plain.root)
        if self.scene.options.get("fifo") == "1" and not self.scene.is_covered() and real.startswith(f"{root}/d4/"):
            return "a directory that stays the original"
        if "names" in self.scene.options and real.startswith(f"{root}/"):
            first = os.path.relpath(real, root).split("/")[0]
            return "the node" if fnmatch.fnmatchcase(first, self.scene.options["names"]) else "root"
        return "root" if real.startswith(root + "/") else "outside"

    def crosses(self, op):
        """Tells whether an operation reaches from one mount into another."""
        if op.name == "sh" and ("names" not in self.scene.options or not re.match("mv|ln|cp -a", op.words[0])):
            return False
        if op.name == "sh":
            mounts = {self.mount_of_name(found.place) for found in self.views.walks_of_script(op.words[0]) if found.place}
        elif op.name == "copyrange":
            mounts = {self.mount(self.views.base(op.actor, op.words[position])) for position in NAMES[op.name].slots}
        else:
            mounts = {self.mount_of_name(found.place) for found in self.views.walks(op) if found.place}
        return len(mounts) > 1

    def is_boundary(self, op):
        """Tells whether an operation is about a directory that is a mount."""
        if self.scene.options.get("fifo") != "1":
            return False
        boundary = f"{self.scene.plain.root}/d4"
        return any(os.path.realpath(found.place) == boundary for found in self.views.walks(op) if found.place)

    def renames_planted_directory(self, op):
        """Tells whether an operation, or a script by `mv`, renames a directory that was there."""
        if op.name == "rename":
            return any(found.last in self.views.directories for found in self.views.walks(op))
        moved = self.views.walks_of_script(op.words[0], "mv ") if op.name == "sh" else []
        return any(found.last in self.views.directories for found in moved)

    def is_in_removed_directory(self, op):
        if not self.several or op.name not in NAMES or NAMES[op.name].does != "name":
            return False
        return any(self.views.is_removed_by_other(ACTORS[op.actor], base) for base in self.views.bases(op))

    def is_behind_end(self, op):
        if (op.actor, op.words[0]) not in self.mapped_files:
            return False
        file, start = self.mapped_files[op.actor, op.words[0]]
        size, first, last = os.fstat(file).st_size, start + int(op.words[1]), start + int(op.words[1]) + int(op.words[2])
        return first < -(-size // 4096) * 4096 and last > size

    def keeps_size(self, op):
        """Tells whether a file is truncated to the size that it has."""
        if op.name == "truncate":
            places = [found.place for found in self.views.walks(op) if found.place]
        elif op.name == "ftruncate":
            places = [self.views.base(op.actor, op.words[0])]
        else:
            return False
        try:
            return any(os.stat(place).st_size == int(op.words[1]) for place in places)
        except OSError:
            return False

    def is_one_file(self, op):
        held = self.views.slots(op)
        return len(held) == 2 and held[0] == held[1]

    def is_not_judged_in_a_buffered_directory(self, op):
        """Tells whether a plain process is refused what the kernel does not ask about: a step from a directory to itself or above, or a FIFO."""
        if not self.scene.is_passed() or not self.scene.user or op.name not in NAMES:
            return False
        if op.name == "reopen":
            pipes = [self.views.base(op.actor, op.words[1])]
        else:
            pipes = [found.place for found in self.views.walks(op) if op.name == "open"]
        wanted = {"RDONLY": os.R_OK, "WRONLY": os.W_OK, "RDWR": os.R_OK | os.W_OK}
        flags = set(op.words[2 if op.name == "reopen" else 3].split("|")) if op.name in ("open", "reopen") else set()
        mode = next((wanted[flag] for flag in flags if flag in wanted), 0)
        if any(is_pipe(place) and not self.may(os.stat(place), mode) for place in pipes if place):
            return True
        walks = self.views.walks_of_script(op.words[0]) if op.name == "sh" else self.views.walks(op)
        return any(not self.may(status, os.X_OK) for found in walks for status in found.dotted)

    def may(self, status, mode):
        """Tells whether the acting user has these permissions."""
        user = self.scene.user
        shift = 6 if status.st_uid == user else 3 if status.st_gid == user else 0
        return status.st_mode >> shift & mode == mode

    def is_only_mapped(self, op):
        """Tells whether others changed a mapped file that has no name and no descriptor left by which the actor looks at it."""
        here, mapped = ACTORS[op.actor], self.mapped_files.get((op.actor, op.words[0]))
        if not self.several or here not in NAMESPACES or mapped is None:
            return False
        status = os.fstat(mapped[0])
        held = {inode for number in self.scene.plain.actors[op.actor].descriptors for inode in self.views.slots(Op(op.actor, "fstat", (number,)))}
        return status.st_nlink == 0 and status.st_ino in self.views.unseen[here] and status.st_ino not in held

    def sets_times_again(self, op):
        """Tells whether a mapping whose writes may set no time writes to a file whose time is an old one."""
        if (op.actor, op.words[0]) not in self.mappings_without_times:
            return False
        return abs(os.fstat(self.mapped_files[op.actor, op.words[0]][0]).st_mtime - time.time()) > 3600

    def is_lingering(self, op):
        return self.lingering and bool(self.lingering_locks.intersection(self.views.slots(op)))

    def pipe_between_namespaces(self, op):
        """A FIFO's content is of one namespace."""
        if not self.several or op.name not in ("read", "readv", "write", "pread", "pwrite", "sendfile", "copyrange", "open"):
            return False
        for position in NAMES[op.name].slots:
            try:
                if stat.S_ISFIFO(os.stat(self.views.base(op.actor, op.words[position])).st_mode):
                    return True
            except OSError:
                pass
        return any(is_pipe(found.place) for found in self.views.walks(op))

    # Looking at whole trees.

    def look(self, actor, how):
        """Both trees as an actor or, for `None`, as a plain process sees them."""
        sides = (self.scene.plain, self.scene.packed)
        actors = [side.actors[actor] if actor else side.observer for side in sides]
        for one, side in zip(actors, sides):
            one.send(" ".join(["tree", quote(str(side.root)), how, *PROBES]))
        return [one.answer() for one in actors]

    def compare(self, actor, how="full"):
        """Lines that tell the differences."""
        view = None
        if actor and ACTORS[actor] in NAMESPACES:
            view = View(self.views, ACTORS[actor])
        return self.judge.trees(*self.look(actor, how), view)

    def catch_up(self, actor):
        """Waits until an actor's namespace sees what others changed."""
        text = self.write_mapped()
        if text:
            return text
        began = time.monotonic()
        while True:
            plain, packed = self.look(actor, "full")
            view = View(self.views, ACTORS[actor])
            differences = self.judge.trees(plain, packed, view)
            if not differences:
                # Directories that were exchanged may look alike.
                differences = self.judge.others_by_name(plain, packed, self.look(None, "full")[1], view)
            waited = time.monotonic() - began
            if not differences:
                self.waits.append(waited)
                self.views.unseen[ACTORS[actor]] -= self.judge.compared(plain, view)
                return None
            if waited > self.bound:
                return f"  not seen by {actor} after {self.bound} s:\n" + indented(differences)
            time.sleep(min(0.1, 0.01 + waited / 4))

    def wait_for_hidden(self, op, touched):
        """Waits for names below a directory that may not be listed, then reaches each by its name once."""
        unseen = self.views.unseen[ACTORS[op.actor]]
        hidden = touched & unseen
        if hidden:
            time.sleep(2)
            for base in self.views.bases(op):
                place, root = os.path.realpath(base), str(self.scene.plain.root)
                if place.startswith(root + "/") and os.path.exists(place):
                    self.both(Op(op.actor, "stat", ("cwd", "@" + place[len(root):], "NONE")))
        unseen -= hidden

    def do_start(self):
        return None

    def do_check(self, what, actor=None):
        text = self.write_mapped()
        if text:
            return text
        if what == "closed":
            return self.closed()
        if what == "inside" and ACTORS[actor] in NAMESPACES and self.views.unseen[ACTORS[actor]]:
            return self.catch_up(actor)
        differences = self.compare(actor if what == "inside" else None)
        if what == "inside":
            # The actor opens and closes every file.
            self.lose_locks(actor, [inode for holder, inode in self.shared_locks if holder == actor])
        return indented(differences) if differences else None

    def closed(self):
        """Closes everything and waits until the servers have, because other nodes learn of written data at close(2)."""
        for actor in "1234":
            for number in list(self.scene.plain.actors[actor].descriptors):
                text = self.operate(Op(actor, "close", (number,)))
                if text:
                    return f"  close {number} by {actor}\n{text}"
            for number in "0123":
                self.both(Op(actor, "munmap", (number,)))
        self.unwritten.clear()
        until = time.monotonic() + BOUND
        while found := self.scene.open_for_writing():
            if time.monotonic() > until:
                return "  still open for writing:\n" + "\n".join(f"    {line}" for line in found)
            time.sleep(0.02)
        return None

    def do_adopt(self, actor, at, path):
        """Ends staleness: of a directory in which a name was made, of a file that was opened for writing."""
        here, look = ACTORS[actor], Op(actor, "stat", (at, path, "NONE"))
        found = self.views.walks(look)[0]
        stale = self.views.stale[here] if here in NAMESPACES else set()
        if here not in NAMESPACES or found.last is None or set(found.way[:-1]) & stale:
            return None
        if found.last in self.views.directories:
            steps = [Op(actor, "mkdir", (at, path + "/.adopted", "755")), Op(actor, "rmdir", (at, path + "/.adopted"))]
        elif found.last in self.views.planted and not is_pipe(found.place):
            steps = [Op(actor, "open", ("14", at, path, "WRONLY", "0")), Op(actor, "close", ("14",))]
        else:
            return None
        touched = self.views.touched(look)
        if touched & self.views.unseen[here]:
            text = self.catch_up(actor) or self.wait_for_hidden(look, touched)
            if text:
                return text
        for step in steps:
            before = self.views.subjects(step)
            plain, packed = self.both(step)
            self.note(step, plain)
            different = self.judge.differs(step, plain, packed)
            if different:
                return f"  {step}\n" + self.text(step, different)
            if plain.startswith("-"):
                return None
            self.views.changed(step, before)
        stale.discard(found.last)
        return self.catch_up(actor)

    # Servers that die.

    def do_kill(self, name, job):
        self.scene.kill(name, job)

    def do_kill_during(self, name, job, microseconds):
        def kill():
            time.sleep(int(microseconds) / 1e6)
            self.scene.kill(name, job)

        self.killer = threading.Thread(target=kill)
        self.killer.start()

    # All at once.

    def do_append_race(self, path, count):
        """Every line that was acknowledged is there, once. The directory is live everywhere before."""
        adopted = [self.do_adopt(number, "cwd", os.path.dirname(path)) for number in "13"]
        if any(adopted):
            return next(filter(None, adopted))
        for number in "1234":
            opened = Op(number, "open", ("15", "cwd", path, "WRONLY|CREAT|APPEND", "666"))
            text = self.operate(opened)
            if text:
                return f"  {opened}\n{text}"
        side = self.scene.packed
        racers = [number for number in "1234" if "15" in self.scene.plain.actors[number].descriptors]
        for number in racers:
            side.actors[number].send(f"lines 15 from{number} {count}")
        whole = [side.actors[number].answer() for number in racers]
        for number in racers:
            self.both(Op(number, "close", ("15",)))
        wanted = {f"from{number} {i}" for number in racers for i in range(int(count))}
        if racers:
            with open(self.placed(path, side)) as file:
                lines = file.read().split("\n")[:-1]
            self.operate(Op("4", "unlink", ("cwd", path)))
            if whole != [count] * len(racers) or sorted(lines) != sorted(wanted):
                lost = sorted(wanted - set(lines))
                return f"  acknowledged {whole} of {count} each; {len(lost)} lines are lost, such as {lost[:3]}; {len(lines)} are there"
        return None


def is_pipe(place):
    try:
        return bool(place) and stat.S_ISFIFO(os.stat(place).st_mode)
    except OSError:
        return False


def indented(differences):
    more = [f"... and {len(differences) - 12} more"] if len(differences) > 12 else []
    return "\n".join("  " + line for text in [*differences[:12], *more] for line in text.split("\n"))
