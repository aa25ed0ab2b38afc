"""`quell check` of an image of 60 000 names, on a cold node of a real shared file system.

Everything is made and packed without added latency; what is measured is the comparison alone. The slowest row, one
operation at a time, is what a shell loop would take.
"""

import json
import statistics
import tempfile
from pathlib import Path

import harness
from harness import Result
from rivals import NODE, rig

DIRECTORIES, FILES = 600, 99
JOBS = (1, 8, 32, 128)
POLICIES = ("lustre", "strict")
TREE = rig.SHARED / "check"
IMAGE = rig.WORK / "check.qimg"
WALK = "import os, sys; [os.stat(os.path.join(top, name)) for top, _, names in os.walk(sys.argv[1]) for name in names]"

Row = tuple[str, int, int]


def main() -> Result:
    with harness.rig_up(NODE):
        try:
            return page(prepare(), measure())
        finally:
            rig.rig("latency", "0")
            rig.on(1, "rm", "-rf", str(TREE), str(IMAGE), str(IMAGE.with_suffix(".qtrace")))


def prepare() -> int:
    """Makes the tree and its image; returns the number of entries that a check compares."""
    with tempfile.TemporaryDirectory() as local:
        for number in range(DIRECTORIES):
            directory = Path(local) / f"{number:03}"
            directory.mkdir()
            for name in range(FILES):
                (directory / f"{name:02}").write_text("content\n")
        rig.rig("fill", TREE.name, local)
    rig.on(1, "mkdir", "-p", str(rig.WORK))
    trace = IMAGE.with_suffix(".qtrace")
    rig.on(1, rig.QUELL, "record", "--force", "-o", str(trace), "--", "/usr/bin/python3", "-c", WALK, str(TREE))
    rig.on(1, rig.QUELL, "pack", "--force", str(trace), "-o", str(IMAGE))
    said = json.loads(rig.on(1, rig.QUELL, "check", "--json", "--valid-for", "0", str(IMAGE)))
    assert said["unchanged"] and said["entries"] >= DIRECTORIES * (FILES + 1), said
    return said["entries"]


def measure() -> dict[Row, list["rig.Measured"]]:
    found: dict[Row, list[rig.Measured]] = {}
    for policy in POLICIES:
        rig.rig("policy", policy)
        for round_number in range(harness.rounds()):
            for latency in map(int, harness.words("LATENCIES")):
                rig.rig("latency", str(latency))
                for jobs in JOBS:
                    if jobs == 1 and (round_number > 0 or policy != POLICIES[0]):
                        continue
                    command = [rig.QUELL, "check", "--valid-for", "0", "--jobs", str(jobs), str(IMAGE)]
                    measured = rig.Fixture.measure([NODE], command, cold=True)
                    found.setdefault((policy, latency, jobs), []).append(measured)
                    seconds, operations = measured.seconds, measured.total
                    harness.talk(f"{policy} +{latency} us, {jobs} in flight: {seconds:.1f} s, {operations} operations")
    return found


def page(entries: int, found: dict[Row, list["rig.Measured"]]) -> Result:
    lines = harness.head(
        f"{entries} entries compared with an image",
        f"`quell check` on a cold node of a real shared file system, in {DIRECTORIES} directories; medians (least to most) of",
        f"{harness.rounds()} rounds, interleaved; one operation at a time once. Operations by the server's counters.",
    )
    columns = "client caches like", "added round trip, us", "in flight at most", "seconds", "operations"
    lines += harness.table(*columns)
    for row, rounds in found.items():
        operations = statistics.median(measured.total for measured in rounds)
        seconds = harness.spread([measured.seconds for measured in rounds], 1)
        lines.append(harness.row(*row, seconds, f"{operations:.0f}"))
    slowest = [
        statistics.median(measured.seconds for measured in rounds)
        for (_, latency, jobs), rounds in found.items()
        if (latency, jobs) == (1000, 32)
    ]
    if not slowest:
        return Result(lines)
    limits = harness.budgets(("seconds with 32 in flight, the default, at +1 ms", max(slowest), 15))
    return Result(lines + limits.lines, limits.kept)
