"""Programs that make many files, in a scratch directory: plain on the rig, on the local disk, and by `quell run --scratch`."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import harness
from harness import QUELL, Result
from rivals import rig

TEMPORARY = """
import os, sys
for i in range(int(sys.argv[2])):
    name = f'{sys.argv[1]}/{os.getpid()}-{i}'
    with open(name, 'wb') as f: f.write(b'x' * 200)
    with open(name, 'rb') as f: f.read()
    os.remove(name)
"""
SAVING = """
import sys, numpy
a = numpy.arange(2000.0)
for i in range(int(sys.argv[2])): numpy.save(f'{sys.argv[1]}/{i}.npy', a)
"""


def main() -> Result:
    work = Path(tempfile.mkdtemp(prefix="quell-bench-", dir="/var/tmp"))
    work.chmod(0o755)
    try:
        return measured(work)
    finally:
        shutil.rmtree(work)


def programs(work: Path) -> dict[str, list[str]]:
    """Each program; the directory takes the place of `DIR`."""
    files = harness.setting("FILES")
    tree = work / "tree"
    tree.mkdir()
    for number in range(int(files)):
        (tree / f"file-{number}").write_bytes(b"y" * 2000)
    harness.run("tar", "cf", str(work / "tree.tar"), "-C", str(work), "tree")
    python = str(harness.numpy_environment() / "bin/python")
    return {
        f"create, write, read, remove, {files} files": ["python3", "-c", TEMPORARY, "DIR", files],
        f"numpy.save, {files} files": [python, "-c", SAVING, "DIR", files],
        f"tar x, {files} files": ["tar", "xf", str(work / "tree.tar"), "-C", "DIR"],
    }


def measured(work: Path) -> Result:
    latency = harness.setting("LATENCY")
    lines = harness.head(
        "Programs in a scratch directory",
        f"One process on a node of the rig, {latency} us added to a round trip. Operations are those that the master counted. The local disk",
        "has no server to ask.",
    )
    with harness.rig_up(1):
        rig.rig("latency", latency)
        shared, local = Path("/mnt/quell-rig/bench-scratch"), work / "local"
        for name, program in programs(work).items():
            def words(place: Path) -> list[str]:
                return [str(place) if word == "DIR" else word for word in program]

            ways = {
                "plain": lambda: counted(shared, words(shared)),
                "`--scratch`": lambda: counted(shared, [QUELL, "-q", "run", "--scratch", str(shared), "--", *words(shared)]),
                "local disk": lambda: counted(local, words(local)),
            }
            found = harness.interleaved(ways)
            lines += [f"## {name}", "", *harness.costs_of_ways(found), ""]
    return Result(lines[:-1])


def counted(place: Path, words: list[str]) -> rig.Measured:
    """One run in an empty directory."""
    on = [rig.RIG, "exec", "1", "--"]
    subprocess.run([*on, "sh", "-c", 'rm -rf "$1"; mkdir -p "$1"', "sh", str(place)], check=True)
    outcome = rig.Fixture.measure([1], words)
    subprocess.run([*on, "rm", "-rf", str(place)], check=True)
    return outcome
