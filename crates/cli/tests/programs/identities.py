"""The rights of this process's user in the tree `env`, one line a question.

Questions first, then changes: of those it only counts whether they are done, and what the original says in the end.
"""

import errno
import os
import stat
import sys


def said(action):
    try:
        return action()
    except OSError as error:
        return errno.errorcode[error.errno]


def opened(path, flags):
    descriptor = os.open(path, flags)
    os.close(descriptor)
    return "opened"


def ask(path):
    mode = said(lambda: stat.S_IFMT(os.lstat(path).st_mode))
    print(path, "is", mode)
    if not isinstance(mode, int):
        return
    allowed = [letter for letter, bit in zip("rwx", (os.R_OK, os.W_OK, os.X_OK)) if os.access(path, bit)]
    print(path, "allows", "".join(allowed))
    if mode == stat.S_IFDIR:
        print(path, "lists", said(lambda: sorted(os.listdir(path))))
        # Names are known: a directory may let through what it does not list.
        for name in sorted(NAMES):
            if os.path.dirname(name) == path:
                ask(name)
        return
    print(path, "reads", said(lambda: opened(path, os.O_RDONLY)), said(lambda: opened(path, os.O_WRONLY)))
    if os.access(path, os.X_OK):
        print(path, "runs", os.spawnv(os.P_WAIT, path, [path]))


def change(path):
    def done(what, action):
        outcome = said(action)
        print(path, what, "refused" if isinstance(outcome, str) else "done")

    if stat.S_ISDIR(said(lambda: os.lstat(path).st_mode) or 0):
        made = path + "/made"
        done("makes", lambda: os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)))
        done("makes a directory", lambda: os.mkdir(made + "-directory", 0o777))
        done("renames", lambda: os.rename(made, made + "-too"))
        return
    done("changes mode", lambda: os.chmod(path, 0o600))
    done("changes time", lambda: os.utime(path, (5, 5)))
    done("changes group", lambda: os.chown(path, -1, os.getgid()))
    done("appends", lambda: os.write(os.open(path, os.O_WRONLY | os.O_APPEND), b"x") and None)
    done("renames", lambda: os.rename(path, path + "-new"))
    done("removes", lambda: os.unlink(path + "-new"))


NAMES = [line.rstrip("\n") for line in open("names")]
os.umask(0o027)
ask("env")
for name in sorted(NAMES):
    if sys.argv[1:] and "sub" not in name:
        try:
            change(name)
        except TypeError:
            print(name, "unreachable")
