"""Start-up of `import numpy, scipy.stats, pandas`: wall seconds side by side, interleaved, medians.

Each round runs every case once, at each latency, so that a slow minute of the machine meets all cases alike. `first` is a
process on a node whose client has just been mounted; `further` is one beside another rank on the node. The local disk is
the base: with its page cache dropped for `first`, warm for `further`.
"""

import contextlib
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests/shared_fs"))
import shared_fs as rig  # noqa: E402

LATENCIES = (0, 500, 1000)
ROUNDS = int(os.environ.get("ROUNDS", "5"))
CODE = ["-c", "import numpy, scipy.stats, pandas"]
NODE, PLAIN_NODE = 2, 3
RESULT = REPOSITORY / "bench/results/run.md"

Seconds = dict[tuple[str, int], list[float]]
Counts = dict[tuple[str, int], list[int]]


def main() -> None:
    was_up = json.loads(rig.rig("status")).get("up", False)
    if not was_up:
        rig.rig("up", "--nodes", "4", "--policy", "lustre")
    try:
        measured = measure()
    finally:
        if not was_up:
            rig.rig("down")
    text = page(*measured)
    print(text)
    RESULT.write_text(text)


def measure() -> tuple[Seconds, Counts]:
    rig.rig("venv")
    local = [rig.rig("venv", "--local").split()[-1] + "/bin/python", *CODE]
    rig.on(1, "mkdir", "-p", str(rig.WORK))
    image = rig.Fixture.image("bench", {})
    copy = Path(os.environ.get("QUELL_RIG_DIR", "/var/tmp/quell-rig")) / "bench.qimg"
    copy.write_bytes(b"")
    rig.on(1, "cp", str(image), str(copy))
    copy.chmod(0o600)
    seconds: Seconds = {}
    counts: Counts = {}
    try:
        for number in range(ROUNDS):
            for latency in LATENCIES:
                rig.rig("latency", str(latency))
                for case, found, operations in one_round(local, image, copy):
                    seconds.setdefault((case, latency), []).append(found)
                    if operations is not None:
                        counts.setdefault((case, latency), []).append(operations)
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
    finally:
        copy.unlink()
    return seconds, counts


def one_round(local: list[str], image: Path, copy: Path) -> Iterator[tuple[str, float, int | None]]:
    drop_page_cache()
    yield "local disk, first", wall(local), None
    yield "local disk, further", wall(local), None
    yield "plain, first", *on_rig(PLAIN_NODE, rig.PROGRAM, cold=True)
    yield "plain, further", *on_rig(PLAIN_NODE, rig.PROGRAM)
    for name, path in (("image on the shared file system", image), ("image on the node", copy)):
        yield f"{name}, first", *on_rig(NODE, rig.Fixture.packed(path), cold=True)
        with rig.Fixture.rank_on(NODE, path):
            yield f"{name}, further", *on_rig(NODE, rig.Fixture.packed(path))
        settle()


def on_rig(node: int, command: list[str], cold: bool = False) -> tuple[float, int]:
    found = rig.Fixture.measure([node], command, cold=cold)
    return found.seconds, found.total


def wall(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True)
    return time.monotonic() - began


def drop_page_cache() -> None:
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3")


def settle() -> None:
    """The server of the last run ends when its last process has gone."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        time.sleep(0.3)


def page(seconds: Seconds, counts: Counts) -> str:
    cases = list(dict.fromkeys(case for case, _ in seconds))
    lines = [
        "# Start-up of a Python program on a real shared file system",
        "",
        f"`import numpy, scipy.stats, pandas`; {ROUNDS} rounds, interleaved; medians (smallest to largest) of wall seconds;",
        "metadata operations by the server's own counters, reads of data left out; clients that cache as Lustre's do.",
        f"{datetime.date.today()}, Linux {platform.release()}, {os.cpu_count()} cores. Command: `bench/run.sh`.",
        "",
        "| case | added round trip, us | seconds | of the local disk | metadata operations |",
        "|---|---|---|---|---|",
    ]
    for case in cases:
        base = f"local disk, {case.rsplit(' ', 1)[1]}"
        for latency in LATENCIES:
            values = seconds[case, latency]
            ratio = statistics.median(values) / statistics.median(seconds[base, latency])
            operations = counts.get((case, latency))
            lines.append(
                f"| {case} | {latency} | {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}) "
                f"| {ratio:.2f} | {'' if operations is None else round(statistics.median(operations))} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
