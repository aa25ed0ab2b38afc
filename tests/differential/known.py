"""The one table of exceptions: differences that docs/differences.md states.

Each row quotes the document; `check_quotes` holds the two together. A row of `ANSWERS` accepts a pair of answers that leaves both
trees equal. A row of `LEFT_OUT` keeps an operation from being carried out at all, since the trees would differ after it.
"""

import pathlib

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/differences.md"


def answers_of_user(errno_plain, errno_packed, *names):
    """A refusal that has another name in the namespace of an ordinary user."""
    return lambda scene, op, plain, packed: (
        scene.user != 0 and op.name in names and plain in errno_plain and packed in errno_packed
    )


# (quote, test of acceptance)
ANSWERS = [
    ("`chown` and `chgrp` to another user or group are `EINVAL`", answers_of_user(("-EPERM",), ("-EINVAL",), "chown", "fchown")),
    ("linking one may be `EACCES` instead of `EPERM`", answers_of_user(("-EPERM",), ("-EACCES",), "link")),
    (
        "or `ENOENT` where it is open and has no name left",
        lambda scene, op, *answers: "EMPTY_PATH" in op.words
        and answers_of_user(("-EPERM",), ("-ENOENT",), "link")(scene, op, *answers),
    ),
    (
        "is `EOVERFLOW` instead of `EPERM` or `EACCES`",
        answers_of_user(("-EPERM", "-EACCES"), ("-EOVERFLOW",), "chmod", "fchmod", "utimens", "futimens", "unlink", "rmdir", "rename", "truncate", "setxattr", "removexattr", "open", "chown", "link"),
    ),
    (
        "an operation that is refused for two reasons may have the other error",
        lambda scene, op, plain, packed: scene.is_passed() and {plain, packed} <= {"-EACCES", "-EPERM", "-EISDIR", "-ENOTDIR", "-EEXIST", "-ENOTEMPTY", "-EBUSY", "-EXDEV", "-EINVAL"},
    ),
    (
        "an operation that is refused for two reasons may have the other error",
        # One of the two paths leads through a directory that may not be searched, the other to nothing.
        lambda scene, op, plain, packed: scene.is_passed() and op.name in ("rename", "link") and {plain, packed} == {"-EACCES", "-ENOENT"},
    ),
    (
        "and with those of all open files of the file",
        lambda scene, op, plain, packed: scene.options.get("fs") == "failing-close" and op.name == "close" and plain == "0" and packed in ("-EIO", "-EDQUOT"),
    ),
]


def flags(op):
    return set(op.words[-1 if op.name == "rename" else 3].split("|"))


# (quote, test of omission): `facts` are the player's, which knows mounts and open files.
LEFT_OUT = [
    ("rename and link between a root and anything else, or into a directory that stays the original", lambda facts, op: op.name in ("rename", "link", "copyrange", "sh") and facts.crosses(op)),
    ("cannot be removed or renamed (`EBUSY`)", lambda facts, op: op.name in ("rename", "rmdir") and facts.is_boundary(op)),
    ("it stays until the process closes any descriptor of the file", lambda facts, op: op.name in ("lock", "getlk", "olock", "ogetlk") and facts.is_lingering(op)),
    ("shows in a shared mapping of it only after a process of the run has looked at the file", lambda facts, op: op.name in ("mread", "mwrite") and facts.is_only_mapped(op)),
    ("access control lists below a scratch directory cannot be set", lambda facts, op: facts.scene.is_scratch() and any("setfacl" in word or "cp -a" in word for word in op.words)),
    ("truncating a file to the size that it has leaves the time of change", lambda facts, op: facts.scene.is_gathered_by_the_kernel() and facts.keeps_size(op)),
    ("lead out of a directory that the user may not search, and a FIFO opens", lambda facts, op: facts.is_not_judged_in_a_buffered_directory(op)),
    ("renaming a directory that was there when the run began fails with `EXDEV`", lambda facts, op: facts.scene.is_gathered() and facts.renames_planted_directory(op)),
    ("nor are their sockets, pipes and notices of inotify", lambda facts, op: facts.pipe_between_namespaces(op)),
]

# Cases that are undetermined without quell too.
UNDETERMINED = [
    ("bytes that a mapping writes behind the end of its file", lambda facts, op: op.name == "mwrite" and facts.is_behind_end(op)),
    ("whether a page that a mapping has changed before, or any of a tmpfs, sets the file's times once more", lambda facts, op: op.name == "mwrite" and facts.sets_times_again(op)),
    ("whether sendfile(2) of a file into itself reads what it has just written", lambda facts, op: op.name == "sendfile" and facts.is_one_file(op)),
    ("which error names have in a directory that another namespace removed", lambda facts, op: facts.is_in_removed_directory(op)),
]


# Operations that may find a lock of an open file which another namespace has just closed.
RELEASED_LATER = ("flock", "olock", "ogetlk")
RELEASED_LATER_QUOTE = "stays for milliseconds after the last close(2) of its open file"


def check_quotes():
    """Ends when the document no longer says what a row quotes."""
    said = DOCUMENT.read_text()
    for quote in [quote for quote, _ in ANSWERS + LEFT_OUT] + [RELEASED_LATER_QUOTE]:
        if quote not in said:
            raise SystemExit(f"known.py: docs/differences.md does not say: {quote}")
