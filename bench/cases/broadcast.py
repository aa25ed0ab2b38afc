"""A file to all nodes of a job, and a start from it, on a real shared file system whose server has a slow link.

Ways to copy it: `cp` on each node, a chain as `sbcast` has, a tree of whole copies, `quell bcast`. Ways to start from it: each node reads,
and peers. Beside them stand one node alone, and all nodes with a copy on the machine's disk, where nothing comes through the slow link: that is
the time which the machine's processors take. The file is an image; the file server's counters tell the operations.
"""

import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import harness
from harness import Result
from rivals import rig

LATENCY = 1000
SHARED = rig.SHARED / "broadcast"
RELAY = Path(__file__).resolve().parents[1] / "relay.py"
FILES = 64
# Of the whole job; names of the image and of the packed directory are looked up on each node besides.
IMAGES_MAX, OPERATIONS_MAX = 1.1, 20
# Of the start of one node alone. It is no budget: all nodes are on one machine.
START_MAX = 1.1
ALONE, READ, PEERS = "`quell run` on one node alone", "`quell run`, each node reads", "`quell run`, peers"
LOCAL = "`quell run`, a copy on each node's disk"


@dataclass(frozen=True)
class Costs:
    """Of one round: lookups, other metadata operations, lengths of the file that the server sent, seconds until the last node ended."""

    lookups: int
    operations: int
    sent: float
    seconds: float
    # Of a start: the slowest node's seconds to the command.
    start: float | None = None


def main() -> Result:
    nodes = list(range(1, int(harness.setting("NODES")) + 1))
    with harness.rig_up(len(nodes), LATENCY), tempfile.TemporaryDirectory(dir="/var/tmp") as local, slow_server():
        place = Path(local)
        place.chmod(0o755)
        content = place / "content"
        content.mkdir()
        bytes_of_file = (int(harness.setting("MEGABYTES")) << 20) // FILES
        for number in range(FILES):
            (content / f"{number}").write_bytes(Path("/dev/urandom").open("rb").read(bytes_of_file))
        rig.rig("fill", SHARED.name, str(content))
        try:
            return page(measure(nodes, place), len(nodes))
        finally:
            rig.on(1, "rm", "-rf", str(SHARED), str(rig.SHARED / "broadcast.qimg"))


class slow_server:
    """The file server's link sends so many megabytes a second."""

    def __enter__(self) -> None:
        rate = f"{8 * int(harness.setting('LINK'))}mbit"
        self._on_link("add", "root", "tbf", "rate", rate, "burst", "256kb", "latency", "200ms")

    def __exit__(self, *_: object) -> None:
        self._on_link("del", "root")

    @staticmethod
    def _on_link(verb: str, *rest: str) -> None:
        server = str(json.loads(rig.rig("status"))["processes"]["server"]["pid"])
        inside = ["nsenter", "--target", server, "--net"]
        links = json.loads(harness.run(*inside, "ip", "-json", "link", "show", "up"))
        name = next(link["ifname"] for link in links if link["ifname"] != "lo")
        harness.run(*inside, "tc", "qdisc", verb, "dev", name, *rest)


def measure(nodes: list[int], place: Path) -> dict[str, list[Costs]]:
    key, copies, stats = place / "key", place / "copies", place / "stats"
    key.write_text("of this measurement alone\n")
    key.chmod(0o600)
    image = packed(place)
    length = int(rig.on(1, "stat", "-c", "%s", str(image)))
    peers = ",".join(f"10.71.1.{node}" for node in nodes)
    jobs = iter(range(10**6))

    def costs(nodes: list[int], script: str) -> Costs:
        for directory in (copies, stats):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        for node in nodes:
            rig.on(node, "sh", "-c", "rm -f /dev/shm/quell-peers-*")
        sent, before = rig.bytes_sent(), lookups()
        found = rig.Fixture.measure(nodes, ["sh", "-c", script], processes=1, cold=True)
        seconds = [json.loads(file.read_text())["seconds_to_exec"] for file in stats.iterdir()]
        asked = lookups() - before
        return Costs(asked, found.total - asked, (rig.bytes_sent() - sent) / length, found.seconds, max(seconds, default=None))

    def copied(command: str) -> Costs:
        found = costs(nodes, f"exec {command} {copies}/$QUELL_RIG_NODE")
        for node in nodes:
            subprocess.run(["cmp", str(copies / str(node)), str(place / "image")], check=True)
        return found

    def started(nodes: list[int], flags: str, image: Path = image) -> Costs:
        # The variables of Open MPI, which starts a rank on each node.
        job = next(jobs)
        variables = {
            "OMPI_COMM_WORLD_RANK": "$((QUELL_RIG_NODE - 1))", "OMPI_COMM_WORLD_SIZE": str(len(nodes)), "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "PMIX_NAMESPACE": f"bench-{job}", "OMPI_MCA_orte_precondition_transports": f"{job:032x}",
            "OMPI_MCA_orte_hnp_uri": "'1.0;tcp://10.71.1.1:9'",
        }  # fmt: skip
        named = " ".join(f"{name}={value}" for name, value in variables.items())
        run = f"{rig.QUELL} -q run --require --check none --stats {stats}/$QUELL_RIG_NODE {flags} {image} -- sh -c 'cat {SHARED}/content/* | wc -c'"
        return costs(nodes, f"export {named}; exec {run}")

    ways: dict[str, Callable[[], Costs]] = {
        "`cp` on each node": lambda: copied(f"cp {image}"),
        "a tree of copies": lambda: copied(f"python3 {RELAY} tree {len(nodes)} {image}"),
        "a chain, as `sbcast`": lambda: copied(f"python3 {RELAY} chain {len(nodes)} {image}"),
        "`quell bcast`": lambda: copied(f"{rig.QUELL} -q bcast --peers {peers} --key {key} {image}"),
        ALONE: lambda: started(nodes[:1], ""),
        READ: lambda: started(nodes, "--peers off"),
        PEERS: lambda: started(nodes, ""),
        LOCAL: lambda: started(nodes, "--peers off", place / "image"),
    }
    return harness.interleaved(ways)


