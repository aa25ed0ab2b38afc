"""Nanoseconds of a warm call served from the image, beside ext4 and tmpfs: the least of all samples, interleaved.

The calls are on a 4 KiB file by its absolute path, four levels below the image's root. Needs a C compiler, and a local
disk below /var/tmp.
"""

import subprocess
import tempfile
from pathlib import Path

import harness
from harness import Result

# The most that a call from the image may take, as a ratio to the disk's.
LIMITS = {"stat": 1.6, "stat, absent": 1.6, "open, close": 2.0}


def main() -> Result:
    with (
        tempfile.TemporaryDirectory(prefix="quell-bench-warm-", dir="/var/tmp") as disk,
        tempfile.TemporaryDirectory(prefix="quell-bench-warm-", dir="/dev/shm") as memory,
    ):
        kind = file_system(disk)
        found = measure(Path(disk), Path(memory))
    lines = harness.head(
        "Warm calls",
        f"Nanoseconds, the least of {harness.rounds()} x 300 samples of 100 calls, interleaved. The disk's file system: {kind}.",
    )
    lines += harness.table("call", "disk", "image", "image of disk", "at most", "", "tmpfs")
    kept = True
    for call, disk_ns in found["disk"].items():
        image_ns, limit = found["image"][call], LIMITS.get(call)
        verdict = harness.verdict(image_ns / disk_ns, limit) if limit else ""
        kept = kept and verdict != "EXCEEDED"
        cells = [call, disk_ns, image_ns, f"{image_ns / disk_ns:.2f}", limit or "", verdict, found["memory"][call]]
        lines.append(harness.row(*cells))
    return Result(lines, kept)


def measure(disk: Path, memory: Path) -> dict[str, dict[str, int]]:
    directory = disk / "root/b/c/d/e"
    directory.mkdir(parents=True)
    for place in (directory, memory):
        (place / "f").write_bytes(bytes(4096))
    warm = str(disk / "warm")
    harness.run("cc", "-O2", "-o", warm, str(Path(__file__).with_name("warm.c")))
    # One look is enough: a directory whose names are polled stays the original.
    look = f"cat {directory}/f; test -e {directory}/absent || true"
    harness.quell("record", "-f", "-o", disk / "t.qtrace", "--", "sh", "-c", look)
    harness.quell("pack", "--force", disk / "t.qtrace", "--root", disk / "root", "-o", disk / "image")
    served = [harness.QUELL, "run", "--require", str(disk / "image"), "--"]
    if harness.run(*served, "stat", "-f", "-c", "%T", str(directory / "f")).strip() == file_system(str(directory)):
        harness.fail(f"the image does not serve `{directory}`")
    ways = {
        "disk": lambda: calls(warm, str(directory)),
        "image": lambda: calls(*served, warm, str(directory)),
        "memory": lambda: calls(warm, str(memory)),
    }
    return {name: least(found) for name, found in harness.interleaved(ways).items()}


def calls(*command: str) -> dict[str, int]:
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: int(value) for name, value in (line.split("\t") for line in output.splitlines())}


def least(rounds: list[dict[str, int]]) -> dict[str, int]:
    return {call: min(found[call] for found in rounds) for call in rounds[0]}


def file_system(path: str) -> str:
    return harness.run("stat", "-f", "-c", "%T", path).strip()
