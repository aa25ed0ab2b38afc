"""A file to all nodes of a job: `quell bcast`, and `cp` on each node, on a real shared file system.

The file server's counters tell the operations. The copies lie on the machine's disk, one for each node.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import harness
from harness import Result
from rivals import rig

LATENCY = 1000
SHARED = rig.SHARED / "broadcast"


def main() -> Result:
    nodes = list(range(1, int(harness.setting("NODES")) + 1))
    with harness.rig_up(len(nodes), LATENCY), tempfile.TemporaryDirectory(dir="/var/tmp") as local:
        place = Path(local)
        content = place / "content"
        content.mkdir()
        (content / "image").write_bytes(Path("/dev/urandom").open("rb").read(int(harness.setting("MEGABYTES")) << 20))
        rig.rig("fill", SHARED.name, str(content))
        try:
            return Result(page(measure(nodes, place), len(nodes)))
        finally:
            rig.on(1, "rm", "-rf", str(SHARED))


# Metadata operations, copies of the file that the server sent, and seconds.
Costs = tuple[int, float, float]


def measure(nodes: list[int], place: Path) -> dict[str, list[Costs]]:
    key = place / "key"
    key.write_text("of this measurement alone\n")
    key.chmod(0o600)
    peers = ",".join(f"10.71.1.{node}" for node in nodes)
    image, copies = SHARED / "image", place / "copies"
    spread = f"{rig.QUELL} -q bcast --peers {peers} --key {key} {image}"

    def start(command: str) -> Costs:
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir()
        script = f"exec {command} {copies}/$QUELL_RIG_NODE"
        sent = rig.bytes_sent()
        found = rig.Fixture.measure(nodes, ["sh", "-c", script], processes=1, cold=True)
        copies_sent = (rig.bytes_sent() - sent) / (place / "content/image").stat().st_size
        for node in nodes:
            subprocess.run(["cmp", str(copies / str(node)), str(place / "content/image")], check=True)
        return found.total, copies_sent, found.seconds

    ways = {"`quell bcast`": spread, "`cp` on each node": f"cp {image}"}
    return harness.interleaved({name: lambda command=command: start(command) for name, command in ways.items()})


def page(found: dict[str, list[Costs]], nodes: int) -> list[str]:
    lines = harness.head(
        f"A file to {nodes} nodes",
        f"{harness.setting('MEGABYTES')} MiB on a real shared file system at +{LATENCY} us; medians (least to most) of {harness.rounds()}",
        "rounds, interleaved. Seconds until the last node has it; metadata operations of all nodes by the server's counters; bytes that the",
        "server sent, in lengths of the file.",
    )
    lines += harness.table("", "metadata operations", "files sent", "seconds")
    for name, measured in found.items():
        operations, sent, seconds = zip(*measured, strict=True)
        lines.append(harness.row(name, harness.spread(operations, 0), harness.spread(sent), harness.spread(seconds)))
    return lines
