"""Cold start of `import numpy, scipy.stats, pandas` on a real shared file system: plain, and plain after `quell warm`.

Each round runs every way once on a node whose client has just been mounted. `beside` is `quell run` where namespaces are barred: it
runs the command plain and warms beside it.
"""

import statistics
from dataclasses import dataclass, field
from pathlib import Path

import harness
from harness import QUELL, Result
from shared_fs import PROGRAM, WORK, Fixture, on, rig

NODE = 2
# The plain start on a warm client, and the fraction of a cold one that is waiting for the file system.
FASTER = 5.0
BARRED = ["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh"]


@dataclass
class Samples:
    """One value a round: of the warming where there is one, and of the start."""

    warming: list[float] = field(default_factory=list)
    warming_operations: list[int] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    start_operations: list[int] = field(default_factory=list)

    @property
    def both(self) -> list[float]:
        return [sum(pair) for pair in zip(self.warming or [0.0] * len(self.start), self.start)]


def main() -> Result:
    with harness.rig_up(4, int(harness.setting("LATENCY"))):
        rig("venv")
        on(1, "mkdir", "-p", str(WORK))
        image = Fixture.image("warming", {})
        return page(measure(image, image.with_suffix(".qtrace")))


def measure(image: Path, trace: Path) -> dict[str, Samples]:
    table: dict[str, Samples] = {}
    warm = {"after `quell warm IMG`": image, "after `quell warm TRACE`": trace, "after `quell warm DIR`": Path(PROGRAM[0]).parents[1]}
    for number in range(harness.rounds()):
        start(table, "plain, cold")
        for name, subject in warm.items():
            warmed = Fixture.measure([NODE], [QUELL, "-q", "warm", str(subject)], cold=True)
            samples = start(table, name, cold=False)
            samples.warming.append(warmed.seconds)
            samples.warming_operations.append(warmed.total)
        start(table, "plain, again", cold=False)
        start(table, "beside `quell warm`", [*BARRED, QUELL, "-q", "run", "--check", "none", str(image), "--"])
        harness.talk(f"round {number + 1} of {harness.rounds()}")
    return table


def start(table: dict[str, Samples], name: str, before: list[str] | None = None, cold: bool = True) -> Samples:
    found = Fixture.measure([NODE], [*(before or []), *PROGRAM], cold=cold)
    samples = table.setdefault(name, Samples())
    samples.start.append(found.seconds)
    samples.start_operations.append(found.total)
    return samples


def page(table: dict[str, Samples]) -> Result:
    lines = harness.head(
        "Plain start of a Python program on a client that `quell warm` has warmed",
        f"`import numpy, scipy.stats, pandas`; added round trip {harness.setting('LATENCY')} us; {harness.rounds()} rounds, interleaved;",
        "medians (smallest to largest) of wall seconds; metadata operations by the server's own counters, reads of data left out;",
        "clients that cache as Lustre's do. The client was mounted just before, but for `again`.",
    )
    lines += harness.table("case", "warming, s", "operations", "start, s", "operations", "both, s")
    for name, found in table.items():
        warming = (harness.spread(found.warming), round(statistics.median(found.warming_operations))) if found.warming else ("", "")
        both = harness.spread(found.both) if found.warming else ""
        lines.append(harness.row(name, *warming, harness.spread(found.start), round(statistics.median(found.start_operations)), both))
    return Result(lines)
