"""The cost of a command to its node: wall and processor seconds, memory by control group, and its server's share of them.

Memory is what the kernel charges to a control group in which everything runs: the program, our server or another mount's,
and the page cache that they fill. Versions 1 and 2 of control groups will do; where none can be made it is not measured.
"""

import contextlib
import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# The program, then its processor seconds, then a line; the process stays until its standard input is closed.
_STAYS = '"$@" >&2 && times && read -r _'
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spent:
    """Seconds of one start: wall until the program has ended, and of the processor, the server's apart."""

    wall: float
    cpu: float
    server_cpu: float


@dataclass(frozen=True)
class Charged:
    """Bytes: all; of that files in the page cache, which the kernel takes back when it needs room; and shared memory."""

    all: int
    page_cache: int
    shared: int


class MemoryGroup:
    """A control group for memory, empty at first; `None` as its use when there can be none."""

    def __init__(self, name: str) -> None:
        self._path: Path | None = None
        for parent in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")):
            with contextlib.suppress(OSError):
                if (parent / "cgroup.procs").exists():
                    (parent / name).mkdir(exist_ok=True)
                    self._path = parent / name
                    break

    def __enter__(self) -> "MemoryGroup":
        return self

    def __exit__(self, *_: object) -> None:
        for _ in range(50):
            with contextlib.suppress(OSError):
                if self._path is not None:
                    self._path.rmdir()
                return
            time.sleep(0.1)

    def command(self, command: Sequence[str]) -> list[str]:
        """The command, in this group with all that it starts."""
        if self._path is None:
            return list(command)
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self._path / "cgroup.procs"), *command]

    def charged(self) -> "Charged | None":
        """The charge by now."""
        if self._path is None:
            return None
        rows = dict(line.split() for line in (self._path / "memory.stat").read_text().splitlines())
        shared = int(rows["shmem"])
        file = int(rows.get("cache", rows.get("file", "0"))) - shared
        for name in ("memory.usage_in_bytes", "memory.current"):
            with contextlib.suppress(OSError):
                return Charged(int((self._path / name).read_text()), file, shared)
        return None

    def empty(self) -> None:
        """Gives back the page cache that no running process is charged for."""
        if self._path is not None:
            for name, value in (("memory.force_empty", "0"), ("memory.reclaim", "64G")):
                with contextlib.suppress(OSError):
                    (self._path / name).write_text(value)


@dataclass(frozen=True)
class Ended:
    """The cost of a process that has ended: wall and processor seconds, and bytes resident at its peak."""

    wall: float
    cpu: float
    memory: int


def run(command: Sequence[str]) -> tuple[Ended, str]:
    """Runs a command to its end; its cost, and what it printed."""
    with tempfile.TemporaryFile("w+") as output:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"`{shlex.join(command)}` ended with status {process.returncode}")
        output.seek(0)
        return Ended(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024), output.read()


@dataclass(frozen=True)
class Stays:
    """A program that has ended in a process that has not."""

    spent: Spent
    process: subprocess.Popen[str]


@contextlib.contextmanager
def started(command: Sequence[str], program: Sequence[str], image: Path | None = None) -> Iterator[Stays]:
    """Runs `command`, which runs what is behind it, with the program; measures, and keeps the process until the end."""
    began = time.monotonic()
    argv = [*command, "sh", "-c", _STAYS, "sh", *program]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()  # the shell's own seconds
        line = process.stdout.readline()
        wall = time.monotonic() - began
        if not line:
            raise SystemExit(f"`{' '.join(program)}` failed")
        try:
            yield Stays(Spent(wall, _seconds(line), _cpu(servers(image)) if image else 0.0), process)
        finally:
            process.stdin.close()
            process.wait()
    if image:
        wait_for_servers(image)


def _seconds(line: str) -> float:
    """User and system time as `times` of the shell prints them: `0m1.50s 0m0.20s`."""
    parts = [word.rstrip("s").split("m") for word in line.split()]
    return sum(60 * float(minutes) + float(seconds) for minutes, seconds in parts)


def servers(image: Path) -> list[int]:
    """Processes of quell that serve this image: those that are still quell and name it."""
    found = []
    for directory in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if directory.name.isdigit() and (directory / "exe").readlink().name == "quell":
                if os.fsencode(image) in (directory / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(directory.name))
    return found


def wait_for_servers(image: Path) -> None:
    """Until they have ended, and written their statistics."""
    for _ in range(200):
        if not servers(image):
            return
        time.sleep(0.05)


def _cpu(pids: Iterable[int]) -> float:
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


def resident(pids: Iterable[int]) -> dict[str, int]:
    """Bytes of these processes together by the names of `smaps_rollup`: `Rss`, `Pss`, `Pss_Anon`, `Pss_File`, `Pss_Shmem`."""
    total: dict[str, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
                name, value = line.split(":")
                total[name] = total.get(name, 0) + 1024 * int(value.split()[0])
    return total


def cached(paths: Iterable[Path]) -> int:
    """Bytes of these files in the page cache."""
    files = [str(path) for path in paths]
    total = 0
    for start in range(0, len(files), 500):
        done = subprocess.run(
            ["fincore", "--json", "--bytes", *files[start : start + 500]], check=True, capture_output=True, text=True
        )
        total += sum(int(row["res"]) for row in json.loads(done.stdout)["fincore"])
    return total


def evict(path: Path) -> None:
    """Drops the file's clean pages from the page cache, so that who reads it next is charged for them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
