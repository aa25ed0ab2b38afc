"""`quell check` of an image of 60 000 names, on a cold node of a real shared file system.

Everything is made and packed without added latency; what is measured is the comparison alone. The slowest row, one
operation at a time, is what a shell loop would take.
"""

import datetime
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import costs
from rivals import NODE, rig

DIRECTORIES, FILES = 600, 99
LATENCIES = [int(word) for word in os.environ.get("LATENCIES", "0 1000").split()]
JOBS = (1, 8, 32, 128)
POLICIES = ("lustre", "strict")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
TREE = rig.SHARED / "check"
IMAGE = rig.WORK / "check.qimg"
WALK = "import os, sys; [os.stat(os.path.join(top, name)) for top, _, names in os.walk(sys.argv[1]) for name in names]"
RESULT = Path(__file__).resolve().parent / "results/check.md"

Row = tuple[str, int, int]


def main() -> None:
    costs.begin(rig.QUELL)
    was_up = json.loads(rig.rig("status")).get("up", False)
    if not was_up:
        rig.rig("up", "--nodes", str(NODE), "--policy", "lustre")
    machine = costs.machine()
    try:
        entries = prepare()
        text = page(machine, entries, measure())
    finally:
        rig.rig("latency", "0")
        rig.on(1, "rm", "-rf", str(TREE), str(IMAGE), str(IMAGE.with_suffix(".qtrace")))
        if not was_up:
            rig.rig("down")
    print(text)
    RESULT.write_text(text)


def prepare() -> int:
    """Makes the tree and its image; returns the number of entries that a check compares."""
    rig.rig("latency", "0")
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
        for round_number in range(ROUNDS):
            for latency in LATENCIES:
                rig.rig("latency", str(latency))
                for jobs in JOBS:
                    if jobs == 1 and (round_number > 0 or policy != POLICIES[0]):
                        continue
                    command = [rig.QUELL, "check", "--valid-for", "0", "--jobs", str(jobs), str(IMAGE)]
                    measured = rig.Fixture.measure([NODE], command, cold=True)
                    found.setdefault((policy, latency, jobs), []).append(measured)
                    row = f"{policy} +{latency} us, {jobs} in flight: {measured.seconds:.1f} s, {measured.total} operations"
                    print(f"check.sh: {row}", file=sys.stderr, flush=True)
    return found


def page(machine: str, entries: int, found: dict[Row, list["rig.Measured"]]) -> str:
    lines = [
        f"# {entries} entries compared with an image",
        "",
        f"`quell check` on a cold node of a real shared file system, in {DIRECTORIES} directories; medians (least to most) of",
        f"{ROUNDS} rounds, interleaved; one operation at a time once. Operations by the server's counters.",
        f"{datetime.date.today()}, {machine}. Command: `bench/check.sh`.",
        "",
        "| client caches like | added round trip, us | in flight at most | seconds | operations |",
        "|---|---|---|---|---|",
    ]
    for (policy, latency, jobs), rounds in found.items():
        seconds = [measured.seconds for measured in rounds]
        spread = f" ({min(seconds):.1f} to {max(seconds):.1f})" if len(rounds) > 1 else ""
        operations = statistics.median(measured.total for measured in rounds)
        lines.append(
            f"| {policy} | {latency} | {jobs} | {statistics.median(seconds):.1f}{spread} | {operations:.0f} |"
        )
    slowest = max(statistics.median(m.seconds for m in rounds) for (_, latency, jobs), rounds in found.items()
                  if (latency, jobs) == (1000, 32))
    lines += [
        "",
        f"The default, 32 in flight, takes {slowest:.1f} s at +1 ms; the goal is less than 15 s.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
