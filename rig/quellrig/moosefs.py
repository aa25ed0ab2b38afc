"""MooseFS as the rig runs it: configuration, client options by cache policy, and the master's binary protocol.

Messages are `u32 type, u32 length, data`, big-endian, the same that the package's own `mfscli` exchanges.
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .errors import RigError
from .kernel import inside_network
from .state import Directory

MASTER_PORT = 9421
CHUNKSERVER_PORT = 9422

MOUNT_POINT = Path("/mnt/quell-rig")

PROGRAMS = ("mfsmaster", "mfschunkserver", "mfsmount")

# Seconds for which a client keeps, without asking: attributes, files' names, directories' names, absent names.
POLICIES = {
    "strict": (1, 0, 1, 0),
    "nfs": (30, 30, 30, 30),
    "lustre": (3600, 3600, 3600, 3600),
}

_MASTER = """\
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = {data}/master
EXPORTS_FILENAME = {etc}/mfsexports.cfg
TOPOLOGY_FILENAME = {etc}/mfstopology.cfg
ATIME_MODE = 4
DISABLE_OOM_KILLER = 0
"""

_EXPORTS = """\
* / rw,alldirs,admin,maproot=0:0
"""

# No HDD space limit: with one, MooseFS counts the whole disk as used and retries ENOSPC for ever. No background tests
# of chunks: they would run while something is measured.
_CHUNKSERVER = """\
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = {data}/chunkserver
HDD_CONF_FILENAME = {etc}/mfshdd.cfg
HDD_LEAVE_SPACE_DEFAULT = 64MiB
HDD_TEST_SPEED = 0
HDD_REBALANCE_UTILIZATION = 0
MASTER_HOST = {master}
MASTER_RECONNECTION_DELAY = 1
DISABLE_OOM_KILLER = 0
"""

# Names of the counters, in the protocol's order; a newer master may send more, which are called `other N`.
OPERATIONS = (
    "statfs", "getattr", "setattr", "lookup", "mkdir", "rmdir", "symlink", "readlink",
    "mknod", "unlink", "rename", "link", "readdir", "open", "read", "write",
)  # fmt: skip

_KNOWN = "MooseFS 3.0.117 is known to work"

_CHUNKSERVER_LIST = 500
_SESSION_LIST = 508
_SESSION_LIST_VERSION = 4

_CHUNKSERVER_DISCONNECTED = 1
_CHUNKSERVER_ENTRY = struct.Struct(">BBBBBBBBHHQQLQQLLLLLB")
_SESSION_HEAD = struct.Struct(">LBBBBHBBLBL")
_SESSION_LIMITS = 33
_LONGEST_ANSWER = 64 << 20


def configure(directory: Directory, address: str) -> None:
    """Writes the daemons' configuration, and the first, empty metadata if there are none."""
    names = {"data": directory.data, "etc": directory.etc, "master": address}
    master, chunkserver, chunks = (directory.data / part for part in ("master", "chunkserver", "chunks"))
    for part in (master, chunkserver, chunks):
        part.mkdir(exist_ok=True)
    files = {
        "mfsmaster.cfg": _MASTER.format(**names),
        "mfschunkserver.cfg": _CHUNKSERVER.format(**names),
        "mfsexports.cfg": _EXPORTS,
        "mfstopology.cfg": "",
        "mfshdd.cfg": f"{chunks}\n",
        "mfsmount.cfg": "",
    }
    for name, content in files.items():
        (directory.etc / name).write_text(content)
    if not any(master.glob("metadata.mfs*")):
        (master / "metadata.mfs").write_bytes(b"MFSM NEW")


def master_command(directory: Directory) -> list[str]:
    """The master in the foreground; `-a` replays its change log when it was killed."""
    return ["mfsmaster", "-f", "-a", "-c", str(directory.etc / "mfsmaster.cfg"), "start"]


def chunkserver_command(directory: Directory) -> list[str]:
    """The chunkserver in the foreground."""
    return ["mfschunkserver", "-f", "-c", str(directory.etc / "mfschunkserver.cfg"), "start"]


