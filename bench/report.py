"""Measures `quell report` beside DuckDB on one trace; bench/report.sh makes the trace and calls this.

Usage: report.py QUELL TRACE PYTHON-WITH-DUCKDB ROUNDS. With `--ask TRACE` it is the DuckDB side: asks bench/report.sql and
prints the answers as JSON.
"""

import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import costs

HERE = Path(__file__).resolve().parent
RESULT = HERE / "results/report.md"
# Classes of docs/trace.md whose calls are metadata operations.
METADATA = "open stat access readlink list xattr statfs change exec directory".split()
BUDGET_SECONDS = 10.0
BUDGET_BYTES = 2 << 30


def main() -> None:
    if sys.argv[1] == "--ask":
        json.dump(ask(Path(sys.argv[2])), sys.stdout)
        return
    quell, trace, python, rounds = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    commands = {
        "quell report": [quell, "report", str(trace)],
        "quell report --json": [quell, "report", "--json", str(trace)],
        "DuckDB": [python, "-B", __file__, "--ask", str(trace)],
    }
    first = {name: costs.run(command) for name, command in commands.items()}
    differences = compare(json.loads(first["quell report --json"][1]), json.loads(first["DuckDB"][1]))
    spent: dict[str, list[costs.Ended]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            spent[name].append(costs.run(command)[0])
    kept, text = page(trace, quell, python, spent, differences)
    print(text)
    RESULT.write_text(text)
    sys.exit(0 if kept and not differences else 1)


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


def page(trace: Path, quell: str, python: str, spent: dict[str, list[costs.Ended]], differences: list[str]) -> tuple[bool, str]:
    header = json.loads((trace / "header.json").read_text())
    size = sum(file.stat().st_size for file in trace.iterdir())
    rounds = len(next(iter(spent.values())))
    version = [quell, "--version"], [python, "-c", "import duckdb; print('DuckDB', duckdb.__version__)"]
    versions = ", ".join(subprocess.check_output(command, text=True).strip() for command in version)
    processor = next(line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text().splitlines()
                     if line.startswith(("model name", "CPU part")))
    ours = spent["quell report"]
    wall, memory = statistics.median(cost.wall for cost in ours), max(cost.memory for cost in ours)
    budgets = [("wall seconds of `quell report`", wall, BUDGET_SECONDS, "{:.2f}"),
               ("its peak memory, MiB", memory / 2**20, BUDGET_BYTES / 2**20, "{:.0f}")]
    kept = all(value <= limit for _, value, limit, _ in budgets)
    lines = [
        "# Reporting on 10 million calls",
        "",
        f"Medians of {rounds} interleaved runs, warm caches; wall seconds with their least and most; memory is the most that a run",
        "had resident. `quell report` computes all of its report. DuckDB answers four questions of it from the same Parquet",
        "files (`bench/report.sql`): calls and errors by system call, the 100 paths with most metadata operations, misses by",
        "directory, metadata operations by who served them.",
        "",
        "- command: `bench/report.sh`",
        f"- date: {datetime.datetime.now(datetime.timezone.utc).date()}",
        f"- machine: {processor}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        f"- {versions}",
        f"- trace: {header['recorder']['events']} calls recorded of `bench/report_work.sh` in {header['seconds']:.0f} s, {size / 2**20:.0f} MiB,"
        f" {size / header['recorder']['events']:.1f} bytes a call",
        "",
        "| | CPU s | wall s | least - most | peak MiB |",
        "|---|---|---|---|---|",
        *(row(name, runs) for name, runs in spent.items()),
        "",
        "Counts of calls, errors and metadata operations: "
        + ("the same from both." if not differences else "DIFFERENT: " + "; ".join(differences)),
        "",
        "## Budgets",
        "",
        "| | | at most | |",
        "|---|---|---|---|",
        *(f"| {name} | {form.format(value)} | {form.format(limit)} | {'kept' if value <= limit else 'EXCEEDED'} |"
          for name, value, limit, form in budgets),
        "",
    ]
    return kept, "\n".join(lines)


def row(name: str, runs: list[costs.Ended]) -> str:
    cpu, wall = (statistics.median(getattr(run, field) for run in runs) for field in ("cpu", "wall"))
    walls = [run.wall for run in runs]
    return f"| {name} | {cpu:.2f} | {wall:.2f} | {min(walls):.2f} - {max(walls):.2f} | {max(run.memory for run in runs) / 2**20:.0f} |"


if __name__ == "__main__":
    main()
