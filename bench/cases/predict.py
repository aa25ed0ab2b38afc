"""Predicted against measured: `quell predict` from profiles that `quell calibrate` wrote, and the rig's own clock and counters.

All nodes, the servers and the programs share this machine's cores, and the prediction is told so. Nothing is fitted to what
is compared: a profile knows nothing of the programs, and a recording is made on a local disk. `import` is the program that the
model was developed with, here: what entering an image costs a process is from its starts. `julia` and `perl` are others. The
machine is now a little faster and now a little slower: it is calibrated right before the first round of a policy and latency,
and the programs' own computing is timed in each round. Whatever was measured is kept in the state file, case by case.
"""

import contextlib
import itertools
import json
import os
import shlex
import shutil
import statistics
import subprocess
from collections.abc import Iterator
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


def state_file() -> Path:
    return Path(harness.setting("STATE"))


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

    @property
    def key(self) -> str:
        return " ".join([self.program, self.policy, self.latency, self.nodes, self.processes, self.way])


class State:
    """All measurements and predictions so far, on disk after each case."""

    def __init__(self) -> None:
        text = state_file().read_text() if state_file().exists() else ""
        self.all: dict[str, Any] = json.loads(text) if text else {}
        self.all.setdefault("measured", {})
        self.all.setdefault("profiles", {})
        # Seconds of computing of each program, timed in each round before its cases of a policy and latency.
        self.all.setdefault("think", {})

    def save(self) -> None:
        if not state_file().exists() or state_file().is_file():
            self.write(state_file())

    def write(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(self.all, indent=1, sort_keys=True) + "\n")
        fresh.replace(path)

    def samples(self, case: Case) -> list[dict[str, float]]:
        found: list[dict[str, float]] = self.all["measured"].setdefault(case.key, [])
        return found


def main() -> Result:
    with harness.rig_up(4), contextlib.ExitStack() as undo:
        state = State()
        SCRATCH.mkdir(exist_ok=True)
        undo.callback(shutil.rmtree, SCRATCH, ignore_errors=True)
        programs = {name: prepare(name, undo) for name in words("PROGRAMS")}
        for name, program in programs.items():
            record(name, program)
        for number in range(harness.rounds()):
            one_round(state, programs, number)
        rows = [compare(state, case, programs[case.program]) for case in cases()]
    return Result(page([row for row in rows if row]))


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


def one_round(state: State, programs: dict[str, Program], number: int) -> None:
    """Measures each case that has fewer samples than rounds, policy by policy and latency by latency."""
    for (policy, latency), group in itertools.groupby(cases(), key=lambda case: (case.policy, case.latency)):
        left = [case for case in group if len(state.samples(case)) <= number]
        if not left:
            continue
        rig.rig("policy", policy)
        rig.rig("latency", latency)
        calibrate(state, policy, latency)
        for name in dict.fromkeys(case.program for case in left):
            time_computing(state, name, programs[name], policy, latency)
            for case in left:
                if case.program == name:
                    state.samples(case).append(measure(case, programs[name]))
                    state.save()
                    harness.talk(f"{case.key}: {state.samples(case)[-1]['seconds']:.2f} s")


def calibrate(state: State, policy: str, latency: str) -> None:
    """A profile of the rig as it is now, unless the state has it."""
    key = f"{policy} {latency}"
    if key in state.all["profiles"]:
        return
    rig.on(1, "mkdir", "-p", str(rig.WORK / "calibrate"))
    profile = SCRATCH / "profile.toml"
    second = shlex.join([rig.RIG, "exec", "2", "--"])
    flags = ["--force", "--second-client", second, *shlex.split(harness.setting("CALIBRATE")), str(rig.WORK / "calibrate"), "-o", str(profile)]
    rig.on(1, rig.QUELL, "calibrate", *flags)
    state.all["profiles"][key] = profile.read_text()
    state.save()
    harness.talk(f"calibrated {key}")


def time_computing(state: State, name: str, program: Program, policy: str, latency: str) -> None:
    """Adds the program's computing time, from a recording made now."""
    take = middle_recording(name, program)
    answer = json.loads(quell("predict", str(take), *question(state, program, policy, latency), "--nodes", "1"))
    state.all["think"].setdefault(f"{name} {policy} {latency}", []).append(answer["inputs"]["think_seconds"])
    state.save()


def measure(case: Case, program: Program) -> dict[str, float]:
    nodes = list(range(1, int(case.nodes) + 1))
    command = program.shared
    if case.way == "image":
        image = rig.WORK / f"{case.program}.qimg"
        command = [rig.QUELL, "run", "--require", "--check", "none", str(image), "--", *program.shared]
    found = rig.Fixture.measure(nodes, command, processes=int(case.processes), cold=True)
    if case.way == "image":
        costs.wait_for_servers(rig.WORK / f"{case.program}.qimg")
    return {"seconds": found.seconds, "operations": found.total}


