"""A start of Julia's shape asks the metadata server thousands of times, and from the image at most 10 times."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import julia
from shared_fs import QUELL, SHARED, WORK, Fixture, on, rig

TREE = SHARED / "julia"
SCRIPT = Path(julia.__file__)
PROGRAM = [str(SCRIPT), "start", str(TREE)]
TRACE, IMAGE = WORK / "julia.qtrace", WORK / "julia.qimg"
MOST = 10
# Each name is asked for once at least; a client that keeps names answers the rest.
PLAIN = julia.PACKAGES * julia.FILES


def setUpModule() -> None:
    Fixture.begin()
    with tempfile.TemporaryDirectory() as local:
        subprocess.run([sys.executable, str(SCRIPT), "make", local], check=True)
        rig("fill", "julia", local)
    # A client that keeps names still knows the tree that an earlier run put there.
    rig("cold")
    on(1, QUELL, "record", "--force", "-o", str(TRACE), "--", *PROGRAM)
    on(1, QUELL, "pack", "--force", str(TRACE), "-o", str(IMAGE))


class JuliaShape(unittest.TestCase):
    def test_the_program_makes_the_calls_that_it_says(self) -> None:
        report = json.loads(on(1, QUELL, "report", "--json", str(TRACE)))
        shared = [row for row in report["file_systems"] if row["mount_point"] == str(SHARED)]
        # Python asks for the attributes of what it has opened twice.
        self.assertEqual([row["metadata_operations"] for row in shared], [julia.STATS + 3 * len(julia.OPENED)])

    def test_from_the_image_the_server_is_asked_at_most_10_times(self) -> None:
        # The node's own disk takes the statistics: writing them to the shared one would be counted too.
        with tempfile.TemporaryDirectory() as local:
            stats = Path(local, "stats.json")
            packed = [QUELL, "run", "--require", "--check", "none", "--stats", str(stats), str(IMAGE), "--", *PROGRAM]
            for policy in ("lustre", "nfs"):
                with self.subTest(policy=policy), Fixture.policy(policy):
                    self.assertGreater(Fixture.measure([1], PROGRAM, cold=True).total, PLAIN)
                    self.assertLessEqual(Fixture.measure([2], packed, cold=True).total, MOST)
                    self.assertEqual(sum(json.loads(stats.read_text())["original"].values()), 0)


if __name__ == "__main__":
    unittest.main()
