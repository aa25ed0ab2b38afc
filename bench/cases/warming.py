"""Cold start of a program on a real shared file system: plain, and plain after `quell warm`.

The programs are an import of numpy, scipy.stats and pandas, which opens a thousand files, and a start that calls stat as Julia's does and
opens four. Each round runs every way once on a node whose client has just been mounted. `beside` is `quell run` where /dev/fuse is of
no use: it runs the command plain and warms beside it.
"""

import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import harness
import julia
import shared_fs
from harness import QUELL, Result
from shared_fs import SHARED, WORK, Fixture, on, rig

NODE = 2
IMPORT = shared_fs.PROGRAM
JULIA = [julia.__file__, "start", str(SHARED / "julia")]
# The node has no /dev/fuse.
BARRED = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$@"', "sh"]
# A start on a warm client, over a cold one.
MOST_SECONDS = 1 / 5


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
        with tempfile.TemporaryDirectory() as local:
            subprocess.run([sys.executable, julia.__file__, "make", local], check=True)
            rig("fill", "julia", local)
        rig("cold")
        programs = {"import": IMPORT, "julia": JULIA}
        images = {name: packed(name, program) for name, program in programs.items()}
        table: dict[tuple[str, str], Samples] = {}
        for number in range(harness.rounds()):
            for name, program in programs.items():
                one_round(table, name, program, images[name])
            harness.talk(f"round {number + 1} of {harness.rounds()}")
        return page(table)


def packed(name: str, program: list[str]) -> Path:
    trace, image = WORK / f"warming-{name}.qtrace", WORK / f"warming-{name}.qimg"
    on(1, QUELL, "-q", "record", "--force", "-o", str(trace), "--", *program)
    on(1, QUELL, "-q", "pack", "--force", str(trace), "-o", str(image))
    return image


def one_round(table: dict[tuple[str, str], Samples], name: str, program: list[str], image: Path) -> None:
    start(table, (name, "plain, cold"), program)
    for case, subject in (("after `quell warm IMG`", image), ("after `quell warm TRACE`", image.with_suffix(".qtrace"))):
        warmed = Fixture.measure([NODE], [QUELL, "-q", "warm", str(subject)], cold=True)
        samples = start(table, (name, case), program, cold=False)
        samples.warming.append(warmed.seconds)
        samples.warming_operations.append(warmed.total)
    run = [*BARRED, QUELL, "-q", "run", "--mode", "mount", "--check", "none", str(image), "--"]
    start(table, (name, "beside `quell warm`"), [*run, *program])
    start(table, (name, "plain, again"), program, cold=False)


def start(table: dict[tuple[str, str], Samples], case: tuple[str, str], command: list[str], cold: bool = True) -> Samples:
    found = Fixture.measure([NODE], command, cold=cold)
    samples = table.setdefault(case, Samples())
    samples.start.append(found.seconds)
    samples.start_operations.append(found.total)
    return samples


def page(table: dict[tuple[str, str], Samples]) -> Result:
    lines = harness.head(
        "Plain starts on a client that `quell warm` has warmed",
        "`import numpy, scipy.stats, pandas`, and a start that calls stat as Julia's does; added round trip"
        f" {harness.setting('LATENCY')} us; {harness.rounds()} rounds,",
        "interleaved; medians (smallest to largest) of wall seconds; metadata operations by the server's own counters, reads of data left",
        "out; clients that cache as Lustre's do. The client was mounted just before, but for `again`. `beside` runs plain for want of FUSE.",
    )
    lines += harness.table("program", "case", "warming, s", "operations", "start, s", "operations", "both, s", "cold over start", "over both")
    budgets = []
    for (program, name), found in table.items():
        cold = statistics.median(table[program, "plain, cold"].start)
        median = statistics.median(found.start)
        warming = (harness.spread(found.warming), round(statistics.median(found.warming_operations))) if found.warming else ("", "")
        both = (harness.spread(found.both), f"{cold / statistics.median(found.both):.1f}") if found.warming else ("", "")
        operations = round(statistics.median(found.start_operations))
        lines.append(harness.row(program, name, *warming, harness.spread(found.start), operations, both[0], f"{cold / median:.1f}", both[1]))
        if found.warming:
            budgets.append((f"{program}, {name}: seconds of the start over a cold one", median / cold, MOST_SECONDS))
    judged = harness.budgets(*budgets)
    return Result([*lines, *judged.lines], judged.kept)
