"""`quell calibrate` against the rig's truth: the latency that the wire was set to, the policies of its clients, the server's counts."""

import csv
import json
import shutil
import tempfile
import tomllib
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

from mpi import open_mpi
from shared_fs import NODES, QUELL, RIG, WORK, Fixture, on, rig

LATENCY_US = 1000
PLACE = WORK / "calibrate"
SHORT = ["--quick", "--processes=4", "--items=30", "--iterations=1", "--file-size=4M", "--cache-wait=3s"]

# Node 1 makes what 4 processes of 8 threads of node 2 look at.
FILES_FOR_THE_SECOND_CLIENT = 4 * 8 * 30


def setUpModule() -> None:
    Fixture.begin()
    rig("latency", str(LATENCY_US))


def tearDownModule() -> None:
    rig("latency", str(500))


class Calibrated(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="quell-calibrate-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def calibrate(self, policy: str) -> tuple[dict[str, Any], Counter[str], dict[str, int]]:
        """The profile, operations of node 1 by row, and what the server counted for it."""
        with Fixture.policy(policy):
            on(1, "mkdir", "-p", str(PLACE))
            before = counted(1)
            profile, rows = self.directory / "fs.toml", self.directory / "rows.csv"
            on(1, QUELL, "calibrate", str(PLACE), "-o", str(profile), "--csv", str(rows), "--force", *SHORT,
               "--second-client", f"{RIG} exec 2 --")
            after = counted(1)
            self.assertEqual(on(1, "ls", "-A", str(PLACE)), "", "something is left behind")
        done: Counter[str] = Counter()
        with rows.open() as lines:
            for row in csv.DictReader(lines):
                done[f"{row['operation']}, {row['files']}, {row['clients']}"] += int(row["count"])
        return tomllib.loads(profile.read_text()), done, {name: after[name] - before.get(name, 0) for name in after}

    def test_a_client_that_trusts_nothing(self) -> None:
        profile, done, server = self.calibrate("strict")
        self.assert_round_trip(profile)
        client = profile["client"]
        self.assertEqual((median(client["positive_seconds"]), median(client["negative_seconds"])), (0, 0))
        self.assertIn("cpu_us", client, "no time was left for the cost of a request")
        self.assertNotIn("own_answer_shared_us", client, "a request is no answer of the client's daemon")
        # A busy machine notices later.
        self.assertGreaterEqual(median(client["directory_seconds"]), 0.8)
        self.assertLess(median(client["directory_seconds"]), 2.0)
        self.assert_counts(done, server)

    def test_a_client_that_keeps_names_for_half_a_minute(self) -> None:
        profile, done, server = self.calibrate("nfs")
        self.assert_round_trip(profile)
        for key in ("positive_seconds", "negative_seconds", "directory_seconds"):
            watched = profile["client"][key]["p10"]
            self.assertGreaterEqual(watched, 3, f"{key}: watched for less than was asked for")
            self.assertLess(watched, 30, f"{key}: such a client keeps names for 30 s")
            self.assertEqual(median(profile["client"][key]), 3600, f"{key}: taken for the length of a start")
            self.assertIn(f"longer than {watched:.0f} s", profile["client"][key]["source"])
        self.assertTrue(profile["client"]["absences_ask_daemon"])
        shared = profile["client"]["own_answer_shared_us"]
        # More than a kernel's answer, less than a request.
        self.assertGreater(median(shared), 10)
        self.assertLess(median(shared), LATENCY_US)
        self.assert_counts(done, server)

    def test_each_node_of_a_launcher_is_a_client(self) -> None:
        place = Path(tempfile.mkdtemp(prefix="quell-calibrate-ranks-", dir="/run"))
        self.addCleanup(shutil.rmtree, place)
        on(1, "mkdir", "-p", str(PLACE))
        before = {node: sum(counted(node).values()) for node in range(1, NODES + 1)}
        script = place / "rank.sh"
        script.write_text(f"#!/bin/sh\nexec {QUELL} calibrate {PLACE} -o {place}/fs.toml --force {' '.join(SHORT)}\n")
        script.chmod(0o755)
        # Two ranks a node: one of them is the client.
        said = open_mpi(place, str(script), ranks=2)
        self.assertIn("rate (in ops/sec) of 4 processes", said)
        profile = tomllib.loads((place / "fs.toml").read_text())
        self.assertIn(f"{NODES} clients", profile["note"])
        self.assertIn("positive_seconds", profile["client"])
        for node, operations in before.items():
            self.assertGreater(sum(counted(node).values()) - operations, 100, f"node {node} did nothing")
        self.assertEqual(on(1, "ls", "-A", str(PLACE)), "", "something is left behind")

    def assert_round_trip(self, profile: dict[str, Any]) -> None:
        """One round trip is taken for one; a busy machine adds to it."""
        self.assertGreater(median(profile["network"]["round_trip_us"]), 0.75 * LATENCY_US)
        self.assertLess(least(profile["network"]["round_trip_us"]), 2 * LATENCY_US)

    def assert_counts(self, done: Counter[str], server: dict[str, int]) -> None:
        """Calls that the profile names cold reached the server; each change reached it once."""
        # A row of two clients does not tell them apart.
        alone = done["create, cold, 1"] + FILES_FOR_THE_SECOND_CLIENT
        self.assertGreaterEqual(server["mknod"], alone)
        self.assertLessEqual(server["mknod"], alone + done["create, cold, 2"])
        self.assertEqual(server["rename"], done["rename, own client's, 1"])
        cold = ("stat absent, cold, 1", "stat, other client's, 1", "open, other client's, 1", "create, cold, 1")
        self.assertGreaterEqual(server["lookup"], sum(done[row] for row in cold))


def counted(node: int) -> dict[str, int]:
    found: dict[str, int] = json.loads(rig("counters", "--json", str(node)))["nodes"][0]["operations"]
    return found


def median(figure: Any) -> float:
    """A figure of a profile is a number, or a spread."""
    return float(figure["p50"] if isinstance(figure, dict) else figure)


def least(figure: Any) -> float:
    """The tenth percentile, which a busy machine moves least."""
    return float(figure["p10"] if isinstance(figure, dict) else figure)


if __name__ == "__main__":
    unittest.main()
