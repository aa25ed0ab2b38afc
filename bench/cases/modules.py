"""`module avail`, its terse listing and a load with each strategy, and the recipe of the cookbook, step by step."""

import os
import re
import shutil
import tempfile
from pathlib import Path

import harness
from harness import QUELL, Result

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", harness.REPOSITORY / "target"))
TOOLS = Path(os.environ.get("QUELL_TEST_MODULE_TOOLS", TARGET / "module-tools")).resolve()
# Names in each of two modulepaths, and lines of a modulefile.
SIZES = {
    "small": ("116 modulefiles", ["--names", "15"], []),
    "large": ("2000 modulefiles", ["--names", "250"], ["--lines", "30"]),
}


def main() -> Result:
    harness.run(str(harness.REPOSITORY / "tests/modules/install"), str(TOOLS))
    latency = harness.setting("LATENCY")
    lines = harness.head(
        "Strategies for module trees",
        "Counts are of one recorded run and do not vary; CPU time is the median of three runs without the recorder.",
        f"`seconds` is that time and {latency} us for each call on the tree. `large` has modulefiles of 30 lines.",
    )
    sizes = [SIZES[name] for name in harness.words("SIZES")]
    with tempfile.TemporaryDirectory(prefix="quell-bench-modules-") as work:
        Path(work).chmod(0o755)
        for title, names, length in sizes:
            for tool in harness.words("MODULES"):
                if (TOOLS / tool).is_dir():
                    harness.talk(f"{title}: {tool}")
                    measured = measure([*names, *length], TOOLS / tool, Path(work), latency)
                    lines += ["", f"## {title}: {tool}", "", "```", *measured.splitlines(), "```"]
    return Result([*lines, *recipe(sizes)])


def measure(size: list[str], tool: Path, work: Path, latency: str) -> str:
    tree = work / "m"
    shutil.rmtree(tree, ignore_errors=True)
    harness.quell("-q", "modules", "example", *size, tree)
    flags = ["--latency", latency, "--tools", tool, "--work", work]
    measured = harness.quell("modules", "measure", *flags, tree / "applications", tree / "libraries")
    return re.sub(f"{re.escape(str(work))}/quell-modules-\\w+", "WORK", measured.replace(str(tree), "m"))


def recipe(sizes: list[tuple[str, list[str], list[str]]]) -> list[str]:
    """The steps of the cookbook, by hand and by `quell modules convert`, in a section each."""
    sections = {
        False: ["", "## The recipe of the cookbook, step by step"],
        True: [
            "", "## The same steps by `quell modules convert`", "",
            "Where less is saved than by hand, an rc file that quell wrote is read in more pieces of 4096 bytes.",
        ],
    }  # fmt: skip
    environment = {**os.environ, "QUELL": QUELL, "QUELL_TEST_MODULE_TOOLS": str(TOOLS)}
    for title, names, _ in sizes:
        command = [str(harness.REPOSITORY / "tests/modules/recipe"), *names, "--markdown"]
        head, *rows = harness.run(*command, env=environment).splitlines()
        for ours, section in sections.items():
            section += ["", f"{title}:", "", head, rows[0], *(row for row in rows[1:] if (", ours " in row) == ours)]
    return sections[False] + sections[True]
