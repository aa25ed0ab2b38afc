"""Programs that all nodes of the rig run at once in one directory, which is made for them and removed afterwards."""

import itertools
import subprocess
from pathlib import Path

import harness
from harness import QUELL
from rivals import rig

NODES = 4
GATHERED = [QUELL, "-q", "run", "--require", "--gather", "DIR", "--"]
_numbers = itertools.count()


def shared() -> Path:
    """A directory on the rig. A new name each time: other nodes remember a directory that is removed."""
    return Path(f"/mnt/quell-rig/bench-crowded-{next(_numbers)}")


def counted(place: Path, words: list[str], processes: int, names: int) -> rig.Measured:
    """One run in an empty directory, after which there are so many names. `DIR` stands for the directory."""
    outcome = made(place, words, processes)
    clear(place, names)
    return outcome


def made(place: Path, words: list[str], processes: int) -> rig.Measured:
    """One run in a directory, which stays."""
    on(1, "mkdir", "-p", str(place))
    return rig.Fixture.measure(range(1, NODES + 1), [word.replace("DIR", str(place)) for word in words], processes)


def clear(place: Path, names: int) -> None:
    """Removes the directory, in which there must be so many names."""
    if len(on(1, "ls", "-A", str(place)).split()) != names:
        harness.fail("files are missing")
    on(1, "rm", "-rf", str(place))


def on(node: int, *command: str) -> str:
    """Runs a command on a node; its standard output."""
    done = subprocess.run([rig.RIG, "exec", str(node), "--", *command], check=True, capture_output=True, text=True)
    return done.stdout
