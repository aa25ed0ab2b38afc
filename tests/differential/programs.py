"""Programs: operations, a line each, and the names in each operation.

    # a comment
    options user=0 tree=7             how the trees are planted; see scene.py
    1 open 3 cwd d1/a RDWR|CREAT 644  actor, operation, its words (actor.c); `@` is the tree's directory
    - check outside                   compare whole trees, as a plain process sees them (player.py has these)

Actors 1 and 2 share a namespace, 3 has another one, 4 runs without quell; on the plain side all are plain.
"""

import dataclasses

ACTORS = {"1": "first", "2": "first", "3": "second", "4": "outside"}


@dataclasses.dataclass(frozen=True)
class Op:
    """One line: an actor's operation, or an instruction to the driver, whose actor is `-`."""

    actor: str
    name: str
    words: tuple = ()

    def __str__(self):
        if self.name == "sh":
            # A script stands as it is typed.
            return f"{self.actor} sh {self.words[0]}"
        return " ".join([self.actor, self.name, *(quote(word) for word in self.words)])


@dataclasses.dataclass(frozen=True)
class Names:
    """The names in an operation, by the position of its words."""

    # (position of the directory's word or None, position of the path, whether a link at its end is followed)
    paths: tuple = ()
    # Positions of descriptors that it uses.
    slots: tuple = ()
    # `look`, `name` (directories change), `data` (content or attributes change).
    does: str = "look"


def one(at, path, does="look", follow=False, slots=()):
    return Names(((at, path, follow),), slots, does)


def held(*slots, does="look"):
    return Names((), slots, does)


NAMES = {
    "open": one(1, 2, "open", True),
    "reopen": held(1, does="open"),
    **{name: held(0) for name in "close dup setfl read pread readv lseek fsync fdatasync fstat getdents fchdir fgetxattr flistxattr".split()},
    **{name: held(0) for name in "lock getlk olock ogetlk flock".split()},
    **{name: held(0, does="data") for name in "write pwrite lines ftruncate fallocate fchmod fchown futimens fsetxattr fremovexattr".split()},
    "sendfile": held(0, 1, does="data"),
    "copyrange": held(0, 2, does="data"),
    "map": held(1),
    **{name: Names() for name in "mread msync munmap umask quit".split()},
    "mwrite": Names((), (), "data"),
    **{name: one(None, 0, "data", True) for name in "truncate setxattr removexattr".split()},
    **{name: one(None, 0, "look", True) for name in "getxattr listxattr chdir".split()},
    **{name: one(0, 1, "data", True) for name in "chmod chown utimens".split()},
    **{name: one(0, 1, "look", True) for name in "stat access".split()},
    "readlink": one(0, 1),
    **{name: one(0, 1, "name") for name in "unlink rmdir mkdir mkfifo".split()},
    "symlink": one(1, 2, "name"),
    "rename": Names(((0, 1, False), (2, 3, False)), (), "name"),
    "link": Names(((0, 1, True), (2, 3, False)), (), "name"),
    "sh": Names(),
}


def quote(word):
    """A word as it stands in a line."""
    if not word:
        return "%00"
    return "".join(c if c.isascii() and c.isprintable() and c not in " %" else "".join(f"%{b:02x}" for b in c.encode()) for c in word)


def unquote(word):
    import urllib.parse

    return "" if word == "%00" else urllib.parse.unquote(word)


def parse(text):
    """The options and the operations of a program's text."""
    options, ops = {}, []
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        actor, name, *words = line.split(" ")
        if actor == "options":
            options.update(word.split("=", 1) for word in [name, *words])
        elif name == "sh":
            ops.append(Op(actor, name, (" ".join(words),)))
        else:
            ops.append(Op(actor, name, tuple(unquote(word) for word in words)))
    return options, ops


def text(options, ops):
    """A program as it is stored and run again."""
    first = "options " + " ".join(f"{name}={value}" for name, value in sorted(options.items()))
    return "\n".join([first, *map(str, ops)]) + "\n"
