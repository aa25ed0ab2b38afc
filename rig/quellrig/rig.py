"""The rig itself: what `up`, `policy`, `latency`, `exec`, `counters` and `down` do."""

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from . import kernel, moosefs, processes, reclaim, wire
from .counters import Totals
from .errors import RigError
from .moosefs import MOUNT_POINT, Master
from .processes import Process
from .state import Directory, State, boot_id

SERVER_ADDRESS = "10.71.0.1"
_PREFIX = 16
MOST_NODES = 250

_DEVICE = "wire0"

# So large that the header of each packet costs next to nothing. Offload makes packets of 64 KiB from it.
_MTU = 9000

# In MiB: the filled file system takes about 900.
_SPACE_EMPTY, _SPACE_FILLED = 2048, 128

# A node gets shared memory of its own, as a machine has, and a /dev/fuse of its own that ordinary users may open, as on
# production systems; the host's stays as it is. `sleep` then holds the namespaces.
_HOLD = """\
hostname "$1"
mount -t tmpfs -o size=50%,mode=1777,nosuid tmpfs /dev/shm
mknod -m 666 /dev/shm/.fuse c 10 229 && mount --bind /dev/shm/.fuse /dev/fuse && rm /dev/shm/.fuse
exec sleep infinity
"""

# Windows fill 1 ms at 10 Gbit/s many times over. There is no slow start after a pause, no memory of earlier connections,
# and no IPv6, whose neighbour discovery would be dropped. Congestion control is Reno: BBR, a default elsewhere, paces by
# timers, and a namespace may be forbidden any other. The wire loses nothing, so Reno has nothing to decide.
_SYSCTLS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/tcp_rmem": "4096 4194304 67108864",
    "net/ipv4/tcp_wmem": "4096 4194304 67108864",
    "net/ipv4/tcp_slow_start_after_idle": "0",
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_congestion_control": "reno",
}


def node_address(node: int) -> str:
    """Address of a node on the wire."""
    return f"10.71.1.{node}"


# Seconds for which a remount waits for processes that still hold the client.
_PATIENCE_WITH_GUESTS = 10

_LEAVING = "leaving"


def _needed(name: str) -> bool:
    """Tells whether the rig will lack something after this process ends."""
    return not name.startswith(_LEAVING)


def _holder(node: int) -> str:
    return "server" if node == 0 else f"node {node}"


