"""Many processes at once on one cold node: the server's counts, and the time until the last process has ended.

The program is `import numpy`: small, so that 128 of them on a few cores still wait for the file system and not only for
a core.
"""


import costs
import harness
from harness import Result
from rivals import NODE, PLAIN_NODE, rig

LATENCY = 500
PROGRAM = [rig.PROGRAM[0], "-c", "import numpy"]


def main() -> Result:
    with harness.rig_up(3, LATENCY):
        rig.rig("venv")
        return Result(page(measure()))


def measure() -> dict[str, list["rig.Measured"]]:
    """A row a way, a value a round."""
    trace, image = rig.WORK / "crowd.qtrace", rig.WORK / "crowd.qimg"
    rig.on(1, "mkdir", "-p", str(rig.WORK))
    rig.on(1, rig.QUELL, "record", "--force", "-o", str(trace), "--", *PROGRAM)
    rig.on(1, rig.QUELL, "pack", "--force", str(trace), "-o", str(image))
    packed = [rig.QUELL, "run", "--require", "--check", "none", str(image), "--", *PROGRAM]
    ways = {"plain": (PLAIN_NODE, PROGRAM), "from the image": (NODE, packed)}

    def start(node: int, command: list[str]) -> "rig.Measured":
        found = rig.Fixture.measure([node], command, processes=int(harness.setting("PROCESSES")), cold=True)
        costs.wait_for_servers(image)
        return found

    return harness.interleaved({name: lambda way=way: start(*way) for name, way in ways.items()})


def page(found: dict[str, list["rig.Measured"]]) -> list[str]:
    lines = harness.head(
        f"{harness.setting('PROCESSES')} processes at once on a cold node",
        f"`import numpy` on a real shared file system at +{LATENCY} us, clients that cache as Lustre's do; medians (least to",
        f"most) of {harness.rounds()} rounds, interleaved. Seconds until the last has ended; metadata operations by the server's",
        "counters.",
    )
    return [*lines, *harness.costs_of_ways(found)]
