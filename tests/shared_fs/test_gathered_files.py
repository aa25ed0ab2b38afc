"""Counts of a real metadata server when 4 nodes with 8 processes each make small files in one directory.

The round trip is +500 us; the counters are the server's own.
"""

import json
import os
import unittest

from shared_fs import NODES, QUELL, WORK, Fixture, on, rig

PROCESSES = 8
FILES = int(os.environ.get("QUELL_TEST_FILES", "40"))
# Of each node: a container, and what the directory of a container costs besides.
CREATES = 3

PROGRAM = f"""
import os, sys
for number in range({FILES}):
    with open(f"{{sys.argv[1]}}/rank-{{os.uname().nodename}}-{{os.getpid()}}-{{number}}", "w") as file:
        file.write("x" * 2000)
"""


def setUpModule() -> None:
    Fixture.up()


class GatheredFiles(unittest.TestCase):
    def measured(self, name: str, *words: str) -> tuple[list[dict[str, int]], float]:
        """Operations of each node, by kind, and seconds."""
        directory = WORK / name
        on(1, "rm", "-rf", str(directory))
        on(1, "mkdir", "-p", str(directory))
        run = [word.replace("DIR", str(directory)) for word in words]
        command = [*run, "/usr/bin/python3", "-c", PROGRAM, str(directory)]
        nodes = [str(node) for node in range(1, NODES + 1)]
        found = json.loads(rig("measure", *nodes, "--json", "--procs", str(PROCESSES), "--", *command))
        self.assertFalse(any(process["exit_status"] for node in found["nodes"] for process in node["processes"]), found)
        print(name, [node["operations"] for node in found["nodes"]], f"{found['wall_seconds']:.2f} s")
        return [node["operations"] for node in found["nodes"]], found["wall_seconds"]

    def test_a_node_makes_one_file_and_writes_it_in_large_pieces(self) -> None:
        plain, _ = self.measured("plain")
        for operations in plain:
            self.assertGreaterEqual(operations["mknod"], PROCESSES * FILES)
        gathered, _ = self.measured("gathered", QUELL, "-q", "run", "--require", "--gather", "DIR", "--")
        for operations in gathered:
            self.assertLessEqual(operations["mknod"] + operations["mkdir"], CREATES)
            self.assertLess(operations["total"] * 10, PROCESSES * FILES)
        listed = on(1, QUELL, "-q", "gather", "extract", "--fsync", str(WORK / "gathered"))
        self.assertEqual(listed, "")
        names = on(1, "sh", "-c", f"ls {WORK}/gathered | grep -c rank-; cat {WORK}/gathered/rank-* | wc -c").split()
        self.assertEqual(names, [str(NODES * PROCESSES * FILES), str(NODES * PROCESSES * FILES * 2000)])


if __name__ == "__main__":
    unittest.main()
