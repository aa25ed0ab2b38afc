"""Small HDF5 and netCDF files of 4 nodes: plain on the rig, by `quell run --gather`, on the local disk, and as parts of one file for all."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import harness
from crowded import GATHERED, NODES, counted, on, shared
from harness import Result
from rivals import rig

PROCESSES = 4
HEAD = "import os, sys, numpy\na = numpy.arange(250.0)\n"
NAMES = "for number in range(int(sys.argv[2])):\n    name = f'{sys.argv[1]}/{os.uname().nodename}-{os.getpid()}-{number}'\n"
HDF5 = f"{HEAD}import h5py\n{NAMES}    with h5py.File(name, 'w') as f:\n        f['a'] = a\n        f.attrs['step'] = number\n"
NETCDF = f"""{HEAD}import netCDF4
{NAMES}    with netCDF4.Dataset(name, 'w') as f:
        f.createDimension('x', 250)
        f.createVariable('a', 'f8', 'x')[:] = a
        f.step = number
"""
# As SIONlib does by independent MPI-IO: each process has a region of one file, and no block of the file system, of 64 MiB, has two nodes.
ONE_FILE = f"""{HEAD}
file = os.open(f'{{sys.argv[1]}}/all', os.O_RDWR)
node = int(''.join(filter(str.isdigit, os.uname().nodename)) or 0)
region = (node << 26) + os.getpid() % {PROCESSES} * int(sys.argv[2]) * a.nbytes
for number in range(int(sys.argv[2])): os.pwrite(file, a, region + number * a.nbytes)
os.close(file)
"""


def main() -> Result:
    local = Path(tempfile.mkdtemp(prefix="quell-bench-", dir="/var/tmp"))
    try:
        return measured(local)
    finally:
        shutil.rmtree(local)


def measured(local: Path) -> Result:
    each, latency = int(harness.setting("FILES")), harness.setting("LATENCY")
    python = str(harness.python("formats", "numpy", "h5py", "netCDF4") / "bin/python")
    lines = harness.head(
        "Small files of scientific formats",
        f"{NODES} nodes of the rig with {PROCESSES} processes each write {each} files a process, each with 250 numbers and an attribute;",
        f"{latency} us added to a round trip. Operations are those that the master counted. The local disk has no server to ask. One file for all:",
        "each process writes the numbers alone, to a region of one shared file, which is another program.",
    )
    with harness.rig_up(NODES):
        rig.rig("latency", latency)
        files = NODES * PROCESSES * each
        for name, text in {"HDF5 (h5py)": HDF5, "netCDF-4": NETCDF}.items():
            program, one_file = ([python, "-c", words, "DIR", str(each)] for words in (text, ONE_FILE))
            found = harness.interleaved(ways(program, one_file, local / "files", files))
            lines += [f"## {name}", "", *harness.costs_of_ways(found), ""]
    return Result(lines[:-1])


def ways(program: list[str], one_file: list[str], local: Path, files: int) -> dict[str, Callable[[], rig.Measured]]:
    return {
        "plain": lambda: counted(shared(), program, PROCESSES, files),
        "`--gather`": lambda: counted(shared(), [*GATHERED, *program], PROCESSES, NODES),
        "one file for all": lambda: in_one_file(shared(), one_file),
        "local disk": lambda: counted(local, program, PROCESSES, files),
    }


def in_one_file(place: Path, program: list[str]) -> rig.Measured:
    """One process makes the file that is for all, before."""
    on(1, "sh", "-c", 'mkdir -p "$1" && : > "$1/all"', "sh", str(place))
    return counted(place, program, PROCESSES, 1)
