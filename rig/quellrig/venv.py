"""Filling the file system: a tree from the local disk, and the Python environment that tests, benches and demo import.

The environment is made once on the local disk, below the state directory, where benches find their baseline; then its
tree is copied. Its interpreter is a link to the system's own: interpreter and standard library are in a node's system
image, as on most machines, and only what users install lies on the shared file system. Byte code is compiled and times
are kept, so that imports are warm. Scripts in `bin` name the first place, but `bin/python` works in both.
"""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from . import kernel
from .errors import RigError
from .moosefs import MOUNT_POINT
from .rig import Rig

PYTHON = Path("/usr/bin/python3")

_REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements.txt"
_FILLED = "filled.json"

# In MiB: wheels, environment, and its copy in the server's chunks of at least 64 KiB.
_SPACE = 1536


def fill_venv(rig: Rig) -> Path:
    """Puts the Python environment on the file system, unless it is there; returns its path."""
    local = local_venv(rig)
    if _filled(rig).get("venv") != _mark():
        fill(rig, "venv", local)
        _set_filled(rig, "venv", _mark())
    return MOUNT_POINT / "venv"


def local_venv(rig: Rig) -> Path:
    """Makes the Python environment on the local disk, unless it is there; returns its path."""
    path = rig.directory.venv
    mark = path.with_name("venv.mark")
    if path.exists() and mark.exists() and mark.read_text() == _mark():
        return path
    rig.directory.require_space(_SPACE)
    if not PYTHON.exists():
        raise RigError(f"there is no `{PYTHON}`", "run `rig deps`")
    mark.unlink(missing_ok=True)
    if path.exists():
        shutil.rmtree(path)
    _run([str(PYTHON), "-m", "venv", str(path)], "run `rig deps`")
    pip = [str(path / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input"]
    cache = rig.directory.path / "pip-cache"
    wheels = ["--cache-dir", str(cache), "install", "--only-binary", ":all:", "--requirement", str(_REQUIREMENTS)]
    _run([*pip, *wheels], "is PyPI in reach?")
    mark.write_text(_mark())
    return path


def fill(rig: Rig, name: str, source: Path) -> Path:
    """Copies a tree to `name` on the file system, by a client beside the wire; replaces what is there."""
    if "/" in name or name in ("", ".", ".."):
        raise RigError(f"`{name}` is no name for a directory on the file system", "give one without slashes")
    if not source.is_dir():
        raise RigError(f"`{source}` is not a directory", "give the tree to copy")
    rig.require()
    rig.directory.require_space(_tree_mebibytes(source) * 3)
    with rig.server_mount():
        _on_server(rig, ["rm", "-rf", str(MOUNT_POINT / name), str(MOUNT_POINT / f"{name}.new")])
        fresh = MOUNT_POINT / f"{name}.new"
        _on_server(rig, ["cp", "-a", str(source), str(fresh)])
        _on_server(rig, ["mv", str(fresh), str(MOUNT_POINT / name)])
    return MOUNT_POINT / name


def _tree_mebibytes(path: Path) -> int:
    blocks = sum(Path(top, name).lstat().st_blocks for top, _, names in os.walk(path) for name in names)
    return (blocks * 512 >> 20) + 1


def _mark() -> str:
    """Changes when the environment would."""
    return hashlib.sha256(_REQUIREMENTS.read_bytes() + str(PYTHON.resolve()).encode()).hexdigest()


def _run(argv: list[str], hint: str) -> None:
    if subprocess.run(argv, stdout=subprocess.DEVNULL).returncode != 0:
        raise RigError(f"`{' '.join(argv[:4])} ...` fails", hint)


def _on_server(rig: Rig, argv: list[str]) -> None:
    pid = rig.require().processes["server"].pid
    if subprocess.run(argv, preexec_fn=lambda: kernel.enter(pid), cwd="/").returncode != 0:
        raise RigError(f"`{argv[0]}` fails on the file system", "see the messages above")


def _filled(rig: Rig) -> dict[str, str]:
    """Marks of the trees on the file system, by name; kept beside the server's data, which they describe."""
    try:
        marks: dict[str, str] = json.loads((rig.directory.data / _FILLED).read_text())
    except FileNotFoundError:
        return {}
    return marks


def _set_filled(rig: Rig, name: str, mark: str) -> None:
    (rig.directory.data / _FILLED).write_text(json.dumps(_filled(rig) | {name: mark}))
