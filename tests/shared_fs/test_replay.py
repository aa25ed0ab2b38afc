"""A replay asks the metadata server what the program's own start asked, within 2 % by class of operation."""

import json
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

from shared_fs import PROGRAM, QUELL, SHARED, Fixture, on, rig

TREE = SHARED / "synthetic"
# Of a class with few operations one more or less is no 2 %.
FEW = 3
STATS = 12_000


def setUpModule() -> None:
    Fixture.begin()


def operations(node: int, command: Sequence[str]) -> dict[str, int]:
    """The server's counts for a cold node, by class."""
    found = json.loads(rig("measure", "--cold", "--json", str(node), "--", *command))
    (counted,) = found["nodes"]
    assert counted["processes"][0]["exit_status"] == 0, counted
    return {name: count for name, count in counted["operations"].items() if name != "total"}


class Replay(unittest.TestCase):
    def setUp(self) -> None:
        # On the node's own disk: the trace and the tool must not be counted.
        local = tempfile.TemporaryDirectory()
        self.addCleanup(local.cleanup)
        self.trace = Path(local.name) / "program.qtrace"

    def replay(self, root: Path) -> list[str]:
        return [QUELL, "replay", str(self.trace), "--root", str(root)]

    def test_a_replay_of_the_import_asks_what_the_import_asks(self) -> None:
        on(1, QUELL, "record", "-o", str(self.trace), "--", *PROGRAM)
        with Fixture.policy("lustre"):
            plain = operations(2, PROGRAM)
            replayed = operations(3, self.replay(SHARED))
        print(f"plain {plain}\nreplay {replayed}")
        for name in plain.keys() | replayed.keys():
            expected, found = plain.get(name, 0), replayed.get(name, 0)
            self.assertLessEqual(abs(found - expected), max(FEW, 0.02 * expected), f"{name}: {found} for {expected}")

    def test_a_made_tree_is_asked_for_as_often_as_its_shape_says(self) -> None:
        on(1, "rm", "-rf", str(TREE))
        on(1, QUELL, "synth", "julia", "--tree", str(TREE), "-o", str(self.trace))
        with Fixture.policy("strict"):
            counted = operations(2, self.replay(TREE))
        print(f"julia {counted}")
        on(1, "rm", "-rf", str(TREE))
        # No name of a file is kept under this policy; those of directories are for a second.
        self.assertGreaterEqual(counted["lookup"], STATS)
        self.assertLessEqual(counted["lookup"], 1.05 * STATS)


if __name__ == "__main__":
    unittest.main()