def mount_command(directory: Directory, address: str, policy: str) -> list[str]:
    """The client in the foreground, with the timeouts of a cache policy."""
    attributes, entries, directories, absent = POLICIES[policy]
    options = {
        "mfscfgfile": directory.etc / "mfsmount.cfg",
        "mfsattrcacheto": attributes,
        "mfsentrycacheto": entries,
        "mfsdirentrycacheto": directories,
        "mfsnegentrycacheto": absent,
        "mfsallowoomkiller": None,
    }
    text = ",".join(name if value is None else f"{name}={value}" for name, value in options.items())
    return ["mfsmount", "-f", "-H", address, "-P", str(MASTER_PORT), "-o", text, str(MOUNT_POINT)]


@dataclass(frozen=True)
class Session:
    """A client as the master sees it; `current` and `last` count operations of this clock hour and the one before."""

    number: int
    address: str
    current: dict[str, int]
    last: dict[str, int]


class Master:
    """A connection to the master, made in the server's network namespace."""

    def __init__(self, server: int, address: str, patience: float = 5.0) -> None:
        try:
            with inside_network(server):
                self._socket = socket.create_connection((address, MASTER_PORT), timeout=patience)
        except OSError as error:
            raise RigError(f"the master does not answer: {error}", "run `rig status`") from error

    def __enter__(self) -> "Master":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def sessions(self) -> list[Session]:
        """All client sessions with their counters."""
        return list(_parse_sessions(self._ask(_SESSION_LIST, bytes([_SESSION_LIST_VERSION]))))

    def chunkserver_ready(self) -> bool:
        """Tells whether a chunkserver is connected and has reported its space."""
        answer = self._ask(_CHUNKSERVER_LIST, b"")
        if len(answer) % _CHUNKSERVER_ENTRY.size:
            raise RigError("the master's list of chunkservers has an unknown form", _KNOWN)
        return any(
            not entry[0] & _CHUNKSERVER_DISCONNECTED and entry[11] > 0
            for entry in _CHUNKSERVER_ENTRY.iter_unpack(answer)
        )

    def _ask(self, request: int, data: bytes) -> bytes:
        try:
            self._socket.sendall(struct.pack(">LL", request, len(data)) + data)
            while True:
                kind, length = struct.unpack(">LL", self._receive(8))
                if length > _LONGEST_ANSWER:
                    raise RigError("the master's answer is too long", "is something else on its port?")
                answer = self._receive(length)
                if kind == request + 1:
                    return answer
                if kind != 0:  # 0 keeps the connection alive
                    raise RigError(f"the master answers {kind} to request {request}", _KNOWN)
        except OSError as error:
            raise RigError(f"the master does not answer: {error}", "run `rig status`") from error

    def _receive(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            part = self._socket.recv(length - len(data))
            if not part:
                raise ConnectionResetError("it hung up")
            data += part
        return bytes(data)


def _parse_sessions(data: bytes) -> Iterator[Session]:
    """The session list, version 4 of the request:

    u16 counters, then for each session: u32 number, u8[4] address, u16 u8 u8 version, u32 open files, u8 sockets,
    u32 expiry, u32 length + mount point, u32 length + path, 33 bytes of limits, u32[counters] this hour,
    u32[counters] last hour.
    """
    try:
        (count,) = struct.unpack_from(">H", data, 0)
        names = [*OPERATIONS, *(f"other {index}" for index in range(len(OPERATIONS), count))][:count]
        position = 2
        while position < len(data):
            number, a, b, c, d, *_ = _SESSION_HEAD.unpack_from(data, position)
            position += _SESSION_HEAD.size
            for _text in ("mount point", "path"):
                (length,) = struct.unpack_from(">L", data, position)
                position += 4 + length
            position += _SESSION_LIMITS
            values = struct.unpack_from(f">{2 * count}L", data, position)
            position += 8 * count
            current, last = (dict(zip(names, half, strict=True)) for half in (values[:count], values[count:]))
            yield Session(number, f"{a}.{b}.{c}.{d}", current, last)
    except struct.error as error:
        raise RigError("the master's list of sessions has an unknown form", _KNOWN) from error
