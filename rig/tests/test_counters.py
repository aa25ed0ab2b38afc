"""Running totals over sessions that come and go and hours that turn, and the session list's bytes."""

import struct
import unittest
from collections.abc import Sequence

from quellrig.counters import Totals, change
from quellrig.errors import RigError
from quellrig.moosefs import OPERATIONS, Session, _parse_sessions

HOUR = 3600
NOON = 1000 * HOUR
NODES = {"10.71.1.1": 1, "10.71.1.2": 2}


def session(current: int, last: int, number: int = 7, address: str = "10.71.1.1") -> Session:
    return Session(number, address, {"lookup": current}, {"lookup": last})


def total(readings: Sequence[tuple[float, Session | None]]) -> tuple[int, int]:
    """Lookups of node 1 after the readings, and the gaps."""
    totals = Totals.from_json(None)
    for now, one in readings:
        totals.add([one] if one else [], NODES, now)
        totals = Totals.from_json(totals.to_json())
    return totals.of(1)["lookup"], totals.gaps


class TestTotals(unittest.TestCase):
    def test_by_case(self) -> None:
        cases: dict[str, tuple[Sequence[tuple[float, Session | None]], tuple[int, int]]] = {
            "first reading counts both hours": ([(NOON + 60, session(3, 4))], (7, 0)),
            "within an hour": ([(NOON + 60, session(3, 4)), (NOON + 70, session(10, 4))], (14, 0)),
            "idle": ([(NOON + 60, session(3, 4)), (NOON + 70, session(3, 4))], (7, 0)),
            "over a turn": ([(NOON - 60, session(3, 0)), (NOON + 60, session(2, 8))], (10, 0)),
            "over a turn, to equal counts": ([(NOON - 60, session(5, 5)), (NOON + 60, session(5, 5))], (15, 0)),
            "master turned late": ([(NOON - 60, session(3, 1)), (NOON + 1, session(9, 1))], (10, 0)),
            "master turned, then read": ([(NOON - 1, session(9, 1)), (NOON + 1, session(2, 9))], (12, 0)),
            "master turned late, read again": (
                [(NOON - 60, session(3, 1)), (NOON + 1, session(9, 1)), (NOON + 60, session(2, 9))],
                (12, 0),
            ),
            "two turns": ([(NOON - 60, session(3, 0)), (NOON + HOUR + 60, session(2, 8))], (13, 1)),
            "a session that goes": ([(NOON + 60, session(3, 0)), (NOON + 61, None)], (3, 0)),
            "a session that follows": (
                [(NOON + 60, session(3, 0)), (NOON + 61, None), (NOON + 62, session(5, 0, number=8))],
                (8, 0),
            ),
            "another address": ([(NOON + 60, session(3, 0, address="10.71.0.1"))], (0, 0)),
        }
        for name, (readings, expected) in cases.items():
            with self.subTest(name):
                self.assertEqual(total(readings), expected)

    def test_an_earlier_life_is_ignored(self) -> None:
        totals = Totals.from_json(None)
        totals.ignore([session(100, 50)], NOON + 60)
        totals.add([session(103, 50)], NODES, NOON + 61)
        self.assertEqual(totals.of(1)["lookup"], 3)

    def test_change_has_a_total(self) -> None:
        self.assertEqual(change({"open": 1, "read": 2}, {"open": 4, "read": 2}), {"open": 3, "read": 0, "total": 3})


def listed(count: int, *sessions: tuple[int, bytes, list[int]]) -> bytes:
    data = struct.pack(">H", count)
    for number, address, values in sessions:
        data += struct.pack(">L4sHBBLBL", number, address, 3, 0, 117, 5, 1, 0)
        for text in (b"/mnt/quell-rig", b"/"):
            data += struct.pack(">L", len(text)) + text
        data += bytes(33) + struct.pack(f">{2 * count}L", *values)
    return data


class TestSessionList(unittest.TestCase):
    def test_sessions(self) -> None:
        count = len(OPERATIONS)
        values = list(range(2 * count))
        data = listed(count, (7, bytes([10, 71, 1, 2]), values), (8, bytes([10, 71, 0, 1]), values))
        first, second = _parse_sessions(data)
        self.assertEqual((first.number, first.address, second.address), (7, "10.71.1.2", "10.71.0.1"))
        self.assertEqual((first.current["lookup"], first.last["lookup"]), (3, 3 + count))

    def test_counters_of_a_newer_master_are_kept(self) -> None:
        count = len(OPERATIONS) + 1
        (one,) = _parse_sessions(listed(count, (7, bytes(4), [1] * 2 * count)))
        self.assertEqual(one.current[f"other {len(OPERATIONS)}"], 1)

    def test_a_truncated_list_is_an_error(self) -> None:
        data = listed(16, (7, bytes(4), [1] * 32))
        for length in range(3, len(data)):
            with self.subTest(length), self.assertRaises(RigError):
                list(_parse_sessions(data[:length]))
