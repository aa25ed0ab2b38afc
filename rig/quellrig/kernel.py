"""Kernel interfaces that the standard library lacks: namespaces (Python has `setns` from 3.12) and TUN devices."""

import contextlib
import ctypes
import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from .errors import RigError

_LIBC = ctypes.CDLL(None, use_errno=True)

# <linux/if_tun.h>
_TUNSETIFF = 0x400454CA
_TUNSETOFFLOAD = 0x400454D0
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_IFF_VNET_HDR = 0x4000
_OFFLOADS = 0x01 | 0x02 | 0x04 | 0x08  # checksum, TCP segmentation over IPv4, over IPv6, with ECN

TUN_PATH = Path("/dev/net/tun")

ALL_NAMESPACES = ("net", "uts", "ipc", "mnt")  # the mount namespace last: it changes what /proc/PID/ns means


def _setns(descriptor: int) -> None:
    if _LIBC.setns(descriptor, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "setns")


def enter(pid: int, kinds: tuple[str, ...] = ALL_NAMESPACES) -> None:
    """Moves the calling process into the namespaces of `pid`, for good."""
    descriptors = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    for descriptor in descriptors:
        _setns(descriptor)
        os.close(descriptor)


@contextlib.contextmanager
def inside_network(pid: int) -> Iterator[None]:
    """Runs the body in the network namespace of `pid`: sockets and devices made there stay there."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(pid, ("net",))
        yield
    finally:
        _setns(home)
        os.close(home)


def open_tun(name: str) -> int:
    """Makes TUN device `name` in the current network namespace and returns its descriptor.

    The device carries packets of up to 64 KiB with a virtio header (`IFF_VNET_HDR` and the offloads): the kernel then
    neither cuts nor check-sums bulk data, and the wire handles 64 KiB with one read and one write. It lives as long as
    the descriptor.
    """
    descriptor = os.open(TUN_PATH, os.O_RDWR | os.O_CLOEXEC)
    try:
        request = struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR)
        fcntl.ioctl(descriptor, _TUNSETIFF, request)
        fcntl.ioctl(descriptor, _TUNSETOFFLOAD, _OFFLOADS)
    except OSError as error:
        os.close(descriptor)
        raise RigError(f"cannot make a TUN device: {error.strerror}", "run as root with CAP_NET_ADMIN") from error
    return descriptor


def namespace_inode(pid: int, kind: str) -> int:
    """Inode of a process's namespace; the number is reused when the namespace has gone."""
    return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino
