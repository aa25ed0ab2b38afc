"""Each step of the cookbook's recipe saves at the metadata server what it saves in files and directories."""

import json
import unittest

import module_trees
from shared_fs import Fixture, on, rig

NAMES, MODULEFILES = 15, 116
# In each of two modulepaths every name has an rc file; merged, a modulepath has one. In each two names have a file that is for a
# version to come, a README, and one that cannot be read, of which a client may know that without asking.
MERGED = 2 * NAMES - 2
OPENED = MODULEFILES + 2 * 4
CLOSED = 4
STEPS = ("plain", "rc", "eval", "virtual")


def setUpModule() -> None:
    Fixture.begin()
    module_trees.fill(module_trees.tool("5.2.0"), NAMES, STEPS)


def tearDownModule() -> None:
    on(1, "rm", "-rf", str(module_trees.PLACE))


class Recipe(unittest.TestCase):
    def test_each_step_lists_as_many_modulefiles_and_saves_its_opens_and_listings(self) -> None:
        asked = {}
        for step in STEPS:
            command = module_trees.words(module_trees.tool("5.2.0"), step, "avail", "-t", "-o", "")
            listed = on(1, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", '"$@" 2>&1', "sh", *command)
            self.assertEqual(sum(1 for line in listed.split("\n") if line and not line.endswith(":")), MODULEFILES, step)
            found = json.loads(rig("measure", "--cold", "--json", "--user", "nobody", "1", "--", *command))
            asked[step] = found["nodes"][0]["operations"]
        with self.subTest("merged rc files"):
            self.assertEqual(asked["plain"]["open"] - asked["rc"]["open"], MERGED)
        with self.subTest("modulefiles that are not opened"):
            self.assertIn(asked["rc"]["open"] - asked["eval"]["open"], (OPENED, OPENED + CLOSED))
        with self.subTest("directories that are not listed"):
            self.assertEqual(asked["eval"]["readdir"] - asked["virtual"]["readdir"], 2 * NAMES)


if __name__ == "__main__":
    unittest.main()
