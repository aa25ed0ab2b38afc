"""`quell report` on a trace of 10 million calls, beside DuckDB asked the comparable questions of the same Parquet files.

The trace is recorded once and kept: `report_work.sh`, over and over. With `--ask TRACE` this module is the DuckDB side, run
by an environment that has it: it asks the statements of report.sql and prints the answers as JSON.
"""

import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Classes of docs/trace.md whose calls are metadata operations.
METADATA = "open stat access readlink list xattr statfs change exec directory".split()
BUDGET_SECONDS = 10.0
BUDGET_BYTES = 2 << 30


def main() -> "harness.Result":
    harness.CACHE.mkdir(exist_ok=True)
    trace = Path(harness.setting("TRACE") or recorded())
    python = str(harness.python("duckdb", "duckdb==2.0.0") / "bin/python")
    commands = {
        "quell report": [harness.QUELL, "report", str(trace)],
        "quell report --json": [harness.QUELL, "report", "--json", str(trace)],
        "DuckDB": [python, "-B", __file__, "--ask", str(trace)],
    }
    first = {name: costs.run(command)[1] for name, command in commands.items()}
    differences = compare(json.loads(first["quell report --json"]), json.loads(first["DuckDB"]))
    ways = {name: lambda command=command: costs.run(command)[0] for name, command in commands.items()}
    version = harness.run(python, "-c", "import duckdb; print('DuckDB', duckdb.__version__)").strip()
    return page(trace, version, harness.interleaved(ways), differences)


def recorded() -> Path:
    """A trace of at least CALLS calls. One round is recorded first, to see how many rounds that takes."""
    wanted = int(harness.setting("CALLS"))
    trace = harness.CACHE / f"report-{wanted}.qtrace"
    if not trace.with_suffix(".complete").exists():
        with tempfile.TemporaryDirectory() as work:
            one = record(Path(work) / "one.qtrace", 1)
            harness.talk(f"a round makes {one} calls: recording {wanted // one + 1} rounds")
            shutil.rmtree(trace, ignore_errors=True)
            record(trace, wanted // one + 1)
        trace.with_suffix(".complete").touch()
    return trace


def record(trace: Path, rounds: int) -> int:
    """Records the work; how many calls that were."""
    python = harness.numpy_environment() / "bin/python"
    harness.quell("--quiet", "record", "-o", trace, "--", "sh", HERE / "report_work.sh", str(rounds), python)
    return int(json.loads((trace / "header.json").read_text())["recorder"]["events"])


def ask(trace: Path) -> dict[str, list[Any]]:
    """Runs every statement of report.sql; answers by the line that names it."""
    import duckdb

    text = (HERE / "report.sql").read_text().replace("$TRACE", str(trace))
    text = text.replace("$METADATA", ", ".join(f"'{name}'" for name in METADATA))
    connection = duckdb.connect()
    answers = {}
    for part in text.split("\n-- ")[1:]:
        name, statement = part.split("\n", 1)
        if statement.strip():
            answers[name] = connection.execute(statement).fetchall()
    return answers


def compare(report: dict[str, Any], answers: dict[str, list[Any]]) -> list[str]:
    """The answers on which the two disagree. The figures of a wrong report are worth nothing."""
    by_call = {row[0]: tuple(row[1:]) for row in answers["calls and errors by system call"]}
    ours = {row["name"]: (row["calls"], row["errors"]) for row in report["syscalls"]}
    differences = [f"{name}: {ours.get(name)}, DuckDB {by_call.get(name)}"
                   for name in sorted(ours.keys() | by_call.keys()) if ours.get(name) != by_call.get(name)]
    total = sum(row[-1] for row in answers["metadata operations by who served them"])
    if total != report["totals"]["metadata_operations"]:
        differences.append(f"metadata operations: {report['totals']['metadata_operations']}, DuckDB {total}")
    return differences


def page(trace: Path, version: str, spent: dict[str, list["costs.Ended"]], differences: list[str]) -> "harness.Result":
    header = json.loads((trace / "header.json").read_text())
    size, calls = sum(file.stat().st_size for file in trace.iterdir()), header["recorder"]["events"]
    ours = spent["quell report"]
    limits = harness.budgets(
        ("wall seconds of `quell report`", statistics.median(cost.wall for cost in ours), BUDGET_SECONDS),
        ("its peak memory, MiB", max(cost.memory for cost in ours) / 2**20, BUDGET_BYTES / 2**20),
    )
    lines = harness.head(
        "Reporting on 10 million calls",
        f"Medians of {harness.rounds()} interleaved runs, warm caches; wall seconds with their least and most; memory is the most that a run",
        "had resident. `quell report` computes all of its report. DuckDB answers four questions of it from the same Parquet",
        "files (`bench/cases/report.sql`): calls and errors by system call, the 100 paths with most metadata operations, misses",
        f"by directory, metadata operations by who served them. {version}. The trace: {calls} calls recorded of",
        f"`bench/cases/report_work.sh` in {header['seconds']:.0f} s, {size / 2**20:.0f} MiB, {size / calls:.1f} bytes a call.",
    )
    lines += harness.table("", "CPU s", "wall s", "peak MiB")
    lines += [row(name, runs) for name, runs in spent.items()]
    same = "DIFFERENT: " + "; ".join(differences) if differences else "the same from both."
    lines += ["", f"Counts of calls, errors and metadata operations: {same}", *limits.lines]
    return harness.Result(lines, limits.kept and not differences)


def row(name: str, runs: list["costs.Ended"]) -> str:
    cpu = statistics.median(run.cpu for run in runs)
    memory = max(run.memory for run in runs) / 2**20
    return harness.row(name, f"{cpu:.2f}", harness.spread([run.wall for run in runs]), f"{memory:.0f}")


if __name__ == "__main__":
    json.dump(ask(Path(sys.argv[2])), sys.stdout)
else:
    import costs
    import harness
