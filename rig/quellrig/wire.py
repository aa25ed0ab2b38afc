"""The wire program: finding or building it, and its control socket (the protocol is in wire/src/control.rs)."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

from .errors import RigError
from .processes import Process

_RIG = Path(__file__).resolve().parent.parent
_CRATE = _RIG / "wire"

_PRIORITY = 10  # any real-time priority: the wire competes with ordinary processes only


def program() -> Path:
    """Path of the wire program: `QUELL_WIRE`, or what cargo builds, built when missing or older than its source."""
    if given := os.environ.get("QUELL_WIRE"):
        return Path(given)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or _RIG.parent / "target")
    binary = target / "release" / "quell-wire"
    newest = max(path.stat().st_mtime for path in [_CRATE / "Cargo.toml", *(_CRATE / "src").iterdir()])
    if not binary.exists() or binary.stat().st_mtime < newest:
        _build(target)
    return binary


def _build(target: Path) -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        raise RigError("the wire program is not built and there is no `cargo`", "build it, or set QUELL_WIRE to it")
    command = [cargo, "build", "--quiet", "--release", "--package", "quell-wire", "--target-dir", str(target)]
    if subprocess.run(command, cwd=_RIG.parent).returncode != 0:
        raise RigError("the wire program does not build", "run `cargo build --release -p quell-wire`")
    # Cargo leaves the time of an up-to-date binary alone; ours must be newer than its source.
    os.utime(target / "release" / "quell-wire")


def give_priority(process: Process) -> None:
    """Lets the wire run as soon as a packet is due: a real wire does not wait for a processor."""
    try:
        os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except PermissionError:
        # Containers often forbid real time; a niceness is next best.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, process.pid, -20)


def connect(path: Path, address: str, device: int) -> None:
    """Connects a TUN device, whose descriptor may be closed afterwards."""
    _ask(path, f"port {address}", [device])


def set_latency(path: Path, microseconds: float) -> None:
    """Sets the added round trip; each way takes half of it."""
    _ask(path, f"delay {round(microseconds * 1000 / 2)}")


def status(path: Path) -> dict[str, Any]:
    """The wire's counters."""
    answer: dict[str, Any] = json.loads(_ask(path, "status"))
    return answer


def _ask(path: Path, request: str, descriptors: list[int] | None = None) -> str:
    try:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.settimeout(2.0)
            caller.connect(str(path))
            socket.send_fds(caller, [request.encode()], descriptors or [])
            answer = caller.makefile().readline().strip()
    except OSError as error:
        raise RigError(f"the wire does not answer: {error}", "run `rig down`, then `rig up`") from error
    if answer.startswith("error") or not answer:
        raise RigError(f"the wire refuses `{request}`: {answer}", "run `rig down`, then `rig up`")
    return answer
