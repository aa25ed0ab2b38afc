"""The command line of the rig."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import measure, venv
from .errors import RigError
from .moosefs import POLICIES
from .rig import MOST_NODES, Rig, describe
from .state import DEFAULT_DIRECTORY, Directory

_PACKAGES = (
    "moosefs-master", "moosefs-chunkserver", "moosefs-client", "moosefs-cli",
    "fuse3", "iproute2", "iputils-ping", "util-linux", "python3", "python3-venv",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Runs one command; 0, its own status for `exec` and `measure`, or 2 with a line and a hint."""
    try:
        own, command = _split(list(arguments))
        options = _parser().parse_args(own)
        status: int = options.run(options, command)
        return status
    except RigError as error:
        print(f"rig: {error}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"rig: {error.strerror or error}: `{error.filename or error.filename2 or 'unknown'}`", file=sys.stderr)
        print("hint: see `df`, `mount` and `rig status`", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Splits the arguments at the first `--`: the rig's before it, the command's after it."""
    if "--" not in arguments:
        return arguments, []
    cut = arguments.index("--")
    return arguments[:cut], arguments[cut + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rig", description="a real shared file system on one machine")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(os.environ.get("QUELL_RIG_DIR") or DEFAULT_DIRECTORY),
        help="state directory [QUELL_RIG_DIR] (%(default)s)",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[..., int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    add("deps", _deps, "install the Debian packages that are missing")
    up = add("up", _up, "bring everything up")
    up.add_argument("--nodes", type=_number_of_nodes, default=4, help="client nodes (%(default)s)")
    up.add_argument("--policy", choices=POLICIES, default="lustre", help="cache policy of the clients (%(default)s)")
    up.add_argument("--latency", type=_microseconds, default=0.0, metavar="US", help="added round trip (0)")
    add("down", _down, "end everything that was started; the data stays")
    add("status", _status, "print what is up, as JSON")
    latency = add("latency", _latency, "set the added round trip")
    latency.add_argument("microseconds", type=_microseconds, metavar="US")
    policy = add("policy", _policy, "remount clients under a cache policy, cold")
    policy.add_argument("policy", choices=POLICIES)
    policy.add_argument("--node", type=int, action="append", metavar="K", help="only this node; may be repeated")
    cold = add("cold", _cold, "make clients cold, by a remount")
    cold.add_argument("--node", type=int, action="append", metavar="K", help="only this node; may be repeated")
    filler = add("fill", _fill, "copy a local tree to the file system")
    filler.add_argument("name", help="directory below the mount point; replaced if it exists")
    filler.add_argument("source", type=Path, help="local tree")
    environment = add("venv", _venv, "put the Python environment on the file system, and print its path")
    environment.add_argument("--local", action="store_true", help="only make it on the local disk, and print its path")
    execute = add("exec", _exec, "run a command on a node: exec K [--user USER] -- COMMAND")
    execute.add_argument("node", type=int)
    execute.add_argument("--user", help="user to become, by name or number")
    count = add("counters", _counters, "print the server's operations by node since `up`")
    count.add_argument("node", type=int, nargs="*", help="only these nodes")
    count.add_argument("--json", action="store_true", help="print one JSON object")
    meter = add("measure", _measure, "run a command on nodes and count: measure K [K...] -- COMMAND")
    meter.add_argument("node", type=int, nargs="+")
    meter.add_argument("--procs", type=int, default=1, help="processes on each node (%(default)s)")
    meter.add_argument("--user", help="user to become, by name or number")
    meter.add_argument("--cold", action="store_true", help="make the nodes cold first")
    meter.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def _number_of_nodes(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"1 to {MOST_NODES} nodes")
    return number


def _microseconds(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1e6:
        raise argparse.ArgumentTypeError("0 to 1000000 microseconds")
    return number


def _open(options: argparse.Namespace) -> Rig:
    if os.geteuid() != 0:
        raise RigError("the rig needs root", "run it by `sudo`, or in a container as root")
    return Rig(Directory(options.dir))


def _talk(text: str) -> None:
    print(text, file=sys.stderr)


def _deps(options: argparse.Namespace, _: list[str]) -> int:
    def missing() -> list[str]:
        query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *_PACKAGES]
        listed = subprocess.run(query, capture_output=True, text=True).stdout
        return [name for name in _PACKAGES if f"{name} installed" not in listed.splitlines()]

    if not missing():
        return 0
    _open(options)
    _talk(f"rig: installing {', '.join(missing())}")
    apt = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in ([*apt, "update"], [*apt, "install", "--yes", "--no-install-recommends", *missing()]):
        done = subprocess.run(step, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise RigError(f"`{' '.join(step[:1])} {step[4]}` fails: {reason}", "install the packages by hand")
    return 0


def _locked(
    action: Callable[[Rig, argparse.Namespace], object], make: bool = False
) -> Callable[[argparse.Namespace, list[str]], int]:
    """A command that changes the rig: it reads the state under the lock. `make`: it may be the first of all."""

    def run(options: argparse.Namespace, _: list[str]) -> int:
        directory = _open(options).directory
        if make:
            directory.make()
        with directory.locked():
            result = action(_open(options), options)
        if result is not None:
            print(result)
        return 0

    return run


def _selected(rig: Rig, options: argparse.Namespace) -> list[int]:
    return sorted(set(options.node)) if options.node else list(range(1, rig.require().nodes + 1))


_up = _locked(lambda rig, options: rig.up(options.nodes, options.policy, options.latency), make=True)
_down = _locked(lambda rig, _: rig.down())
_latency = _locked(lambda rig, options: rig.set_latency(options.microseconds))
_policy = _locked(lambda rig, options: rig.set_policy(_selected(rig, options), options.policy))
_cold = _locked(lambda rig, options: rig.set_policy(_selected(rig, options), None))
_fill = _locked(lambda rig, options: venv.fill(rig, options.name, options.source))
_venv = _locked(lambda rig, options: venv.local_venv(rig) if options.local else venv.fill_venv(rig), make=True)


def _status(options: argparse.Namespace, _: list[str]) -> int:
    print(describe(_open(options)))
    return 0


def _exec(options: argparse.Namespace, command: list[str]) -> int:
    rig = _open(options)
    rig.check_nodes([options.node])
    if not command:
        raise RigError("no command", "exec K -- COMMAND [ARGUMENT...]")
    measure.become_command(rig, options.node, options.user, command)


def _counters(options: argparse.Namespace, _: list[str]) -> int:
    with _open(options).directory.locked():
        rig = _open(options)
        nodes = _selected(rig, options)
        rig.check_nodes(nodes)
        totals = rig.read_counters()
    rows = {node: totals.of(node) for node in nodes}
    if options.json:
        listed = [{"node": node, "operations": row | {"total": sum(row.values())}} for node, row in rows.items()]
        print(json.dumps({"schema_version": 1, "nodes": listed, "gaps": totals.gaps}, indent=1))
    else:
        print(measure.table({f"node {node}": row for node, row in rows.items()}))
    return 0


def _measure(options: argparse.Namespace, command: list[str]) -> int:
    if not command:
        raise RigError("no command", "measure K [K...] -- COMMAND [ARGUMENT...]")
    nodes = sorted(set(options.node))
    rig = _open(options)
    rig.check_nodes(nodes)
    if options.cold:
        with rig.directory.locked():
            rig = _open(options)
            rig.set_policy(nodes, None)
    result = measure.measure(rig, nodes, options.procs, options.user, command)
    print(json.dumps(result.to_json(), indent=1) if options.json else result.to_text())
    return result.exit_status()
