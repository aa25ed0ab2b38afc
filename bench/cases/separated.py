"""Predicted against measured where no processor is short: `quell replay` with sleeping think times, on servers that sleep.

Each node is a mount of `rig/sleeper` with the kernel's own caches; its servers hold answers back until the moment at which they would
have come. The profile is the sleeper's own settings, so calibration adds no error either. What is left is the error of the law: of
requests, of queues, of what is forgotten while a start is slow. Nothing is fitted to what is compared.
"""

import contextlib
import itertools
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
from harness import Result, quell, words

SLEEPER = Path(os.environ.get("SLEEPER", Path(harness.QUELL).with_name("quell-sleeper")))

# Lifetimes in seconds: names, absences, directories, attributes. `brief` is shorter than most starts here.
POLICIES = {"strict": (0, 0, 1, 1), "brief": (3, 3, 3, 3), "lustre": (3600, 3600, 3600, 3600)}
# The metadata server: round trip in us, work on a request in us, threads, requests of a client under way.
SERVERS = {"far": (4000, 1000, 4, 64), "full": (1000, 2000, 4, 64), "held": (4000, 500, 64, 2)}
DATA = {"read-us": 2000, "server-bytes-per-second": 2e9, "client-bytes-per-second": 5e8}
PYTHON = (
    "import asyncio, concurrent.futures, csv, ctypes, decimal, difflib, email.message, http.server, json, logging.config, multiprocessing, "
    "pathlib, sqlite3, ssl, tarfile, unittest, urllib.request, xml.etree.ElementTree, zipfile"
)
PERL = "use POSIX; use File::Find; use Pod::Text; use Encode; use Storable; use CPAN::Meta; use HTTP::Tiny; use Test::More"


@dataclass(frozen=True)
class Program:
    """A recorded start, and the directory that it starts from."""

    trace: Path
    root: Path


@dataclass(frozen=True)
class Case:
    """One cell of the table."""

    program: str
    policy: str
    server: str
    nodes: int
    processes: int


@dataclass(frozen=True)
class Start:
    """A start that was measured. Unit: seconds; requests of all nodes, reads of data apart."""

    seconds: float
    metadata: int
    reads: int
    think: float


def main() -> Result:
    with tempfile.TemporaryDirectory(prefix="quell-separated-") as directory:
        top = Path(directory)
        programs = {name: record(name, top) for name in words("PROGRAMS")}
        ways = {case: lambda case=case: measure(case, programs[case.program], top) for case in cases()}
        found = harness.interleaved(ways)
        rows = [Row(case, starts, predict(case, programs[case.program], starts, top)) for case, starts in found.items()]
    return Result(page(rows))


def cases() -> Iterator[Case]:
    scale = itertools.product(map(int, words("NODES")), map(int, words("PROCESSES")))
    for (nodes, processes), program, policy, server in itertools.product(scale, words("PROGRAMS"), words("POLICIES"), words("SERVERS")):
        yield Case(program, policy, server, nodes, processes)


def record(name: str, top: Path) -> Program:
    """Records a program on the local disk, warm."""
    if name == "python":
        root = Path(harness.run("python3", "-c", "import os; print(os.path.dirname(os.__file__))").strip()).resolve()
        command = ["python3", "-c", PYTHON]
    else:
        root = top / "perl"
        library = harness.run("perl", "-e", "use Config; print $Config{privlib}")
        shutil.copytree(Path(library).resolve(), root, symlinks=True)
        command = ["perl", f"-Mlib={root}", "-e", PERL]
    trace = top / f"{name}.qtrace"
    harness.run(*command)
    quell("record", "-q", "-o", trace, "--", *command)
    return Program(trace, root)


def measure(case: Case, program: Program, top: Path) -> Start:
    """One cold start of all nodes, which begin at once."""
    mounts = top / "mounts"
    with served(case, program.root, mounts) as counted:
        began = [replay(case, program, mounts, node) for node in range(case.nodes)]
        outputs = [process.communicate() for process in began]
    failed = next((error for process, (_, error) in zip(began, outputs, strict=True) if process.returncode), None)
    if failed is not None:
        harness.fail(f"a replay of {case} failed:\n{failed}")
    answer = json.loads(outputs[0][0])
    reads = sum(node.pop("read") for node in counted)
    start = Start(answer["seconds"], sum(sum(node.values()) for node in counted), reads, answer["think_seconds"])
    harness.talk(f"{case}: {start.seconds:.2f} s")
    return start


@contextlib.contextmanager
def served(case: Case, root: Path, mounts: Path) -> Iterator[list[dict[str, int]]]:
    """Mounts the nodes. The list holds what each asked for, once they are gone."""
    numbers = {"nodes": case.nodes, **sleeper_settings(case)}
    words = [str(SLEEPER), str(root), str(mounts), *(f"{key}={value:.0f}" for key, value in numbers.items())]
    counted: list[dict[str, int]] = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=first) as sleeper:
        assert sleeper.stdin and sleeper.stdout
        if sleeper.stdout.readline() != "ready\n":
            harness.fail("the sleeper did not start")
        try:
            yield counted
        finally:
            sleeper.stdin.close()
            counted += json.loads(sleeper.stdout.read())


