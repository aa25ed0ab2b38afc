"""The application of `bench/pynamic` from an image: size, touched pages, fall-through, memory and seconds.

Touched pages are counted without quell: the application lies on a disk without readahead, whose page cache then holds
after one cold run what was touched and nothing else.
"""

import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests/shared_fs"))
import costs  # noqa: E402
import shared_fs as rig  # noqa: E402
from disk import Disk, disk  # noqa: E402

SCALE = os.environ.get("SCALE", "full")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
PYTHON = "/usr/bin/python3"
WORK = Path(os.environ.get("QUELL_BENCH_DIR", "/var/tmp")) / f"quell-bench-pynamic-{os.getuid()}"
RESULT = REPOSITORY / "bench/results/pynamic.md"
NODE, PLAIN_NODE = 1, 2
LATENCY = 500
PAGE = 4096
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


def main() -> int:
    costs.begin(rig.QUELL)
    if WORK.exists():
        shutil.rmtree(WORK)
    WORK.mkdir(parents=True)
    try:
        lines, kept = measure()
    finally:
        shutil.rmtree(WORK)
    text = "\n".join(lines) + "\n"
    print(text)
    if SCALE == "full":
        RESULT.write_text(text)
    return 0 if kept else 1


def measure() -> tuple[list[str], bool]:
    began = costs.machine()
    with disk(WORK, 4096) as local:
        application = local.path / "application"
        generate(application)
        talk("counting touched pages")
        touched = touched_bytes(local, application)
        local.cold()
        image = local.path / "image"
        program = [PYTHON, str(application / "driver.py")]
        talk("recording and packing")
        calls = record_and_pack(application, program, image)
        size = image.stat().st_size
        stats = run_once(local, image, program)
        talk("starting on the local disk")
        seconds = local_starts(local, application, image, program)
        on_rig = [] if os.environ.get("RIG") == "0" else rig_starts(application)
    configuration = json.loads((WORK / "configuration.json").read_text())
    rows, kept = budgets(size, touched, stats)
    return [
        *head(began),
        *sizes(configuration, touched, size, stats),
        *rows,
        *counts(calls, configuration),
        *starts(seconds),
        *on_rig,
    ], kept


def generate(application: Path) -> None:
    talk("generating the application")
    run(sys.executable, "-B", str(REPOSITORY / "bench/pynamic/generate.py"), str(application), "--scale", SCALE)
    shutil.copyfile(application / "configuration.json", WORK / "configuration.json")


def touched_bytes(local: Disk, application: Path) -> int:
    """Bytes of the application that one cold run touches, by mapping or by reading."""
    local.cold(readahead_kib=0)
    files = [path for path in application.rglob("*") if path.is_file()]
    if costs.cached(files):
        raise SystemExit("pynamic.sh: the disk's cache is not empty after a remount")
    run(PYTHON, str(application / "driver.py"))
    return costs.cached(files)


def record_and_pack(application: Path, program: list[str], image: Path) -> dict[str, Any]:
    """Leaves the image; returns what the recording counted."""
    trace = WORK / "start.qtrace"
    run(rig.QUELL, "record", "--force", "-o", str(trace), "--", *program)
    run(rig.QUELL, "pack", "--force", str(trace), "--root", str(application), "-o", str(image))
    report: dict[str, Any] = json.loads(run(rig.QUELL, "report", "--json", str(trace)))
    return {row["name"]: row for row in report["syscalls"]}


def run_once(local: Disk, image: Path, program: list[str]) -> dict[str, Any]:
    """The statistics of a run."""
    local.cold()
    stats = WORK / "stats.json"
    run(rig.QUELL, "run", "--require", "--stats", str(stats), str(image), "--", *program)
    costs.wait_for_servers(image)
    found: dict[str, Any] = json.loads(stats.read_text())
    return found


def local_starts(local: Disk, application: Path, image: Path, program: list[str]) -> dict[str, Found]:
    """Plain and from the image, in turn."""
    files = [path for path in application.rglob("*") if path.is_file()]
    quell = [rig.QUELL, "run", "--require", "--check", "none", str(image), "--"]
    found = {name: Found([], []) for name in ("plain", "from the image")}
    for number in range(ROUNDS):
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
        talk(f"round {number + 1} of {ROUNDS}")
    return found


def rig_starts(application: Path) -> list[str]:
    """The same on a real shared file system: operations by its server's counters."""
    was_up = json.loads(rig.rig("status")).get("up", False)
    if not was_up:
        rig.rig("up", "--nodes", "2", "--policy", "lustre", "--latency", str(LATENCY))
    try:
        talk("filling the shared file system")
        rig.rig("latency", str(LATENCY))
        rig.rig("fill", "pynamic", str(application))
        return rig_table(rig.SHARED / "pynamic")
    finally:
        rig.on(NODE, "rm", "-rf", str(rig.SHARED / "pynamic"), str(rig.SHARED / "pynamic.work"))
        if not was_up:
            rig.rig("down")


