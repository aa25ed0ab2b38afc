"""A local disk of our own: ext4 in a file, so that dropping its caches is a remount and disturbs no other program."""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


# Linux's default for a disk.
_READAHEAD_KIB = 128


@dataclass(frozen=True)
class Disk:
    """A mounted file system; `path` is where."""

    path: Path
    device: str

    def cold(self, readahead_kib: int = _READAHEAD_KIB) -> None:
        """Remounts: nothing of it is cached then. With `readahead_kib` 0, only what is touched is read afterwards."""
        _run("umount", str(self.path))
        readahead = Path(f"/sys/block/{Path(self.device).name}/queue/read_ahead_kb")
        readahead.write_text(str(readahead_kib))
        _run("mount", self.device, str(self.path))


@contextlib.contextmanager
def disk(directory: Path, mebibytes: int) -> Iterator[Disk]:
    """Makes, mounts, and removes it again. Reads go past the page cache of the file that it lies in."""
    file, path = directory / "disk.img", directory / "disk"
    path.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as made:
        made.truncate(mebibytes << 20)
    device = ""
    try:
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(file))
        device = _run("losetup", "--find", "--show", "--direct-io=on", str(file)).strip()
        _run("mount", device, str(path))
        yield Disk(path, device)
    finally:
        with contextlib.suppress(subprocess.CalledProcessError):
            _run("umount", str(path))
        if device:
            _run("losetup", "--detach", device)
        file.unlink()
        path.rmdir()


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
