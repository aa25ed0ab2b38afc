"""From the arrival of one file that holds a whole program to the program's start, on a node that has nothing else of it.

The file is in the page cache, as it is when it has just been written; the program's own directory does not exist before a
way makes it.
"""

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import harness
from harness import Result

SMALL = "import numpy"
LARGE = "import numpy, scipy.stats, pandas"
WAYS = ("complete image, compressed", "complete image, plain", "tar extracted", "already there")

# Seconds to the program's exec, and to its end.
Times = tuple[float, float]


class Application:
    """A Python environment below `place` that exists only as the files in `work`."""

    def __init__(self, place: Path, work: Path) -> None:
        self.app, self.work = place / "app", work
        self.python = str(self.app / "bin/python3")
        self.image, self.plain, self.tar = work / "app.qimg", work / "plain.qimg", work / "app.tar.zst"
        shutil.copytree(harness.numpy_environment(copies=True), self.app, symlinks=True)
        trace = work / "app.qtrace"
        harness.quell("-q", "record", "-o", trace, "--", self.python, "-B", "-c", LARGE)
        pack = ("-q", "pack", trace, "--root", self.app, "--add", self.app, "--complete", "-o")
        began = time.monotonic()
        harness.quell(*pack, self.image)
        self.packing = time.monotonic() - began
        harness.quell(*pack, self.plain, "--compress=no")
        harness.run("tar", "-C", str(place), "-c", "-I", "zstd -9 -T0", "-f", str(self.tar), self.app.name)
        shutil.rmtree(self.app)

    def start(self, way: str, code: str) -> Times:
        """Starts the program in one way."""
        program = [self.python, "-B", "-c", code]
        if way == "already there":
            return 0.0, wall(program)
        if way == "tar extracted":
            extracted = wall(["tar", "-C", str(self.app.parent), "-x", "-I", "zstd -d", "-f", str(self.tar)])
            return extracted, extracted + wall(program)
        stats = self.work / "stats.json"
        image = str(self.image if way.endswith("compressed") else self.plain)
        seconds = wall([harness.QUELL, "run", "--require", "--stats", str(stats), image, "--", *program])
        while not stats.exists():
            time.sleep(0.01)
        to_exec = json.loads(stats.read_text())["seconds_to_exec"]
        stats.unlink()
        return to_exec, seconds


def main() -> Result:
    with tempfile.TemporaryDirectory(prefix="quell-bench-", dir="/srv") as place, tempfile.TemporaryDirectory() as work:
        Path(place).chmod(0o755)
        application = Application(Path(place), Path(work))
        table: dict[tuple[str, str], list[Times]] = {}
        for number in range(harness.rounds()):
            for code in (SMALL, LARGE):
                for way in WAYS:
                    table.setdefault((code, way), []).append(application.start(way, code))
                shutil.rmtree(application.app)
            harness.talk(f"round {number + 1} of {harness.rounds()}")
        return Result(page(application, table))


def wall(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def page(application: Application, table: dict[tuple[str, str], list[Times]]) -> list[str]:
    plain, compressed, tar = (
        f"{file.stat().st_size / 1e6:.0f} MB" for file in (application.plain, application.image, application.tar)
    )
    lines = harness.head(
        "One file with the task",
        "A Python environment that exists on the node only as one file, which has just arrived (it is in the page cache).",
        f"The image holds all of it: {plain} plain, {compressed} compressed at the usual level in {application.packing:.0f} s; the",
        f"archive (`tar`, `zstd -9`) has {tar}. {harness.rounds()} rounds, interleaved; medians (smallest to largest) of seconds.",
        "Ratios are of seconds to the end within one round, medians too. To exec: for tar, until everything is extracted to the",
        "node's disk.",
    )
    lines += harness.table("program", "way", "to exec", "to its end", "of tar's", "of the plain image's")
    for (code, way), values in table.items():
        starts, ends = zip(*values)

        def ratio(other: str) -> str:
            others = [end for _, end in table[code, other]]
            return f"{statistics.median(a / b for a, b in zip(ends, others)):.2f}"

        to_exec = "" if way == "already there" else harness.spread(starts, 3)
        ratios = ratio("tar extracted"), ratio("complete image, plain")
        lines.append(harness.row(f"`{code}`", way, to_exec, harness.spread(ends, 3), *ratios))
    return lines
