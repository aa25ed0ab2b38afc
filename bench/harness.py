"""The parts that cases share: settings, the binary, the rig, Python environments, and the form of a result."""

import contextlib
import datetime
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

REPOSITORY = Path(__file__).resolve().parents[1]
QUELL = str(Path(os.environ.get("QUELL", REPOSITORY / "target/release/quell")).resolve())
# Environments and traces that are kept for the next run.
CACHE = Path(f"/var/tmp/quell-bench-{os.getuid()}")

T = TypeVar("T")

_name = ""
_settings: dict[str, str] = {}
_command = ""


@dataclass(frozen=True)
class Result:
    """The lines of a page, and whether every budget was kept."""

    lines: list[str]
    kept: bool = True


def begin(name: str, settings: dict[str, str], given: dict[str, str], needs: str) -> None:
    """Takes the settings of a case. Turns SIGTERM and SIGHUP into exceptions, so that a case undoes what it made."""
    global _name, _command
    if needs and os.geteuid() != 0:
        fail("this case needs root")
    if not Path(QUELL).exists():
        fail(f"there is no `{QUELL}`\nhint: `make build`, or QUELL=path/to/quell")
    # The tests' helpers for the rig find the binary by this variable.
    os.environ["QUELL"] = QUELL
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    _name = name
    _settings.update(settings)
    _command = shlex.join(["bench/run", name, *(f"{setting}={value}" for setting, value in given.items())])


def fail(text: str) -> None:
    """Ends the case with status 2."""
    print(f"bench/run {_name}: {text}", file=sys.stderr)
    sys.exit(2)


def talk(text: str) -> None:
    """Tells the user how far the case is."""
    print(f"{_name}: {text}", file=sys.stderr, flush=True)


def setting(name: str) -> str:
    """A setting of the case."""
    return _settings[name]


def words(name: str) -> list[str]:
    """A setting that is a list of words."""
    return setting(name).split()


def rounds() -> int:
    """The number of measurements of each way."""
    return int(setting("ROUNDS"))


def interleaved(ways: dict[str, Callable[[], T]], warming: int = 0) -> dict[str, list[T]]:
    """Calls every way once a round, so that a slow minute of the machine meets all ways alike."""
    found: dict[str, list[T]] = {name: [] for name in ways}
    for number in range(warming + rounds()):
        for name, way in ways.items():
            value = way()
            if number >= warming:
                found[name].append(value)
    return found


def timed(words: list[str], environment: dict[str, str], rest: float) -> float:
    """Milliseconds from the start of a process to its end. Rests afterwards: the server of a run that is over takes itself down."""
    began = time.perf_counter()
    child = os.posix_spawn(words[0], words, environment)
    _, status = os.waitpid(child, 0)
    ended = time.perf_counter()
    if status != 0:
        fail(f"{words} ended with {status}")
    time.sleep(rest)
    return 1000 * (ended - began)


def quell(*arguments: str | Path) -> str:
    """Runs the binary; its standard output."""
    return run(QUELL, *map(str, arguments))


def run(*command: str, **options: object) -> str:
    """Runs a command that must succeed; its standard output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode:
        fail(f"`{shlex.join(command[:3])} ...` ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout


def python(name: str, *packages: str, copies: bool = False) -> Path:
    """The directory of a Python environment with these packages, made once and kept."""
    directory = CACHE / name
    if not (directory / "complete").exists():
        talk(f"making the Python environment `{directory}`")
        run(sys.executable, "-m", "venv", *(["--copies"] if copies else []), str(directory))
        run(str(directory / "bin/pip"), "--quiet", "install", "--only-binary", ":all:", *packages)
        (directory / "complete").touch()
    return directory


def numpy_environment(copies: bool = False) -> Path:
    """An environment with the packages of the rig's requirements."""
    requirements = ("--requirement", str(REPOSITORY / "rig/requirements.txt"))
    return python("science" if copies else "numpy", *requirements, copies=copies)


@contextlib.contextmanager
def rig_up(nodes: int, latency: int = 0) -> Iterator[None]:
    """The rig with clients that cache as Lustre's do; it stays up where it was up."""
    import shared_fs as rig

    was_up = json.loads(rig.rig("status")).get("up", False)
    if not was_up:
        rig.rig("up", "--nodes", str(nodes), "--policy", "lustre")
    try:
        rig.rig("latency", str(latency))
        yield
    finally:
        rig.rig("latency", "0")
        if not was_up:
            rig.rig("down")


def head(title: str, *text: str) -> list[str]:
    """The top of a page: title, explanation, and the command, date, machine and version that made it."""
    version = run(QUELL, "--version").strip()
    return [f"# {title}", "", *text, "", f"`{_command}`, {datetime.date.today()}, {version}, {machine()}, load {os.getloadavg()[1]:.1f}.", ""]


def machine() -> str:
    """Processor, number of cores and kernel."""
    info = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(": ")[1] for line in info if line.startswith(("model name", "CPU part"))), os.uname().machine)
    return f"{model}, {os.cpu_count()} CPUs, Linux {os.uname().release}"


def table(*columns: str) -> list[str]:
    """The head of a table."""
    return [row(*columns), "|" + "---|" * len(columns)]


def row(*cells: object) -> str:
    """A row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median, least and most."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def costs_of_ways(found: dict[str, list["rig.Measured"]]) -> list[str]:
    """A table of ways, measured on the rig once a round: metadata operations and seconds."""
    lines = table("", "metadata operations", "seconds")
    for name, measured in found.items():
        operations = spread([one.total for one in measured], 0)
        lines.append(row(name, operations, spread([one.seconds for one in measured])))
    return lines


def verdict(value: float, limit: float) -> str:
    """The word for a budget."""
    return "kept" if value <= limit else "EXCEEDED"


def budgets(*limits: tuple[str, float, float]) -> Result:
    """A table of budgets: name, value, and the most that it may be."""
    rows = [row(name, f"{value:.5g}", f"{limit:.5g}", verdict(value, limit)) for name, value, limit in limits]
    return Result(["", *table("budget", "", "at most", ""), *rows], all(value <= limit for _, value, limit in limits))
