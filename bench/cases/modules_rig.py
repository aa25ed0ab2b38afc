"""`module avail` and `module load` on a real shared file system, by its master's counters.

Every command is the first of a cold node; the tool itself lies on the node's own disk.
"""

import json

import harness
from harness import Result
from rivals import rig

import module_trees

VERSION = "5.7.0"
# Names in each of two modulepaths, and modulefiles in both.
SIZES = {"small": (15, 116), "large": (250, 1934)}
STRATEGIES = ("plain", "rc", "eval", "virtual", "cache")
COMMANDS = (("avail",), ("load", "libn/3.0"))


def main() -> Result:
    latency = harness.setting("LATENCY")
    lines = harness.head(
        "Strategies for module trees on a shared file system",
        f"Modules {VERSION}, two modulepaths on MooseFS, cold clients of policy lustre, {latency} us added to each round trip, as",
        "`nobody`. Operations are those that the master counted for the node.",
    )
    with harness.rig_up(1):
        for names, files in (SIZES[name] for name in harness.words("SIZES")):
            lines += [f"## {files} modulefiles", "", *rows(names, latency), ""]
    return Result(lines[:-1])


def rows(names: int, latency: str) -> list[str]:
    """A table of every strategy and command, on a tree with so many names in a modulepath."""
    modules = module_trees.tool(VERSION)
    rig.rig("latency", "0")
    module_trees.fill(modules, names, STRATEGIES)
    rig.rig("latency", latency)
    table = harness.table("strategy", "command", "operations", "seconds", "of them")
    for strategy in STRATEGIES:
        for command in COMMANDS:
            operations, seconds = measure(module_trees.words(modules, strategy, *command))
            most = ", ".join(f"{name} {count}" for name, count in operations.items() if count and name != "total")
            row = harness.row(strategy, " ".join(command), operations["total"], f"{seconds:.2f}", most)
            harness.talk(row)
            table.append(row)
    rig.on(1, "rm", "-rf", str(module_trees.PLACE))
    return table


def measure(words: list[str]) -> tuple[dict[str, int], float]:
    found = json.loads(rig.rig("measure", "--cold", "--json", "--user", "nobody", "1", "--", *words))
    return found["nodes"][0]["operations"], found["wall_seconds"]
