"""Random programs, made while they are played: the next operation depends on the plain side, so that most operations have an effect."""

import os
import random
import stat

from programs import ACTORS, Op

NAMES = "a b c d e f h l s t x n".split()
TAGS = ["red.", "green.", "blue.", "grey.", "white.", "black."]
LENGTHS = [0, 1, 5, 100, 3000, 4096, 5000, 9000, 33000]
OFFSETS = [0, 1, 10, 1000, 4095, 4096, 8192, 20000, 70000]


class Generator:
    """Operations for a player. Everything follows from the seed and from the plain side."""

    def __init__(self, seed, player, several, arguments):
        self.random = random.Random(seed)
        self.player, self.several = player, several
        self.count, self.kills, self.without = arguments.operations, arguments.kill, set(arguments.without)
        self.directories, self.files = [], []
        self.slots = {number: {} for number in "1234"}
        self.maps = {number: set() for number in "1234"}
        self.actor, self.left = "1", 0
        # Some programs keep to a part of the tree, so that much happens there.
        self.narrow = self.random.random() < 0.6
        self.part = self.random.choice(["d1", "d2", "d1/s", "d3", "."])

    def __iter__(self):
        if self.several and self.random.random() < 0.5:
            self.look()
            for actor in "13":
                yield from (Op("-", "adopt", (actor, "cwd", "@/" + path)) for path in self.directories)
        for number in range(self.count):
            if self.kills and self.random.random() < 0.04:
                yield self.kill()
            self.choose_actor()
            self.look()
            op = self.operation()
            if op.name in self.without:
                continue
            yield op
            self.remember(op)
            if number % 60 == 59:
                yield from self.checks()
        yield from self.checks()
        yield Op("-", "check", ("closed",))
        yield Op("-", "check", ("outside",))

    def checks(self):
        yield Op("-", "check", ("outside",))
        for actor in "13" if self.several else "1":
            yield Op("-", "check", ("inside", actor))

    def kill(self):
        job = self.random.choice("12") if self.several else "1"
        name = self.random.choice(["quell-server", "quell-server", "quell-holder"])
        if self.random.random() < 0.5:
            return Op("-", "kill", (name, job))
        return Op("-", "kill-during", (name, job, str(self.random.choice([0, 50, 200, 1000]))))

    def choose_actor(self):
        """Actors take turns; another namespace's turn comes seldom, since it has to see first what the last one did."""
        if self.left > 0:
            self.left -= 1
            if ACTORS[self.actor] == "first" and self.random.random() < 0.3:
                self.actor = "2" if self.actor == "1" else "1"
            return
        self.actor = self.random.choice("1122334" if self.several else "12")
        self.left = self.random.choice([1, 5, 10, 20, 40])

    def look(self):
        """Reads the plain side's names."""
        root = str(self.player.scene.plain.root)
        self.directories, self.files = [], []
        for path, directories, files in os.walk(root):
            relative = os.path.relpath(path, root)
            self.directories.append(relative)
            for name in files:
                self.files.append(os.path.normpath(os.path.join(relative, name)))
        self.directories.sort(), self.files.sort()

    def remember(self, op):
        if op.actor == "-":
            return
        mine = self.player.scene.plain.actors[op.actor].descriptors
        if op.name in ("open", "reopen") and op.words[0] in mine:
            flags = op.words[2 if op.name == "reopen" else 3]
            try:
                is_directory = stat.S_ISDIR(os.stat(self.player.views.base(op.actor, op.words[0])).st_mode)
            except OSError:
                is_directory = False
            self.slots[op.actor][op.words[0]] = flags + ("|DIRECTORY" if is_directory and "DIRECTORY" not in flags else "")
        elif op.name == "dup" and op.words[1] in mine:
            self.slots[op.actor][op.words[1]] = self.slots[op.actor].get(op.words[0], "")
        elif op.name == "close":
            self.slots[op.actor].pop(op.words[0], None)
        elif op.name == "map":
            self.maps[op.actor].add(op.words[0])
        elif op.name == "munmap":
            self.maps[op.actor].discard(op.words[0])

    # Parts of operations.

    def chance(self, share):
        return self.random.random() < share

    def directory(self):
        if self.narrow and self.chance(0.8):
            near = [d for d in self.directories if d == self.part or d.startswith(self.part + "/")]
            if near:
                return self.random.choice(near)
        return self.random.choice(self.directories)

    def file(self):
        if self.narrow and self.chance(0.8):
            near = [f for f in self.files if f.startswith(self.part + "/")]
            if near:
                return self.random.choice(near)
        return self.random.choice(self.files) if self.files else "a"

    def fresh(self):
        """A name that may exist."""
        return os.path.normpath(os.path.join(self.directory(), self.random.choice(NAMES)))

    def stale(self):
        """Something that others changed, if there is any."""
        here, root = ACTORS[self.actor], self.player.scene.plain.root
        stale = self.player.views.stale.get(here, ())
        found = [path for path in [*self.directories, *self.files] if os.lstat(root / path).st_ino in stale]
        return self.random.choice(found) if found else self.directory()

    def any_path(self):
        roll = self.random.random()
        return self.file() if roll < 0.5 else self.directory() if roll < 0.65 else self.fresh()

    def from_directory(self, path):
        """A directory's word and a path from there."""
        held = [s for s, flags in self.slots[self.actor].items() if "DIRECTORY" in flags]
        if held and self.chance(0.4):
            slot = self.random.choice(held)
            if self.chance(0.7):
                return slot, self.random.choice(NAMES)
            base = self.relative_base(self.player.views.base(self.actor, slot))
            return (slot, os.path.relpath(path, base)) if base else (slot, self.random.choice(NAMES))
        return "cwd", self.spelt(path)

    def spelt(self, path):
        base = self.relative_base(self.player.views.base(self.actor, "cwd"))
        if base is None:
            return self.random.choice([self.random.choice(NAMES), "@/" + path])
        if self.chance(0.15):
            return "@/" + path
        if path.endswith(("/", ".")) and path != ".":
            return path
        relative = os.path.relpath(path, base)
        if self.chance(0.03):
            relative += self.random.choice(["/", "/.", "/.."])
        if self.chance(0.03):
            relative = "d1/../" * self.random.randrange(2) + "./" + relative
        return relative

    def relative_base(self, link):
        try:
            path, root = os.readlink(link), str(self.player.scene.plain.root)
        except OSError:
            return None
        if path.endswith(" (deleted)") or not (path == root or path.startswith(root + "/")):
            return None
        return os.path.relpath(path, root)

    def slot(self, *but):
        """A descriptor, mostly one that was not opened with one of these flags."""
        mine = sorted(self.slots[self.actor])
        wanted = [s for s in mine if not any(flag in self.slots[self.actor][s] for flag in but)]
        if wanted and self.chance(0.97):
            return self.random.choice(wanted)
        # A directory's position has a meaning for its own file system only.
        return str(self.random.randrange(6)) if "DIRECTORY" not in but else "9"

    def data(self):
        return self.random.choice(TAGS), str(self.random.choice(LENGTHS))

    def offset(self):
        return str(self.random.choice(OFFSETS))

    def mode(self):
        # A user's bits of other rights go when a mapping's pages are written.
        rights = ["4755", "2755", "6777"] if not self.player.scene.user else []
        return self.random.choice(["644", "600", "666", "755", "444", "640", "400", "777", "000", *rights])

    def mode_of_directory(self):
        return self.random.choice(["755", "755", "755", "777", "700", "1777", "2775", "555", "311"])

    # Operations.

    def operation(self):
        table = WEIGHTS if self.slots[self.actor] else WEIGHTS[:OPENLESS]
        name = self.random.choices([n for n, _ in table], [w for _, w in table])[0]
        if self.several and self.chance(0.03):
            return Op("-", "adopt", (self.actor, "cwd", "@/" + self.stale()))
        if self.several and self.chance(0.003):
            return Op("-", "append-race", ("@/log", "50"))
        made = getattr(self, "make_" + name, None)
        return made() if made else self.op(name, self.slot())

    def op(self, name, *words):
        return Op(self.actor, name, tuple(words))


    def make_open(self):
        roll, slot = self.random.random(), str(self.random.randrange(7))
        if roll < 0.18:
            flags = self.random.choice(["RDONLY|DIRECTORY", "RDONLY|DIRECTORY", "PATH|DIRECTORY", "RDONLY|DIRECTORY|NOFOLLOW"])
            return self.op("open", slot, *self.from_directory(self.directory()), flags, "0")
        if roll < 0.24:
            return self.op("open", slot, *self.from_directory(self.any_path()), self.random.choice(["PATH", "PATH|NOFOLLOW"]), "0")
        if roll < 0.26:
            return self.op("open", slot, *self.from_directory(self.directory()), "TMPFILE|RDWR", "600")
        flags = self.random.choice(["RDONLY", "RDONLY", "WRONLY", "RDWR", "RDWR", "RDWR"])
        for flag, share in (("CREAT", 0.4), ("EXCL", 0.08), ("TRUNC", 0.12), ("APPEND", 0.25), ("NOFOLLOW", 0.05), ("SYNC", 0.03)):
            flags += "|" + flag if self.chance(share) else ""
        path = self.fresh() if "CREAT" in flags and self.chance(0.5) else self.any_path()
        return self.op("open", slot, *self.from_directory(path), flags, self.mode())

    def make_reopen(self):
        return self.op("reopen", str(self.random.randrange(7)), self.slot("DIRECTORY"), self.random.choice(["RDONLY", "RDWR", "WRONLY|APPEND", "RDWR|TRUNC", "PATH"]))

    def make_setfl(self):
        return self.op("setfl", self.slot("RDONLY", "DIRECTORY"), self.random.choice(["APPEND", "NONE"]))

    def make_umask(self):
        return self.op("umask", self.random.choice(["022", "077", "002"]))

    def make_sh(self):
        """A tool's sequence of operations, by one namespace alone: others would have to know the files that it touches."""
        if self.several:
            return self.make_rename()
        one, other, made = (os.path.normpath(path) for path in (self.directory(), self.file(), self.fresh()))
        script = self.random.choice(SCRIPTS)
        if any(path.startswith("d4") for path in (one, other, made)):
            script = "ls -A @/d3 | sort"
        if self.is_pipe(other) or self.is_pipe(made) or self.is_foreign(other):
            script = "ls -A @/{d} | sort"
        # A tree that is copied into itself is copied up to there, in the order of inode numbers.
        # The order in which many names are made decides how large their directory is.
        many = self.player.scene.options.get("many") == "1"
        if script.startswith("cp -a") and (many or self.contains(one, "n")):
            script = "ls -A @/{d} | sort"
        # A user does not see lists, owners and modes of others' files.
        if self.player.scene.user and script.startswith(("setfacl", "cp -a", "tar")):
            script = "ls -A @/{d} | sort"
        return self.op("sh", script.format(d=one, f=other, n=made))

    def is_pipe(self, path):
        path = self.player.scene.plain.root / path
        return path.is_fifo() or path.is_symlink()

    def contains(self, directory, path):
        """Tells whether a path leads into a directory."""
        real = [os.path.realpath(self.player.scene.plain.root / name) + "/" for name in (directory, path)]
        return real[1].startswith(real[0])

    def is_foreign(self, path):
        """Files of others show other modes to a user, which tools copy."""
        user = self.player.scene.user
        return user and os.lstat(self.player.scene.plain.root / path).st_uid != user

    def make_dup(self):
        return self.op("dup", self.slot(), str(self.random.randrange(7)))

    def make_read(self):
        return self.op(self.random.choice(["read", "read", "readv"]), self.slot("DIRECTORY"), str(self.random.choice(LENGTHS)))

    def make_pread(self):
        return self.op("pread", self.slot("DIRECTORY"), str(self.random.choice(LENGTHS)), self.offset())

    def make_write(self):
        return self.op("write", self.slot("RDONLY"), *self.data())

    def make_pwrite(self):
        return self.op("pwrite", self.slot("RDONLY"), *self.data(), self.offset())

    def make_lseek(self):
        return self.op("lseek", self.slot("DIRECTORY"), self.offset(), self.random.choice(["SET", "SET", "CUR", "END"]))

    def make_ftruncate(self):
        return self.op("ftruncate", self.slot("RDONLY"), self.offset())

    def make_truncate(self):
        return self.op("truncate", self.spelt(self.any_path()), self.offset())

    def make_fallocate(self):
        mode = self.random.choice(["NONE", "NONE", "KEEP_SIZE", "KEEP_SIZE|PUNCH_HOLE"])
        return self.op("fallocate", self.slot("RDONLY"), mode, self.offset(), self.random.choice(["1", "4096", "9000"]))

    def make_sendfile(self):
        return self.op("sendfile", self.slot("RDONLY"), self.slot("WRONLY", "DIRECTORY"), str(self.random.choice(LENGTHS)))

    def make_copyrange(self):
        return self.op("copyrange", self.slot("WRONLY", "DIRECTORY"), self.offset(), self.slot("RDONLY"), self.offset(), str(self.random.choice(LENGTHS)))

    def make_map(self):
        number, kind = str(self.random.randrange(3)), self.random.choice(["SHARED", "SHARED", "PRIVATE"])
        reach = self.random.choice(["PREAD", "PREAD|PWRITE"])
        return self.op("map", number, self.slot("DIRECTORY"), kind, reach, self.random.choice(["4096", "20000"]), self.random.choice(["0", "0", "4096"]))

    def make_mread(self):
        return self.op("mread", self.mapping(), self.random.choice(["0", "100", "4096"]), self.random.choice(["10", "4000"]))

    def make_mwrite(self):
        return self.op("mwrite", self.mapping(), self.random.choice(["0", "100", "4096"]), self.random.choice(["10", "4000"]), self.random.choice(TAGS))

    def make_msync(self):
        return self.op(self.random.choice(["msync", "munmap"]), self.mapping())

    def mapping(self):
        return self.random.choice(sorted(self.maps[self.actor]) or ["0"])

    def make_chmod(self):
        path = self.any_path()
        return self.op("chmod", *self.from_directory(path), self.mode_of_directory() if path in self.directories else self.mode())

    def make_fchmod(self):
        slot = self.slot()
        return self.op("fchmod", slot, self.mode_of_directory() if "DIRECTORY" in self.slots[self.actor].get(slot, "") else self.mode())

    def owner(self):
        return self.random.choice(["0", "1000", "1001", "-1"])

    def make_chown(self):
        if self.slots[self.actor] and self.chance(0.2):
            return self.op("chown", self.slot(), "", self.owner(), self.owner(), "EMPTY_PATH")
        return self.op("chown", *self.from_directory(self.any_path()), self.owner(), self.owner(), self.random.choice(["NONE", "SYMLINK_NOFOLLOW"]))

    def make_fchown(self):
        return self.op("fchown", self.slot(), self.owner(), self.owner())

    def moment(self):
        return self.random.choice(["1234567890", "987654321", "now", "omit"])

    def make_utimens(self):
        return self.op("utimens", *self.from_directory(self.any_path()), self.moment(), self.moment(), self.random.choice(["NONE", "SYMLINK_NOFOLLOW"]))

    def make_futimens(self):
        return self.op("futimens", self.slot(), self.moment(), self.moment())

    def attribute(self):
        return "user." + self.random.choice(["colour", "size"])

    def make_setxattr(self):
        how = self.random.choice(["NONE", "NONE", "XCREATE", "XREPLACE"])
        if self.slots[self.actor] and self.chance(0.4):
            return self.op("fsetxattr", self.slot(), self.attribute(), self.random.choice(TAGS), how)
        return self.op("setxattr", self.spelt(self.any_path()), self.attribute(), self.random.choice(TAGS), how)

    def make_xattr(self):
        name = self.random.choice(["removexattr", "getxattr", "listxattr"])
        words = [] if name == "listxattr" else [self.attribute()]
        if self.slots[self.actor] and self.chance(0.4):
            return self.op("f" + name, self.slot(), *words)
        return self.op(name, self.spelt(self.any_path()), *words)

    def make_rename(self):
        roll = self.random.random()
        source = self.file() if roll < 0.6 else self.directory() if roll < 0.92 else self.fresh()
        target = self.any_path() if self.chance(0.5) else self.fresh()
        how = self.random.choice(["NONE"] * 8 + ["NOREPLACE"] + ["EXCHANGE"])
        return self.op("rename", *self.from_directory(source), *self.from_directory(target), how)

    def make_link(self):
        if self.slots[self.actor] and self.chance(0.1):
            return self.op("link", self.slot("DIRECTORY"), "", *self.from_directory(self.fresh()), "EMPTY_PATH")
        how = self.random.choice(["NONE", "NONE", "SYMLINK_FOLLOW"])
        return self.op("link", *self.from_directory(self.file()), *self.from_directory(self.fresh()), how)

    def make_symlink(self):
        target = self.random.choice(["a", "../a", "b", "d1", "../d1/s", "missing", "."])
        return self.op("symlink", target, *self.from_directory(self.fresh()))

    def make_unlink(self):
        return self.op("unlink", *self.from_directory(self.any_path()))

    def make_rmdir(self):
        return self.op("rmdir", *self.from_directory(self.directory() if self.chance(0.8) else self.any_path()))

    def make_mkdir(self):
        return self.op("mkdir", *self.from_directory(self.fresh()), self.random.choice(["755", "777", "700"]))

    def make_mkfifo(self):
        return self.op("mkfifo", *self.from_directory(self.fresh()), "644")

    def make_chdir(self):
        return self.op("chdir", self.spelt(self.directory()))

    def make_stat(self):
        return self.op("stat", *self.from_directory(self.any_path()), self.random.choice(["NONE", "SYMLINK_NOFOLLOW", "SYMLINK_NOFOLLOW"]))

    def make_access(self):
        return self.op("access", *self.from_directory(self.any_path()), self.random.choice(["READ", "WRITE", "EXECUTE", "READ|WRITE", "EXISTS"]))

    def make_readlink(self):
        return self.op("readlink", *self.from_directory(self.any_path()))

    def make_fchdir(self):
        held = [s for s, flags in self.slots[self.actor].items() if "DIRECTORY" in flags]
        return self.op("fchdir", self.random.choice(held) if held else self.slot())

    def make_getdents(self):
        held = [s for s, flags in self.slots[self.actor].items() if "DIRECTORY" in flags]
        return self.op("getdents", self.random.choice(held) if held else self.slot())

    def make_flock(self):
        return self.op("flock", self.slot("DIRECTORY"), self.random.choice(["SH", "EX", "UN"]))

    def make_lock(self):
        name = self.random.choice(["lock", "lock", "getlk", "olock", "ogetlk"])
        kinds = "RWU" if not name.endswith("getlk") else "RW"
        return self.op(name, self.slot("DIRECTORY"), self.random.choice(kinds), self.random.choice(["0", "10", "100"]), self.random.choice(["0", "1", "50"]))