def lookups() -> int:
    return sum(node["operations"].get("lookup", 0) for node in json.loads(rig.rig("counters", "--json"))["nodes"])


def packed(place: Path) -> Path:
    """An image of the files, as a program uses them that reads all; and a copy of it on the machine's disk."""
    image, trace = rig.SHARED / "broadcast.qimg", place / "app.qtrace"
    rig.on(1, "mkdir", "-p", str(SHARED / "content"))
    rig.on(1, "sh", "-c", f"mv {SHARED}/[0-9]* {SHARED}/content")
    rig.on(1, rig.QUELL, "-q", "record", "-o", str(trace), "--", "sh", "-c", f"cat {SHARED}/content/* | wc -c")
    rig.on(1, rig.QUELL, "-q", "pack", str(trace), "--root", str(SHARED / "content"), "-o", str(image))
    rig.on(1, "cp", str(image), str(place / "image"))
    return image


def page(found: dict[str, list[Costs]], nodes: int) -> Result:
    first = statistics.median(costs.seconds for costs in found["`cp` on each node"])
    lines = harness.head(
        f"A file to {nodes} nodes",
        f"An image of {harness.setting('MEGABYTES')} MiB on a real shared file system at +{LATENCY} us, whose server sends {harness.setting('LINK')} MB/s; medians",
        f"(least to most) of {harness.rounds()} rounds, interleaved. Lookups of names and other metadata operations of all nodes by the server's counters; bytes that it sent, in",
        "lengths of the file; seconds until the last node has the file, or has run a program that reads all of it; seconds to the",
        f"command on the slowest node. All nodes are on one machine, whose processors and one wire carry what they send each other. A start with\n"
        f"peers may send {IMAGES_MAX} images and ask {OPERATIONS_MAX} operations besides lookups.",
    )
    lines += harness.table("", "lookups", "other operations", "files sent", "seconds", "of `cp`'s", "seconds to the command")
    for name, measured in found.items():
        starts = [costs.start for costs in measured if costs.start is not None]
        seconds = [costs.seconds for costs in measured]
        lines.append(harness.row(
            name, harness.spread([costs.lookups for costs in measured], 0), harness.spread([costs.operations for costs in measured], 0), harness.spread([costs.sent for costs in measured]),
            harness.spread(seconds), f"{statistics.median(seconds) / first:.2f}", harness.spread(starts) if starts else "",
        ))  # fmt: skip

    def median(name: str, value: Callable[[Costs], float]) -> float:
        return statistics.median(value(costs) for costs in found[name])

    def start(name: str) -> float:
        return median(name, lambda costs: costs.start or 0)

    images, operations = median(PEERS, lambda costs: costs.sent), median(PEERS, lambda costs: costs.operations)
    lines += [
        "",
        f"With peers: {images:.2f} images, {operations:.0f} operations besides lookups. The slowest start of {nodes} nodes takes {start(PEERS) / start(ALONE):.1f} times that of one node alone",
        f"(aim: {START_MAX}); {start(LOCAL) / start(ALONE):.1f} times with a copy on each node's disk, and {start(READ) / start(ALONE):.1f} times where each node reads.",
    ]
    return Result(lines, images <= IMAGES_MAX and operations <= OPERATIONS_MAX)
