"""The application of `bench/pynamic` from an image: size, touched pages, fall-through, memory and seconds.

Touched pages are counted without quell: the application lies on a disk without readahead, whose page cache then holds
after one cold run what was touched and nothing else.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import costs
import harness
from disk import Disk, disk
from harness import QUELL, Result, run, talk
from rivals import rig

PYTHON = "/usr/bin/python3"
GENERATE = harness.REPOSITORY / "bench/pynamic/generate.py"
NODE, PLAIN_NODE = 1, 2
LATENCY = 500
MOST_IMAGE, MOST_OF_TOUCHED = 500e6, 1.1
# Counts of Pynamic itself in the same configuration, ok and failed, and by its own start alone: facts of 2026-11-20.
PUBLISHED = {
    "small": {"opens": "164/48", "stats": "329/74", "fstat": "223", "reads": "208", "maps": "358", "listings": "24"},
    "full": {"opens": "589/48", "stats": "809/74", "fstat": "648", "reads": "637", "maps": "2058", "listings": "26"},
}


@dataclass
class Found:
    """The cost of one kind of start: a median of rounds, and memory of the last."""

    first: list[costs.Spent]
    further: list[costs.Spent]
    memory: costs.Charged | None = None
    server: dict[str, int] | None = None


def main() -> Result:
    with tempfile.TemporaryDirectory(prefix="quell-bench-pynamic-", dir=harness.setting("BENCH_DIR")) as directory:
        return measure(Path(directory))


def measure(work: Path) -> Result:
    with disk(work, 4096) as local:
        application, image = local.path / "application", local.path / "image"
        talk("generating the application")
        run(sys.executable, "-B", str(GENERATE), str(application), "--scale", harness.setting("SCALE"))
        configuration = json.loads((application / "configuration.json").read_text())
        talk("counting touched pages")
        touched = touched_bytes(local, application)
        local.cold()
        program = [PYTHON, str(application / "driver.py")]
        talk("recording and packing")
        calls = record_and_pack(work, application, program, image)
        size = image.stat().st_size
        stats = run_once(work, local, image, program)
        talk("starting on the local disk")
        seconds = local_starts(local, application, image, program)
        on_rig = [] if harness.setting("RIG") == "0" else rig_starts(application)
    limits = harness.budgets(
        ("image, MB", size / 1e6, MOST_IMAGE / 1e6),
        ("image of touched pages", size / touched, MOST_OF_TOUCHED),
        ("reads that fell through", stats["original"]["read"], 0),
    )
    top = harness.head(
        "The application of source 003 from an image",
        f"{configuration['libraries']} shared libraries, every function visited: `bench/pynamic/generate.py` compiles them.",
    )
    lines = [*top, *sizes(configuration, touched, size, stats), *limits.lines, *counts(calls), *starts(seconds), *on_rig]
    return Result(lines, limits.kept)


def touched_bytes(local: Disk, application: Path) -> int:
    """Bytes of the application that one cold run touches, by mapping or by reading."""
    local.cold(readahead_kib=0)
    files = [path for path in application.rglob("*") if path.is_file()]
    if costs.cached(files):
        harness.fail("the disk's cache is not empty after a remount")
    run(PYTHON, str(application / "driver.py"))
    return costs.cached(files)


def record_and_pack(work: Path, application: Path, program: list[str], image: Path) -> dict[str, Any]:
    """Leaves the image; returns what the recording counted."""
    trace = work / "start.qtrace"
    run(QUELL, "record", "--force", "-o", str(trace), "--", *program)
    run(QUELL, "pack", "--force", str(trace), "--root", str(application), "-o", str(image))
    report: dict[str, Any] = json.loads(run(QUELL, "report", "--json", str(trace)))
    return {row["name"]: row for row in report["syscalls"]}


def run_once(work: Path, local: Disk, image: Path, program: list[str]) -> dict[str, Any]:
    """The statistics of a run."""
    local.cold()
    stats = work / "stats.json"
    run(QUELL, "run", "--require", "--stats", str(stats), str(image), "--", *program)
    costs.wait_for_servers(image)
    found: dict[str, Any] = json.loads(stats.read_text())
    return found


def local_starts(local: Disk, application: Path, image: Path, program: list[str]) -> dict[str, Found]:
    """Plain and from the image, in turn."""
    files = [path for path in application.rglob("*") if path.is_file()]
    quell = [QUELL, "run", "--require", "--check", "none", str(image), "--"]
    found = {name: Found([], []) for name in ("plain", "from the image")}
    for number in range(harness.rounds()):
        for name, command, served in (("plain", [], None), ("from the image", quell, image)):
            local.cold()
            with costs.MemoryGroup("quell-bench") as group:
                with costs.started(group.command(command), program, served) as first:
                    found[name].first.append(first.spent)
                    found[name].memory = group.charged()
                    if served:
                        found[name].server = costs.resident(costs.servers(image))
                        found[name].server |= {"image in the page cache": costs.cached([image])}
                    else:
                        found[name].server = {"files in the page cache": costs.cached(files)}
                    with costs.started(command, program) as further:
                        found[name].further.append(further.spent)
        talk(f"round {number + 1} of {harness.rounds()}")
    return found


def rig_starts(application: Path) -> list[str]:
    """The same on a real shared file system: operations by its server's counters."""
    with harness.rig_up(2, LATENCY):
        try:
            talk("filling the shared file system")
            rig.rig("fill", "pynamic", str(application))
            return rig_table(rig.SHARED / "pynamic")
        finally:
            rig.on(NODE, "rm", "-rf", str(rig.SHARED / "pynamic"), str(rig.SHARED / "pynamic.work"))


