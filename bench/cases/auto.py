"""Wall time that `quell run --auto` adds to a warm start over `quell run IMG`, for the same image.

Each round runs every case once. `rank 0` makes the node's namespace and compares the image with its originals; `alone` is a
process without a launcher; `plain` has QUELL_AUTO=0.
"""

import itertools
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import harness
from harness import QUELL, Result

# Milliseconds that --auto may add to the median.
BUDGET = 3.0
PAIRS = {"alone": "image, alone", "rank 0": "image, rank 0"}
# Looks at every file when it has an argument, and at none without.
PROGRAM = '#!/bin/sh\n[ $# = 0 ] || cat "$1"/*.py > /dev/null\n'

Times = dict[str, list[float]]


def main() -> Result:
    work = Path(tempfile.mkdtemp(prefix="quell-bench-", dir="/var/tmp"))
    try:
        return page(measure(work))
    finally:
        shutil.rmtree(work)


def measure(work: Path) -> Times:
    program, tree, cache = planted(work)
    auto = [QUELL, "run", "--auto", "--cache", str(cache), "--root", str(work / "app"), "--"]
    alone = {"PATH": "/usr/bin:/bin", "HOME": str(work)}
    subprocess.run([*auto, program, tree], check=True, env=alone)
    image = awaited(cache)
    run = [QUELL, "run", image, "--"]
    steps = itertools.count()

    def timed(words: list[str], further: dict[str, str]) -> float:
        return harness.timed([*words, program], {**alone, **further}, rest=0.03)

    ways = {
        "plain": lambda: timed(auto, {"QUELL_AUTO": "0"}),
        "image, alone": lambda: timed(run, {}),
        "alone": lambda: timed(auto, {}),
        "image, rank 0": lambda: timed(run, rank(next(steps))),
        "rank 0": lambda: timed(auto, rank(next(steps))),
    }
    return harness.interleaved(ways, warming=10)


def planted(work: Path) -> tuple[str, str, Path]:
    tree = work / "app/tree"
    tree.mkdir(parents=True)
    for number in range(int(harness.setting("FILES"))):
        (tree / f"{number}.py").write_text(f"value = {number}\n")
    program = work / "app/start"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return str(program), str(tree), work / "cache"


def awaited(cache: Path) -> str:
    """The image that the background makes."""
    for _ in range(600):
        for link in cache.glob("*/current"):
            if os.readlink(link).startswith("image-"):
                return str(link.parent / os.readlink(link))
        time.sleep(0.1)
    harness.fail("no image was made")
    raise AssertionError


def rank(step: int) -> dict[str, str]:
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": str(step), "SLURM_NTASKS": "2"}
    return {"SLURM_PROCID": "0", **job}


def page(measured: Times) -> Result:
    lines = ["| case | median ms | fastest | slowest |", "|---|---:|---:|---:|"]
    for case, times in measured.items():
        lines.append(f"| {case} | {statistics.median(times):.2f} | {min(times):.2f} | {max(times):.2f} |")
    lines.append("")
    kept = True
    for case, base in PAIRS.items():
        added = statistics.median(measured[case]) - statistics.median(measured[base])
        kept = kept and added <= BUDGET
        lines.append(f"`--auto` adds {added:.2f} ms to `run IMG` ({case}); the budget is {BUDGET} ms.")
    return Result(lines, kept)
