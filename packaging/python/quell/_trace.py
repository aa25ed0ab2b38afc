"""A trace as frames: its tables, with text where the files have numbers of paths."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Generic, List, Literal, Optional, Tuple, TypeVar, Union, overload

from . import _answers
from ._binary import QuellError

if TYPE_CHECKING:
    import pandas
    import polars

    from ._frames import Library

F = TypeVar("F")

# The classes of calls that a metadata server may have to answer.
METADATA = ("open", "stat", "access", "readlink", "list", "xattr", "statfs", "change", "exec", "directory")

# The newest version of the format that this package reads.
VERSION = 1


class _Table:
    """A table of a trace, read when it is first asked for."""

    def __init__(self, description: str) -> None:
        self.__doc__ = description

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, trace: None, owner: object = None) -> "_Table": ...

    @overload
    def __get__(self, trace: "Trace[F]", owner: object = None) -> F: ...

    def __get__(self, trace: Optional["Trace[Any]"], owner: object = None) -> Any:
        return self if trace is None else trace._frame(self.name)


class Trace(Generic[F]):
    """One recording or several, as frames and as the commands of quell see them.

    `directories` and `headers` (what `header.json` holds) stand in the order of the recordings' numbers: by rank, then by name.
    """

    events = _Table("one row a system call")
    paths = _Table("one row a distinct path")
    processes = _Table("one row a process")
    threads = _Table("one row a thread")
    executions = _Table("one row a successful execve")
    variables = _Table("variables that steer searches, of each execution")
    mounts = _Table("the mounts that the processes saw")
    namespaces = _Table("which mount namespace a process saw, and since when")
    descriptors = _Table("working directory and open descriptors at the start")
    links = _Table("symbolic links met on the way of a path")
    files = _Table("identity of each file that was opened")
    elf = _Table("what each loaded program and library asks for")
    stripes = _Table("stripe layout, where the file system tells")
    touched = _Table("which parts of mapped files the processes touched")
    imports = _Table("imports of Python programs, where `quell record --python` asked for them")

    def __init__(self, directories: List[str], frames: Optional[str] = None) -> None:
        found = sorted(((_header(path), path) for path in directories), key=_place)
        self.headers: List[Dict[str, Any]] = [header for header, _ in found]
        self.directories: List[str] = [path for _, path in found]
        self._wanted = frames
        self._library: Optional["Library"] = None
        self._frames: Dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<quell.Trace {' '.join(self.directories)}: {' '.join(self.headers[0]['command'])}>"

    def report(self, **options: Any) -> _answers.Drawing:
        """`quell report`: flags of the command are given by name, such as `threshold="tiny-reads=10"`."""
        return _answers.report(self, options)

    def findings(self, **options: Any) -> List[_answers.Finding]:
        """The causes of operations that the report names, each with its remedy."""
        return _answers.findings(self.report(**options))

    def plot(self) -> _answers.Page:
        """The page of `quell report --html`, which a notebook shows."""
        return _answers.page(self)

    def _frame(self, name: str) -> Any:
        if name not in self._frames:
            if self._library is None:
                from ._frames import library

                self._library = library(self._wanted)
            tables = [(number, Path(path), name) for number, path in enumerate(self.directories)]
            there = [table for table in tables if _has(*table[1:])]
            if not there:
                raise QuellError(f"`{self.directories[0]}` has no table `{name}`", "the recorder could not look, or is older")
            self._frames[name] = self._library.table(there)
        return self._frames[name]


@overload
def open(*traces: _answers.Path, frames: None = None) -> Trace[Any]: ...


@overload
def open(*traces: _answers.Path, frames: Literal["polars"]) -> Trace["polars.LazyFrame"]: ...


@overload
def open(*traces: _answers.Path, frames: Literal["pandas"]) -> Trace["pandas.DataFrame"]: ...


def open(*traces: _answers.Path, frames: Optional[str] = None) -> Trace[Any]:
    """Opens recordings as one trace: directories `NAME.qtrace`, or directories that hold such.

    `frames` is "polars" or "pandas"; without it polars, or pandas where there is no polars.
    """
    if not traces:
        raise QuellError("no recording is named", "`quell record -- CMD` makes one")
    if frames not in (None, "polars", "pandas"):
        raise ValueError(f"frames is `polars` or `pandas`, not `{frames}`")
    directories = []
    for trace in traces:
        path = Path(trace)
        inside = [] if (path / "header.json").exists() else sorted(path.glob("*.qtrace"))
        directories += [str(one) for one in inside or [path]]
    return Trace(directories, frames)


def _place(recording: Tuple[Dict[str, Any], str]) -> Any:
    """Sorts recordings as the binary does: by rank, those without one first, then by directory."""
    header, directory = recording
    rank = header.get("rank")
    return -1 if rank is None else rank, [os.fsencode(part) for part in Path(directory).parts]


def _header(directory: str) -> Dict[str, Any]:
    """The header of a trace; refuses what is none, and newer versions by name."""
    path = Path(directory, "header.json")
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        known = header["format"] == "quell-trace" and isinstance(header["version"], int)
        known = known and isinstance(header.get("rank"), (int, type(None)))
    except OSError as error:
        code = f"cannot read `{path}`: {error.strerror}"
        raise QuellError(code, "`quell record -- CMD` makes a trace, named after the program") from error
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise QuellError(f"`{directory}` is not a trace of quell")
    if header["version"] > VERSION:
        message = f"`{directory}` is of version {header['version']}; this quell reads up to {VERSION}"
        raise QuellError(message, "install a newer quell")
    return dict(header)


def _has(directory: Path, name: str) -> bool:
    """Whether a recording has a table. Of those that a newer quell writes one may be missing; a partial recording has none."""
    if (directory / f"{name}.parquet").exists():
        return True
    if (directory / "spool").exists():
        hint = f"`quell report {directory}` and `quell export --format parquet {directory}` read it"
        raise QuellError(f"`{directory}` has no tables: its recorder was ended early", hint)
    return False