class Rig:
    """The rig of one state directory. Node 0 is the server; nodes are numbered from 1."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.state: State | None = directory.load()

    # ---- what is up

    def require(self) -> State:
        """The state of a rig that is up, or an error that says how to bring it up."""
        if self.state is None:
            raise RigError("the rig is not up", "run `rig up`")
        dead = self.dead()
        if dead:
            raise RigError(f"the rig has lost: {', '.join(dead)}", "run `rig down`, then `rig up`")
        return self.state

    def dead(self) -> list[str]:
        """Processes that should run and do not; all of them after a reboot or an `up` that was interrupted."""
        state = self.state
        if state is None:
            return []
        if not state.complete or state.boot != boot_id():
            return ["its start was not completed" if state.boot == boot_id() else "everything, by a reboot"]
        return [name for name, process in state.processes.items() if not process.alive() and _needed(name)]

    def check_nodes(self, nodes: Iterable[int]) -> None:
        """Refuses numbers of nodes that do not exist."""
        state = self.require()
        for node in nodes:
            if not 1 <= node <= state.nodes:
                raise RigError(
                    f"there is no node {node}", f"nodes are 1 to {state.nodes}; `rig up --nodes N` makes more"
                )

    # ---- up

    def up(self, nodes: int, policy: str, latency_us: float) -> None:
        """Brings everything up. Takes a rig that is half up down first; a rig that is up only changes policy and latency."""
        if self.state is not None:
            if not self.dead() and self.state.nodes == nodes:
                self.set_latency(latency_us)
                self.set_policy([node for node, now in self.state.policies.items() if now != policy], policy)
                return
            if not self.dead():
                raise RigError(f"the rig is up with {self.state.nodes} nodes", "run `rig down` first")
            self.down()
        self._check_machine()
        filled = any((self.directory.data / "master").glob("metadata.mfs*"))
        self.directory.require_space(_SPACE_FILLED if filled else _SPACE_EMPTY)
        MOUNT_POINT.mkdir(exist_ok=True)
        self.state = State(token=secrets.token_hex(16), boot=boot_id(), nodes=nodes, latency_us=latency_us)
        self.state.reclaim = reclaim.running()
        self.directory.save(self.state)
        reclaim.switch(self.state.reclaim, "off")
        try:
            self._bring_up(policy)
        except BaseException:
            self.down()
            raise

    def _check_machine(self) -> None:
        missing = [name for name in (*moosefs.PROGRAMS, "ip", "unshare") if shutil.which(name) is None]
        if missing:
            raise RigError(f"missing programs: {', '.join(missing)}", "run `rig deps`")
        for path, module in ((kernel.TUN_PATH, "tun"), (Path("/dev/fuse"), "fuse")):
            if not path.exists():
                raise RigError(f"there is no `{path}`", f"run `modprobe {module}`, or give the container the device")

    def _bring_up(self, policy: str) -> None:
        state, directory = self.require_started(), self.directory
        moosefs.configure(directory, SERVER_ADDRESS)
        program = wire.program()
        for node in range(state.nodes + 1):
            self._hold(node)
        directory.socket.unlink(missing_ok=True)
        self._start("wire", [str(program), str(directory.socket)])
        self._wait("wire", directory.socket.exists, 5)
        wire.give_priority(state.processes["wire"])
        for node in range(state.nodes + 1):
            self._wait_held(node)
            self._connect(node)
        self._start("master", moosefs.master_command(directory), node=0)
        self._wait("master", self._master_answers, 30)
        self._start("chunkserver", moosefs.chunkserver_command(directory), node=0)
        totals = Totals.from_json(None)
        with self.master() as master:
            totals.ignore(master.sessions(), time.time())
        directory.save_counters(totals.to_json())
        for node in range(1, state.nodes + 1):
            self._start_mount(node, policy)
        for node in range(1, state.nodes + 1):
            self._wait_mounted(node)
        with self.master() as master:
            self._wait("chunkserver", master.chunkserver_ready, 30)
        self._prepare_file_system()
        wire.set_latency(directory.socket, state.latency_us)
        state.complete = True
        directory.save(state)

    def _prepare_file_system(self) -> None:
        """Sets a new file system up as a site would.

        What is deleted is gone at once: by default MooseFS keeps it for a day. The top directory is root's alone: by default
        every user may change names there, and quell takes no image from such a directory.
        """
        done = self.directory.data / "prepared"
        if done.exists():
            return
        holder = self.require_started().processes["server"].pid
        command = ["sh", "-ec", 'mfssettrashtime 0 "$0"; chmod 755 "$0"', str(MOUNT_POINT)]
        with self.server_mount():
            result = subprocess.run(command, preexec_fn=lambda: kernel.enter(holder), capture_output=True, text=True)
        if result.returncode != 0:
            raise RigError(f"the file system is not set up: {(result.stdout + result.stderr).strip()}", "run `rig status`")
        done.touch()

    def require_started(self) -> State:
        """The state of a rig that is at least being brought up."""
        if self.state is None:
            raise RigError("the rig is not up", "run `rig up`")
        return self.state

    def _start(self, name: str, argv: list[str], node: int | None = None) -> Process:
        """Starts and records a process, inside a node's namespaces if one is given."""
        state = self.require_started()
        log = self.directory.log / f"{name.replace(' ', '-')}.log"
        log.unlink(missing_ok=True)

        def record(process: Process) -> None:
            state.processes[name] = process
            self.directory.save(state)

        holder = None if node is None else state.processes[_holder(node)].pid
        prepare = None if holder is None else lambda: kernel.enter(holder)
        return processes.start(argv, token=state.token, log=log, record=record, prepare=prepare)

    def _wait(self, name: str, condition: Callable[[], bool], patience: float) -> None:
        """Waits for a stage, which fails as soon as its process ends."""
        process = self.require_started().processes[name]
        done = processes.wait_until(lambda: condition() or not process.alive(), patience)
        if done and process.alive():
            return
        log = self.directory.log / f"{name.replace(' ', '-')}.log"
        lines = log.read_text(errors="replace").strip().splitlines()
        reason = "has ended" if done else f"is not ready after {patience:g} s"
        raise RigError(f"`{name}` {reason}: {lines[-1] if lines else 'it said nothing'}", f"see {log}")

    def _hold(self, node: int) -> None:
        name = "rig-server" if node == 0 else f"rig-node{node}"
        options = ["--net", "--uts", "--ipc", "--mount", "--propagation", "private"]
        self._start(_holder(node), ["unshare", *options, "sh", "-e", "-c", _HOLD, "sh", name])

    def _wait_held(self, node: int) -> None:
        state = self.require_started()
        pid = state.processes[_holder(node)].pid
        self._wait(_holder(node), lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", 10)
        state.networks[_holder(node)] = kernel.namespace_inode(pid, "net")
        self.directory.save(state)

    def _connect(self, node: int) -> None:
        """Makes the TUN device of a node and hands it to the wire."""
        address = SERVER_ADDRESS if node == 0 else node_address(node)
        with kernel.inside_network(self.require_started().processes[_holder(node)].pid):
            for name, value in _SYSCTLS.items():
                with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
                    Path("/proc/sys", name).write_text(value)
            device = kernel.open_tun(_DEVICE)
            commands = (
                "link set lo up\n"
                f"link set {_DEVICE} mtu {_MTU} txqueuelen 4096 up\n"
                f"address add {address}/{_PREFIX} dev {_DEVICE}\n"
            )
            done = subprocess.run(["ip", "-batch", "-"], input=commands, text=True, capture_output=True)
        if done.returncode != 0:
            raise RigError(f"`ip` fails: {done.stderr.strip()}", "run as root with CAP_NET_ADMIN")
        wire.connect(self.directory.socket, address, device)
        os.close(device)

    def _master_answers(self) -> bool:
        try:
            with self.master():
                return True
        except RigError:
            return False

    # ---- clients

    def _start_mount(self, node: int, policy: str) -> None:
        command = moosefs.mount_command(self.directory, SERVER_ADDRESS, policy)
        self._start(f"mount {node}", command, node=node)
        self.require_started().policies[node] = policy

    def _wait_mounted(self, node: int) -> None:
        self._wait(f"mount {node}", lambda: self._mounted(node), 30)

    def _mounted(self, node: int) -> bool:
        """Tells whether a client is mounted in the node's own mount namespace."""
        return _client_device(self.require_started().processes[_holder(node)].pid) is not None

    def set_policy(self, nodes: Iterable[int], policy: str | None) -> None:
        """Remounts clients, which makes them cold, under a new policy or, with none, under their own."""
        nodes = sorted(nodes)
        if not nodes:
            return
        self.check_nodes(nodes)
        state = self.require()
        for node in nodes:
            self._require_unshared(node)
        self.read_counters()
        failures = []
        for node in nodes:
            try:
                self._unmount(node)
            except RigError as failure:
                failures.append(failure)
                continue
            self._let_leave(node)
            self._start_mount(node, policy or state.policies[node])
        for node in nodes:
            self._wait_mounted(node)
        self.directory.save(state)
        if failures:
            raise failures[0]

    def _require_unshared(self, node: int) -> None:
        """Refuses while processes of the node hold the client in mount namespaces of their own, where it would stay."""
        holder = self.require_started().processes[_holder(node)].pid
        namespace, device = _mount_namespace(holder), _client_device(holder)

        def holdouts() -> list[Process]:
            others = [guest for guest in self._guests([node]) if _mount_namespace(guest.pid) != namespace]
            return [guest for guest in others if device in [mount[2] for mount in _mounts(guest.pid)]]

        # A quell server may outlive its ranks by a moment.
        if not processes.wait_until(lambda: not holdouts(), _PATIENCE_WITH_GUESTS, interval=0.1):
            raise RigError(f"node {node} is in use", f"end these first: {_names(holdouts())}")

    def _let_leave(self, node: int) -> None:
        """Keeps an unmounted client on record until it has ended."""
        state = self.require_started()
        client = state.processes.pop(f"mount {node}")
        state.processes[f"{_LEAVING} {client.pid}"] = client
        for name in [name for name, process in state.processes.items() if not _needed(name) and not process.alive()]:
            del state.processes[name]

    @contextlib.contextmanager
    def server_mount(self) -> Iterator[None]:
        """A client on the server's side of the wire, for filling: no latency, and on no node's account."""
        state = self.require_started()
        self._start("mount 0", moosefs.mount_command(self.directory, SERVER_ADDRESS, "lustre"), node=0)
        try:
            self._wait_mounted(0)
            yield
        finally:
            if self._mounted(0):
                self._unmount(0)
            self._let_leave(0)
            self.directory.save(state)

    def _unmount(self, node: int) -> None:
        """Unmounts a client, and does not wait the second and a half that it takes to leave."""
        holder = self.require_started().processes[_holder(node)].pid
        command = ["nsenter", f"--mount=/proc/{holder}/ns/mnt", "umount", str(MOUNT_POINT)]

        def unmounted() -> bool:
            nonlocal done
            done = subprocess.run(command, capture_output=True, text=True)
            return done.returncode == 0

        done: subprocess.CompletedProcess[str]
        # A process that a job leaves in the background ends in a moment.
        if not processes.wait_until(unmounted, _PATIENCE_WITH_GUESTS, interval=0.1):
            reason = done.stderr.strip().removeprefix("umount: ")
            raise RigError(f"node {node} is in use: {reason}", f"end these first: {_names(self._guests([node]))}")

    def _guests(self, nodes: Iterable[int]) -> list[Process]:
        """Processes that run in nodes, beside what the rig runs there and its children.

        A namespace counts while its holder keeps it: afterwards its number may be another's.
        """
        state = self.require_started()
        names = [_holder(node) for node in nodes]
        held = [state.networks[name] for name in names if name in state.networks and state.processes[name].alive()]
        own = {process.pid for process in state.processes.values()}
        return [guest for guest in processes.in_network(held) if not own & set(processes.lineage(guest.pid))]

    def set_latency(self, microseconds: float) -> None:
        """Sets the round trip that the wire adds."""
        state = self.require()
        wire.set_latency(self.directory.socket, microseconds)
        state.latency_us = microseconds
        self.directory.save(state)

    # ---- counters

    def master(self) -> Master:
        """A connection to the master, beside the wire."""
        return Master(self.require_started().processes["server"].pid, SERVER_ADDRESS)

    def read_counters(self) -> Totals:
        """Running totals by node, up to now."""
        state = self.require_started()
        totals = Totals.from_json(self.directory.load_counters())
        with self.master() as master:
            totals.add(master.sessions(), {node_address(node): node for node in range(1, state.nodes + 1)})
        self.directory.save_counters(totals.to_json())
        return totals

    def enter(self, node: int) -> None:
        """Moves this process into a node."""
        kernel.enter(self.require_started().processes[_holder(node)].pid)

    # ---- down

    def down(self) -> None:
        """Ends the processes that the rig has started, and no others. Works in any state of the rig."""
        state = self.state
        if state is None:
            return
        if state.boot == boot_id():
            processes.end(self._guests(range(state.nodes + 1)), 3)
            self._unmount_all(state)
            # All at once: each takes a second or two to leave. The master stores its metadata.
            held = [name for name in state.processes if name.startswith(("mount", _LEAVING, "chunkserver", "master"))]
            processes.end([state.processes[name] for name in held], 20)
            processes.end(state.processes.values(), 2)
            # Processes that left their node's namespaces, or started during the search.
            processes.end(processes.with_token(state.token), 1)
            reclaim.switch(state.reclaim, "on")
        self.directory.clear()
        self.state = None

    def _unmount_all(self, state: State) -> None:
        """Unmounts clients, so that they end by themselves."""
        for node in range(state.nodes + 1):
            client, holder = state.processes.get(f"mount {node}"), state.processes.get(_holder(node))
            if client is not None and client.alive() and holder is not None and holder.alive():
                command = ["nsenter", f"--mount=/proc/{holder.pid}/ns/mnt", "umount", "--lazy", str(MOUNT_POINT)]
                subprocess.run(command, capture_output=True)


def _mounts(pid: int) -> list[list[str]]:
    """Fields of /proc/PID/mountinfo, proc(5): 2 is the device, 4 the mount point; the type follows the lone hyphen."""
    try:
        return [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
    except OSError:
        return []


def _client_device(pid: int) -> str | None:
    """Device, `major:minor`, of the FUSE mount that a process sees at the mount point."""
    for mount in _mounts(pid):
        if mount[4] == str(MOUNT_POINT) and mount[mount.index("-") + 1].startswith("fuse"):
            return mount[2]
    return None


def _mount_namespace(pid: int) -> int | None:
    try:
        return kernel.namespace_inode(pid, "mnt")
    except OSError:
        return None


def _names(guests: Iterable[Process]) -> str:
    """For a hint: `pid (name)` of each process."""
    names = []
    for guest in guests:
        with contextlib.suppress(OSError):
            names.append(f"{guest.pid} ({Path(f'/proc/{guest.pid}/comm').read_text().strip()})")
    return ", ".join(names) or "a process that has just ended"


def describe(rig: Rig) -> str:
    """The state of the rig, as one JSON object."""
    state = rig.state
    if state is None:
        return json.dumps({"schema_version": 1, "up": False}, indent=1)
    dead = rig.dead()
    return json.dumps(
        {
            "schema_version": 1,
            "up": not dead,
            "dead": dead,
            "nodes": state.nodes,
            "latency_us": state.latency_us,
            "policies": state.policies,
            "mount_point": str(MOUNT_POINT),
            "processes": {
                name: {"pid": process.pid, "cpu_seconds": process.cpu_seconds()}
                for name, process in state.processes.items()
                if process.alive()
            },
            "wire": wire.status(rig.directory.socket) if "wire" in state.processes and not dead else None,
        },
        indent=1,
    )