def sleeper_settings(case: Case) -> dict[str, float]:
    round_trip, service, threads, in_flight = SERVERS[case.server]
    name, absence, directory, attributes = POLICIES[case.policy]
    server = {"round-trip-us": round_trip, "service-us": service, "threads": threads, "in-flight": in_flight}
    lives = {"name-seconds": name, "absence-seconds": absence, "directory-seconds": directory, "attribute-seconds": attributes}
    return {**server, **DATA, **lives}


def replay(case: Case, program: Program, mounts: Path, node: int) -> subprocess.Popen[str]:
    """Starts a node's processes; nodes meet as ranks of a launcher do, and begin at once."""
    place = {"RANK": node, "SIZE": case.nodes, "LOCAL_RANK": node, "LOCAL_SIZE": case.nodes}
    environment = {**os.environ, **({f"OMPI_COMM_WORLD_{key}": str(value) for key, value in place.items()} if case.nodes > 1 else {})}
    flags = ["--root", str(mounts / str(node)), "--from", str(program.root), "--ranks", str(case.processes), "--think", "recorded", "--json"]
    command = [harness.QUELL, "replay", str(program.trace), *flags]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, preexec_fn=first)


def first() -> None:
    """Comes before other work of the machine: it needs little of it, at once."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def predict(case: Case, program: Program, starts: list[Start], top: Path) -> dict[str, Any]:
    profile = top / "profile.toml"
    profile.write_text(profile_text(case))
    think = statistics.median(start.think for start in starts)
    flags = ["--root", program.root, "--fs", profile, "--nodes", case.nodes, "--ppn", case.processes, "--think", think, "--json"]
    found: dict[str, Any] = json.loads(quell("predict", program.trace, *map(str, flags)))["points"][0]
    return found


def profile_text(case: Case) -> str:
    """The sleeper's settings as a profile."""
    round_trip, service, threads, in_flight = SERVERS[case.server]
    name, absence, directory, attributes = POLICIES[case.policy]
    rate = threads * 1e6 / service
    return "\n".join([
        "schema_version = 1", 'name = "sleeper"', 'kind = "measured"',
        "[network]", f"round_trip_us = {round_trip}",
        "[metadata]", "servers = 1", f"threads = {threads}",
        "[metadata.operations_per_second]", f"lookup = {rate}", f"open = {rate}",
        "[client]", f"positive_seconds = {name}", f"negative_seconds = {absence}", f"directory_seconds = {directory}",
        f"attribute_seconds = {attributes}", "listing_seconds = 0", "open_asks = true", "open_directory_asks = true",
        f"requests_in_flight = {in_flight}",
        "[data]", "servers = 1", f"bytes_per_second = {DATA['server-bytes-per-second']}",
        f"client_bytes_per_second = {DATA['client-bytes-per-second']}", f"read_us = {DATA['read-us']}",
    ]) + "\n"  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A case with its measurements and predictions."""

    case: Case
    starts: list[Start]
    predicted: dict[str, Any]

    @property
    def off(self) -> float:
        wall = statistics.median(start.seconds for start in self.starts)
        return float(self.predicted["seconds"]["p50"] / wall - 1)

    @property
    def metadata_off(self) -> float:
        return float(self.predicted["metadata_operations"] / self.metadata - 1)

    @property
    def metadata(self) -> float:
        return statistics.median(start.metadata for start in self.starts)

    @property
    def is_held(self) -> bool:
        """True if the measured median lies within the range."""
        seconds = self.predicted["seconds"]
        return bool(seconds["p10"] <= statistics.median(start.seconds for start in self.starts) <= seconds["p90"])


def page(rows: list[Row]) -> list[str]:
    lines = harness.head(
        "Predicted and measured starts where no processor is short",
        f"Replays with sleeping think times on `rig/sleeper`, whose servers sleep; {harness.rounds()} rounds, interleaved, cold clients, medians and",
        "their spread. The profile is the sleeper's own settings. Requests are those of the metadata server, of all nodes.",
    )
    for program in words("PROGRAMS"):
        own = [row for row in rows if row.case.program == program]
        lines += [f"## {program}", "", summary(own), ""]
        lines += harness.table("policy", "server", "nodes x processes", "seconds", "predicted p50 (p10 to p90)", "off", "requests", "predicted", "off")
        lines += [line(row) for row in own]
        lines.append("")
    return lines[:-1]


def summary(rows: list[Row]) -> str:
    near = sum(abs(row.off) <= 0.25 for row in rows)
    nearer = sum(abs(row.off) <= 0.10 for row in rows)
    asked = sum(abs(row.metadata_off) <= 0.10 for row in rows)
    held = sum(row.is_held for row in rows)
    return (
        f"Seconds within 25 %: {near} of {len(rows)}, within 10 %: {nearer}. Requests within 10 %: {asked}. "
        f"Within p10 to p90: {held}."
    )


def line(row: Row) -> str:
    case, seconds = row.case, row.predicted["seconds"]
    return harness.row(
        case.policy, case.server, f"{case.nodes} x {case.processes}",
        harness.spread([start.seconds for start in row.starts]),
        f"{seconds['p50']:.2f} ({seconds['p10']:.2f} to {seconds['p90']:.2f})", f"{row.off:+.0%}",
        f"{row.metadata:.0f}", f"{row.predicted['metadata_operations']:.0f}", f"{row.metadata_off:+.0%}",
    )  # fmt: skip
