"""Proactive reclaim of the machine's kernel (DAMON), off while the rig is up.

A machine may drop cached pages that were not used for some seconds, although the memory is not needed: virtual machines do
it for their host. A node then reads again what it had read, and counts tell of the machine.
"""

from pathlib import Path

_STATES = "kdamonds/*/state"
_ADMIN = Path("/sys/kernel/mm/damon/admin")


def running() -> list[str]:
    """The instances that run, by their files below /sys."""
    return [str(state) for state in sorted(_ADMIN.glob(_STATES)) if _read(state) == "on"]


def switch(states: list[str], word: str) -> None:
    """Switches these `on` or `off`. Where that is not allowed, counts may be somewhat higher."""
    for state in states:
        try:
            Path(state).write_text(word)
        except OSError:
            pass


def _read(state: Path) -> str:
    try:
        return state.read_text().strip()
    except OSError:
        return ""
