"""Called by bench/modules.sh."""

import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
QUELL = pathlib.Path(os.environ.get("QUELL", REPOSITORY / "target/release/quell")).resolve()
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
TOOLS = pathlib.Path(os.environ.get("QUELL_TEST_MODULE_TOOLS", TARGET / "module-tools")).resolve()
LATENCY = os.environ.get("LATENCY", "1000")
# Names in each of two modulepaths, and lines of a modulefile.
SIZES = [("116 modulefiles of the cookbook", ["--names", "15"]), ("2000 modulefiles, 30 lines each", ["--names", "250", "--lines", "30"])]
MODULES = os.environ.get("MODULES", "modules-5.2.0 modules-5.7.0 lmod-8.6.19 lmod-8.7.60").split()


def call(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def head(title):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return (f"# {title}\n\n{datetime.date.today()}, {os.cpu_count()} x {cpu}, Linux {platform.release()}. "
            f"Command: `MODULES='{' '.join(MODULES)}' bench/modules.sh`.\n\n")


def measure(size, tool, work):
    tree = work / "m"
    shutil.rmtree(tree, ignore_errors=True)
    call(QUELL, "-q", "modules", "example", *size, tree)
    measured = call(QUELL, "modules", "measure", "--latency", LATENCY, "--tools", TOOLS / tool, "--work", work,
                    tree / "applications", tree / "libraries")
    return re.sub(f"{re.escape(str(work))}/quell-modules-\\w+", "WORK", measured.replace(str(tree), "m"))


def main():
    subprocess.run([REPOSITORY / "tests/modules/install", TOOLS], check=True)
    text = head("Strategies for module trees")
    text += ("Counts are of one recorded run and do not vary; CPU time is the median of three runs without the recorder, on a "
             f"machine with other work. `seconds` is that time and {LATENCY} us for each call on the tree.\n")
    with tempfile.TemporaryDirectory(prefix="quell-bench-modules-") as work:
        work = pathlib.Path(work)
        os.chmod(work, 0o755)
        for title, size in SIZES:
            for tool in MODULES:
                if (TOOLS / tool).is_dir():
                    print(f"{title}: {tool}", file=sys.stderr, flush=True)
                    text += f"\n## {title}: {tool}\n\n```\n{measure(size, tool, work)}```\n"
    (REPOSITORY / "bench/results/modules.md").write_text(text + recipe())


def recipe():
    """The steps of the cookbook, by hand and by `quell modules`, in a section each."""
    sections = {
        False: "\n## The recipe of the cookbook, step by step\n",
        True: ("\n## The same steps by `quell modules convert`\n\nWhere less is saved than by hand, an rc file of ours is read in more "
               "pieces of 4096 bytes.\n"),
    }
    for names, title in [("15", "116 modulefiles"), ("250", "1934 modulefiles")]:
        table = call("env", f"QUELL={QUELL}", f"QUELL_TEST_MODULE_TOOLS={TOOLS}", REPOSITORY / "tests/modules/recipe", "--names", names, "--markdown")
        head, rows = table.splitlines(keepends=True)[:2], table.splitlines(keepends=True)[2:]
        for ours in sections:
            lines = [line for line in rows if (", ours " in line) == ours]
            sections[ours] += f"\n{title}:\n\n" + "".join(head + lines)
    return sections[False] + sections[True]


main()
