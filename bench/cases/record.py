"""CPU time of recording, user and system, of the whole tree of processes, beside strace."""

import statistics
import tempfile
from pathlib import Path

import costs
import harness
from harness import Result

IMPORT = "import numpy, scipy.stats, pandas"
# The classes of strace that come nearest to the calls that quell records.
STRACE = ["strace", "-f", "--seccomp-bpf", "-e", "trace=%file,%desc"]


def main() -> Result:
    python = harness.setting("PYTHON") or str(harness.numpy_environment() / "bin/python")
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        loop = work / "stat_loop"
        harness.run("cc", "-O2", "-w", "-o", str(loop), str(harness.REPOSITORY / "crates/record/fixtures/stat_loop.c"))
        calls = harness.setting("CALLS")
        found = {
            f"{calls} calls of stat, half of them of an absent name": measure(work, [str(loop), calls]),
            f'`python -c "{IMPORT}"`': measure(work, [python, "-c", IMPORT]),
        }
    version = harness.run("strace", "-V").splitlines()[0]
    lines = harness.head(
        "What recording costs",
        "CPU seconds, user and system, of the whole tree; medians and quartiles of",
        f"{harness.rounds()} interleaved runs, warm caches. {version} is told the same set of calls as far as its classes",
        "go: `-e trace=%file,%desc`.",
    )
    for title, times in found.items():
        base = statistics.median(times["plain"])
        lines += [f"## {title}", "", *harness.table("method", "CPU s", "quartiles", "times plain")]
        for method, values in times.items():
            low, middle, high = quartiles(values)
            lines.append(harness.row(method, f"{middle:.2f}", f"{low:.2f} - {high:.2f}", f"{middle / base:.2f}"))
        lines.append("")
    stat, imports = found.values()
    limits = harness.budgets(
        ("quell record beside strace -o, stat loop", ratio(stat, "strace -f --seccomp-bpf -o"), 0.80),
        ("quell record beside strace -c, stat loop", ratio(stat, "strace -f --seccomp-bpf -c"), 1.10),
        ("quell record beside plain, Python import", ratio(imports, "plain"), 1.15),
    )
    return Result(lines + limits.lines, limits.kept)


def measure(work: Path, command: list[str]) -> dict[str, list[float]]:
    methods = {
        "plain": [],
        "quell record": [harness.QUELL, "record", "--force", "-o", str(work / "t"), "--"],
        "strace -f --seccomp-bpf -c": [*STRACE, "-c", "-o", str(work / "log")],
        "strace -f --seccomp-bpf -o": [*STRACE, "-o", str(work / "log")],
    }
    # The first round warms caches.
    ways = {name: lambda words=words: costs.run([*words, *command])[0].cpu for name, words in methods.items()}
    return harness.interleaved(ways, warming=1)


def quartiles(values: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return low, middle, high


def ratio(times: dict[str, list[float]], other: str) -> float:
    return statistics.median(times["quell record"]) / max(statistics.median(times[other]), 1e-9)
