"""The cost of a prediction: wall and processor seconds and peak memory of `quell predict`, as the kernel reports them at its end."""

import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import costs

REPOSITORY = Path(__file__).resolve().parents[1]
RESULT = REPOSITORY / "bench/results/predict_speed.md"
QUELL = os.environ.get("QUELL", str(REPOSITORY / "target/release/quell"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
# `lustre` keeps names for a job's life; clients of the others forget some while a start is slowed down, which takes replays.
PROFILES = os.environ.get("PROFILES", "lustre nfs gpfs wide").split()

# 100 000 ranks.
NODES, PROCESSES = 12_500, 8
# Directories of a search path, and libraries that are looked for on it: 10 000 operations and more.
SHAPE = ["--entries", "200", "--names", "180"]
WAYS = {"range of 100 runs": [], "one run": ["--samples", "1"]}
MOST_SECONDS, MOST_MIB = 1.0, 500.0


def main() -> int:
    if not Path(QUELL).exists():
        raise SystemExit(f"there is no `{QUELL}`\nhint: `make build`, or QUELL=path/to/quell")
    rows = [(profile, way) for profile in PROFILES for way in WAYS]
    spent: dict[tuple[str, str], list[costs.Ended]] = {row: [] for row in rows}
    with tempfile.TemporaryDirectory(prefix="quell-bench-") as directory:
        trace = f"{directory}/t.qtrace"
        subprocess.run([QUELL, "--quiet", "synth", "search-path", *SHAPE, "-o", trace], check=True)
        calls = json.loads((Path(trace) / "header.json").read_text())["recorder"]["events"]
        question = ["--json", "--nodes", str(NODES), "--ppn", str(PROCESSES)]
        for _ in range(ROUNDS):
            for profile, way in rows:
                cost, answer = costs.run([QUELL, "predict", trace, "--fs", profile, *question, *WAYS[way]])
                assert json.loads(answer)["points"][0]["ranks"] == NODES * PROCESSES, answer
                spent[profile, way].append(cost)
    text, kept = page(spent, calls)
    print(text)
    RESULT.write_text(text)
    return 0 if kept else 1


def page(spent: dict[tuple[str, str], list[costs.Ended]], calls: int) -> tuple[str, bool]:
    """The result as Markdown, and whether budgets were kept."""
    lines = [
        "# What a prediction costs",
        "",
        f"`quell predict` of a start of {calls:,} operations on {NODES * PROCESSES:,} ranks ({NODES:,} nodes x {PROCESSES}), reading the trace and writing",
        f"JSON included; medians of {ROUNDS} interleaved rounds. {datetime.date.today().isoformat()}, {costs.machine()}.",
        "Command: `bench/predict_speed.sh`.",
        "",
        "| profile | way | wall s | CPU s | peak MiB |",
        "|---|---|---|---|---|",
    ]
    wall, mib = 0.0, 0.0
    for (profile, way), own in spent.items():
        middle = [statistics.median(getattr(one, name) for one in own) for name in ("wall", "cpu", "memory")]
        lines.append(f"| {profile} | {way} | {middle[0]:.2f} | {middle[1]:.2f} | {middle[2] / 2**20:.0f} |")
        wall, mib = max(wall, middle[0]), max(mib, middle[2] / 2**20)
    kept = wall < MOST_SECONDS and mib < MOST_MIB
    verdict = "kept" if kept else "EXCEEDED"
    lines += ["", f"Budget of each: less than {MOST_SECONDS:.0f} s and {MOST_MIB:.0f} MiB: {verdict}.", ""]
    return "\n".join(lines), kept


if __name__ == "__main__":
    sys.exit(main())
