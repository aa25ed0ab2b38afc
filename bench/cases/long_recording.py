"""Memory of the recorder and disk of a recording, by the number of calls."""

import subprocess
import tempfile
import time
from pathlib import Path

import harness
from harness import Result

# Of both: memory is the same for any length, and disk while recording is so much a call.
MOST_MEMORY, MOST_DISK = 128 << 20, 100


def main() -> Result:
    calls = [int(number) for number in harness.words("CALLS")]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        work = Path(directory)
        loop = work / "stat_loop"
        harness.run("cc", "-O2", "-w", "-o", str(loop), str(harness.REPOSITORY / "crates/record/fixtures/stat_loop.c"))
        found = [measured(work, loop, number) for number in calls]
    lines = harness.head(
        "Memory and disk of a long recording",
        "A program that calls stat again and again, half of the names absent. Memory is the most of the recorder's process. Events lie in",
        "`spool` until the program has ended, and in Parquet files then.",
    )
    lines += harness.table("calls", "memory", "disk while recording", "trace", "bytes a call while recording")
    for number, (memory, most, left) in zip(calls, found, strict=True):
        lines.append(harness.row(f"{number:,}", *(f"{bytes / 2**20:.1f} MiB" for bytes in (memory, most, left)), f"{most / number:.0f}"))
    longest = found[-1]
    limits = harness.budgets(
        ("memory of the longest recording, MiB", longest[0] / 2**20, MOST_MEMORY / 2**20),
        ("bytes a call of the longest recording", longest[1] / calls[-1], MOST_DISK),
    )
    return Result([*lines, "", *limits.lines], limits.kept)


def measured(work: Path, loop: Path, calls: int) -> tuple[int, int, int]:
    """Bytes: most memory, most disk, disk at the end."""
    trace = work / "t.qtrace"
    recorder = subprocess.Popen([harness.QUELL, "-q", "record", "--force", "-o", str(trace), "--", str(loop), str(calls)])
    memory = most = 0
    while recorder.poll() is None:
        memory, most = max(memory, peak(recorder.pid)), max(most, size(trace))
        time.sleep(0.05)
    if recorder.returncode != 0:
        harness.fail("the recording failed")
    return memory, most, size(trace)


def peak(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:")), 0)


def size(directory: Path) -> int:
    total = 0
    for path in directory.glob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total
