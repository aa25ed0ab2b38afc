"""Ways to start the same program on a node of the rig: plain, from an image, from squashfs by FUSE, from an extracted archive.

Each way is a command that the program is put behind, for the first process of a node; what stays for further processes;
and what undoes it. Mounting and extracting is part of the first start.
"""

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import shared_fs as rig

CODE = ["-c", "import numpy, scipy.stats, pandas"]
NODE, PLAIN_NODE = 2, 3
LOCAL = Path(os.environ.get("QUELL_RIG_DIR", "/var/tmp/quell-rig"))


@dataclass(frozen=True)
class Way:
    """One way to start. `program` goes behind `first` on a cold node, and behind `further` after that."""

    name: str
    node: int
    program: list[str]
    first: list[str] = field(default_factory=list)
    further: list[str] = field(default_factory=list)
    undo: list[str] = field(default_factory=list)
    # The image that quell serves. It lives only while one process of the run does.
    image: Path | None = None
    # The file that a node reads. Its size is reported.
    file: Path | None = None
    # The server's name, for its memory.
    server: str = ""


def ways() -> list[Way]:
    """All ways, with their files made and put in place."""
    venv = Path(rig.rig("venv", "--local").split()[-1])
    rig.on(1, "mkdir", "-p", str(rig.WORK))
    image = rig.Fixture.image("bench", {})
    copy = LOCAL / "bench.qimg"
    copy.write_bytes(b"")
    rig.on(1, "cp", str(image), str(copy))
    copy.chmod(0o600)
    quell = [rig.QUELL, "run", "--require", "--check", "none"]
    found = [Way("plain", PLAIN_NODE, rig.PROGRAM)]
    for name, path in (("image on the shared file system", image), ("image on the node", copy)):
        command = [*quell, str(path), "--"]
        found.append(Way(name, NODE, rig.PROGRAM, command, command, image=path, file=copy))
    return [*found, _squashfuse(venv), _tar(venv)]


def remove() -> None:
    """Removes the files of `ways` from the node's disk."""
    for name in ("bench.qimg", "bench.squashfs", "bench.tar"):
        (LOCAL / name).unlink(missing_ok=True)


def _squashfuse(venv: Path) -> Way:
    made, shared, mounted = LOCAL / "bench.squashfs", rig.WORK / "bench.squashfs", Path("/var/tmp/quell-bench-squashfs")
    _run("mksquashfs", str(venv), str(made), "-noappend", "-quiet", "-no-progress", "-comp", "zstd")
    rig.on(1, "cp", str(made), str(shared))
    mount = f'mkdir -p {mounted} && squashfuse_ll {shared} {mounted} && exec "$@"'
    undo = f"umount {mounted} && rmdir {mounted}"
    return Way(
        "squashfuse_ll", NODE, [f"{mounted}/bin/python", *CODE], ["sh", "-c", mount, "sh"], [], ["sh", "-c", undo],
        file=made, server="squashfuse_ll",
    )  # fmt: skip


def _tar(venv: Path) -> Way:
    made, shared, place = LOCAL / "bench.tar", rig.WORK / "bench.tar", Path("/var/tmp/quell-bench-extracted")
    _run("tar", "-cf", str(made), "-C", str(venv), ".")
    rig.on(1, "cp", str(made), str(shared))
    extract = f'mkdir -p {place} && tar -xf {shared} -C {place} && exec "$@"'
    return Way(
        "tar, extracted to the local disk", NODE, [f"{place}/bin/python", *CODE], ["sh", "-c", extract, "sh"], [],
        ["rm", "-rf", str(place)], file=made,
    )  # fmt: skip


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
