"""The rig with a recorded and packed program on it, for the tests beside this file."""

import atexit
import contextlib
import json
import os
import subprocess
import unittest
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RIG = str(REPOSITORY / "rig/rig")
QUELL = str(Path(os.environ.get("QUELL", REPOSITORY / "target/release/quell")).resolve())
SHARED = Path("/mnt/quell-rig")
WORK = SHARED / "tests"
PROGRAM = [str(SHARED / "venv/bin/python"), "-c", "import numpy, scipy.stats, pandas"]
LATENCY_US = 500
NODES = 4

_EMPTY = [WORK / f"empty/{number}" for number in range(30)]
EMPTY_SEARCH_PATH = ":".join(map(str, _EMPTY))


@dataclass(frozen=True)
class Measured:
    """Operations by node and kind, and seconds until the last process ended."""

    operations: dict[int, dict[str, int]]
    seconds: float

    @property
    def by_node(self) -> dict[int, int]:
        """Metadata operations, without reads of data."""
        return {node: row["total"] - row.get("read", 0) for node, row in self.operations.items()}

    @property
    def total(self) -> int:
        return sum(self.by_node.values())


class Fixture:
    """One rig for all tests of a run."""

    _up = False
    _ready = False
    _default: Path

    @classmethod
    def up(cls) -> None:
        """Brings the rig up; once."""
        if cls._up:
            return
        if os.geteuid() != 0:
            raise unittest.SkipTest("skipped, because the rig needs root")
        rig("up", "--nodes", str(NODES), "--policy", "lustre", "--latency", str(LATENCY_US))
        atexit.register(rig, "down")
        cls._up = True

    @classmethod
    def begin(cls) -> None:
        """Brings the rig up with the program's image on it; once."""
        if cls._ready:
            return
        cls.up()
        rig("venv")
        on(1, "rm", "-rf", str(WORK))
        on(1, "mkdir", "-p", *map(str, _EMPTY))
        cls._default = cls.image("plain", {})
        cls._ready = True

    @staticmethod
    def image(name: str, environment: Mapping[str, str]) -> Path:
        """Records the program on node 1 with these variables, and packs it."""
        trace, image = WORK / f"{name}.qtrace", WORK / f"{name}.qimg"
        on(1, QUELL, "record", "--force", "-o", str(trace), "--", *PROGRAM, environment=environment)
        on(1, QUELL, "pack", "--force", str(trace), "-o", str(image))
        return image

    @classmethod
    def packed(cls, image: Path | None = None) -> list[str]:
        """The program from its image. A job checks its originals once, which another test counts."""
        return [QUELL, "run", "--require", "--check", "none", str(image or cls._default), "--", *PROGRAM]

    @staticmethod
    @contextlib.contextmanager
    def policy(name: str) -> Iterator[None]:
        """Every client caches by this policy; all are cold, and no server of an earlier run is about to end on them."""
        for node in range(1, NODES + 1):
            on(node, "sh", "-c", "for _ in $(seq 150); do pgrep --ns $$ --nslist net 'quell-(server|holder)' || exit 0; sleep 0.2; done")
        rig("policy", name)
        yield

    @staticmethod
    def measure(
        nodes: Sequence[int],
        command: Sequence[str],
        processes: int = 1,
        cold: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Measured:
        """Runs the command on all nodes at once, and counts."""
        flags = ["--json", "--procs", str(processes), *(["--cold"] if cold else [])]
        found = json.loads(rig("measure", *map(str, nodes), *flags, "--", *_with(environment, command)))
        operations = {node["node"]: node["operations"] for node in found["nodes"]}
        statuses = [process["exit_status"] for node in found["nodes"] for process in node["processes"]]
        assert not any(statuses), f"exit statuses {statuses}"
        return Measured(operations, found["wall_seconds"])

    @classmethod
    @contextlib.contextmanager
    def rank_on(
        cls, node: int, image: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> Iterator[None]:
        """Another rank of the job runs on this node, so that those measured are further ones."""
        program = cls.packed(image)[:-len(PROGRAM)] + ["sh", "-c", '"$@" && echo ready && exec sleep 600', "sh", *PROGRAM]
        command = [RIG, "exec", str(node), "--", *_with(environment, program)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as rank:
            try:
                assert rank.stdout is not None and rank.stdout.readline() == b"ready\n"
                yield
            finally:
                rank.terminate()

    @staticmethod
    def names_to_the_mount() -> int:
        """Names that a walk to the mounted root passes on the shared file system."""
        return len((SHARED / "venv").relative_to(SHARED).parts)


def on(node: int, *command: str, environment: Mapping[str, str] | None = None) -> str:
    """Runs a command on a node, and returns what it printed."""
    return rig("exec", str(node), "--", *_with(environment, command))


def bytes_sent() -> int:
    """Bytes that the server of the rig has sent to its nodes; those between nodes do not pass it."""
    server = json.loads(rig("status"))["processes"]["server"]["pid"]
    lines = Path(f"/proc/{server}/net/dev").read_text().splitlines()[2:]
    devices = {name.strip(): int(rest.split()[8]) for name, _, rest in (line.partition(":") for line in lines)}
    return sum(count for name, count in devices.items() if name != "lo")


def _with(environment: Mapping[str, str] | None, command: Sequence[str]) -> list[str]:
    return ["env", *(f"{name}={value}" for name, value in (environment or {}).items()), *command] if environment else [*command]


def rig(*arguments: str) -> str:
    """Runs a command of the rig, and returns what it printed."""
    done = subprocess.run([RIG, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise AssertionError(f"`rig {' '.join(arguments)}` ended with status {done.returncode}:\n{done.stderr}")
    return done.stdout
