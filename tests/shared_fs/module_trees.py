"""The tree of the cookbook with each strategy, on the rig, and the site's own `modulecmd` there."""

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from shared_fs import QUELL, REPOSITORY, SHARED, rig

PLACE = SHARED / "modules"
MODULEPATHS = ("applications", "libraries")
_TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
_TOOLS = Path(os.environ.get("QUELL_TEST_MODULE_TOOLS", _TARGET / "module-tools")).resolve()


@functools.cache
def tool(version: str) -> Path:
    """Environment Modules of this version, on the node's own disk."""
    subprocess.run([REPOSITORY / "tests/modules/install", _TOOLS], check=True)
    return _TOOLS / f"modules-{version}"


def fill(modules: Path, names: int, strategies: Sequence[str]) -> None:
    """Puts the tree with each strategy on the shared file system, below the strategy's name; `plain` is as it was."""
    with tempfile.TemporaryDirectory() as made:
        local = Path(made)
        local.chmod(0o755)
        _quell("example", "--names", names, local / "plain")
        for strategy in strategies:
            if strategy == "cache":
                shutil.copytree(local / "plain", local / strategy, symlinks=True)
                trees = [local / strategy / name for name in MODULEPATHS]
                _quell("convert", "--to", strategy, "--no-verify", "--tools", modules, *trees)
            elif strategy != "plain":
                trees = [local / "plain" / name for name in MODULEPATHS]
                _quell("convert", "--to", strategy, "--no-verify", "--eval-enforced", "--out", local / strategy, *trees)
        # Virtual modules lead to the tree that they were made of, by its path.
        for rc in local.glob("virtual/*/.modulerc"):
            rc.write_text(rc.read_text().replace(made, str(PLACE)))
        rig("fill", PLACE.name, made)


def words(modules: Path, strategy: str, *command: str) -> list[str]:
    """`module COMMAND` where the tree has this strategy."""
    modulecmd = next(modules.glob("usr/lib/*/modulecmd.tcl"))
    modulepath = ":".join(str(PLACE / strategy / name) for name in MODULEPATHS)
    check = "eval" if strategy in ("eval", "virtual") else "always"
    variables = ["PATH=/usr/bin:/bin", "HOME=/proc/nonexistent", f"MODULEPATH={modulepath}", f"MODULES_MCOOKIE_CHECK={check}"]
    return ["env", "-i", *variables, "tclsh", str(modulecmd), "bash", *command]


def _quell(*words: object) -> None:
    subprocess.run([QUELL, "-q", "modules", *map(str, words)], check=True, stdout=subprocess.DEVNULL)
