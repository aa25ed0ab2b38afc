"""Called by `bench/modules.sh rig`: `module avail` and `module load` on a real shared file system, by its master's counters.

Every command is the first of a cold node; the tool itself lies on the node's own disk.
"""

import json
import os
import sys

import costs
from rivals import rig

import module_trees

LATENCY = int(os.environ.get("LATENCY", "500"))
VERSION = "5.7.0"
SIZES = ((15, 116), (250, 1934))
STRATEGIES = ("plain", "rc", "eval", "virtual", "cache")
COMMANDS = (("avail",), ("load", "libn/3.0"))
RESULT = rig.REPOSITORY / "bench/results/modules-rig.md"


def measure(words: list[str]) -> tuple[dict[str, int], float]:
    found = json.loads(rig.rig("measure", "--cold", "--json", "--user", "nobody", "1", "--", *words))
    return found["nodes"][0]["operations"], found["wall_seconds"]


def rows(names: int) -> str:
    """A table of every strategy and command, on a tree with so many names in a modulepath."""
    modules = module_trees.tool(VERSION)
    rig.rig("latency", "0")
    module_trees.fill(modules, names, STRATEGIES)
    rig.rig("latency", str(LATENCY))
    table = "| strategy | command | operations | seconds | of them |\n|---|---|---|---|---|\n"
    for strategy in STRATEGIES:
        for command in COMMANDS:
            operations, seconds = measure(module_trees.words(modules, strategy, *command))
            most = ", ".join(f"{name} {count}" for name, count in operations.items() if count and name != "total")
            row = f"| {strategy} | {' '.join(command)} | {operations['total']} | {seconds:.2f} | {most} |\n"
            print(row, end="", file=sys.stderr, flush=True)
            table += row
    rig.on(1, "rm", "-rf", str(module_trees.PLACE))
    return table


def main() -> None:
    costs.begin(rig.QUELL)
    machine = costs.machine()
    was_up = json.loads(rig.rig("status")).get("up", False)
    rig.rig("up", "--nodes", "1", "--policy", "lustre", "--latency", "0")
    try:
        tables = "".join(f"\n## {files} modulefiles\n\n{rows(names)}" for names, files in SIZES)
    finally:
        rig.rig("latency", "0")
        if not was_up:
            rig.rig("down")
    RESULT.write_text(
        f"# Strategies for module trees on a shared file system\n\n{machine}\n\nModules {VERSION}, two modulepaths on MooseFS, "
        f"cold clients of policy lustre, {LATENCY} us added to each round trip, as `nobody`. Operations are those that the "
        f"master counted for the node. Command: `bench/modules.sh rig`.\n{tables}"
    )


main()
