"""A checkpoint loop of 4 KiB in pieces: by write(2), by the C library, by a preloaded library, and by `quell run --buffer`.

Every way writes the same file, on the local disk and on a node of the rig, whose master and chunkserver are a round trip away.
"""

import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import harness
from harness import QUELL, REPOSITORY, Result
from rivals import rig

SOURCES = REPOSITORY / "bench/buffer"


def main() -> Result:
    work = Path(tempfile.mkdtemp(prefix="quell-bench-", dir="/var/tmp"))
    work.chmod(0o755)
    try:
        harness.run("cc", "-O2", "-o", str(work / "checkpoint"), str(SOURCES / "checkpoint.c"))
        harness.run("cc", "-O2", "-shared", "-fPIC", "-o", str(work / "preload.so"), str(SOURCES / "preload.c"), "-ldl")
        return measured(work)
    finally:
        shutil.rmtree(work)


def measured(work: Path) -> Result:
    blocks, piece = harness.setting("BLOCKS"), harness.setting("PIECE")
    lines = harness.head(
        "Small writes, with and without buffers",
        f"One process writes {blocks} blocks of 4 KiB in pieces of {piece} bytes to one file and closes it. Seconds of the command: median,",
        "least and most. `asked` and `file system` are writes, as `--stats` counts them.",
    )
    places = {"local disk": (work / "out", [])}
    latency = harness.setting("LATENCY")
    if latency == "none":
        return Result([*lines, *page(work, places)])
    with harness.rig_up(1):
        rig.rig("latency", latency)
        places[f"rig, {latency} us"] = (Path("/mnt/quell-rig/bench-buffer"), [rig.RIG, "exec", "1", "--"])
        try:
            lines += page(work, places)
        finally:
            rig.on(1, "rm", "-rf", "/mnt/quell-rig/bench-buffer")
    return Result(lines)


def page(work: Path, places: dict[str, tuple[Path, list[str]]]) -> list[str]:
    lines = []
    for place, (out, on) in places.items():
        subprocess.run([*on, "mkdir", "-p", str(out)], check=True)
        found = harness.interleaved({name: lambda way=way: timed(work, out, on, way) for name, way in WAYS.items()})
        plain = statistics_of(found["write(2)"])
        lines += [f"## {place}", "", *harness.table("way", "seconds", "of plain", "asked", "file system")]
        for name, values in found.items():
            asked, reached = values[0][1:]
            ratio = statistics_of(values) / plain
            lines.append(harness.row(name, harness.spread([value[0] for value in values]), f"{ratio:.2f}", asked, reached))
        lines.append("")
    return lines[:-1]


WAYS = {
    "write(2)": ("raw", None, False),
    "stdio, 4 KiB": ("stdio", None, False),
    "preloaded library, 1 MiB": ("raw", None, True),
    "`--buffer OUT:private`": ("raw", "private", False),
    "`--buffer OUT:shared`": ("raw", "shared", False),
    "`--buffer OUT:private`, stdio": ("stdio", "private", False),
}


def statistics_of(values: list[tuple[float, str, str]]) -> float:
    return sorted(value[0] for value in values)[len(values) // 2]


def timed(work: Path, out: Path, on: list[str], way: tuple[str, str | None, bool]) -> tuple[float, str, str]:
    """Seconds of the loop, and writes that the server was asked for and that it made."""
    kind, options, is_preloaded = way
    stats = work / "stats.json"
    loop = [str(work / "checkpoint"), kind, str(out / "f"), harness.setting("BLOCKS"), harness.setting("PIECE")]
    buffered = [QUELL, "-q", "run", "--stats", str(stats), "--buffer", f"{out}:{options}", "--"] if options else []
    preload = ["env", f"LD_PRELOAD={work / 'preload.so'}"] if is_preloaded else []
    # The start of quell and of a command on the rig's node is none of it.
    inner = ["sh", "-c", 'date +%s%N; "$@"; date +%s%N', "sh", *preload, *loop]
    done = subprocess.run([*on, *buffered, *inner], check=True, capture_output=True, text=True)
    began, ended = done.stdout.split()[-2:]
    size = int(harness.setting("BLOCKS")) * 4096
    if int(subprocess.run([*on, "stat", "-c", "%s", str(out / "f")], check=True, capture_output=True, text=True).stdout) != size:
        harness.fail("the file is not whole")
    asked, reached = "", ""
    if options:
        counts = json.loads(stats.read_text())["buffer"][0]
        asked, reached = str(counts["asked"]["writes"]), str(counts["file_system"]["writes"])
    subprocess.run([*on, "rm", str(out / "f")], check=True)
    time.sleep(0.05)
    return (int(ended) - int(began)) / 1e9, asked, reached
