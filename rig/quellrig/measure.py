"""Commands on nodes: one that the rig becomes, or many between two readings of the counters."""

import os
import pwd
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from .counters import Totals, change
from .errors import RigError
from .processes import TOKEN_VARIABLE
from .rig import Rig

# The shell's words for what cannot be run.
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126

# Daemons whose processor time a measurement reports.
_DAEMONS = ("wire", "master", "chunkserver")


@dataclass(frozen=True)
class Run:
    """One process: seconds from the common start to its end, and processor seconds of it and its children."""

    node: int
    exit_status: int
    wall_seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Result:
    """A measurement. `operations` has a row for each node, `total` included."""

    policies: dict[int, str]
    latency_us: float
    runs: list[Run]
    operations: dict[int, dict[str, int]]
    daemon_cpu_seconds: dict[str, float]

    def exit_status(self) -> int:
        """The first status other than 0, or 0."""
        return next((run.exit_status for run in self.runs if run.exit_status), 0)

    def to_json(self) -> dict[str, Any]:
        """One object; fields are only added."""
        return {
            "schema_version": 1,
            "latency_us": self.latency_us,
            "wall_seconds": max(run.wall_seconds for run in self.runs),
            "nodes": [
                {
                    "node": node,
                    "policy": self.policies[node],
                    "operations": operations,
                    "processes": [
                        {
                            "exit_status": run.exit_status,
                            "wall_seconds": round(run.wall_seconds, 6),
                            "cpu_seconds": round(run.cpu_seconds, 6),
                        }
                        for run in self.runs
                        if run.node == node
                    ],
                }
                for node, operations in self.operations.items()
            ],
            "daemon_cpu_seconds": self.daemon_cpu_seconds,
        }

    def to_text(self) -> str:
        """A table for the terminal."""
        rows = {f"node {node}": {**row} for node, row in self.operations.items()}
        for row in rows.values():
            del row["total"]
        wall = max(run.wall_seconds for run in self.runs)
        cpu = sum(run.cpu_seconds for run in self.runs)
        daemons = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.daemon_cpu_seconds.items())
        return f"{table(rows)}\nwall {wall:.3f} s, cpu {cpu:.3f} s ({daemons})"


def become_command(rig: Rig, node: int, user: str | None, command: list[str]) -> NoReturn:
    """Replaces this process by a command on a node, so that status and signals are the command's own."""
    environment = _enter(rig, node, user)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        print(f"rig: cannot run `{command[0]}`: {error.strerror}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)


def _enter(rig: Rig, node: int, user: str | None) -> dict[str, str]:
    """Moves this process into a node, as a user, and returns the environment for it."""
    here = Path.cwd()
    rig.enter(node)
    try:
        os.chdir(here)
    except OSError:
        os.chdir("/")
    # Python ignores these signals, and a command would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    environment = {**os.environ, TOKEN_VARIABLE: rig.require_started().token, "QUELL_RIG_NODE": str(node)}
    return environment | (_become(user) if user else {})


def _become(user: str) -> dict[str, str]:
    """Drops to a user, by name or number, without further groups; returns the variables that go with it."""
    try:
        entry = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
        uid, gid, name, home = entry.pw_uid, entry.pw_gid, entry.pw_name, entry.pw_dir
    except KeyError:
        if not user.isdigit():
            raise RigError(f"there is no user `{user}`", "give a name or a number") from None
        uid = gid = int(user)
        name, home = user, "/"
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    return {"USER": name, "LOGNAME": name, "HOME": home}


def measure(rig: Rig, nodes: list[int], processes: int, user: str | None, command: list[str]) -> Result:
    """Runs a command on all the nodes at once, and counts what the server did for each node meanwhile."""
    state = rig.require()
    daemons = [*_DAEMONS, *(f"mount {node}" for node in nodes)]

    def cpu() -> dict[str, float]:
        return {name: state.processes[name].cpu_seconds() for name in daemons}

    before, cpu_before = _read(rig), cpu()
    runs = _run_all(rig, [node for node in nodes for _ in range(processes)], user, command)
    cpu_after, after = cpu(), _read(rig)
    return Result(
        policies={node: state.policies[node] for node in nodes},
        latency_us=state.latency_us,
        runs=runs,
        operations={node: change(before.of(node), after.of(node)) for node in nodes},
        daemon_cpu_seconds={name: round(cpu_after[name] - cpu_before[name], 2) for name in daemons},
    )


def _read(rig: Rig) -> Totals:
    with rig.directory.locked():
        return rig.read_counters()


def _run_all(rig: Rig, nodes: Iterable[int], user: str | None, command: list[str]) -> list[Run]:
    """Starts one process for each entry, lets them go together, and waits for all. Their output goes to stderr."""
    gate_out, gate_in = os.pipe()
    children: dict[int, int] = {}
    for node in nodes:
        pid = os.fork()
        if pid == 0:
            _wait_and_become(rig, node, user, command, gate_out, gate_in)
        children[pid] = node
    os.close(gate_out)
    start = time.monotonic()
    os.close(gate_in)
    runs: list[Run] = []
    while len(runs) < len(children):
        pid, status, usage = os.wait4(-1, 0)
        if pid in children:
            code = os.waitstatus_to_exitcode(status)
            runs.append(
                Run(
                    node=children[pid],
                    exit_status=code if code >= 0 else 128 - code,
                    wall_seconds=time.monotonic() - start,
                    cpu_seconds=usage.ru_utime + usage.ru_stime,
                )
            )
    return sorted(runs, key=lambda run: (run.node, run.wall_seconds))


def _wait_and_become(
    rig: Rig, node: int, user: str | None, command: list[str], gate_out: int, gate_in: int
) -> NoReturn:
    """In a child: waits until the parent closes the gate, then becomes the command."""
    try:
        os.close(gate_in)
        os.dup2(2, 1)
        os.read(gate_out, 1)
        become_command(rig, node, user, command)
    except (RigError, OSError) as error:
        print(f"rig: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(_NOT_EXECUTABLE)


def table(rows: Mapping[str, Mapping[str, int]]) -> str:
    """Rows of counters with their totals; operations with no count are left out."""
    names = [name for name in next(iter(rows.values())) if any(row[name] for row in rows.values())]
    lines = [["", *names, "total"]]
    lines += [[label, *(str(row[name]) for name in names), str(sum(row.values()))] for label, row in rows.items()]
    if len(rows) > 1:
        sums = [sum(row[name] for row in rows.values()) for name in names]
        lines.append(["all", *map(str, sums), str(sum(sum(row.values()) for row in rows.values()))])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
