"""What a prediction costs: wall and processor seconds and peak memory of `quell predict`, by what the kernel says of the ended process."""

import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
RESULT = REPOSITORY / "bench/results/predict_speed.md"
QUELL = os.environ.get("QUELL", str(REPOSITORY / "target/release/quell"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))

# 100 000 ranks.
NODES, PROCESSES = 12_500, 8
# A search path of so many directories, on which so many libraries are looked for: 10 000 operations and more.
SHAPE = ["--entries", "200", "--names", "180"]
WAYS = {"range of 100 runs": [], "one run": ["--samples", "1"]}
MOST_SECONDS, MOST_MIB = 1.0, 500.0


@dataclass(frozen=True)
class Cost:
    """Of one process: wall and processor seconds, peak memory."""

    wall: float
    cpu: float
    mib: float


def main() -> int:
    if not Path(QUELL).exists():
        raise SystemExit(f"there is no `{QUELL}`\nhint: `make build`, or QUELL=path/to/quell")
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="quell-bench-") as directory:
        trace = f"{directory}/t.qtrace"
        subprocess.run([QUELL, "--quiet", "synth", "search-path", *SHAPE, "-o", trace], check=True)
        output = Path(directory) / "out.json"
        command = [QUELL, "predict", trace, "--fs", "lustre", "--json"]
        command += ["--nodes", str(NODES), "--ppn", str(PROCESSES)]
        for _ in range(ROUNDS):
            for way, flags in WAYS.items():
                costs[way].append(cost([*command, *flags], output))
        calls = json.loads((Path(trace) / "header.json").read_text())["recorder"]["events"]
        point = json.loads(output.read_text())["points"][0]
    assert point["ranks"] == NODES * PROCESSES, point
    text, kept = page(costs, calls)
    print(text)
    RESULT.write_text(text)
    return 0 if kept else 1


def cost(command: list[str], output: Path) -> Cost:
    """Runs it to its end."""
    with output.open("wb") as out:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"`{' '.join(command)}` ended with status {process.returncode}")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def page(costs: dict[str, list[Cost]], calls: int) -> tuple[str, bool]:
    """The result for people, and whether budgets were kept."""
    lines = [
        "# What a prediction costs",
        "",
        f"`quell predict` of a start of {calls:,} operations on {NODES * PROCESSES:,} ranks ({NODES:,} nodes x {PROCESSES}), reading the trace and writing",
        f"JSON included; medians of {ROUNDS} interleaved rounds. {datetime.date.today().isoformat()}, {os.cpu_count()} CPUs, Linux {os.uname().release}, load",
        f"{os.getloadavg()[0]:.1f}. Command: `bench/predict_speed.sh`.",
        "",
        "| way | wall s | CPU s | peak MiB |",
        "|---|---|---|---|",
    ]
    wall, mib = 0.0, 0.0
    for way, own in costs.items():
        middle = [statistics.median(getattr(one, name) for one in own) for name in ("wall", "cpu", "mib")]
        lines.append(f"| {way} | {middle[0]:.2f} | {middle[1]:.2f} | {middle[2]:.0f} |")
        wall, mib = max(wall, middle[0]), max(mib, middle[2])
    kept = wall < MOST_SECONDS and mib < MOST_MIB
    verdict = "kept" if kept else "EXCEEDED"
    lines += ["", f"Budget, either way: less than {MOST_SECONDS:.0f} s and {MOST_MIB:.0f} MiB: {verdict}.", ""]
    return "\n".join(lines), kept


if __name__ == "__main__":
    sys.exit(main())
