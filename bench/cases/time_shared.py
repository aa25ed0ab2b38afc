"""Processor time of a program that shares its core with another one, over that of the same program without interruption.

Both are pinned to one core. Without interruption is at real-time priority, so the kernel changes over to nothing else; shared is beside an
endless chain of the same program. No file system but the local one is asked, and its caches are warm. Page faults are counted, because
a program that touched more would take longer as well; calls, because a program that hardly computes between them keeps little of its own
in the processor's caches.
"""

import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import harness
from harness import Result

CORE = 0
PROGRAMS = {
    "perl": ["perl", "-e", "use POSIX; use File::Find; use Pod::Text; use Encode; use Storable; use CPAN::Meta; use HTTP::Tiny; use Test::More"],
    "python, its own modules": ["python3", "-c", "import asyncio, ctypes, email.message, http.server, json, sqlite3, ssl, unittest, xml.etree.ElementTree"],
    "python, a loop": ["python3", "-S", "-c", "x = 0\nfor i in range(4_000_000): x += i"],
    "git, all its files": ["git", "ls-files", "--eol"],
    "find, all names": ["find", "/usr/share", "-name", "absent"],
}  # fmt: skip


@dataclass(frozen=True)
class Spent:
    """A program that has ended. Unit: seconds; faults without a read of data; changes to another process that it did not ask for."""

    cpu: float
    faults: int
    interruptions: int


def main() -> Result:
    programs = dict(PROGRAMS)
    environment = harness.setting("PACKAGES") or harness.numpy_environment()
    programs["python, numpy, scipy.stats and pandas"] = [f"{environment}/bin/python", "-c", "import numpy, scipy.stats, pandas"]
    ways = {(name, shared): lambda command=command, shared=shared: spend(command, shared) for name, command in programs.items() for shared in (False, True)}
    found = harness.interleaved(ways, warming=1)
    lines = harness.head(
        "Processor time of programs on a core that they share",
        f"Medians of {harness.rounds()} interleaved rounds: alone at real-time priority, and beside an endless chain of the same program on",
        "one core. The ratio is that of the medians. The time of a call is that of the program alone, over its recorded calls.",
    )
    lines += harness.table("program", "a call, us", "alone, CPU s", "shared, CPU s", "ratio", "page faults", "shared", "interruptions, shared")
    for name in programs:
        alone, shared = found[name, False], found[name, True]
        median = lambda own, what: statistics.median(getattr(one, what) for one in own)  # noqa: E731
        ratio = median(shared, "cpu") / median(alone, "cpu")
        faults = [f"{median(own, 'faults'):.0f}" for own in (alone, shared)]
        spread = [harness.spread([one.cpu for one in own], 3) for own in (alone, shared)]
        of_call = 1e6 * median(alone, "cpu") / calls(programs[name])
        lines.append(harness.row(name, f"{of_call:.0f}", *spread, f"{ratio:.2f}", *faults, f"{median(shared, 'interruptions'):.0f}"))
    return Result(lines)


def spend(command: list[str], is_shared: bool) -> Spent:
    with beside(command) if is_shared else contextlib.nullcontext():
        child = os.fork()
        if child == 0:
            place(is_shared)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.execvp(command[0], command)
        _, status, usage = os.wait4(child, 0)
    if status:
        harness.fail(f"{command[:2]} ended with {status}")
    return Spent(usage.ru_utime + usage.ru_stime, usage.ru_minflt, usage.ru_nivcsw)


def calls(command: list[str]) -> int:
    """Calls of the program that are recorded."""
    with tempfile.TemporaryDirectory() as directory:
        recording = Path(directory) / "one.qtrace"
        harness.quell("record", "-o", recording, "--", *command)
        return int(json.loads((recording / "header.json").read_text())["recorder"]["events"])


@contextlib.contextmanager
def beside(command: list[str]) -> Iterator[None]:
    """The same program on the core, again and again."""
    chain = subprocess.Popen(
        ["sh", "-c", 'while :; do "$@"; done', "sh", *command],
        stdout=subprocess.DEVNULL, preexec_fn=lambda: place(True), start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(chain.pid, 9)
        chain.wait()


def place(is_shared: bool) -> None:
    os.sched_setaffinity(0, {CORE})
    if not is_shared:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
