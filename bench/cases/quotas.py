"""Predicted against measured starts of a real program on nodes with little processor time, each by a quota of its own.

Servers are those of `separated`: they sleep. A node is a control group with a share of one core, less than all nodes together have, so
nodes do not slow each other or the servers down: what a node's processes wait for is their own node. The program's computing is measured
alone on a node, on a local disk, before each start, so that a slow minute of the machine meets both alike; with several processes a node
its cores are full. Nothing is fitted to what is compared.
"""

import contextlib
import dataclasses
import itertools
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import harness
from cases import separated
from cases.separated import Case, Program, Row, Start
from harness import Result, quell, words

GROUPS = Path("/sys/fs/cgroup/cpu")
# Short, so that a process of some milliseconds is slowed down as a longer one is. Unit: microseconds.
PERIOD = 10_000


def main() -> Result:
    if not (GROUPS / "cpu.cfs_quota_us").exists():
        harness.fail(f"there is no quota of processor time: `{GROUPS}` is not that of version 1")
    with tempfile.TemporaryDirectory(prefix="quell-quotas-") as directory:
        top = Path(directory)
        program = separated.record("perl", top)
        ways = {case: lambda case=case: measure(case, program, top) for case in cases()}
        found = harness.interleaved(ways)
        alone = statistics.median(start.think for starts in found.values() for start in starts)
        harness.talk(f"computing on a node: {alone:.2f} s")
        rows = [Row(case, starts, predict(case, program, alone, top)) for case, starts in found.items()]
    return Result(page(rows, alone))


def cases() -> Iterator[Case]:
    scale = itertools.product(map(int, words("NODES")), map(int, words("PROCESSES")))
    for (nodes, processes), policy, server in itertools.product(scale, words("POLICIES"), words("SERVERS")):
        yield Case("perl", policy, server, nodes, processes)


def share() -> float:
    """The part of one core that a node has."""
    return float(harness.setting("SHARE"))


@contextlib.contextmanager
def node(number: int) -> Iterator[Path]:
    """A node's control group."""
    group = GROUPS / f"quell-{number}"
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD))
        (group / "cpu.cfs_quota_us").write_text(str(int(share() * PERIOD)))
        yield group
    finally:
        group.rmdir()


def start(group: Path, library: Path) -> subprocess.Popen[bytes]:
    """Starts the program on a node, its modules from `library`."""
    program = ["perl", f"-Mlib={library}", "-e", separated.PERL]
    return subprocess.Popen(["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *program])


def finished(processes: list[subprocess.Popen[bytes]], began: float) -> float:
    """Seconds until the last process has ended."""
    if any([process.wait() for process in processes]):
        harness.fail("the program failed")
    return time.monotonic() - began


def local(program: Program) -> float:
    """The program alone on a node, from a local disk."""
    with node(0) as group:
        began = time.monotonic()
        return finished([start(group, program.root)], began)


def measure(case: Case, program: Program, top: Path) -> Start:
    """The program alone on a node, then one cold start of all nodes, which begin at once."""
    alone = local(program)
    mounts = top / "mounts"
    with contextlib.ExitStack() as groups:
        nodes = [groups.enter_context(node(number)) for number in range(case.nodes)]
        with separated.served(case, program.root, mounts) as counted:
            began = time.monotonic()
            of_all = [start(group, mounts / str(number)) for number, group in enumerate(nodes) for _ in range(case.processes)]
            seconds = finished(of_all, began)
    reads = sum(of_node.pop("read") for of_node in counted)
    harness.talk(f"{case}: {seconds:.2f} s")
    return Start(seconds, sum(sum(of_node.values()) for of_node in counted), reads, alone)


def predict(case: Case, program: Program, alone: float, top: Path) -> dict[str, object]:
    profile = top / "profile.toml"
    profile.write_text(separated.profile_text(case))
    scale = ["--nodes", case.nodes, "--ppn", case.processes, "--cores", 1]
    flags = ["--root", program.root, "--fs", profile, *scale, "--think", alone, "--json"]
    found: dict[str, object] = json.loads(quell("predict", program.trace, *map(str, flags)))["points"][0]
    return found


def page(rows: list[Row], alone: float) -> list[str]:
    lines = harness.head(
        "Predicted and measured starts on nodes with a quota of processor time",
        f"Starts of perl with its modules on `rig/sleeper`, whose servers sleep; each node has {share():.0%} of one core; {harness.rounds()} rounds,",
        "interleaved, cold clients, medians and their spread. The profile is the sleeper's own settings; `--cores 1`, and computing of",
        f"{alone:.2f} s, which is the program alone on such a node with a warm local disk.",
    )
    lines += [separated.summary(rows), ""]
    lines += harness.table("policy", "server", "nodes x processes", "seconds", "predicted p50 (p10 to p90)", "off", "requests", "predicted", "off")
    return lines + [separated.line(row) for row in sorted(rows, key=lambda row: dataclasses.astuple(row.case)[3:])]
