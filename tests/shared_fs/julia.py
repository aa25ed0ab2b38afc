#!/usr/bin/python3 -IS
"""A program that starts as Julia does: 12 000 calls of stat, 2000 of them of one file, and fewer than 10 opens.

    julia.py make DIRECTORY     writes the depots and the project that it looks at
    julia.py start DIRECTORY    starts: the same calls in the same order each time

A dozen packages with their dependencies are looked for in three depots, of which one exists: source files are asked for
twice (is it there, is it newer than the compiled one), compiled files are looked for where they are not, and before each
step the project's file is asked for again. Source 001 counted these calls.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGES, FILES = 60, 50
PROJECT_STATS, MISSES = 2000, 4000
STATS = PROJECT_STATS + 2 * PACKAGES * FILES + MISSES
OPENED = ("project/Project.toml", "project/Manifest.toml", "depot/registry.toml", "depot/compiled/start.ji")


def make(directory: Path) -> None:
    """Writes the tree; each file has a few lines."""
    for path in [*map(directory.joinpath, OPENED), *_sources(directory)]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {path.name}\n" * 20)


def start(directory: Path) -> None:
    """Makes the calls of one start."""
    project = directory / OPENED[0]
    calls = [path for source in _sources(directory) for path in (source, source)]
    calls += _absent(directory)
    every = len(calls) // PROJECT_STATS
    asked = 0
    for number, path in enumerate(calls):
        if number % every == 0 and asked < PROJECT_STATS:
            os.stat(project)
            asked += 1
        _exists(path)
    for name in OPENED:
        (directory / name).read_bytes()


def _sources(directory: Path) -> Iterator[Path]:
    for package in range(PACKAGES):
        for file in range(FILES):
            yield directory / f"depot/packages/Package{package:02d}/q7XbK/src/part{file:02d}.jl"


def _absent(directory: Path) -> list[Path]:
    """Directories in which packages and their compiled files are looked for and absent."""
    found = []
    for number in range(MISSES):
        package = f"Package{number % PACKAGES:02d}"
        depot, suffix = ("home", "site", "depot")[number % 3], number // PACKAGES
        found.append(directory / f"{depot}/compiled/v1.10/{package}/{suffix:03d}.ji")
    return found


def _exists(path: Path) -> bool:
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    return True


if __name__ == "__main__":
    {"make": make, "start": start}[sys.argv[1]](Path(sys.argv[2]))
