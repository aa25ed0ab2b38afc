"""Answers and trees made comparable, and compared."""

import re

import known
from programs import unquote
from views import NAMESPACES

FIELD = re.compile(r" (?:ino|fd)=\d+")
TIME = re.compile(r" (mt|ct)=(\d+)\.(\d+)")


def lines_of(answer):
    return unquote(answer).split("\n")


class Judge:
    """Compares what both sides say."""

    def __init__(self, scene):
        self.scene = scene

    def time(self, match):
        """A time that was set is exact. Others are old or of this program, and times of change are never set."""
        name, seconds, nanoseconds = match.groups()
        at = int(seconds) + int(nanoseconds) / 1e9
        if at >= self.scene.began:
            return f" {name}=now"
        if at > self.scene.began - 3600 or name == "ct":
            return f" {name}=before"
        return match.group(0)

    def comparable(self, answer, side):
        answer = TIME.sub(self.time, FIELD.sub("", answer))
        if " type=p " in answer:
            # A pipe's content is its mount's own, and so is when it was written.
            answer = re.sub(r"( type=p .*) mt=\S+ ct=\S+", r"\1", answer)
        return answer.replace(str(side.root), "@")

    def differs(self, op, plain, packed):
        """Two answers, or `None` where they are equal or may differ."""
        one, other = self.comparable(plain, self.scene.plain), self.comparable(packed, self.scene.packed)
        if one == other or any(row[1](self.scene, op, one, other) for row in known.ANSWERS):
            return None
        # In a removed directory both processes of a pipeline complain, in any order.
        if op.name == "sh" and "getcwd" in one and sorted(lines_of(one)) == sorted(lines_of(other)):
            return None
        if self.scene.user and op.name in ("stat", "fstat") and self.user_view(one, other):
            return None
        return one, other

    def foreign(self, line):
        """A line without the facts that a user's namespace hides about other users' files."""
        owner = re.search(r" uid=(\d+) gid=(\d+)", line)
        if owner and (owner.group(1) != str(self.scene.user) or owner.group(2) != str(self.scene.user)):
            return re.sub(r" mode=\d+| uid=\d+ gid=\d+", "", line)
        return line

    def lines(self, tree, side, inside):
        """A tree's lines by path: comparable text and inode."""
        found = {}
        for line in tree.split("\n"):
            path, _, rest = line.partition(" ")
            inode = re.search(r" ino=(\d+)", line)
            text = self.comparable(" " + rest, side)
            found[path] = (text, int(inode.group(1)) if inode else None)
        return found

    def trees(self, plain, packed, view):
        """The differences of two trees, as one of `view` sees them. Shape: lines, sorted by path; empty if equal."""
        stale = view.stale[view.namespace] if view else set()
        inside = view is not None or self.scene.is_covered()
        one, other = self.lines(plain, self.scene.plain, inside), self.lines(packed, self.scene.packed, inside)
        hidden = [path for path, (_, inode) in one.items() if inode in stale]
        if "." in hidden:
            return []

        def seen(path, what):
            """Only the kind of a stale path counts: directories that are not stale still list it."""
            if path not in hidden:
                return what
            return (re.sub(r".*(type=.).*", r"\1", what[0]), None)

        one, other = (
            {path: seen(path, what) for path, what in lines.items() if not any(path.startswith(name + "/") for name in hidden)}
            for lines in (one, other)
        )
        for lines in (one, other):
            groups = {}
            for path, (text, inode) in lines.items():
                groups.setdefault(inode, []).append(path)
            for paths in groups.values():
                if len(paths) > 1 and lines[paths[0]][1] is not None:
                    for path in paths:
                        lines[path] = (lines[path][0] + " same=" + min(paths), None)
        differences = []
        for path in sorted(set(one) | set(other)):
            a, b = one.get(path, ("is not there", 0))[0], other.get(path, ("is not there", 0))[0]
            if a != b and not (inside and self.scene.user and self.user_view(a, b)):
                differences.append(f"{path}\n  plain: {a.strip()}\n  quell: {b.strip()}")
        return differences

    def compared(self, plain, view):
        """The inodes of a plain tree that `trees` compares: what lies below a stale directory is not."""
        stale, lines = view.stale[view.namespace], self.lines(plain, self.scene.plain, True)
        hidden = [path for path, (_, inode) in lines.items() if inode in stale]
        if "." in hidden:
            return set()
        below = tuple(name + "/" for name in hidden)
        return {inode for path, (_, inode) in lines.items() if inode and path not in hidden and not path.startswith(below)}

    def others_by_name(self, plain, packed, outside, view):
        """Names that lead to one inode inside and to another one outside. Shape: as of `trees`."""
        stale = view.stale[view.namespace]
        numbers = [
            {path: inode for path, (_, inode) in self.lines(tree, side, True).items() if inode is not None}
            for tree, side in ((plain, self.scene.plain), (packed, self.scene.packed), (outside, self.scene.packed))
        ]
        hidden = [path for path, inode in numbers[0].items() if inode in stale]
        if "." in hidden:
            return []
        differences = []
        for path in sorted(numbers[1].keys() & numbers[2].keys()):
            inside, there = numbers[1][path], numbers[2][path]
            if inside != there and not any(path == name or path.startswith(name + "/") for name in hidden):
                differences.append(f"{path}\n  inside: inode {inside}\n  outside: inode {there}")
        return differences

    def user_view(self, plain, packed):
        """Files of others show other owners and modes; in both lines the same words are left out, as the plain one says."""
        if self.foreign(plain) == plain:
            return False
        def without(line):
            return re.sub(r" mode=\d+| uid=\d+ gid=\d+", "", line)
        return without(plain) == without(packed)


class View:
    """Changes that a namespace may not see."""

    def __init__(self, views, namespace):
        self.stale, self.namespace = views.stale if views else {name: set() for name in NAMESPACES}, namespace
