"""`quell fleet` on a million jobs: CPU seconds and memory of quell and of DuckDB, which it asks, together.

The jobs are those of `bench/fleet/generate.py`, of 30 days, one file a day as compaction leaves them.
"""

import os
import statistics
import tempfile
from pathlib import Path

import costs
import harness
from harness import Result

GENERATE = Path(__file__).resolve().parents[1] / "fleet" / "generate.py"
BUDGET_SECONDS = 1.0
BUDGET_BYTES = 1 << 30
ALL = "all four tables"


def main() -> Result:
    environment = harness.python("fleet", "duckdb==1.4.2", "numpy==2.4.6", "pyarrow==26.0.1")
    os.environ["PATH"] = f"{environment / 'bin'}:{os.environ['PATH']}"
    python, jobs = str(environment / "bin/python"), harness.setting("JOBS")
    with tempfile.TemporaryDirectory(dir=harness.CACHE) as work:
        trace, one, many = (Path(work) / name for name in ("one.qtrace", "one", "many"))
        harness.quell("--quiet", "record", "-o", trace, "--", "/bin/ls")
        harness.quell("--quiet", "collect", trace, "-o", one)
        like = next(one.glob("jobs/*/*.parquet"))
        harness.run(python, "-B", str(GENERATE), str(many), "--like", str(like), "--jobs", jobs)
        size = sum(file.stat().st_size for file in many.rglob("*.parquet"))
        asked = {ALL: [], "the last 7 days": ["--since", "7d"], "by user": ["--by", "user"], "by finding": ["--by", "finding"]}
        ways = {name: lambda flags=flags: costs.run([harness.QUELL, "fleet", str(many), "--json", *flags])[0]
                for name, flags in asked.items()}
        for way in ways.values():
            way()
        return page(harness.interleaved(ways), size, jobs, python)


def page(spent: dict[str, list["costs.Ended"]], size: int, jobs: str, python: str) -> Result:
    limits = harness.budgets(
        ("wall seconds of all four tables", statistics.median(cost.wall for cost in spent[ALL]), BUDGET_SECONDS),
        ("peak memory, MiB", max(cost.memory for cost in spent[ALL]) / 2**20, BUDGET_BYTES / 2**20),
    )
    version = harness.run(python, "-c", "import duckdb; print('DuckDB', duckdb.__version__)").strip()
    lines = harness.head(
        "Asking a million jobs",
        f"Medians of {harness.rounds()} interleaved runs of `quell fleet DIR --json`, warm caches; the costs are those of quell and of",
        f"DuckDB together, and memory is the most that one of both had resident. {version}. The data set: {jobs} jobs of",
        f"`bench/fleet/generate.py` in 30 days, 2000 users, 5000 programs, {size / 2**20:.0f} MiB.",
    )
    lines += harness.table("", "CPU s", "wall s", "peak MiB")
    lines += [row(name, runs) for name, runs in spent.items()]
    return Result([*lines, *limits.lines], limits.kept)


def row(name: str, runs: list["costs.Ended"]) -> str:
    cpu = statistics.median(run.cpu for run in runs)
    memory = max(run.memory for run in runs) / 2**20
    return harness.row(name, f"{cpu:.2f}", harness.spread([run.wall for run in runs]), f"{memory:.0f}")