def rig_table(application: Path) -> list[str]:
    work = rig.SHARED / "pynamic.work"
    program = [PYTHON, str(application / "driver.py")]
    trace, image = work / "start.qtrace", work / "image"
    rig.on(NODE, "mkdir", "-p", str(work))
    talk("recording and packing on the shared file system")
    rig.on(NODE, QUELL, "record", "--force", "-o", str(trace), "--", *program)
    rig.on(NODE, QUELL, "pack", "--force", str(trace), "-o", str(image))
    packed = [QUELL, "run", "--require", "--check", "none", str(image), "--", *program]
    lines = [
        "",
        f"## On a real shared file system, +{LATENCY} us, one node, first process",
        "",
        "Metadata operations and reads by the server's own counters (clients that cache as Lustre's do); seconds of wall.",
        "",
        *harness.table("", "metadata operations", "reads", "seconds"),
    ]
    for name, node, command in (("plain", PLAIN_NODE, program), ("from the image", NODE, packed)):
        talk(f"starting on the shared file system, {name}")
        counted = json.loads(rig.rig("measure", str(node), "--cold", "--json", "--", *command))
        operations = counted["nodes"][0]["operations"]
        reads = operations.get("read", 0)
        if counted["nodes"][0]["processes"][0]["exit_status"]:
            harness.fail(f"the start {name} failed")
        lines.append(harness.row(name, operations["total"] - reads, reads, f"{counted['wall_seconds']:.1f}"))
    return lines


def sizes(configuration: dict[str, Any], touched: int, size: int, stats: dict[str, Any]) -> list[str]:
    original = stats["original"]
    return [
        "## Sizes",
        "",
        "Touched: the page cache after one cold run on a disk without readahead. MB are 10^6 bytes.",
        "",
        *harness.table("", "MB"),
        f"| libraries ({configuration['libraries']}, {configuration['functions']} functions) | {mb(configuration['bytes'])} |",
        f"| touched by a run | {mb(touched)} |",
        f"| image | {mb(size)} |",
        f"| read from the image by a run | {mb(stats['image']['bytes_read'])} |",
        "",
        "Asked of the originals by a run: "
        + ", ".join(f"{name} {original[name]}" for name in ("lookup", "stat", "open", "readdir", "read", "write"))
        + ".",
    ]


def counts(calls: dict[str, Any]) -> list[str]:
    """The calls of one plain process, beside those of the program that this one imitates."""

    def ok_and_failed(*names: str) -> tuple[int, int]:
        rows = [calls[name] for name in names if name in calls]
        failed = sum(row["errors"] for row in rows)
        return sum(row["calls"] for row in rows) - failed, failed

    opens, failed_opens = ok_and_failed("open", "openat")
    stats, failed_stats = ok_and_failed("stat", "lstat", "newfstatat", "statx", "access", "faccessat2")
    rows = {
        "opens": f"{opens}/{failed_opens}",
        "stats": f"{stats}/{failed_stats}",
        "reads": str(sum(ok_and_failed("read", "pread64"))),
        "maps": str(sum(ok_and_failed("mmap"))),
        "listings": str(sum(ok_and_failed("getdents64"))),
    }
    published = PUBLISHED[harness.setting("SCALE")]
    both = f"{published['stats']} and {published['fstat']} of descriptors"
    return [
        "",
        "## System calls of one process, succeeded/failed",
        "",
        *harness.table("", "here", "Pynamic, measured by strace"),
        *(harness.row(name, value, both if name == "stats" else published[name]) for name, value in rows.items()),
    ]


def starts(seconds: dict[str, Found]) -> list[str]:
    lines = [
        "",
        "## Starts on a local disk",
        "",
        f"Medians (least to most) of {harness.rounds()} rounds, interleaved. First: nothing cached, the server's start included.",
        "Further: beside the first. Processor seconds are user and system; the server's are apart.",
        "",
        *harness.table("", "first, s", "processor s", "server s", "further, s", "processor s"),
    ]
    for name, found in seconds.items():
        first = [spread(found.first, part) for part in ("wall", "cpu", "server_cpu")]
        further = [spread(found.further, part) for part in ("wall", "cpu")]
        lines.append(harness.row(name, *first, *further))
    lines += ["", "Memory after the first start, MB:", ""]
    lines += harness.table("", "all that was charged to it", "of that page cache", "held")
    for name, found in seconds.items():
        parts = ", ".join(f"{part} {mb(value)}" for part, value in (found.server or {}).items() if part in SHOWN)
        memory = [mb(found.memory.all), mb(found.memory.page_cache)] if found.memory else ["", ""]
        lines.append(harness.row(name, *memory, parts))
    return lines


SHOWN = ("Rss", "Pss", "Pss_Anon", "Pss_Shmem", "image in the page cache", "files in the page cache")


def spread(spent: Sequence[costs.Spent], part: str) -> str:
    return harness.spread([getattr(one, part) for one in spent])


def mb(count: float) -> str:
    return f"{count / 1e6:.1f}"
