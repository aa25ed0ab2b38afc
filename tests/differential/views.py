"""Staleness: the namespaces that changed an inode, and those that have to look again.

A namespace answers from its image until it changes something itself: what others change meanwhile it need not see. So
an inode is, for a namespace that did not change it:

- *stale* when it was planted, and others changed it before the namespace made it live (changed it, or opened it for
  writing). What names such an inode is not determined, and is left out.
- *unseen* when it is live there, or new, and others changed it: the namespace must see it within a bound.

A plain process sees everything at once. Inodes are those of the plain side, from which everything is derived.
"""

import os
import re
import stat

from programs import ACTORS, NAMES

NAMESPACES = ("first", "second")


class Walk:
    """A path resolved on the plain side: the inodes on the way, and the last one."""

    def __init__(self):
        self.way, self.parent, self.last = [], None, None
        # The place for a new name, as a path of the plain side.
        self.place = None
        # Attributes of directories out of which `.` or `..` leads.
        self.dotted = []


def walk(base, path, follow):
    """Resolves `path` from the directory `base`, as far as there is something."""
    found = Walk()
    try:
        found.way.append(os.stat(base).st_ino)
    except OSError:
        return found
    here, parts, links = base, [part for part in path.split("/") if part], 0
    found.last = found.way[0]
    found.place = base + "/."
    while parts:
        part = parts.pop(0)
        if part in (".", ".."):
            found.dotted.append(os.stat(here))
        if part == ".":
            found.last = found.dotted[-1].st_ino
            continue
        found.parent, found.last = os.stat(here).st_ino, None
        there = found.place = f"{here}/{part}"
        try:
            status = os.lstat(there)
        except OSError:
            break
        found.way.append(status.st_ino)
        if stat.S_ISLNK(status.st_mode) and (parts or follow):
            links += 1
            if links > 20:
                break
            parts = [part for part in os.readlink(there).split("/") if part] + parts
            if not parts:
                # The link leads to its own directory.
                found.last = found.parent
            continue
        here, found.last = there, status.st_ino
        if parts and not stat.S_ISDIR(status.st_mode):
            break
    return found


class Views:
    """The state of both namespaces."""

    def __init__(self, scene):
        self.plain = scene.plain
        self.planted, self.directories = scene.planted, scene.planted_directories
        self.live = {name: set() for name in NAMESPACES}
        self.stale = {name: set() for name in NAMESPACES}
        self.unseen = {name: set() for name in NAMESPACES}
        # Removed directories, with the namespace that removed each.
        self.removed = {}
        # Inodes of mappings, by actor and number.
        self.mapped = {}

    def base(self, actor, at):
        process = self.plain.actors[actor]
        if at is None or at == "cwd":
            return f"/proc/{process.pid}/cwd"
        return f"/proc/{process.pid}/fd/{process.descriptors.get(at, -1)}"

    def walks_of_script(self, text, before=""):
        """The targets of a script's paths now, of those that come after `before`."""
        return [walk(str(self.plain.root), path, False) for path in re.findall(rf"{before}@/([^\s;|&>')]*)", text)]

    def bases(self, op):
        """The directories from which an operation's paths lead, but for the tree's."""
        found = []
        for at, path, _ in NAMES[op.name].paths:
            if not op.words[path].startswith("@"):
                found.append(self.base(op.actor, None if at is None else op.words[at]))
        return found

    def is_removed_by_other(self, namespace, directory):
        """Tells whether another namespace removed a directory, which this one has to find out."""
        try:
            status = os.stat(directory)
        except OSError:
            return False
        return namespace in NAMESPACES and status.st_nlink == 0 and self.removed.get(status.st_ino, namespace) != namespace

    def walks(self, op):
        """The targets of an operation's paths now."""
        found = []
        for at, path, follow in NAMES[op.name].paths:
            word = op.words[path]
            base = self.base(op.actor, None if at is None else op.words[at])
            if word.startswith("@"):
                base, word = str(self.plain.root), word[1:]
            if op.name == "open" and set(op.words[3].split("|")) & {"NOFOLLOW", "EXCL"}:
                follow = False
            if "SYMLINK_NOFOLLOW" in op.words or (op.name == "link" and op.words[4] != "SYMLINK_FOLLOW"):
                follow = False
            found.append(walk(base, word, follow))
        return found

    def slots(self, op):
        if op.name in ("mread", "mwrite"):
            mapped = self.mapped.get((op.actor, op.words[0]))
            return [mapped] if mapped else []
        found = []
        for position in NAMES[op.name].slots:
            try:
                found.append(os.stat(self.base(op.actor, op.words[position])).st_ino)
            except OSError:
                pass
        return found

    def closed(self, op):
        """The inodes of which an operation closes a descriptor: its own, or the one whose number it takes."""
        position = {"close": 0, "open": 0, "reopen": 0, "dup": 1}.get(op.name)
        try:
            return [] if position is None else [os.stat(self.base(op.actor, op.words[position])).st_ino]
        except OSError:
            return []

    def touched(self, op):
        return {inode for found in self.walks(op) for inode in found.way} | set(self.slots(op))

    def subjects(self, op):
        """The directories whose names, and the inodes whose attributes or content, an operation changes if it succeeds."""
        walks, slots = self.walks(op), self.slots(op)
        parents = {found.parent for found in walks} - {None}
        lasts = ({found.last for found in walks} | set(slots)) - {None}
        does = NAMES[op.name].does
        if does == "open":
            flags = set(op.words[2 if op.name == "reopen" else 3].split("|"))
            creates = flags & {"CREAT", "TMPFILE"} and not lasts
            return parents if creates else set(), lasts if flags & {"TRUNC"} else set()
        if op.name == "rename" and walks[0].last is not None and walks[0].last == walks[1].last:
            # Two names of one inode: rename(2) does nothing, and no file system is asked.
            return set(), set()
        if does == "name":
            # link(2) does not change the directory of the old name.
            return {walks[-1].parent} - {None} if op.name == "link" else parents, lasts
        if op.name in ("utimens", "futimens") and op.words.count("omit") == 2:
            return set(), set()
        return set(), lasts if does == "data" else set()

    def changed(self, op, before):
        """Notes that an operation succeeded; `subjects` are those from before it."""
        here = ACTORS[op.actor]
        directories, inodes = before
        if op.name in ("rmdir", "rename"):
            self.removed.update((inode, here) for inode in inodes)
        directories_after, inodes_after = self.subjects(op)
        directories = directories | (directories_after if NAMES[op.name].does == "name" else set())
        inodes = inodes | inodes_after
        if here in NAMESPACES:
            # A directory becomes live when its names change, not when its attributes do.
            files = set() if NAMES[op.name].does == "name" else inodes - self.directories
            self.live[here] |= directories | files
            if op.name in ("open", "reopen") and {"WRONLY", "RDWR"} & {flag for word in op.words for flag in word.split("|")}:
                opened = {found.last for found in self.walks(op)} | set(self.slots(op))
                # An unnamed file leaves the directory that it is opened by as it is.
                self.live[here] |= opened - self.directories - {None}
        for other in NAMESPACES:
            if other != here:
                changed = directories | inodes
                stale = {inode for inode in changed if inode in self.planted and inode not in self.live[other]}
                self.stale[other] |= stale
                self.unseen[other] |= changed - stale
