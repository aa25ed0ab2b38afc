"""From a file's arrival to a program's start, for one file that holds the whole program: see complete.sh.

Each round runs every way once, so that a slow minute of the machine meets all ways alike. The file is in the page cache, as
it is when it has just been written; the program's own directory does not exist before a way makes it.
"""

import datetime
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import costs

SMALL = "import numpy"
LARGE = "import numpy, scipy.stats, pandas"
RESULT = Path(__file__).resolve().parent / "results/complete.md"


class Bench:
    def __init__(self, quell: str, app: Path, work: Path) -> None:
        self.quell, self.app, self.work = quell, app, work
        self.python = str(app / "bin/python3")
        self.image = work / "app.qimg"
        self.plain = work / "plain.qimg"
        self.tar = work / "app.tar.zst"

    def prepare(self) -> None:
        trace = self.work / "app.qtrace"
        self.run(self.quell, "-q", "record", "-o", trace, "--", self.python, "-B", "-c", LARGE)
        pack = (self.quell, "-q", "pack", trace, "--root", self.app, "--add", self.app, "--complete", "-o")
        began = time.monotonic()
        self.run(*pack, self.image)
        self.packing = time.monotonic() - began
        self.run(*pack, self.plain, "--compress=no")
        self.run("tar", "-C", self.app.parent, "-c", "-I", "zstd -9 -T0", "-f", self.tar, self.app.name)
        shutil.rmtree(self.app)

    def run(self, *words: object) -> None:
        subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)

    def from_image(self, image: Path, code: str) -> tuple[float, float]:
        """Seconds to the program's exec, and to its end."""
        stats = self.work / "stats.json"
        began = time.monotonic()
        self.run(self.quell, "run", "--require", "--stats", stats, image, "--", self.python, "-B", "-c", code)
        wall = time.monotonic() - began
        while not stats.exists():
            time.sleep(0.01)
        return json.loads(stats.read_text())["seconds_to_exec"], wall

    def from_tar(self, code: str) -> tuple[float, float]:
        began = time.monotonic()
        self.run("tar", "-C", self.app.parent, "-x", "-I", "zstd -d", "-f", self.tar)
        extracted = time.monotonic() - began
        self.run(self.python, "-B", "-c", code)
        wall = time.monotonic() - began
        return extracted, wall

    def in_place(self, code: str) -> tuple[float, float]:
        """The same program in its place, after `from_tar`."""
        began = time.monotonic()
        self.run(self.python, "-B", "-c", code)
        return 0.0, time.monotonic() - began


def main() -> None:
    quell, app, work, rounds = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    machine = costs.machine()
    bench = Bench(quell, app, work)
    bench.prepare()
    table: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(rounds):
        for code in (SMALL, LARGE):
            for way, measure in (
                ("complete image, compressed", lambda: bench.from_image(bench.image, code)),
                ("complete image, plain", lambda: bench.from_image(bench.plain, code)),
                ("tar extracted", lambda: bench.from_tar(code)),
                ("already there", lambda: bench.in_place(code)),
            ):
                table.setdefault((code, way), []).append(measure())
            shutil.rmtree(app)
        print(f"complete.sh: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    text = page(bench, machine, rounds, table)
    print(text)
    RESULT.write_text(text)


def page(bench: Bench, machine: str, rounds: int, table: dict[tuple[str, str], list[tuple[float, float]]]) -> str:
    def megabytes(path: Path) -> str:
        return f"{path.stat().st_size / 1e6:.0f} MB"

    def spread(values: list[float]) -> str:
        return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"

    lines = [
        "# One file with the task",
        "",
        "A Python environment that exists on the node only as one file, which has just arrived (it is in the page cache).",
        f"The image holds all of it: {megabytes(bench.plain)} plain, {megabytes(bench.image)} compressed at the usual level in "
        f"{bench.packing:.0f} s; the archive (`tar`, `zstd -9`) has {megabytes(bench.tar)}.",
        f"{rounds} rounds, interleaved; medians (smallest to largest) of seconds. Ratios are of seconds to the end within one round,",
        "medians too. To exec: for tar, until everything is extracted to the node's disk.",
        f"{datetime.date.today()}, {machine}. Command: `bench/complete.sh`.",
        "",
        "| program | way | to exec | to its end | of tar's | of the plain image's |",
        "|---|---|---|---|---|---|",
    ]
    for (code, way), values in table.items():
        ends = [wall for _, wall in values]

        def ratio(other: str) -> str:
            others = [wall for _, wall in table[code, other]]
            return f"{statistics.median(a / b for a, b in zip(ends, others)):.2f}"

        starts = "" if way == "already there" else spread([start for start, _ in values])
        cells = (f"`{code}`", way, starts, spread(ends), ratio("tar extracted"), ratio("complete image, plain"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


main()
