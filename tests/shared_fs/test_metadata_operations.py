"""Counts of a real metadata server when a program starts from its image.

The program is the import of numpy, scipy.stats and pandas; the round trip is +500 us; the counters are the server's own.
Reads of data are left out: they are the image's blocks.
"""

import unittest

from shared_fs import EMPTY_SEARCH_PATH, PROGRAM, Fixture

FIRST, FURTHER = 10, 2
PLAIN_FIRST, PLAIN_FURTHER = 2500, 1500
# Operations that the empty directories add for clients that remember absences. Other clients ask again for each process.
PLAIN_SEARCH = 400


def setUpModule() -> None:
    Fixture.begin()


class MetadataOperations(unittest.TestCase):
    def test_a_plain_start_asks_the_server_thousands_of_times(self) -> None:
        with Fixture.policy("lustre"):
            self.assertGreater(Fixture.measure([1], PROGRAM, cold=True).total, PLAIN_FIRST)
            self.assertGreater(Fixture.measure([1], PROGRAM).total, PLAIN_FURTHER)

    def test_from_the_image_the_first_process_of_a_node_asks_at_most_10_times_and_further_ones_at_most_2(self) -> None:
        for policy in ("lustre", "nfs"):
            with self.subTest(policy=policy), Fixture.policy(policy):
                self.assertLessEqual(Fixture.measure([2], Fixture.packed(), cold=True).total, FIRST)
                with Fixture.rank_on(2):
                    for _ in range(3):
                        self.assertLessEqual(Fixture.measure([2], Fixture.packed()).total, FURTHER)

    def test_8_processes_at_once_on_a_cold_node_ask_as_one_first_and_seven_further(self) -> None:
        for policy in ("lustre", "nfs"):
            with self.subTest(policy=policy), Fixture.policy(policy):
                measured = Fixture.measure([2], Fixture.packed(), processes=8, cold=True)
                self.assertLessEqual(measured.total, FIRST + 7 * FURTHER)

    def test_4_cold_nodes_at_once_ask_as_4_first_processes(self) -> None:
        for policy in ("lustre", "nfs"):
            with self.subTest(policy=policy), Fixture.policy(policy):
                measured = Fixture.measure([1, 2, 3, 4], Fixture.packed(), cold=True)
                for node, operations in measured.by_node.items():
                    self.assertLessEqual(operations, FIRST, f"node {node}: {measured.operations[node]}")

    def test_without_any_client_cache_only_the_names_that_lead_to_the_mount_are_asked_again(self) -> None:
        with Fixture.policy("strict"):
            measured = Fixture.measure([2], Fixture.packed(), cold=True)
            names, seconds = Fixture.names_to_the_mount(), int(measured.seconds) + 1
            self.assertLessEqual(measured.total, FIRST + names * seconds)

    def test_30_empty_directories_on_the_library_path_cost_nothing_more(self) -> None:
        environment = {"LD_LIBRARY_PATH": EMPTY_SEARCH_PATH}
        image = Fixture.image("searched", environment)
        with Fixture.policy("lustre"):
            plain = Fixture.measure([1], PROGRAM, cold=True, environment=environment)
            self.assertGreater(plain.total, PLAIN_FIRST + PLAIN_SEARCH)
            packed = Fixture.measure([2], Fixture.packed(image), cold=True, environment=environment)
            self.assertLessEqual(packed.total, FIRST)
            with Fixture.rank_on(2, image, environment):
                further = Fixture.measure([2], Fixture.packed(image), environment=environment)
                self.assertLessEqual(further.total, FURTHER)


if __name__ == "__main__":
    unittest.main()
