#!/usr/bin/env python3
"""A Python application of many shared libraries, of the configuration that source 003 ran.

    generate.py DIRECTORY                          280 modules, 215 utility libraries and 2 more: 1386 MB
    generate.py DIRECTORY --scale small            40 modules, 30 utility libraries and 2 more
    generate.py DIRECTORY --modules 6 --utilities 4 --functions 100

The directory then holds `driver.py`, `configuration.json`, `modules/*.so` (Python extension modules) and `lib/*.so`
(libraries that they find by a RUNPATH with $ORIGIN). Each library has 1850 functions on average with names of about
115 characters, debug information and symbol tables. The same arguments give the same bytes. x86-64 only.

Modules call functions of two utility libraries; those call the base library. The first module, `opening`, brings all of
these in for all libraries, as an application does that is linked with its libraries: a symbol is then looked for in all of
them in turn. The sum of what the modules' entries return is the number of functions that ran: each sets a flag of its own.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import elf  # noqa: E402

MODULES, UTILITIES, FUNCTIONS = 280, 215, 1850
SMALL_MODULES, SMALL_UTILITIES = 40, 30
_SPREAD = 0.2
_SUBJECT = "advances_the_solution_on_the_refined_grid_by_one_explicit_step_of_the_selected_scheme_use"
_CALLED = 40


def main() -> int:
    options = _options()
    if os.uname().machine != "x86_64":
        print("generate.py: the generated code is x86-64's", file=sys.stderr)
        return 2
    libraries = plan(options.modules, options.utilities, options.functions)
    if options.directory.exists():
        shutil.rmtree(options.directory)
    for name in ("modules", "lib"):
        (options.directory / name).mkdir(parents=True)
    jobs = [(library, options.directory) for library in libraries]
    with multiprocessing.Pool(options.jobs) as pool:
        written = sum(pool.starmap(_write, jobs, chunksize=4))
    shutil.copyfile(HERE / "driver.py", options.directory / "driver.py")
    modules = [library.name for library in libraries if library.is_module]
    functions = sum(len(library.functions) for library in libraries)
    content = {"libraries": len(libraries), "functions": functions, "bytes": written, "modules": modules}
    (options.directory / "configuration.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{len(libraries)} libraries, {functions} functions, {written} bytes")
    return 0


def plan(modules: int, utilities: int, functions: int) -> list[elf.Library]:
    """All libraries; which calls which, follows from their numbers."""
    base = _library("base", functions, [], [], [], False)
    utility = [
        _library(f"utility{number:03d}", functions, [base.file_name], _some(base, number), [], False)
        for number in range(utilities)
    ]
    module = []
    for number in range(modules):
        called = list(dict.fromkeys([number % utilities, (number * 7 + 1) % utilities]))
        leaves = [name for index in called for name in _some(utility[index], number)]
        # Each utility library is visited as a whole by one module; with few modules, several by one.
        visited = range(number, utilities, modules)
        visits = [utility[index].entry for index in visited]
        needed = dict.fromkeys([*called, *visited])
        files = [utility[index].file_name for index in needed]
        module.append(_library(f"module{number:03d}", functions, files, leaves, visits, True))
    files = [library.file_name for library in [base, *utility]]
    opening = _library("opening", functions, files, _some(base, 0), [base.entry], True)
    return [base, *utility, opening, *module]


def _library(
    name: str, functions: int, needed: list[str], leaves: list[str], visits: list[str], is_module: bool
) -> elf.Library:
    """A library with a number of functions near the average, that follows from its name."""
    share = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") / 2**32
    count = max(1, round(functions * (1 + _SPREAD * (2 * share - 1))))
    names = [f"{name}_function_{number:05d}_{_SUBJECT}" for number in range(count)]
    return elf.Library(name, names, needed, leaves, visits, is_module)


def _some(library: elf.Library, salt: int) -> list[str]:
    """Functions of a library that end a chain, for another to call."""
    last = library.functions[9::10] or library.functions[-1:]
    return [last[(salt + step * 3) % len(last)] for step in range(min(_CALLED, len(last)))]


def _write(library: elf.Library, directory: Path) -> int:
    content = elf.write(library)
    (directory / ("modules" if library.is_module else "lib") / library.file_name).write_bytes(content)
    return len(content)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="writes a Python application of many shared libraries")
    parser.add_argument("directory", type=Path, help="where to; replaced if it exists")
    parser.add_argument("--scale", choices=("small", "full"), default="full")
    parser.add_argument("--modules", type=int, help="Python extension modules")
    parser.add_argument("--utilities", type=int, help="utility libraries")
    parser.add_argument("--functions", type=int, default=FUNCTIONS, help="functions a library, on average (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (%(default)s)")
    options = parser.parse_args()
    small = options.scale == "small"
    options.modules = options.modules or (SMALL_MODULES if small else MODULES)
    options.utilities = options.utilities or (SMALL_UTILITIES if small else UTILITIES)
    if min(options.modules, options.utilities, options.functions) < 1:
        parser.error("at least one module, one utility library and one function")
    return options


if __name__ == "__main__":
    sys.exit(main())
