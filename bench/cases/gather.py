"""Small files of 4 nodes with 8 processes each in one directory: plain on the rig, on the local disk, and by `quell run --gather`."""

import shutil
import tempfile
from pathlib import Path

import harness
from crowded import GATHERED, NODES, clear, counted, made, shared
from harness import QUELL, Result
from rivals import rig

PROCESSES = 8
PROGRAM = """
import os, sys
for number in range(int(sys.argv[2])):
    with open(f'{sys.argv[1]}/{os.uname().nodename}-{os.getpid()}-{number}', 'wb') as file: file.write(b'x' * 2000)
"""


def main() -> Result:
    local = Path(tempfile.mkdtemp(prefix="quell-bench-", dir="/var/tmp"))
    try:
        return measured(local)
    finally:
        shutil.rmtree(local)


def measured(local: Path) -> Result:
    each = -(-int(harness.setting("FILES")) // (NODES * PROCESSES))
    latency = harness.setting("LATENCY")
    lines = harness.head(
        "Small files in one directory",
        f"{NODES} nodes of the rig with {PROCESSES} processes each make {each} files of 2000 bytes a process, {NODES * PROCESSES * each} in all;",
        f"{latency} us added to a round trip. Operations are those that the master counted. Extraction is by one node, afterwards. The local disk",
        "has no server to ask.",
    )
    with harness.rig_up(NODES):
        rig.rig("latency", latency)
        files = NODES * PROCESSES * each
        program = ["python3", "-c", PROGRAM, "DIR", str(each)]
        ways = {
            "plain": lambda: counted(shared(), program, PROCESSES, files),
            "`--gather`": lambda: counted(shared(), [*GATHERED, *program], PROCESSES, NODES),
            "`gather extract`": lambda: extracted(shared(), program, files),
            "local disk": lambda: counted(local / "files", program, PROCESSES, files),
        }
        return Result([*lines, *harness.costs_of_ways(harness.interleaved(ways))])


def extracted(place: Path, program: list[str], files: int) -> rig.Measured:
    made(place, [*GATHERED, *program], PROCESSES)
    outcome = rig.Fixture.measure([1], [QUELL, "-q", "gather", "extract", str(place)])
    clear(place, files + NODES)
    return outcome
