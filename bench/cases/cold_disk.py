"""First starts on a cold local disk, by bytes: libraries that are mapped and touched page by page, plain and from the image.

Page cache is dropped for the files concerned alone. Each start runs in real time before all others of the machine, so that what
else runs there waits.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import costs
import harness
from disk import Disk, disk
from harness import QUELL, Result, run, talk

PYTHON = "/usr/bin/python3"
LIBRARY = 4 << 20
MOST_OF_PLAIN = 1.05
READAHEAD_KIB = (128, 4096)

# Functions of a library call each other across its pages: not in their order.
PROGRAM = """\
import mmap, os, sys, time
began, total = time.monotonic(), 0
for name in sorted(os.listdir(sys.argv[1])):
    with open(os.path.join(sys.argv[1], name), "rb") as file:
        pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        for first in range(7):
            for at in range(4096 * first, len(pages), 7 * 4096):
                total += pages[at]
print(time.monotonic() - began)
"""


def main() -> Result:
    mebibytes = int(harness.setting("MB"))
    with tempfile.TemporaryDirectory(prefix="quell-bench-cold-", dir=harness.setting("BENCH_DIR")) as directory:
        with disk(Path(directory), 3 * mebibytes + 300) as local:
            return measure(Path(directory), local, mebibytes)


def measure(work: Path, local: Disk, mebibytes: int) -> Result:
    application, script, image = local.path / "application", local.path / "program.py", local.path / "image"
    application.mkdir()
    script.write_text(PROGRAM)
    for number in range(mebibytes * (1 << 20) // LIBRARY):
        (application / f"library{number:04}.so").write_bytes(os.urandom(LIBRARY))
    program = [PYTHON, str(script), str(application)]
    trace = work / "start.qtrace"
    run(QUELL, "record", "--force", "-o", str(trace), "--", *program)
    run(QUELL, "pack", "--force", str(trace), "--root", str(application), "-o", str(image))
    files = [image, script, *application.iterdir()]
    packed = [QUELL, "run", "--require", "--check", "none", str(image), "--"]
    ways: dict[str, list[str]] = {"plain": [], "from the image": packed, "from the image, its file cached": packed}
    lines, ratios = [], []
    for readahead in READAHEAD_KIB:
        queue = Path(f"/sys/block/{Path(local.device).name}/queue/read_ahead_kb")
        queue.write_text(str(readahead))
        found: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for number in range(harness.rounds()):
            for way, command in ways.items():
                costs.wait_for_servers(image)
                forget(files)
                if way.endswith("cached"):
                    image.read_bytes()
                found[way].append(start(local, command, program))
            talk(f"readahead {readahead} KiB, round {number + 1} of {harness.rounds()}")
        plain = statistics.median([seconds for seconds, _ in found["plain"]])
        for way, starts in found.items():
            seconds = [one for one, _ in starts]
            ratio = statistics.median(seconds) / plain
            reads = statistics.median([count for _, count in starts])
            lines.append(harness.row(readahead, way, harness.spread(seconds), f"{ratio:.2f}", f"{reads:.0f}"))
            if way == "from the image":
                ratios.append((f"readahead {readahead} KiB, from the image over plain", ratio, MOST_OF_PLAIN))
    costs.wait_for_servers(image)
    top = harness.head(
        "First starts on a cold local disk",
        f"{mebibytes} MiB of libraries, mapped, each page touched; page cache of the files dropped; real-time priority.",
    )
    table = harness.table("readahead, KiB", "", "seconds in the program", "of plain", "reads of the disk")
    limits = harness.budgets(*ratios)
    return Result([*top, *table, *lines, *limits.lines], limits.kept)


def forget(files: list[Path]) -> None:
    """Drops the pages of these files, and waits until a server of an earlier start has let go of them."""
    for _ in range(100):
        for path in files:
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if not costs.cached(files):
            return
        time.sleep(0.1)
    harness.fail("the page cache keeps files of the bench")


def start(local: Disk, command: list[str], program: list[str]) -> tuple[float, float]:
    """Seconds in the program, and reads of the disk."""
    before = reads(local)
    seconds: Any = run("chrt", "-f", "20", *command, *program)
    return float(seconds), reads(local) - before


def reads(local: Disk) -> int:
    return int(Path(f"/sys/block/{Path(local.device).name}/stat").read_text().split()[0])
