"""`quell run --auto` under a real Slurm on the rig, as an ordinary user with the job script's one word: the server's counts."""

import json
import shutil
import subprocess
import time
import unittest
from collections import Counter
from pathlib import Path

from shared_fs import NODES, QUELL, RIG, SHARED, Fixture, on, rig
from slurm import RANKS, Slurm

PLACE = SHARED / "auto"
USER = "65534"
IMPORT = "import numpy, scipy.stats, pandas; print(numpy.arange(3).sum())"
# Operations of a warm node in a later job, beyond the check and those of a job that prints the same.
LATER = 3
# A start that is recorded, and the whole of the image that is made of it, on the node of rank 0.
FIRST_OF_RANK_0 = 1.7
FIRST_OF_OTHERS = 1.1


def setUpModule() -> None:
    Fixture.begin()
    on(1, "rm", "-rf", str(PLACE))
    on(1, "mkdir", "-p", *(str(PLACE / name) for name in ("home", "app", "jobs")))
    on(1, "sh", "-c", f"printf '%s\\n' '{IMPORT}' > {PLACE}/app/app.py")
    # Each rank's line is a write to the output of the job, if it does not come with another's.
    echo = 'sh -c "sleep \\$SLURM_PROCID; echo 3"'
    for name, line in {"echo": echo, "plain": "python ../app/app.py", "auto": "quell run --auto -- python ../app/app.py"}.items():
        on(1, "sh", "-c", f"printf '#!/bin/sh\\nsrun --overcommit %s\\n' '{line}' > {PLACE}/jobs/{name}.sh")
    on(1, "chown", "-R", USER, str(PLACE))


class OneWord(unittest.TestCase):
    def setUp(self) -> None:
        # On the node's own disk, as an installed program.
        self.bin = Path("/run/quell-auto-test")
        self.bin.mkdir(mode=0o755, exist_ok=True)
        shutil.copy(QUELL, self.bin / "quell")
        self.addCleanup(shutil.rmtree, self.bin)

    def user(self, *command: str) -> str:
        return rig("exec", "1", "--user", USER, "--", "env", f"HOME={PLACE}/home", *command)

    def job(self, slurm: Slurm, name: str, **variables: str) -> tuple[dict[int, int], str]:
        """Operations of a job by node, without reads of data, and what it printed. Leaves the kinds of operations in `kinds`."""
        environment = variables | {"HOME": f"{PLACE}/home", "PATH": f"{SHARED}/venv/bin:{self.bin}:/usr/bin:/bin"}
        before = counted()
        said = slurm.job(PLACE / f"jobs/{name}.sh", environment)
        self.kinds = kinds_since(before)
        return {node: kinds.total() for node, kinds in self.kinds.items()}, said

    def test_a_job_on_warm_nodes_asks_next_to_nothing_beyond_the_check(self) -> None:
        with Slurm(NODES, USER) as slurm:
            printed = "3\n" * NODES * RANKS
            rig("cold")
            plain, said = self.job(slurm, "plain")
            self.assertEqual(said, printed)
            rig("cold")
            before = counted()
            _, said = self.job(slurm, "auto")
            self.assertEqual(said, printed)
            self.await_image()
            first = {node: kinds.total() for node, kinds in kinds_since(before).items()}
            for node, count in first.items():
                self.assertLess(count, (FIRST_OF_RANK_0 if node == 1 else FIRST_OF_OTHERS) * plain[node], f"node {node}")
            rig("cold")
            self.job(slurm, "auto")
            # The first of these makes the file for the job's output.
            self.job(slurm, "echo")
            base, _ = self.job(slurm, "echo")
            later, said = self.job(slurm, "auto", QUELL_CHECK="none")
            self.assertEqual(said, printed)
            print(f"\nplain {plain}\nfirst {first}\nlater {later}\necho {base}")
            for node in range(1, NODES + 1):
                self.assertLessEqual(later[node] - base[node], LATER, f"node {node}: {self.kinds[node]}")

    def await_image(self) -> None:
        """An image that is old enough for every step, and no process that makes another."""
        cache = f"{PLACE}/home/.cache/quell"
        self.user(str(self.bin / "quell"), "cache", "make")
        for _ in range(600):
            if "image-" in self.user("sh", "-c", f"readlink {cache}/*/current || true"):
                break
            time.sleep(0.2)
        self.user("sh", "-c", f"while test -e {cache}/*/lock; do sleep 0.2; done")
        self.user("sh", "-c", f"touch -h -d '2 minutes ago' {cache}/*/current")


class Crowd(unittest.TestCase):
    PROCESSES = 1000

    def test_of_1000_processes_at_once_on_two_nodes_one_records_and_none_fails(self) -> None:
        cache, app = PLACE / "crowd", PLACE / "app/start"
        program = "#!/bin/sh\\nn=0; while [ $n -lt 300 ]; do test -e absent$n; n=$((n + 1)); done; echo done\\n"
        on(1, "sh", "-c", f"printf '{program}' > {app}; chmod 755 {app}; rm -rf {cache}")
        one = f"cd {PLACE}/app; {QUELL} run --auto --cache {cache} -- {app} || echo failed"
        crowd = f"n=0; while [ $n -lt {self.PROCESSES // 2} ]; do ({one}) & n=$((n + 1)); done; wait"
        # The rig's clients do not take back what they remember, as Lustre's do: these forget it.
        rig("policy", "nfs")
        for _ in range(2):
            nodes = [node_command(node, crowd) for node in (1, 2)]
            for node in nodes:
                said, _ = node.communicate()
                self.assertEqual(Counter(said.splitlines()), {"done": self.PROCESSES // 2}, said[:2000])
            made = f"until readlink {cache}/*/current; do sleep 0.2; {QUELL} cache make --cache {cache}; done"
            node_command(1, made).communicate()
        listed = json.loads(node_command(1, f"{QUELL} cache ls --json --cache {cache}").communicate()[0])
        self.assertEqual([entry["versions"] for entry in listed["entries"]], [1])
        # Servers end a moment after their last program, and a node in use keeps its policy.
        node_command(1, "while pgrep -u nobody 'quell-(server|holder)'; do sleep 0.2; done").communicate()
        rig("policy", "lustre")


def node_command(node: int, script: str) -> "subprocess.Popen[str]":
    # A home of the user's own: settings in another user's cannot be read, which quell says.
    words = [RIG, "exec", str(node), "--user", USER, "--", "env", f"HOME={PLACE}/home", "sh", "-c", script]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def counted() -> dict[int, Counter]:
    """Operations of each node by kind, without reads of data."""
    nodes = json.loads(rig("counters", "--json"))["nodes"]
    others = {"total", "read"}
    return {node["node"]: Counter({k: n for k, n in node["operations"].items() if k not in others}) for node in nodes}


def kinds_since(before: dict[int, Counter]) -> dict[int, Counter]:
    return {node: counts - before[node] for node, counts in counted().items()}


if __name__ == "__main__":
    unittest.main()
