"""What `run --stats` and `record` say that the client counted, beside what its server counted."""

import json
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

from shared_fs import PROGRAM, QUELL, SHARED, Fixture, on, rig

USER = "1000"
# Of a few operations one more or less is no 1 %.
FEW = 3
# Changes of a name, which the client's class `change` holds together.
CHANGES = ("setattr", "mkdir", "rmdir", "symlink", "mknod", "unlink", "rename", "link")


def setUpModule() -> None:
    Fixture.begin()


def measured(command: Sequence[str], *flags: str) -> dict[str, int]:
    """The master's counts of a command on a node, by the client's classes. Its reads are questions for the place of data."""
    found = json.loads(rig("measure", "--json", *flags, "2", "--", *command))
    (counted,) = found["nodes"]
    assert counted["processes"][0]["exit_status"] == 0, counted
    operations = counted["operations"]
    classes = {name: operations[name] for name in ("lookup", "getattr", "open", "readdir", "readlink")}
    return classes | {"change": sum(operations[name] for name in CHANGES), "other": operations["statfs"]}


class Counters(unittest.TestCase):
    def setUp(self) -> None:
        # On the node's own disk: what quell writes must not be counted.
        local = tempfile.TemporaryDirectory()
        self.addCleanup(local.cleanup)
        self.local = Path(local.name)
        self.local.chmod(0o777)

    def assert_same(self, counters: dict[str, object], master: dict[str, int]) -> None:
        """Within 1 % of the master's, by class and in all."""
        (found,) = (one for one in counters["file_systems"] if one["mount_point"] == str(SHARED))
        client = found["at_server"]
        print(f"client {client}\nmaster {master}")
        for name in client.keys() | {name for name, count in master.items() if count}:
            expected, said = master.get(name, 0), client.get(name, 0)
            # The client counts attributes of files that it has just opened too, and knows them.
            least, most = expected - max(FEW, 0.01 * expected), expected + max(FEW, 0.01 * expected)
            self.assertGreaterEqual(said, least, name)
            if name != "getattr":
                self.assertLessEqual(said, most, name)
        total = sum(master.values())
        self.assertLessEqual(abs(sum(client.values()) - total), max(FEW, 0.01 * total))

    def test_the_client_of_a_plain_run_says_what_the_master_says(self) -> None:
        stats = self.local / "stats.json"
        for policy in ("lustre", "strict"):
            with self.subTest(policy), Fixture.policy(policy):
                command = [QUELL, "run", "--mode", "off", "--stats", str(stats), str(self.local / "no.qimg"), "--", *PROGRAM]
                master = measured(command, "--user", USER)
                self.assert_same(json.loads(stats.read_text())["client_counters"], master)

    def test_changes_are_counted(self) -> None:
        stats, place = self.local / "stats.json", SHARED / "tests/changes"
        script = f"mkdir {place}; cd {place}; for i in $(seq 200); do : > f$i; ln f$i g$i; chmod 600 f$i; rm f$i; done; rm -r {place}"
        with Fixture.policy("lustre"):
            command = [QUELL, "run", "--mode", "off", "--stats", str(stats), str(self.local / "no.qimg"), "--", "sh", "-c", script]
            master = measured(command)
            self.assert_same(json.loads(stats.read_text())["client_counters"], master)

    def test_a_run_from_an_image_has_them_too(self) -> None:
        stats = self.local / "stats.json"
        with Fixture.policy("lustre"):
            command = Fixture.packed()
            command[2:2] = ["--stats", str(stats)]
            master = measured(command)
            self.assert_same(json.loads(stats.read_text())["client_counters"], master)

    def test_a_recording_has_them_and_its_report_shows_them(self) -> None:
        trace = self.local / "program.qtrace"
        with Fixture.policy("lustre"):
            on(2, QUELL, "record", "--engine", "ptrace", "-o", str(trace), "--", *PROGRAM)
        header = json.loads((trace / "header.json").read_text())
        (found,) = header["client_counters"]["file_systems"]
        self.assertGreater(found["at_server"]["lookup"], 1000)
        shown = on(2, QUELL, "report", str(trace))
        self.assertIn("Counted by the clients of node", shown)
        self.assertRegex(shown, rf"\b{found['at_server']['open']} .* open +server +fuse.mfs +{SHARED}")

    def test_reading_counters_asks_the_server_nothing(self) -> None:
        with Fixture.policy("strict"):
            # Names and attributes of directories are kept for a second.
            command = ["sh", "-c", f"for _ in 1 2 3 4 5; do sleep 1.2; {QUELL} run --mode off --stats {self.local}/s x.qimg -- true; done"]
            master = measured(command)
        self.assertEqual(sum(master.values()), 0, master)


if __name__ == "__main__":
    unittest.main()