def question(state: State, program: Program, policy: str, latency: str) -> list[str]:
    """The flags of `quell predict` that do not depend on the case."""
    profile = SCRATCH / "case.toml"
    profile.write_text(state.all["profiles"][f"{policy} {latency}"])
    return ["--json", "--root", str(program.root), "--depth", str(program.depth), "--fs", str(profile)]


def predict(state: State, case: Case, program: Program) -> dict[str, Any]:
    flags = question(state, program, case.policy, case.latency)
    flags += ["--nodes", case.nodes, "--ppn", case.processes, "--cores", str(os.cpu_count()), "--shared-host"]
    if case.way == "image":
        flags.append("--image=read")
    computing = state.all["think"][f"{case.program} {case.policy} {case.latency}"]
    flags += ["--think", str(statistics.median(computing))]
    found: dict[str, Any] = json.loads(quell("predict", str(SCRATCH / f"{case.program}.qtrace"), *flags))["points"][0]
    return found


@dataclass(frozen=True)
class Row:
    """A case with its measurements and predictions."""

    case: Case
    seconds: list[float]
    operations: float
    predicted: dict[str, Any]

    @property
    def wall(self) -> float:
        return statistics.median(self.seconds)

    @property
    def seconds_off(self) -> float:
        return float(self.predicted["seconds"]["p50"] / self.wall - 1)

    @property
    def predicted_operations(self) -> float:
        """Leaves out what the rig's counters leave out: asking where data lies, which they show as reads of data, and opening a
        directory, of which the master counts the listing only."""
        uncounted = sum(self.predicted["operations"].get(name, 0.0) for name in ("layout", "open_directory"))
        return float(self.predicted["metadata_operations"] - uncounted)

    @property
    def operations_off(self) -> float:
        return self.predicted_operations / max(self.operations, 1) - 1


def compare(state: State, case: Case, program: Program) -> Row | None:
    samples = state.samples(case)
    if not samples:
        return None
    operations = statistics.median(sample["operations"] for sample in samples)
    return Row(case, [sample["seconds"] for sample in samples], operations, predict(state, case, program))


def page(rows: list[Row]) -> list[str]:
    lines = harness.head(
        "Predicted and measured start-up on a real shared file system",
        f"Rounds: {harness.rounds()}, interleaved, cold clients; medians of wall seconds until the last process has ended, and",
        "metadata operations by the server's own counters, reads of data left out. Predicted from a profile that",
        f"`quell calibrate {harness.setting('CALIBRATE')}` wrote and one recording on a local disk; the machine's cores are an input. Each policy and",
        "latency is calibrated, and the computing of the program recorded again, before its rows are measured. The counters show neither",
        "where data lies being asked nor a directory being opened, so these are left out of what is predicted.",
    )
    for program in words("PROGRAMS"):
        own = [row for row in rows if row.case.program == program]
        lines += [f"## {program}", "", *summary(own), ""]
        lines += harness.table(*COLUMNS)
        lines += [line(row) for row in own]
        lines.append("")
    return lines[:-1]


def summary(rows: list[Row]) -> list[str]:
    """The number of cases within the stated bounds. From the image there are too few operations for a ratio."""
    plain = [row for row in rows if row.case.way == "plain"]
    seconds = sum(abs(row.seconds_off) <= 0.25 for row in rows)
    operations = sum(abs(row.operations_off) <= 0.10 for row in plain)
    said = [f"Seconds within 25 %: {seconds} of {len(rows)}. Operations within 10 %, plain: {operations} of {len(plain)}."]
    differences = [abs(row.predicted_operations - row.operations) for row in rows if row.case.way == "image"]
    if differences:
        said.append(f"Operations from the image: at most {max(differences):.0f} more or fewer than predicted.")
    return said


def line(row: Row) -> str:
    case, predicted = row.case, row.predicted["seconds"]
    cells = [
        case.policy, case.latency, f"{case.nodes} x {case.processes}", case.way,
        harness.spread(row.seconds),
        f"{predicted['p50']:.2f} ({predicted['p10']:.2f} to {predicted['p90']:.2f})",
        f"{row.seconds_off:+.0%}",
        f"{row.operations:.0f}",
        f"{row.predicted_operations:.0f}",
        f"{row.operations_off:+.0%}",
    ]  # fmt: skip
    return harness.row(*cells)
