"""Wall and processor seconds and peak memory of `quell predict`, by what the kernel says of the ended process."""

import json
import statistics
import tempfile
from pathlib import Path

import costs
import harness
from harness import Result

# 100 000 ranks.
NODES, PROCESSES = 12_500, 8
# Directories of a search path, and libraries that are looked for on it: 10 000 operations and more.
SHAPE = ["--entries", "200", "--names", "180"]
WAYS = {"range of 100 runs": [], "one run": ["--samples", "1"]}
MOST_SECONDS, MOST_MIB = 1.0, 500.0


def main() -> Result:
    with tempfile.TemporaryDirectory(prefix="quell-bench-") as directory:
        trace = Path(directory) / "t.qtrace"
        harness.quell("--quiet", "synth", "search-path", *SHAPE, "-o", trace)
        calls = json.loads((trace / "header.json").read_text())["recorder"]["events"]
        # `lustre` keeps names for a job's life; clients of the others forget some during a slow start, which takes replays.
        ways = {
            (profile, way): lambda profile=profile, way=way: predict(trace, profile, WAYS[way])
            for profile in harness.words("PROFILES")
            for way in WAYS
        }
        spent = harness.interleaved(ways)
    lines = harness.head(
        "What a prediction costs",
        f"`quell predict` of a start of {calls:,} operations on {NODES * PROCESSES:,} ranks ({NODES:,} nodes x {PROCESSES}), reading the trace and writing",
        f"JSON included; medians of {harness.rounds()} interleaved rounds.",
    )
    lines += harness.table("profile", "way", "wall s", "CPU s", "peak MiB")
    wall, mib = 0.0, 0.0
    for (profile, way), own in spent.items():
        seconds, cpu, memory = (statistics.median(getattr(one, name) for one in own) for name in ("wall", "cpu", "memory"))
        lines.append(harness.row(profile, way, f"{seconds:.2f}", f"{cpu:.2f}", f"{memory / 2**20:.0f}"))
        wall, mib = max(wall, seconds), max(mib, memory / 2**20)
    limits = harness.budgets(("wall seconds", wall, MOST_SECONDS), ("peak MiB", mib, MOST_MIB))
    return Result(lines + limits.lines, limits.kept)


def predict(trace: Path, profile: str, flags: list[str]) -> costs.Ended:
    question = ["--json", "--nodes", str(NODES), "--ppn", str(PROCESSES)]
    cost, answer = costs.run([harness.QUELL, "predict", str(trace), "--fs", profile, *question, *flags])
    assert json.loads(answer)["points"][0]["ranks"] == NODES * PROCESSES, answer
    return cost
