"""Counts of a real metadata server when a plain program starts on a client that `quell warm` has warmed.

The program is the import of numpy, scipy.stats and pandas; the counters are the server's own. Reads of data are left out.
"""

import json
import unittest

from shared_fs import PROGRAM, QUELL, WORK, Fixture, on

IMAGE, TRACE = WORK / "plain.qimg", WORK / "plain.qtrace"
NODE = 3
# Operations that no client spares: the opening of 953 files, 100 listings and the attributes of what was listed.
WARM_START = 1200


def setUpModule() -> None:
    Fixture.begin()


class Warmed(unittest.TestCase):
    def test_a_plain_start_on_a_warm_client_asks_for_what_no_client_keeps(self) -> None:
        for subject in (IMAGE, TRACE):
            with self.subTest(subject=subject.name), Fixture.policy("lustre"):
                said = json.loads(on(NODE, QUELL, "warm", "--json", str(subject)))
                self.assertEqual((said["missing"], said["changed"], said["skipped"]), (0, 0, 0))
                self.assertLessEqual(Fixture.measure([NODE], PROGRAM).total, WARM_START)

    def test_warming_asks_at_most_half_as_much_again_as_a_start(self) -> None:
        with Fixture.policy("lustre"):
            plain = Fixture.measure([NODE], PROGRAM, cold=True).total
            warming = Fixture.measure([NODE], [QUELL, "-q", "warm", str(IMAGE)], cold=True).total
            self.assertLessEqual(warming, plain + plain // 2)


if __name__ == "__main__":
    unittest.main()
