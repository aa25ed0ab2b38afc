"""A file that another node makes beside the program, awaited by the program, appears: the image never says it is absent."""

import subprocess
import unittest

from shared_fs import QUELL, RIG, SHARED, WORK, Fixture, on

BESIDE = SHARED / "waiting"
PROGRAM = BESIDE / "program.sh"
FLAG = BESIDE / "flag"
TRACE, IMAGE = WORK / "waiting.qtrace", WORK / "waiting.qimg"
PYTHON = SHARED / "venv/bin/python"
SCRIPT = '"$2" -c "import json"; until test -e "$1"; do sleep 0.2; done; cat "$1"'


def setUpModule() -> None:
    Fixture.begin()


class AwaitedFiles(unittest.TestCase):
    def test_a_file_that_another_node_makes_appears_while_the_program_waits_for_it(self) -> None:
        on(1, "rm", "-rf", str(BESIDE))
        on(1, "mkdir", str(BESIDE))
        on(1, "sh", "-c", f"printf '%s\\n' '{SCRIPT}' > {PROGRAM}")
        program = ["sh", str(PROGRAM), str(FLAG), str(PYTHON)]
        # A client that remembers absences would itself hide the file, with quell or without.
        with Fixture.policy("strict"):
            self.record_pack_run(program)

    def record_pack_run(self, program: list[str]) -> None:
        self.assertEqual(self.run_and_make(1, [QUELL, "record", "--force", "-o", str(TRACE), "--", *program]), "first\n")
        on(3, "rm", str(FLAG))
        on(1, QUELL, "pack", "--force", str(TRACE), "-o", str(IMAGE))
        self.assertEqual(self.run_and_make(2, [QUELL, "run", "--require", str(IMAGE), "--", *program]), "first\n")

    def run_and_make(self, node: int, command: list[str]) -> str:
        """The command's output when another node makes the file a while after its start."""
        with subprocess.Popen([RIG, "exec", str(node), "--", *command], stdout=subprocess.PIPE, text=True) as running:
            with self.assertRaises(subprocess.TimeoutExpired):
                running.wait(2)
            on(3, "sh", "-c", f"echo first > {FLAG}.new && mv {FLAG}.new {FLAG}")
            try:
                printed, _ = running.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                running.kill()
                self.fail("the file never appeared")
        self.assertEqual(running.returncode, 0)
        return printed


if __name__ == "__main__":
    unittest.main()
