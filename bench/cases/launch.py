"""Wall time from the start of a process to its end, of `true` alone and behind `quell run`.

Each round runs every case once, so that a slow moment of the machine meets all alike. `first` makes the node's namespace and
server, `joined` enters one that another rank holds. Ranks are told by Slurm's variables, as on a node.
"""

import itertools
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

import harness
from harness import QUELL, Result

TRUE = "/bin/true"
NOBODY = 65534
# Milliseconds that a first rank may add to the plain command, and one that joins to an exec.
BUDGETS = {"first": ("plain", 5.0), "joined": ("exec", 1.0)}

Times = dict[str, list[float]]


def main() -> Result:
    users = [("root", 0), ("an ordinary user", NOBODY)] if os.geteuid() == 0 else [("an ordinary user", os.geteuid())]
    return page({name: as_user(uid) for name, uid in users})


def as_user(uid: int) -> Times:
    """Measures in a child that has become `uid`, which sends what it measured as lines."""
    work = Path(tempfile.mkdtemp(prefix="quell-bench-", dir="/var/tmp"))
    os.chown(work, uid, -1)
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        status = 1
        try:
            if os.geteuid() != uid:
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            with os.fdopen(send, "w") as out:
                for case, times in measure(work).items():
                    print(case, *times, file=out)
            status = 0
        finally:
            os._exit(status)
    os.close(send)
    with os.fdopen(receive) as lines:
        measured = {words[0]: [float(word) for word in words[1:]] for words in map(str.split, lines)}
    if os.waitpid(child, 0)[1] != 0:
        harness.fail("the measurement failed")
    # The last namespace is just ending, and takes its own files away.
    shutil.rmtree(work, ignore_errors=True)
    return measured


def measure(work: Path) -> Times:
    image = packed(work)
    run = [QUELL, "run", image, "--", TRUE]
    holder = subprocess.Popen(
        [QUELL, "run", image, "--", "sh", "-c", "echo ready; read -r line; exit 0"],
        env=rank(1, 0), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdin is not None
    holder.stdout.readline()
    # The holder's step is 0.
    steps = itertools.count(1)

    def timed(words: list[str], environment: dict[str, str]) -> float:
        return harness.timed(words, environment, rest=0.01)

    ways = {
        "plain": lambda: timed([TRUE], rank(1, 0)),
        "exec": lambda: timed(["/usr/bin/env", TRUE], rank(1, 0)),
        "joined": lambda: timed(run, rank(1, 0)),
        "first": lambda: timed(run, rank(1, next(steps))),
        "checked": lambda: timed(run, rank(0, next(steps))),
    }
    measured = harness.interleaved(ways, warming=10)
    holder.stdin.close()
    holder.wait()
    return measured


def packed(work: Path) -> str:
    tree = work / "tree"
    tree.mkdir()
    for number in range(int(harness.setting("FILES"))):
        (tree / f"{number}.py").write_text(f"value = {number}\n")
    trace, image = str(work / "t.qtrace"), str(work / "t.qimg")
    script = ["sh", "-c", 'exec cat "$1"/*.py > /dev/null', "sh", str(tree)]
    alone = {"PATH": "/usr/bin:/bin", "HOME": str(work)}
    subprocess.run([QUELL, "-q", "record", "-o", trace, "--", *script], check=True, env=alone)
    pack = [QUELL, "-q", "pack", trace, "-o", image, "--root", str(tree)]
    subprocess.run(pack, check=True, stdout=subprocess.DEVNULL, env=alone)
    return image


def rank(number: int, step: int) -> dict[str, str]:
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": str(step), "SLURM_NTASKS": "2"}
    # Rank 0 checks for the job. The others would wait for what it finds, and it is not there.
    check = {"QUELL_CHECK": "first" if number == 0 else "none"}
    return {"PATH": "/usr/bin:/bin", "SLURM_PROCID": str(number), **job, **check}


LABELS = {
    "plain": "`true`",
    "exec": "`env true`, the least that an exec in between costs",
    "joined": "`quell run IMG -- true`, a further rank of the node",
    "first": "the same, the first rank of the node",
    "checked": "the same, rank 0: it checks the image first",
}


BASES = {"plain": "`true`", "exec": "`env true`"}


def page(measured: dict[str, Times]) -> Result:
    priority = "" if os.sched_getscheduler(0) == os.SCHED_OTHER else " Measured with real-time priority, beside other work."
    lines = harness.head(
        "What `quell run` adds to a start",
        "Wall milliseconds from start to end of a process; medians, quartiles and the fastest of",
        f"{harness.rounds()} interleaved runs on a warm node, an image of {harness.setting('FILES')} files on a local disk. `over` is a",
        f"difference of medians.{priority}",
    )
    kept = True
    for user, times in measured.items():
        medians = {case: statistics.median(values) for case, values in times.items()}
        heads = harness.table("", "ms", "quartiles", "fastest", "over `true`", "over `env true`", "budget", "")
        lines += ["", f"## As {user}", "", *heads]
        for case, label in LABELS.items():
            low, middle, high = statistics.quantiles(times[case], n=4)
            over = {base: middle - medians[base] for base in ("plain", "exec")}
            verdict = ["", ""]
            if case in BUDGETS:
                base, limit = BUDGETS[case]
                verdict = [f"{limit:.0f} over {BASES[base]}", harness.verdict(over[base], limit)]
            kept = kept and verdict[1] != "EXCEEDED"
            spread = [f"{low:.2f} - {high:.2f}", f"{min(times[case]):.2f}"]
            cells = [label, f"{middle:.2f}", *spread, f"{over['plain']:.2f}", f"{over['exec']:.2f}", *verdict]
            lines.append(harness.row(*cells))
    return Result(lines, kept)

