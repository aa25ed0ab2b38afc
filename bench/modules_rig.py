"""What `bench/modules.sh rig` runs: `module avail` and `module load` on a real shared file system, by its master's counters.

Every command is the first of a cold node; the tool itself lies on the node's own disk.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import costs
from rivals import rig

LATENCY = int(os.environ.get("LATENCY", "500"))
VERSION = "5.7.0"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", rig.REPOSITORY / "target"))
TOOLS = Path(os.environ.get("QUELL_TEST_MODULE_TOOLS", TARGET / "module-tools")).resolve()
SHARED = rig.SHARED / "modules"
RESULT = rig.REPOSITORY / "bench/results/modules-rig.md"
MODULEPATHS = ("applications", "libraries")


def quell(*words: object) -> None:
    subprocess.run([rig.QUELL, "-q", "modules", *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def trees(local: Path) -> None:
    """The tree with each strategy, by name."""
    quell("example", "--names", "250", local / "plain")
    plain = [local / "plain" / name for name in MODULEPATHS]
    for strategy in ("rc", "eval", "virtual"):
        quell("convert", "--to", strategy, "--no-verify", "--eval-enforced", "--out", local / strategy, *plain)
    shutil.copytree(local / "plain", local / "cache", symlinks=True)
    quell("convert", "--to", "cache", "--no-verify", "--tools", TOOLS / f"modules-{VERSION}", *[local / "cache" / name for name in MODULEPATHS])


def words(strategy: str, *command: str) -> list[str]:
    modulecmd = next((TOOLS / f"modules-{VERSION}").glob("usr/lib/*/modulecmd.tcl"))
    modulepath = ":".join(str(SHARED / strategy / name) for name in MODULEPATHS)
    check = "eval" if strategy in ("eval", "virtual") else "always"
    return ["env", "-i", "PATH=/usr/bin:/bin", "HOME=/nonexistent", f"MODULEPATH={modulepath}", f"MODULES_MCOOKIE_CHECK={check}",
            "tclsh", str(modulecmd), "bash", *command]


def measure(strategy: str, *command: str) -> tuple[int, dict[str, int], float]:
    ran = rig.rig("measure", "--cold", "--json", "--user", "nobody", "1", "--", *words(strategy, *command))
    found = json.loads(ran)
    operations = found["nodes"][0]["operations"]
    return operations["total"], operations, found["wall_seconds"]


def main() -> None:
    costs.begin(rig.QUELL)
    machine = costs.machine()
    was_up = json.loads(rig.rig("status")).get("up", False)
    rig.rig("up", "--nodes", "1", "--policy", "lustre", "--latency", "0")
    rows = []
    try:
        with tempfile.TemporaryDirectory() as local:
            os.chmod(local, 0o755)
            trees(Path(local))
            # Virtual modules lead to the tree that they were made of, by its path.
            for rc in Path(local).glob("virtual/*/.modulerc"):
                rc.write_text(rc.read_text().replace(local, str(SHARED)))
            rig.rig("fill", SHARED.name, local)
        rig.rig("latency", str(LATENCY))
        for strategy in ("plain", "rc", "eval", "virtual", "cache"):
            for command in (("avail",), ("load", "libn/3.0")):
                total, operations, seconds = measure(strategy, *command)
                most = ", ".join(f"{name} {count}" for name, count in operations.items() if count and name != "total")
                rows.append(f"| {strategy} | {' '.join(command)} | {total} | {seconds:.2f} | {most} |")
                print(rows[-1], file=sys.stderr, flush=True)
    finally:
        rig.rig("latency", "0")
        rig.on(1, "rm", "-rf", str(SHARED))
        if not was_up:
            rig.rig("down")
    RESULT.write_text(
        f"# Strategies for module trees on a shared file system\n\n{machine}\n\nModules {VERSION}, 1934 modulefiles in two "
        f"modulepaths on MooseFS, cold clients of policy lustre, {LATENCY} us added to each round trip, as `nobody`. Operations "
        "are those that the master counted for the node. Command: `bench/modules.sh rig`.\n\n"
        "| strategy | command | operations | seconds | of them |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


main()
