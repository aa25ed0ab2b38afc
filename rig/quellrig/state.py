"""The state directory: what is up, what was started, and the server's data, which outlives `down`.

    state.json     what is up now; absent when nothing is
    counters.json  running totals of the server's operation counters
    lock           held by a command that changes the rig
    wire.sock      control socket of the wire
    etc/ log/      configuration and logs of the daemons
    data/          the server's data
    venv/          the Python environment on the local disk

Nothing else on the machine is written, but for the empty mount point and the switch of proactive reclaim.
"""

import contextlib
import dataclasses
import fcntl
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import RigError
from .processes import Process

DEFAULT_DIRECTORY = "/var/tmp/quell-rig"

_LONGEST_SOCKET_PATH = 107  # sizeof sun_path less the final zero, unix(7)


@dataclass
class State:
    """The rig that is up. Keys of `processes`: wire, server, master, chunkserver, `node K`, `mount K`. `reclaim` is switched off."""

    token: str
    boot: str
    nodes: int
    latency_us: float
    policies: dict[int, str] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    networks: dict[str, int] = field(default_factory=dict)
    reclaim: list[str] = field(default_factory=list)
    complete: bool = False


class Directory:
    """The state directory and its files."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.etc = self.path / "etc"
        self.log = self.path / "log"
        self.data = self.path / "data"
        self.venv = self.path / "venv"
        self.socket = self.path / "wire.sock"
        self._state = self.path / "state.json"
        self._counters = self.path / "counters.json"

    def make(self) -> None:
        """Makes the directory and its subdirectories; for root only, as the control socket lies here."""
        if any(character in str(self.path) for character in " \t\n#"):
            raise RigError(f"state directory `{self.path}` has a blank or `#` in its name", "choose another with --dir")
        if len(str(self.socket)) > _LONGEST_SOCKET_PATH:
            raise RigError(f"state directory `{self.path}` has too long a name", "choose a shorter one with --dir")
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o711)
        for part in (self.etc, self.log, self.data):
            part.mkdir(exist_ok=True, mode=0o700)

    def require_space(self, mebibytes: int) -> None:
        """Refuses to go on with less free space than this: MooseFS would retry for ever."""
        free = shutil.disk_usage(self.path).free >> 20
        if free < mebibytes:
            raise RigError(
                f"state directory `{self.path}` has {free} MiB free, {mebibytes} MiB are needed",
                "free some space, or choose another file system with --dir",
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other commands of the same rig out. Without a state directory it does nothing."""
        if not self.path.exists():
            yield
            return
        with (self.path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def load(self) -> State | None:
        """The rig that is up, or was before a reboot; `None` without one."""
        raw = self._read(self._state)
        if raw is None:
            return None
        raw["policies"] = {int(node): policy for node, policy in raw["policies"].items()}
        raw["processes"] = {name: Process(**process) for name, process in raw["processes"].items()}
        return State(**raw)

    def save(self, state: State) -> None:
        """Writes what is up, all or nothing."""
        self._write(self._state, dataclasses.asdict(state))

    def clear(self) -> None:
        """Forgets what was up; the data stays."""
        for path in (self._state, self._counters, self.socket):
            path.unlink(missing_ok=True)

    def load_counters(self) -> dict[str, Any] | None:
        """The running totals, as `counters` keeps them."""
        return self._read(self._counters)

    def save_counters(self, totals: dict[str, Any]) -> None:
        """Writes the running totals, all or nothing."""
        self._write(self._counters, totals)

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            content: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise RigError(f"`{path}` is damaged: {error}", "remove it, and end the processes it names") from error
        return content

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        temporary = path.with_suffix(".new")
        try:
            temporary.write_text(json.dumps(content, indent=1))
            temporary.replace(path)
        except OSError as error:
            raise RigError(f"cannot write `{path}`: {error.strerror}", "see `df` for the state directory") from error


def boot_id() -> str:
    """Changes with each boot: start times of processes are only comparable within one."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
