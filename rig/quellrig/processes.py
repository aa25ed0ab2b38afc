"""Processes that the rig starts. Each is on record, so that the rig can end exactly these, even after it was killed itself.

A process is known by its pid and its start time, and carries the rig's random token in its environment, as does
whatever it starts. It is recorded before it runs: it waits at a gate, a pipe that the rig opens once the record is on
disk; when the rig dies in between, the gate closes and the process ends. Nothing is ever found by name.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import RigError

TOKEN_VARIABLE = "QUELL_RIG_TOKEN"

_GATE = 'read -r _ && exec "$@" </dev/null'


@dataclass(frozen=True)
class Process:
    """A process: `start` is field 22 of /proc/PID/stat, in clock ticks since boot."""

    pid: int
    start: int

    def alive(self) -> bool:
        """Tells whether this very process still runs. A zombie does not."""
        stat = _stat(self.pid)
        return stat is not None and stat[0] not in "ZX" and stat[1] == self.start

    def signal(self, number: int) -> None:
        """Sends a signal, unless the process has gone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def cpu_seconds(self) -> float:
        """User and system time so far; 0 when it has gone."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def identify(pid: int) -> Process | None:
    """The process that now has this pid."""
    stat = _stat(pid)
    return Process(pid, stat[1]) if stat else None


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and start time."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[19])


def start(
    argv: Sequence[str],
    *,
    token: str,
    log: Path,
    record: Callable[[Process], None],
    prepare: Callable[[], None] | None = None,
) -> Process:
    """Starts a daemon: `prepare` runs in the child, `record` in the rig before the daemon's program does."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            ["/bin/sh", "-c", _GATE, "rig", *argv],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, TOKEN_VARIABLE: token},
            cwd="/",
            start_new_session=True,
            preexec_fn=prepare,
        )
    process = identify(child.pid)
    if process is None or child.stdin is None:
        raise RigError(f"cannot start `{argv[0]}`", f"see {log}")
    record(process)
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(b"go\n")
        child.stdin.close()
    _children[child.pid] = child
    return process


# Popen objects of our own children, so that those that end are reaped and not taken for running.
_children: dict[int, subprocess.Popen[bytes]] = {}


def reap() -> None:
    """Collects children that have ended."""
    for child in _children.values():
        child.poll()


def with_token(token: str) -> list[Process]:
    """All processes that carry the token, but for this one and its ancestors."""
    needle = f"{TOKEN_VARIABLE}={token}".encode()
    return _all_others(lambda path: needle in (path / "environ").read_bytes().split(b"\0"))


def in_network(inodes: Iterable[int]) -> list[Process]:
    """All processes whose network namespace has one of these inodes, but for this one and its ancestors."""
    wanted = set(inodes)
    return _all_others(lambda path: (path / "ns" / "net").stat().st_ino in wanted)


def _all_others(chosen: Callable[[Path], bool]) -> list[Process]:
    """Chosen processes by their directories in /proc; those that go meanwhile are left out."""
    spared = set(lineage(os.getpid()))
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit() or int(path.name) in spared:
            continue
        with contextlib.suppress(OSError):
            process = identify(int(path.name)) if chosen(path) else None
            if process is not None and process.alive():
                found.append(process)
    return found


def lineage(pid: int) -> list[int]:
    """The pid, its parent's, and so on up to the first process that can be seen."""
    chain = []
    while pid > 0:
        chain.append(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
    return chain


def end(processes: Iterable[Process], patience: float) -> None:
    """Asks the processes to end, and kills those that have not after `patience` seconds."""
    processes = list(processes)
    for process in processes:
        process.signal(signal.SIGTERM)
    if not wait_until(lambda: not any(process.alive() for process in processes), patience):
        for process in processes:
            process.signal(signal.SIGKILL)
        wait_until(lambda: not any(process.alive() for process in processes), 5.0)


def wait_until(condition: Callable[[], bool], patience: float, interval: float = 0.01) -> bool:
    """Polls until the condition holds. False if it does not within `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        reap()
        if condition():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