# The first ones need no descriptor.
WEIGHTS = [
    ("open", 26), ("rename", 13), ("link", 6), ("symlink", 2), ("unlink", 7), ("rmdir", 3), ("mkdir", 4), ("mkfifo", 1),
    ("chdir", 3), ("stat", 7), ("access", 2), ("readlink", 2), ("chmod", 3), ("chown", 2), ("utimens", 2), ("truncate", 2),
    ("setxattr", 2), ("xattr", 2), ("umask", 1), ("sh", 2),
    ("close", 6), ("dup", 2), ("reopen", 3), ("setfl", 1), ("read", 5), ("pread", 5), ("write", 8), ("pwrite", 5), ("lseek", 2), ("ftruncate", 3),
    ("fallocate", 1), ("sendfile", 1), ("copyrange", 1), ("map", 3), ("mread", 3), ("mwrite", 3), ("msync", 2), ("fchmod", 2),
    ("fchown", 1), ("futimens", 2), ("fchdir", 1), ("getdents", 3), ("flock", 2), ("lock", 3), ("fstat", 5), ("fsync", 1),
    ("fdatasync", 1),
]  # fmt: skip
OPENLESS = [name for name, _ in WEIGHTS].index("close")

# A directory, a file and a name that may exist.
SCRIPTS = [
    "rm -rf @/{d}/d1 @/{n}",
    "cp -a --remove-destination @/{d} @/n 2>&1 | wc -l",
    "cp @/{f} @/{n} 2>/dev/null; cat @/{n} | cksum",
    "mv @/{f} @/{n} 2>/dev/null; mv @/{n} @/{f}; cat @/{f} | cksum",
    "find @/{d} -type f -name 'a*' -delete; ls -A @/{d} | sort",
    "tar -cf - -C @/{d} --sort=name --mtime=@0 . 2>/dev/null | cksum",
    "sed -i s/a/A/ @/{f} 2>/dev/null; cat @/{f} | cksum",
    "echo more >>@/{f}; tail -c 20 @/{f}",
    "ln -f @/{f} @/{n}; stat -c %h @/{n}",
    "exec 5<>@/{f}; rm -f @/{f}; echo new >@/{f}; echo old >&5; cat @/{f}; cat /proc/self/fd/5 | cksum",
    "for i in 1 2 3 4 5 6 7 8 9; do mkdir -p @/{d}/x$i; mv @/{d}/x$i @/{d}/y; rmdir @/{d}/y; done; ls -A @/{d} | sort",
    "setfacl -m u:1001:rw @/{f}; getfacl -cn @/{f}; stat -c %a @/{f}",
]
