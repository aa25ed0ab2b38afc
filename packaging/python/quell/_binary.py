"""The `quell` binary: where it is, what it prints, and its errors as exceptions."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Container, Sequence


class QuellError(Exception):
    """An error of quell: `message`, `hint` (lines with what to try, or empty) and the exit `status` of the binary."""

    def __init__(self, message: str, hint: str = "", status: int = 2) -> None:
        super().__init__(message, hint, status)
        self.message = message
        self.hint = hint
        self.status = status

    def __str__(self) -> str:
        return "\n".join([self.message, *(f"hint: {line}" for line in self.hint.splitlines())])


class QuellWarning(UserWarning):
    """A warning that the binary printed beside its answer."""


@functools.lru_cache(maxsize=None)
def binary() -> str:
    """The path of the binary that came with this package, or else of the one in PATH."""
    try:
        files = importlib.metadata.files("quell") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    installed = {str(Path(str(file.locate())).resolve()) for file in files if file.name in ("quell", "__init__.py")}
    # Another installation's binary may be of another version.
    if str(Path(__file__).with_name("__init__.py").resolve()) in installed:
        for path in sorted(installed):
            if os.path.basename(path) == "quell" and os.access(path, os.X_OK):
                return path
    found = shutil.which("quell")
    if found is None:
        raise QuellError("there is no `quell` in PATH", "install the wheel of quell, which brings it", 127)
    return found


def output(arguments: Sequence[str], accepted: Container[int] = (0,)) -> str:
    """What a command of quell prints. Warnings are passed on; a status that is not accepted is an error."""
    done = subprocess.run([binary(), *arguments, "--quiet", "--colour", "never"], stdin=subprocess.DEVNULL, capture_output=True)
    talk = done.stderr.decode(errors="backslashreplace").strip()
    if done.returncode not in accepted:
        raise _error(talk, done.returncode)
    for said in re.split(r"\n(?=quell: )", talk) if talk else []:
        warnings.warn(said, QuellWarning, stacklevel=_callers())
    return done.stdout.decode()


def _callers() -> int:
    """How far up the stack the code lies that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__package__") == __package__:
        level, frame = level + 1, frame.f_back
    return level


def _error(talk: str, status: int) -> QuellError:
    """The error in a message of the form `quell: error: ...`, with lines of `hint: ...` behind it."""
    message, hints = [], []
    for line in talk.splitlines():
        if line.startswith("hint: "):
            hints.append(line[len("hint: "):])
        elif not line.startswith("quell: warning: "):
            message.append(line)
    text = "\n".join(message)
    for prefix in ("quell: ", "error: "):
        text = text[len(prefix):] if text.startswith(prefix) else text
    return QuellError(text or f"quell ended with status {status}", "\n".join(hints), status)
