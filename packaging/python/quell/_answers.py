"""What commands of quell answer: a JSON object that prints as the command does, and a page for a browser."""

from __future__ import annotations

import html
import json
import os
import warnings
from typing import Any, Dict, Iterable, List, NamedTuple, Protocol, Sequence, Union, runtime_checkable

from ._binary import QuellWarning, output

Path = Union[str, "os.PathLike[str]"]


@runtime_checkable
class Opened(Protocol):
    """A trace that is open."""

    directories: List[str]


Recordings = Union[Path, Opened, Iterable[Path]]


class Finding(NamedTuple):
    """A cause of operations, with its remedy. Several make a frame: `polars.DataFrame(trace.findings())`."""

    code: str
    title: str
    operations: int
    remedy: str
    command: str
    metadata_operations_after: int


class Page:
    """A page for a browser, with everything in it; a notebook shows it."""

    def __init__(self, text: str) -> None:
        self.html = text

    def __repr__(self) -> str:
        return "<quell.Page: `save` writes it to a file>"

    def save(self, path: Path) -> None:
        """Writes the page to a file, with mode 0600: paths and command lines are private."""
        with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        page = html.escape(self.html)
        return f'<iframe srcdoc="{page}" title="quell" style="width: 100%; height: 50em; border: 0"></iframe>'


class Answer(Dict[str, Any]):
    """The JSON object of a command, by the fields of its schema; `print` gives what the command prints for people."""

    def __init__(self, arguments: Sequence[str], accepted: Sequence[int] = (0,)) -> None:
        self._arguments = list(arguments)
        self._accepted = accepted
        super().__init__(json.loads(output([*arguments, "--json"], accepted)))

    def __str__(self) -> str:
        with warnings.catch_warnings():
            # They were passed on when the answer came.
            warnings.simplefilter("ignore", QuellWarning)
            return output(self._arguments, self._accepted)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


class Drawing(Answer):
    """An answer that quell also draws."""

    def plot(self) -> Page:
        """The page with charts, as the command writes it with `--html`."""
        return Page(output([*self._arguments, "--html", "-"]))


def report(trace: Recordings, options: Dict[str, Any]) -> Drawing:
    """`quell report`."""
    return Drawing(["report", *flags(options), *names(trace)])


def page(trace: Recordings) -> Page:
    """`quell report --html`."""
    return Page(output(["report", "--html", "-", *names(trace)]))


def findings(answer: Answer) -> List[Finding]:
    """The findings of a report."""
    rows = []
    for found in answer["findings"]:
        remedy = found["remedy"]
        after = remedy["metadata_operations_after"]
        rows.append(Finding(found["code"], found["title"], found["operations"], remedy["text"], remedy["command"], after))
    return rows


def diff(a: Recordings, b: Recordings, **options: Any) -> Answer:
    """Compares two recordings, or two groups of them: `quell diff`. That they differ is no error."""
    return Answer(["diff", *flags(options), ",".join(names(a)), ",".join(names(b))], accepted=(0, 1))


def predict(
    trace: Recordings,
    *,
    fs: Union[Path, Iterable[Path], None] = None,
    nodes: Union[str, int, Iterable[int]] = "1..1024",
    ppn: int = 1,
    **options: Any,
) -> Drawing:
    """Predicts starts on many nodes: `quell predict`.

    `fs` is a profile's file or name, or several; `nodes` is a number, several, or text such as "1..4096". Other flags of the
    command are given by name: `image="broadcast"`, `root="/shared"`, `warm=True`.
    """
    profiles = [] if fs is None else [os.fspath(fs)] if isinstance(fs, (str, os.PathLike)) else [os.fspath(one) for one in fs]
    counts = str(nodes) if isinstance(nodes, (str, int)) else ",".join(str(count) for count in nodes)
    known = {"fs": profiles, "nodes": counts, "ppn": ppn}
    return Drawing(["predict", *flags({**known, **options}), *names(trace)])


def flags(options: Dict[str, Any]) -> List[str]:
    """Flags of the command line: `True` is a flag without a value, several values are the flag several times."""
    words = []
    for name, value in options.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None and one is not False:
                flag = "--" + name.replace("_", "-")
                words.append(flag if one is True else f"{flag}={one}")
    return words


def names(recordings: Recordings) -> List[str]:
    """The directories of recordings, such that the command line takes none for a flag."""
    if isinstance(recordings, (str, os.PathLike)):
        paths = [os.fspath(recordings)]
    elif isinstance(recordings, Opened):
        paths = recordings.directories
    else:
        paths = [os.fspath(path) for path in recordings]
    return [f"./{path}" if path.startswith("-") else path for path in paths]