def rig_table(application: Path) -> list[str]:
    work = rig.SHARED / "pynamic.work"
    program = [PYTHON, str(application / "driver.py")]
    trace, image = work / "start.qtrace", work / "image"
    rig.on(NODE, "mkdir", "-p", str(work))
    talk("recording and packing on the shared file system")
    rig.on(NODE, rig.QUELL, "record", "--force", "-o", str(trace), "--", *program)
    rig.on(NODE, rig.QUELL, "pack", "--force", str(trace), "-o", str(image))
    packed = [rig.QUELL, "run", "--require", "--check", "none", str(image), "--", *program]
    lines = [
        "",
        f"## On a real shared file system, +{LATENCY} us, one node, first process",
        "",
        "Metadata operations and reads by the server's own counters (clients that cache as Lustre's do); seconds of wall.",
        "",
        "| | metadata operations | reads | seconds |",
        "|---|---|---|---|",
    ]
    for name, node, command in (("plain", PLAIN_NODE, program), ("from the image", NODE, packed)):
        talk(f"starting on the shared file system, {name}")
        counted = json.loads(rig.rig("measure", str(node), "--cold", "--json", "--", *command))
        operations = counted["nodes"][0]["operations"]
        reads = operations.get("read", 0)
        if counted["nodes"][0]["processes"][0]["exit_status"]:
            raise SystemExit(f"pynamic.sh: the start {name} failed")
        lines.append(f"| {name} | {operations['total'] - reads} | {reads} | {counted['wall_seconds']:.1f} |")
    return lines


def head(machine: str) -> list[str]:
    return [
        "# The application of source 003 from an image",
        "",
        "497 shared libraries (280 Python extension modules, 215 utility libraries, 2 more), every function visited:",
        "`bench/pynamic/generate.py` writes them. Command: `bench/pynamic.sh`.",
        f"{datetime.date.today()}, {machine}, {version()}.",
        "",
    ]


def sizes(configuration: dict[str, Any], touched: int, size: int, stats: dict[str, Any]) -> list[str]:
    original = stats["original"]
    return [
        "## Sizes",
        "",
        "Touched: the page cache after one cold run on a disk without readahead. MB are 10^6 bytes.",
        "",
        "| | MB |",
        "|---|---|",
        f"| libraries ({configuration['libraries']}, {configuration['functions']} functions) | {mb(configuration['bytes'])} |",
        f"| touched by a run | {mb(touched)} |",
        f"| image | {mb(size)} |",
        f"| read from the image by a run | {mb(stats['image']['bytes_read'])} |",
        "",
        "Asked of the originals by a run: "
        + ", ".join(f"{name} {original[name]}" for name in ("lookup", "stat", "open", "readdir", "read", "write"))
        + ".",
    ]


def budgets(size: int, touched: int, stats: dict[str, Any]) -> tuple[list[str], bool]:
    rows = [
        ("image, MB", size / 1e6, MOST_IMAGE / 1e6),
        ("image of touched pages", size / touched, MOST_OF_TOUCHED),
        ("reads that fell through", stats["original"]["read"], 0),
    ]
    lines = ["", "| budget | | at most | |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {value:.5g} | {most:.5g} | {'kept' if value <= most else 'EXCEEDED'} |" for name, value, most in rows
    ]
    return lines, all(value <= most for _, value, most in rows)


def counts(calls: dict[str, Any], configuration: dict[str, Any]) -> list[str]:
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
    published = PUBLISHED[SCALE]
    both = f"{published['stats']} and {published['fstat']} of descriptors"
    return [
        "",
        "## System calls of one process, succeeded/failed",
        "",
        "| | here | Pynamic, measured by strace |",
        "|---|---|---|",
        *(f"| {name} | {value} | {both if name == 'stats' else published[name]} |" for name, value in rows.items()),
    ]


def starts(seconds: dict[str, Found]) -> list[str]:
    lines = [
        "",
        "## Starts on a local disk",
        "",
        f"Medians (least to most) of {ROUNDS} rounds, interleaved. First: nothing cached, the server's start included.",
        "Further: beside the first. Processor seconds are user and system; the server's are apart.",
        "",
        "| | first, s | processor s | server s | further, s | processor s |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in seconds.items():
        cells = [
            spread(found.first, lambda spent: spent.wall),
            spread(found.first, lambda spent: spent.cpu),
            spread(found.first, lambda spent: spent.server_cpu),
            spread(found.further, lambda spent: spent.wall),
            spread(found.further, lambda spent: spent.cpu),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "Memory after the first start, MB:", ""]
    lines += ["| | all that was charged to it | of that page cache | held |", "|---|---|---|---|"]
    for name, found in seconds.items():
        parts = ", ".join(f"{part} {mb(value)}" for part, value in (found.server or {}).items() if part in SHOWN)
        memory = [found.memory.all, found.memory.page_cache] if found.memory else []
        lines.append(f"| {name} | {' | '.join(map(mb, memory)) or ' | '} | {parts} |")
    return lines


SHOWN = ("Rss", "Pss", "Pss_Anon", "Pss_Shmem", "image in the page cache", "files in the page cache")


def spread(spent: Sequence[costs.Spent], of: Callable[[costs.Spent], float]) -> str:
    values = [of(one) for one in spent]
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def version() -> str:
    return run(rig.QUELL, "--version").strip()


def mb(count: float) -> str:
    return f"{count / 1e6:.1f}"


def run(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"`{' '.join(command[:3])} ...` ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout


def talk(text: str) -> None:
    print(f"pynamic: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
