"""Predicted against measured: `quell predict` from profiles that `quell calibrate` wrote, and the rig's own clock and counters.

All nodes, the servers and the programs share this machine's cores, and the prediction is told so. Nothing is fitted to what
is compared: a profile knows nothing of the programs, and a recording is made on a local disk. `import` is the program that the
model was developed with, here: what entering an image costs a process is from its starts. `julia` and `perl` are others. The
machine is now a little faster and now a little slower: it is calibrated, and the programs' own computing timed, in each round
right before the cases of a policy and latency. These are kept together, measured and predicted, in the file SAMPLES, from which
a later run goes on: rounds need neither the same day nor the same machine.
"""

import contextlib
import csv
import datetime
import itertools
import json
import os
import shlex
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import costs
import harness
import rivals
from harness import Result, quell, words
from rivals import rig

JULIA = harness.REPOSITORY / "tests/shared_fs/julia.py"
LOCAL = rivals.LOCAL
SCRATCH = LOCAL / "predict"
RECORDINGS = 5
COLUMNS = (
    "policy", "added us", "nodes x processes", "way", "seconds", "predicted p50 (p10 to p90)", "off", "operations",
    "predicted", "off",
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A command on the shared file system, the same on a local disk, and the directory that it starts from."""

    shared: list[str]
    local: list[str]
    root: Path
    # Names between the mount point and the directory.
    depth: int


@dataclass(frozen=True)
class Case:
    """One cell of the table."""

    program: str
    policy: str
    latency: str
    nodes: str
    processes: str
    way: str


@dataclass(frozen=True)
class Sample:
    """A case measured once, and what was predicted of it in the same round."""

    # The time at which the round of this policy and latency began, and the machine.
    began: str
    machine: str
    case: Case
    seconds: float
    operations: int
    p10: float
    p50: float
    p90: float
    predicted_operations: float

    @staticmethod
    def read(fields: dict[str, str]) -> "Sample":
        case = Case(*(fields[name] for name in CASE_FIELDS))
        numbers = [float(fields[name]) for name in ("seconds", "operations", "p10", "p50", "p90", "predicted_operations")]
        seconds, operations, *predicted = numbers
        return Sample(fields["began"], fields["machine"], case, seconds, int(operations), *predicted)

    def fields(self) -> dict[str, object]:
        own = {name: value for name, value in vars(self).items() if name != "case"}
        return {**own, **vars(self.case)}


CASE_FIELDS = ["program", "policy", "latency", "nodes", "processes", "way"]
FIELDS = ["began", "machine", *CASE_FIELDS, "seconds", "operations", "p10", "p50", "p90", "predicted_operations"]


class Samples:
    """All samples so far, in a file of comma-separated values to which each round of a policy and latency is added whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text() if path.is_file() else ""
        self.all = [Sample.read(fields) for fields in csv.DictReader(text.splitlines())]
        if not text:
            self.write(lambda writer: writer.writeheader())

    def add(self, samples: list[Sample]) -> None:
        self.all += samples
        self.write(lambda writer: writer.writerows(sample.fields() for sample in samples))

    def write(self, what: Callable[["csv.DictWriter[str]"], object]) -> None:
        with self.path.open("a", newline="") as file:
            what(csv.DictWriter(file, FIELDS, lineterminator="\n"))

    def of(self, case: Case) -> list[Sample]:
        return [sample for sample in self.all if sample.case == case]


def main() -> Result:
    with harness.rig_up(4), contextlib.ExitStack() as undo:
        samples = Samples(Path(harness.setting("SAMPLES")))
        SCRATCH.mkdir(exist_ok=True)
        undo.callback(shutil.rmtree, SCRATCH, ignore_errors=True)
        programs = {name: prepare(name, undo) for name in words("PROGRAMS")}
        for name, program in programs.items():
            record(name, program)
        for number in range(harness.rounds()):
            one_round(samples, programs, number)
    rows = [Row(case, samples.of(case)) for case in cases()]
    return Result(page([row for row in rows if row.samples]))


def cases() -> Iterator[Case]:
    """All cases. Policy and latency change least often: a policy costs a remount."""
    for policy, latency in itertools.product(words("POLICIES"), words("LATENCIES")):
        for program, nodes, processes, way in itertools.product(words("PROGRAMS"), words("NODES"), words("PROCESSES"), words("WAYS")):
            yield Case(program, policy, latency, nodes, processes, way)


def prepare(name: str, undo: contextlib.ExitStack) -> Program:
    """Puts a program on the shared file system and on the local disk."""
    if name == "import":
        shared = rig.rig("venv").split()[-1]
        local = rig.rig("venv", "--local").split()[-1]
        return Program([f"{shared}/bin/python", *rivals.CODE], [f"{local}/bin/python", *rivals.CODE], Path(local), 1)
    tree = SCRATCH / name
    if name == "julia":
        subprocess.run([str(JULIA), "make", str(tree)], check=True)
        start = [str(JULIA), "start"]
        command = lambda top: [*start, str(top)]  # noqa: E731
    else:
        shutil.copytree(perl_library(), tree, symlinks=True)
        code = "use POSIX; use File::Find; use Pod::Text; use Encode; use Storable; use CPAN::Meta; use HTTP::Tiny; use Test::More"
        command = lambda top: ["perl", f"-Mlib={top}", "-e", code]  # noqa: E731
    rig.rig("fill", f"predict-{name}", str(tree))
    shared_tree = rig.SHARED / f"predict-{name}"
    undo.callback(rig.on, 1, "rm", "-rf", str(shared_tree))
    return Program(command(shared_tree), command(tree), tree, 1)


def perl_library() -> str:
    """The directory of Perl's own modules."""
    code = "use Config; print $Config{privlib}"
    found = subprocess.run(["perl", "-e", code], check=True, capture_output=True, text=True).stdout
    return str(Path(found).resolve())


def record(name: str, program: Program) -> None:
    """Records a program on the local disk, with warm caches, as a user does on a login node; and packs it from the shared tree."""
    middle_recording(name, program).rename(SCRATCH / f"{name}.qtrace")
    rig.on(1, "mkdir", "-p", str(rig.WORK))
    rig.on(1, rig.QUELL, "record", "--force", "-o", str(rig.WORK / f"{name}.qtrace"), "--", *program.shared)
    rig.on(1, rig.QUELL, "pack", "--force", str(rig.WORK / f"{name}.qtrace"), "-o", str(rig.WORK / f"{name}.qimg"))


def middle_recording(name: str, program: Program) -> Path:
    """Of several recordings on the local disk the one whose duration is the median."""
    for _ in range(2):
        subprocess.run(program.local, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    takes: list[tuple[float, Path]] = []
    for number in range(RECORDINGS):
        take = SCRATCH / f"{name}.{number}.qtrace"
        quell("record", "--force", "-o", str(take), "--", *program.local)
        takes.append((json.loads((take / "header.json").read_text())["seconds"], take))
    return sorted(takes)[RECORDINGS // 2][1]


def one_round(samples: Samples, programs: dict[str, Program], number: int) -> None:
    """Measures each case that has at most `number` samples, those of a policy and latency together."""
    missing = [case for case in cases() if len(samples.of(case)) <= number]
    for (policy, latency), group in itertools.groupby(missing, key=lambda case: (case.policy, case.latency)):
        began = datetime.datetime.now().isoformat(timespec="seconds")
        rig.rig("policy", policy)
        rig.rig("latency", latency)
        calibrate()
        harness.talk(f"calibrated {policy} {latency}")
        found: list[Sample] = []
        for name, of_program in itertools.groupby(group, key=lambda case: case.program):
            computing = computing_seconds(name, programs[name])
            for case in of_program:
                sample = sampled(began, case, programs[name], computing)
                harness.talk(f"{' '.join(vars(case).values())}: {sample.seconds:.2f} s, predicted {sample.p50:.2f}")
                found.append(sample)
        samples.add(found)


def calibrate() -> None:
    """Writes a profile of the rig as it is now."""
    rig.on(1, "mkdir", "-p", str(rig.WORK / "calibrate"))
    second = shlex.join([rig.RIG, "exec", "2", "--"])
    flags = ["--force", "--second-client", second, *shlex.split(harness.setting("CALIBRATE")), str(rig.WORK / "calibrate")]
    profile = SCRATCH / "profile.toml"
    rig.on(1, rig.QUELL, "calibrate", *flags, "-o", str(profile))
    if "\ncpu_us = " not in profile.read_text():
        raise RuntimeError("calibrating had no time for the cost of a request: the profile predicts nothing on full cores")


def computing_seconds(name: str, program: Program) -> float:
    """The program's computing time, from a recording made now."""
    answer = json.loads(quell("predict", str(middle_recording(name, program)), *question(program), "--nodes", "1"))
    return float(answer["inputs"]["think_seconds"])


def sampled(began: str, case: Case, program: Program, computing: float) -> Sample:
    seconds, operations = measure(case, program)
    point = predict(case, program, computing)
    range_of = point["seconds"]
    # The rig's counters show neither where data lies being asked, which counts as reads of data, nor a directory being opened.
    uncounted = sum(point["operations"].get(name, 0.0) for name in ("layout", "open_directory"))
    predicted = round(point["metadata_operations"] - uncounted, 1)
    limits = [round(range_of[name], 3) for name in ("p10", "p50", "p90")]
    return Sample(began, harness.machine(), case, round(seconds, 3), operations, *limits, predicted)


def measure(case: Case, program: Program) -> tuple[float, int]:
    nodes = list(range(1, int(case.nodes) + 1))
    command = program.shared
    if case.way == "image":
        image = rig.WORK / f"{case.program}.qimg"
        command = [rig.QUELL, "run", "--require", "--check", "none", str(image), "--", *program.shared]
    start = lambda: rig.Fixture.measure(nodes, command, processes=int(case.processes), cold=True)  # noqa: E731
    try:
        found = start()
    except AssertionError as failed:
        # A client of MooseFS once gave a plain program less of a file than there is. A start from an image has no such excuse.
        if case.way == "image":
            raise
        harness.talk(f"{' '.join(vars(case).values())}: measured again: {failed}")
        found = start()
    if case.way == "image":
        costs.wait_for_servers(rig.WORK / f"{case.program}.qimg")
    return found.seconds, found.total


def question(program: Program) -> list[str]:
    """The flags of `quell predict` that do not depend on the case."""
    return ["--json", "--root", str(program.root), "--depth", str(program.depth), "--fs", str(SCRATCH / "profile.toml")]


def predict(case: Case, program: Program, computing: float) -> dict[str, Any]:
    flags = [*question(program), "--nodes", case.nodes, "--ppn", case.processes, "--cores", str(os.cpu_count()), "--shared-host"]
    if case.way == "image":
        flags.append("--image=read")
    flags += ["--think", str(computing)]
    found: dict[str, Any] = json.loads(quell("predict", str(SCRATCH / f"{case.program}.qtrace"), *flags))["points"][0]
    return found


@dataclass(frozen=True)
class Row:
    """A case with its samples."""

    case: Case
    samples: list[Sample]

    def median(self, field: str) -> float:
        return float(statistics.median(getattr(sample, field) for sample in self.samples))

    def off(self, predicted: str, measured: str) -> float:
        return self.median(predicted) / max(self.median(measured), 1e-9) - 1

    @property
    def seconds_off(self) -> float:
        return self.off("p50", "seconds")

    @property
    def operations_off(self) -> float:
        return self.off("predicted_operations", "operations")

    @property
    def holds(self) -> int:
        """The number of samples within the range that was predicted for them."""
        return sum(sample.p10 <= sample.seconds <= sample.p90 for sample in self.samples)


def page(rows: list[Row]) -> list[str]:
    lines = harness.head(
        "Predicted and measured start-up on a real shared file system",
        "Cold clients; wall seconds until the last process has ended, and metadata operations by the server's own counters, reads",
        f"of data left out. Predicted from a profile that `quell calibrate {harness.setting('CALIBRATE')}` wrote and one recording on a local disk; the",
        "machine's cores are an input. In each round the cases of a policy and latency are measured and predicted right after",
        "calibrating and recording the programs' computing. Medians of the rounds; every sample is in `predict.csv`. The counters show",
        "neither where data lies being asked nor a directory being opened, so these are left out of what is predicted.",
    )
    lines += [*coverage(rows), ""]
    for program in words("PROGRAMS"):
        own = [row for row in rows if row.case.program == program]
        lines += [f"## {program}", "", *summary(own), ""]
        lines += harness.table(*COLUMNS)
        lines += [line(row) for row in own]
        lines.append("")
    return lines[:-1]


def coverage(rows: list[Row]) -> list[str]:
    """The rounds, and the number of cases and samples within the bounds that the model promises."""
    rounds = {len(row.samples) for row in rows}
    samples = sum(len(row.samples) for row in rows)
    within = sum(abs(row.seconds_off) <= 0.25 for row in rows)
    holds = sum(row.holds for row in rows)
    machines = sorted({f"{sample.began[:10]}, {sample.machine}" for row in rows for sample in row.samples})
    return [
        f"Rounds of a case: {min(rounds)} to {max(rounds)}. p50 within 25 %: {within} of {len(rows)} cases ({within / len(rows):.1%}). Within p10",
        f"to p90: {holds} of {samples} samples ({holds / samples:.1%}). Measured on {'; '.join(machines)}.",
    ]


def summary(rows: list[Row]) -> list[str]:
    """The number of cases within the stated bounds. From the image there are too few operations for a ratio."""
    plain = [row for row in rows if row.case.way == "plain"]
    seconds = sum(abs(row.seconds_off) <= 0.25 for row in rows)
    operations = sum(abs(row.operations_off) <= 0.10 for row in plain)
    said = [f"Seconds within 25 %: {seconds} of {len(rows)}. Operations within 10 %, plain: {operations} of {len(plain)}."]
    images = [row for row in rows if row.case.way == "image"]
    if images:
        most = max(abs(row.median("predicted_operations") - row.median("operations")) for row in images)
        said.append(f"Operations from the image: at most {most:.0f} more or fewer than predicted.")
    return said


def line(row: Row) -> str:
    case = row.case
    cells = [
        case.policy, case.latency, f"{case.nodes} x {case.processes}", case.way,
        harness.spread([sample.seconds for sample in row.samples]),
        f"{row.median('p50'):.2f} ({row.median('p10'):.2f} to {row.median('p90'):.2f})",
        f"{row.seconds_off:+.0%}",
        f"{row.median('operations'):.0f}",
        f"{row.median('predicted_operations'):.0f}",
        f"{row.operations_off:+.0%}",
    ]  # fmt: skip
    return harness.row(*cells)
