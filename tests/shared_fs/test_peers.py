"""Nodes of a job give each other the parts of an image: bytes that the file server sends, operations by node, and results, whatever peers do.

The launchers are real: Slurm, Open MPI and MPICH start a rank on each node of the rig.
"""

import json
import os
import shlex
import shutil
import signal
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

from mpi import mpich, open_mpi
from shared_fs import NODES, PROGRAM, QUELL, RIG, SHARED, WORK, Fixture, bytes_sent, on, rig
from slurm import Slurm

USER = "65534"
IMAGES = 1.1
TRIES = 5
# Operations of the node that reads the image, besides lookups.
FIRST = 4
# Operations of the other nodes, besides the lookups of the image's names; and the same file, found and read.
OTHERS, OTHERS_BY_FILE = 0, 6
SPOILED = 12
# A program that takes less time than the import, and reads files that the image holds.
SUM = f"cat {SHARED}/venv/lib/python*/site-packages/numpy/core/__pycache__/*.pyc | md5sum"


def setUpModule() -> None:
    Fixture.begin()


class Parts(unittest.TestCase):
    def setUp(self) -> None:
        # The client's policy decides how many names it asks for.
        self.enterContext(Fixture.policy("lustre"))
        self.image = WORK / "peers.qimg"
        on(1, "cp", str(WORK / "plain.qimg"), str(self.image))
        on(1, "chmod", "644", str(self.image))
        self.length = int(on(1, "stat", "-c", "%s", str(self.image)))
        # On the nodes' own disk.
        self.place = Path(tempfile.mkdtemp(prefix="quell-peers-test-", dir="/run"))
        self.place.chmod(0o777)
        self.addCleanup(shutil.rmtree, self.place)
        self.binary = self.place / "quell"
        shutil.copy(QUELL, self.binary)

    def run_on_nodes(self, before: str = "", flags: str = "--mode mount", program: str = shlex.join(PROGRAM)) -> str:
        """A script of one rank: the program, and then `done`."""
        script = self.place / "rank.sh"
        run = f"{self.binary} run --require --stats {self.place}/$(hostname).json {flags} {self.image} --"
        # No node leaves before all have begun.
        command = shlex.join(["sh", "-c", f"{program} && echo done && sleep 2"])
        # Nodes begin together: a busy machine starts them further apart than programs wait for peers. Launchers pass variables of node 1 on.
        meet = f"touch {self.place}/begun.$(hostname); until [ $(ls {self.place} | grep -c begun) = {NODES} ]; do sleep 0.02; done"
        script.write_text(f"#!/bin/sh\n{meet}\n{before}\nexec {run} {command}\n")
        script.chmod(0o755)
        return str(script)

    def measured(self, job) -> tuple[float, dict[int, Counter]]:  # type: ignore[no-untyped-def]
        """Images that the file server sends for a job, and the operations of its nodes; every rank must have printed `done`."""
        self.await_silence()
        self.forget_starts()
        rig("cold")
        before, sent = counted(), bytes_sent()
        said = job()
        self.assertEqual(said.split().count("done"), NODES, said)
        self.await_silence()
        images = (bytes_sent() - sent) / self.length
        after = counted()
        return images, {node: counts - before[node] for node, counts in after.items()}

    def forget_starts(self) -> None:
        """Nodes remember starts that waited for peers in vain."""
        for node in range(1, NODES + 1):
            on(node, "sh", "-c", f"rm -f /dev/shm/quell-peers-* {self.place}/begun.*")

    def await_silence(self) -> None:
        """All processes of this test's binary are gone."""
        deadline = time.monotonic() + 120
        while self.processes():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def processes(self, name: str = "") -> list[int]:
        """Those of this test's binary, by this name."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "exe") == str(self.binary) and name in (process / "comm").read_text():
                    found.append(int(process.name))
            except OSError:
                continue
        return found

    def from_peers(self) -> list[int]:
        return [image["bytes_from_peers"] for image in self.images()]

    def images(self) -> list[dict[str, int]]:
        """The nodes' numbers about the image."""
        return [json.loads((self.place / f"rig-node{node}.json").read_text())["image"] for node in range(1, NODES + 1)]

    def judge(self, job, others: int, first: int | None = None) -> None:  # type: ignore[no-untyped-def]
        """`first`: the bound of the node that reads. Without one it compares the image with its originals besides, for all nodes."""
        names = len(self.image.relative_to(SHARED).parts)
        # A launcher may start nodes further apart than they wait for each other. Then each reads the image, which is right too.
        for _ in range(TRIES):
            images, operations = self.measured(job)
            print(f"\n{self.id().rsplit('.')[-1]}: {images:.3f} images, {({node: dict(kinds) for node, kinds in operations.items()})}")
            for name in ("bytes_from_peers", "peers_waited_ms", "peers_left"):
                print(f"  {name}", [image[name] for image in self.images()])
            bounds = {node: others if node > 1 else first for node in operations}
            more = {node: operations[node].total() - names - bound for node, bound in bounds.items() if bound is not None}
            if images <= IMAGES and max(more.values()) <= 0:
                return
        self.fail(f"{images} images, operations beyond the bounds: {more}")

    def open_mpi(self, script: str) -> str:
        return open_mpi(self.place, script)

    def mpich(self, script: str) -> str:
        return mpich(self.place, script)

    def slurm(self, slurm: Slurm, script: str) -> str:
        job = self.place / "job.sh"
        job.write_text(f"#!/bin/sh\nsrun --overcommit {script}\n")
        return slurm.job(job, {"HOME": str(self.place)})

    def name_socket(self, slurm: Slurm) -> None:
        """The place where programs look for MUNGE's daemon."""
        place = Path("/run/munge")
        if place.exists():
            self.skipTest("skipped, because this machine has a MUNGE of its own")
        place.mkdir()
        self.addCleanup(shutil.rmtree, place)
        (place / "munge.socket.2").symlink_to(slurm.munge_socket)

    def test_open_mpi(self) -> None:
        script = self.run_on_nodes()
        self.judge(lambda: self.open_mpi(script), OTHERS)

    def test_without_a_check_the_first_node_reads_alone(self) -> None:
        script = self.run_on_nodes(flags="--check none --mode mount")
        self.judge(lambda: self.open_mpi(script), OTHERS, FIRST)

    def test_mpich(self) -> None:
        script = self.run_on_nodes()
        self.judge(lambda: self.mpich(script), OTHERS_BY_FILE)
        self.assertEqual(on(1, "sh", "-c", f"ls -A {WORK} | grep peers- || true"), "", "the file is gone")

    def test_slurm(self) -> None:
        with Slurm(NODES, USER) as slurm:
            self.name_socket(slurm)
            script = self.run_on_nodes()
            self.judge(lambda: self.slurm(slurm, script), OTHERS)

    def test_without_peers_every_node_reads(self) -> None:
        script = self.run_on_nodes(flags="--peers off --check none --mode mount")
        images, _ = self.measured(lambda: self.open_mpi(script))
        self.assertGreater(images, NODES - 0.5)
        self.assertEqual(self.from_peers(), [0] * NODES)

    def test_killed_and_stopped_peers_change_no_result(self) -> None:
        plain = on(1, "sh", "-c", SUM).strip()
        compressed = WORK / "compressed.qimg"
        on(1, QUELL, "pack", "--force", "--compress", str(WORK / "plain.qtrace"), "-o", str(compressed))
        on(1, "chmod", "644", str(compressed))
        forms = [(self.image, "mount"), (self.image, "extract"), (compressed, "mount")]
        for number in range(SPOILED):
            self.image, mode = forms[number % len(forms)]
            # Of a node that follows from the number, at a moment that does.
            node, word = 1 + number % NODES, ("KILL", "STOP")[number // NODES % 2]
            moment = 0.02 * (number % 7)
            spoiling = f"test $QUELL_RIG_NODE != {node} || {{ {self.spoiling(word, moment)} }}"
            script = self.run_on_nodes(before=spoiling, flags=f"--mode {mode}", program=SUM)
            self.forget_starts()
            with self.subTest(number=number):
                said = self.open_mpi(script)
                self.assertEqual((said.split().count("done"), said.count(plain)), (NODES, NODES), said)
                for process in self.processes("quell-peers"):
                    # It may have been stopped.
                    os.kill(process, signal.SIGKILL)

    def spoiling(self, word: str, moment: float) -> str:
        """Sends this signal to the node's process of peers: that of this test's binary in this node's network."""
        here = "$(readlink /proc/self/ns/net)"
        look = (
            f"for p in $(pgrep -x quell-peers); do test \"$(readlink /proc/$p/ns/net)\" = \"{here}\" || continue; "
            f"test \"$(readlink /proc/$p/exe)\" = {self.binary} && kill -{word} $p; done"
        )
        return f"(sleep {moment}; for _ in 1 2 3 4 5; do {look}; sleep 0.02; done) > /dev/null 2>&1 &"


def counted() -> dict[int, Counter]:
    """Operations of each node by kind."""
    nodes = json.loads(rig("counters", "--json"))["nodes"]
    return {node["node"]: Counter({k: n for k, n in node["operations"].items() if k != "total"}) for node in nodes}


if __name__ == "__main__":
    unittest.main()
