"""Running totals of the server's operation counters, by node.

The master counts by session and clock hour, shows this hour and the last, and forgets a session when its client goes.
So the rig reads before it ends a client, and adds what is new to a total that starts when the rig comes up.
"""

import time
from dataclasses import dataclass
from typing import Any

from .moosefs import OPERATIONS, Session

_HOUR = 3600

# Around the turn of the hour, the master's clock may be this far from the rig's, in seconds.
_TURN = 2.0


@dataclass
class Totals:
    """Operations by node since `up`; `gaps` counts the readings that came too late to see all."""

    nodes: dict[str, dict[str, int]]
    sessions: dict[str, dict[str, Any]]
    gaps: int = 0

    @classmethod
    def from_json(cls, raw: dict[str, Any] | None) -> "Totals":
        """As `to_json` wrote it; nothing counted yet when there is none."""
        return cls(**raw) if raw else cls(nodes={}, sessions={})

    def to_json(self) -> dict[str, Any]:
        """For the state directory."""
        return {"nodes": self.nodes, "sessions": self.sessions, "gaps": self.gaps}

    def of(self, node: int) -> dict[str, int]:
        """Counters of a node, zeros included."""
        return dict.fromkeys(OPERATIONS, 0) | self.nodes.get(str(node), {})

    def ignore(self, sessions: list[Session], now: float) -> None:
        """Takes what the sessions have done so far as seen: they are of an earlier life of the rig."""
        for session in sessions:
            self._remember(session, now)

    def add(self, sessions: list[Session], node_of: dict[str, int], now: float | None = None) -> None:
        """Adds what is new since the last reading; `node_of` gives the node of an address."""
        now = time.time() if now is None else now
        for session in sessions:
            node = node_of.get(session.address)
            if node is not None:
                total = self.nodes.setdefault(str(node), {})
                for operation, count in self._new(session, now).items():
                    total[operation] = total.get(operation, 0) + count
            self._remember(session, now)
        alive = {str(session.number) for session in sessions}
        self.sessions = {number: seen for number, seen in self.sessions.items() if number in alive}

    def _remember(self, session: Session, now: float) -> None:
        self.sessions[str(session.number)] = {"current": session.current, "last": session.last, "time": now}

    def _new(self, session: Session, now: float) -> dict[str, int]:
        """Operations of a session since it was last read.

        The master's hours are those of the epoch (`main_time_register(3600, 0, ...)` in its source). Close to a turn
        the counters tell whether it has made it: before, `last` is as it was and nothing in `current` has fallen.
        """
        seen = self.sessions.get(str(session.number))
        if seen is None:
            return _sum(session.current, session.last)
        before, last, then = seen["current"], seen["last"], seen["time"]
        turns = int(now // _HOUR) - int(then // _HOUR)
        if turns <= 1 and (_at_turn(then) or _at_turn(now)):
            fallen = any(count < before.get(name, 0) for name, count in session.current.items())
            turns = 1 if fallen or session.last != last else 0
        if turns == 0:
            return _difference(session.current, before)
        if turns == 1:
            return _sum(session.current, _difference(session.last, before))
        # The hour in which it was last read has been forgotten, and with it what was done after that.
        self.gaps += 1
        return _sum(session.current, session.last)


def _at_turn(now: float) -> bool:
    return min(now % _HOUR, -now % _HOUR) < _TURN


def _sum(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in a | b}


def _difference(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {name: count - b.get(name, 0) for name, count in a.items()}


def change(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Operations between two readings of a node, with their total."""
    counts = _difference(after, before)
    return counts | {"total": sum(counts.values())}
