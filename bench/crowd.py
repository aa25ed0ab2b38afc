"""Many processes at once on one cold node: the server's counts, and the time until the last process has ended.

The program is `import numpy`: small, so that 128 of them on a few cores still wait for the file system and not only for
a core.
"""

import datetime
import json
import os
import statistics
from pathlib import Path

import costs
from rivals import NODE, PLAIN_NODE, rig

PROCESSES = int(os.environ.get("PROCESSES", "128"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
LATENCY = 500
PROGRAM = [rig.PROGRAM[0], "-c", "import numpy"]
RESULT = Path(__file__).resolve().parent / "results/crowd.md"


def main() -> None:
    costs.begin(rig.QUELL)
    was_up = json.loads(rig.rig("status")).get("up", False)
    if not was_up:
        rig.rig("up", "--nodes", "3", "--policy", "lustre")
    machine = costs.machine()
    try:
        rig.rig("latency", str(LATENCY))
        rig.rig("venv")
        text = page(machine, measure())
    finally:
        if not was_up:
            rig.rig("down")
    print(text)
    RESULT.write_text(text)


def measure() -> dict[str, list["rig.Measured"]]:
    """A row a way, a value a round."""
    trace, image = rig.WORK / "crowd.qtrace", rig.WORK / "crowd.qimg"
    rig.on(1, "mkdir", "-p", str(rig.WORK))
    rig.on(1, rig.QUELL, "record", "--force", "-o", str(trace), "--", *PROGRAM)
    rig.on(1, rig.QUELL, "pack", "--force", str(trace), "-o", str(image))
    packed = [rig.QUELL, "run", "--require", "--check", "none", str(image), "--", *PROGRAM]
    ways = {"plain": (PLAIN_NODE, PROGRAM), "from the image": (NODE, packed)}
    found: dict[str, list[rig.Measured]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (node, command) in ways.items():
            found[name].append(rig.Fixture.measure([node], command, processes=PROCESSES, cold=True))
            costs.wait_for_servers(image)
    return found


def page(machine: str, found: dict[str, list["rig.Measured"]]) -> str:
    lines = [
        f"# {PROCESSES} processes at once on a cold node",
        "",
        f"`import numpy` on a real shared file system at +{LATENCY} us, clients that cache as Lustre's do; medians (least to",
        f"most) of {ROUNDS} rounds, interleaved. Seconds until the last has ended; metadata operations by the server's counters.",
        f"{datetime.date.today()}, {machine}. Command: `bench/crowd.sh`.",
        "",
        "| | metadata operations | seconds |",
        "|---|---|---|",
    ]
    for name, rounds in found.items():
        operations = [measured.total for measured in rounds]
        seconds = [measured.seconds for measured in rounds]
        lines.append(
            f"| {name} | {statistics.median(operations):.0f} ({min(operations)} to {max(operations)}) "
            f"| {statistics.median(seconds):.1f} ({min(seconds):.1f} to {max(seconds):.1f}) |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
