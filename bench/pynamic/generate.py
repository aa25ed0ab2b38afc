#!/usr/bin/env python3
"""A Python application of many shared libraries, of the configuration that source 003 ran.

    generate.py DIRECTORY                          280 modules, 215 utility libraries and 2 more: 1.4 GB
    generate.py DIRECTORY --scale small            40 modules, 30 utility libraries and 2 more
    generate.py DIRECTORY --modules 6 --utilities 4 --functions 100

The directory then holds `driver.py`, `configuration.json`, `modules/*.so` (Python extension modules) and `lib/*.so`
(libraries that they find by a RUNPATH with $ORIGIN). Each library has 1850 functions on average with names of about
115 characters, debug information and symbol tables, compiled by `cc`. The same arguments and compiler give the same bytes.

Every function sets a flag of its own, computes a little, and calls the next through the linkage table, in chains of ten;
the last of a chain calls into another library. A library's entry starts every chain, then counts the flags: it returns how
many functions ran. Modules call functions of two utility libraries; those call the base library. The first module,
`opening`, needs all of these, as an application does that is linked with its libraries: a symbol is then looked for in all
of them in turn.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent

MODULES, UTILITIES, FUNCTIONS = 280, 215, 1850
SMALL_MODULES, SMALL_UTILITIES = 40, 30
_SPREAD = 0.2
_SUBJECT = "advances_the_solution_on_the_refined_grid_by_one_explicit_step_of_the_selected_scheme_use"
_CALLED = 40
_CHAIN = 10
_PARAMETERS, _LOCALS = 4, 12

# Undefined symbols come from the interpreter and the other libraries; calls inside a library go through its linkage table.
_COMPILE = ["cc", "-shared", "-fPIC", "-O0", "-g", "-w"]
_LINK = ["-Wl,-z,lazy", "-Wl,--no-as-needed", "-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/../lib"]

# A module's way in for Python, without its headers. 1013 is PYTHON_API_VERSION of modsupport.h, 4 is METH_NOARGS.
_MODULE = """
extern void *PyModule_Create2(void *, int), *PyLong_FromLong(long);
static void *call(void) {{ return PyLong_FromLong({name}_entry()); }}
static struct {{ const char *name; void *function; int flags; const char *doc; }} methods[] = {{{{"entry", call, 4, 0}}, {{0}}}};
static struct {{
    long references; void *type, *init; long index; void *copy; const char *name, *doc; long size; void *methods, *rest[4];
}} definition = {{.references = 1, .name = "{name}", .size = -1, .methods = methods}};
void *PyInit_{name}(void) {{ return PyModule_Create2(&definition, 1013); }}
"""


@dataclass
class Library:
    """A shared object: functions by name, the libraries that it needs, and calls out of it."""

    name: str
    functions: list[str]
    needed: list[str]
    # Called at the end of each chain, in turn.
    leaves: list[str]
    # Entries of libraries that this one's entry visits too.
    visits: list[str]
    # A Python extension module rather than a plain library.
    is_module: bool

    @property
    def file_name(self) -> str:
        """The name of the file, and the soname."""
        return f"{self.name}.so"

    @property
    def entry(self) -> str:
        """The function that calls all others."""
        return f"{self.name}_entry"


def main() -> int:
    options = _options()
    libraries = plan(options.modules, options.utilities, options.functions)
    if options.directory.exists():
        shutil.rmtree(options.directory)
    for name in ("modules", "lib"):
        (options.directory / name).mkdir(parents=True)
    with tempfile.TemporaryDirectory() as sources, multiprocessing.Pool(options.jobs) as pool:
        # A library is linked with those that it needs: they come first.
        for stage in (libraries[:1], libraries[1 : 1 + options.utilities], libraries[1 + options.utilities :]):
            pool.starmap(_compile, [(library, options.directory, Path(sources)) for library in stage], chunksize=1)
    written = sum(path.stat().st_size for path in options.directory.rglob("*.so"))
    shutil.copyfile(HERE / "driver.py", options.directory / "driver.py")
    modules = [library.name for library in libraries if library.is_module]
    functions = sum(len(library.functions) for library in libraries)
    content = {"libraries": len(libraries), "functions": functions, "bytes": written, "modules": modules}
    (options.directory / "configuration.json").write_text(json.dumps(content, indent=1) + "\n")
    print(f"{len(libraries)} libraries, {functions} functions, {written} bytes")
    return 0


def plan(modules: int, utilities: int, functions: int) -> list[Library]:
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
) -> Library:
    """A library with a number of functions near the average, that follows from its name."""
    share = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little") / 2**32
    count = max(1, round(functions * (1 + _SPREAD * (2 * share - 1))))
    names = [f"{name}_function_{number:05d}_{_SUBJECT}" for number in range(count)]
    return Library(name, names, needed, leaves, visits, is_module)


def _some(library: Library, salt: int) -> list[str]:
    """Functions of a library that end a chain, for another to call."""
    last = library.functions[9::10] or library.functions[-1:]
    return [last[(salt + step * 3) % len(last)] for step in range(min(_CALLED, len(last)))]


def _compile(library: Library, directory: Path, sources: Path) -> None:
    source = sources / f"{library.name}.c"
    source.write_text(_source(library))
    target = directory / ("modules" if library.is_module else "lib") / library.file_name
    link = [*_LINK, f"-Wl,-soname,{library.file_name}", f"-L{directory.resolve() / 'lib'}", *(f"-l:{name}" for name in library.needed)]
    # No path of this run is in the file.
    compile = [*_COMPILE, f"-fdebug-prefix-map={sources}=/usr/src/application"]
    subprocess.run([*compile, "-o", str(target.resolve()), source.name, *link], check=True, cwd=sources)
    source.unlink()


def _source(library: Library) -> str:
    """The library in C."""
    parameters = ", ".join(["int"] * _PARAMETERS)
    called = dict.fromkeys([*library.functions, *library.leaves])
    lines = [f"int {name}({parameters});" for name in called] + [f"int {name}(void);" for name in library.visits]
    lines.append(f"static unsigned char flags[{len(library.functions)}];")
    lines += [_function(library, number) for number in range(len(library.functions))]
    chains = "".join(f"    {name}(0, 0, 0, 0);\n" for name in library.functions[::_CHAIN])
    visits = "".join(f"    visited += {name}();\n" for name in library.visits)
    count = "for (int i = 0; i < sizeof flags; i++) visited += flags[i];"
    lines.append(f"int {library.entry}(void) {{\n    int visited = 0;\n{chains}{visits}    {count}\n    return visited;\n}}")
    return "\n".join(lines) + (_MODULE.format(name=library.name) if library.is_module else "\n")


def _function(library: Library, number: int) -> str:
    """One function, of about 256 bytes on x86-64. Its constants follow from its name."""
    local = [f"{library.name}_{number:05d}_local_{index:02d}" for index in range(_PARAMETERS + _LOCALS)]
    constants = hashlib.shake_256(f"{library.name} {number}".encode()).digest(2 * _LOCALS)
    parameters = ", ".join(f"int {name}" for name in local[:_PARAMETERS])
    steps = "".join(
        f"    int {name} = {local[index + _PARAMETERS - 1]} * {constants[2 * index] << 8 | 1} ^ {constants[2 * index + 1] << 8};\n"
        for index, name in enumerate(local[_PARAMETERS:])
    )
    last = (number + 1) % _CHAIN == 0 or number + 1 == len(library.functions)
    leaf = library.leaves[number // _CHAIN % len(library.leaves)] if library.leaves else ""
    callee = leaf if last else library.functions[number + 1]
    call = f"    {callee}({local[-1]}, 0, 0, 0);\n" if callee else ""
    return f"int {library.functions[number]}({parameters}) {{\n    flags[{number}] = 1;\n{steps}{call}    return {local[-1]};\n}}"


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
