"""Start-up of `import numpy, scipy.stats, pandas` on a real shared file system, in several ways, side by side.

Each round runs every way once, at each latency, so that a slow minute of the machine meets all ways alike. `first` is a
process on a node whose client has just been mounted; `further` is one beside another rank on the node. The local disk is
the base: with its page cache dropped for `first`, warm for `further`. Memory is measured apart, once a way.
"""

import contextlib
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import costs
import harness
import rivals
from harness import Result
from rivals import Way, rig


@dataclass
class Samples:
    """One value a round."""

    seconds: list[float] = field(default_factory=list)
    operations: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Memory:
    """Bytes on a node when its first process has ended and others may come."""

    way: Way
    charged: costs.Charged | None
    server: dict[str, int]


Table = dict[tuple[str, int], Samples]


def main() -> Result:
    with harness.rig_up(4):
        rig.rig("venv")
        try:
            ways = rivals.ways()
            return Result(page(measure(ways), [memory_of(way) for way in ways]))
        finally:
            rivals.remove()


def latencies() -> list[int]:
    return [int(word) for word in harness.words("LATENCIES")]


def measure(ways: list[Way]) -> Table:
    local = [rig.rig("venv", "--local").split()[-1] + "/bin/python", *rivals.CODE]
    table: Table = {}
    for number in range(harness.rounds()):
        for latency in latencies():
            rig.rig("latency", str(latency))
            for case, samples in one_round(local, ways):
                into = table.setdefault((case, latency), Samples())
                into.seconds += samples.seconds
                into.operations += samples.operations
                into.received += samples.received
        harness.talk(f"round {number + 1} of {harness.rounds()}")
    return table


def one_round(local: list[str], ways: list[Way]) -> Iterator[tuple[str, Samples]]:
    drop_page_cache()
    yield "local disk, first", Samples([wall(local)])
    yield "local disk, further", Samples([wall(local)])
    for way in ways:
        with undone(way):
            yield f"{way.name}, first", on_rig(way.node, [*way.first, *way.program], cold=True)
            with rig.Fixture.rank_on(way.node, way.image) if way.image else contextlib.nullcontext():
                yield f"{way.name}, further", on_rig(way.node, [*way.further, *way.program])


@contextlib.contextmanager
def undone(way: Way) -> Iterator[None]:
    """The way leaves nothing behind."""
    try:
        yield
    finally:
        if way.undo:
            rig.on(way.node, *way.undo)
        if way.image:
            costs.wait_for_servers(way.image)


def on_rig(node: int, command: list[str], cold: bool = False) -> Samples:
    if cold:
        rig.rig("cold", "--node", str(node))
    before = received(node)
    found = rig.Fixture.measure([node], command)
    return Samples([found.seconds], [found.total], [received(node) - before])


def received(node: int) -> int:
    """Bytes that came over the node's wire."""
    rows = rig.on(node, "cat", "/proc/net/dev").splitlines()[2:]
    return sum(int(row.split(":")[1].split()[0]) for row in rows if row.split(":")[0].strip() != "lo")


def memory_of(way: Way) -> Memory:
    """All that one node holds for the first process, when that has ended."""
    rig.rig("latency", "0")
    rig.rig("cold", "--node", str(way.node))
    if way.file:
        costs.evict(way.file)
    command = [rig.RIG, "exec", str(way.node), "--", *way.first]
    with undone(way), costs.MemoryGroup("quell-bench") as group:
        group.empty()
        with costs.started(group.command(command), way.program):
            pids = costs.servers(way.image) if way.image else named(way.server)
            found = Memory(way, group.charged(), costs.resident(pids))
    return found


def named(server: str) -> list[int]:
    """Processes of this name."""
    done = subprocess.run(["pgrep", "-x", server], stdout=subprocess.PIPE, text=True) if server else None
    return [int(word) for word in done.stdout.split()] if done else []


def wall(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True)
    return time.monotonic() - began


def drop_page_cache() -> None:
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3")


def page(table: Table, memory: list[Memory]) -> list[str]:
    lines = harness.head(
        "Start-up of a Python program on a real shared file system",
        f"`import numpy, scipy.stats, pandas`; {harness.rounds()} rounds, interleaved; medians (smallest to largest) of wall seconds;",
        "metadata operations by the server's own counters, reads of data left out, and MB that came over the node's wire;",
        "clients that cache as Lustre's do. Mounting and extracting are part of the first start.",
    )
    columns = "case", "added round trip, us", "seconds", "of the local disk", "metadata operations", "MB received"
    lines += harness.table(*columns)
    for case in dict.fromkeys(case for case, _ in table):
        lines += [row(table, case, latency) for latency in latencies()]
    lines += [
        "",
        "## Memory of a node",
        "",
        "MB when the first process has ended and others may come: all that the kernel charges to what was started there,",
        "of that the page cache, which it takes back when it needs room, and shared memory; and what the server has resident.",
        "The program's own memory is gone.",
        "",
        *harness.table("", "file, MB", "all", "page cache", "shared memory", "server, RSS", "PSS", "anonymous"),
        *map(memory_row, memory),
    ]
    return lines


def row(table: Table, case: str, latency: int) -> str:
    found, base = table[case, latency], table[f"local disk, {case.rsplit(' ', 1)[1]}", latency]
    ratio = statistics.median(found.seconds) / statistics.median(base.seconds)
    operations = round(statistics.median(found.operations)) if found.operations else ""
    received = f"{statistics.median(found.received) / 1e6:.1f}" if found.received else ""
    return harness.row(case, latency, harness.spread(found.seconds), f"{ratio:.2f}", operations, received)


def memory_row(found: Memory) -> str:
    def mb(value: int | None) -> str:
        return "" if value is None else f"{value / 1e6:.1f}"

    size = found.way.file.stat().st_size if found.way.file else None
    charged = found.charged
    memory = [charged.all, charged.page_cache, charged.shared] if charged else [None] * 3
    cells = map(mb, [size, *memory, *(found.server.get(name) for name in ("Rss", "Pss", "Pss_Anon"))])
    return harness.row(found.way.name, *cells)
