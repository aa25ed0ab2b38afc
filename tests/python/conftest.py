"""What tests of the package share: recordings that quell makes, and an environment in which it is installed alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import quell

SOURCE = Path(__file__).resolve().parent.parent.parent
MADE = Path(os.environ["QUELL_PYTHON_TESTS"])

# A program whose start leaves rows in every table: a child, libraries, a link, a name that is not UTF-8.
PROGRAM = """
import json, os, subprocess
os.symlink("json", "link"); os.path.exists("link/x")
os.path.exists(b"not\\xffutf8"); open("two words", "w").close()
subprocess.run(["/bin/true"])
"""


def run(*words, **options):
    """Runs a program that must succeed; returns what it prints."""
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, **options).stdout


@pytest.fixture(scope="session")
def recording(tmp_path_factory):
    """A recording of a real program."""
    directory = tmp_path_factory.mktemp("recording")
    command = ["/usr/bin/python3", "-sP", "-c", PROGRAM]
    run(quell.binary(), "record", "-q", "--python", "-o", directory / "app.qtrace", "--", *command, cwd=directory)
    return directory / "app.qtrace"


@pytest.fixture(scope="session")
def ranks(tmp_path_factory):
    """Recordings of ranks 1 and 0 of a job, as a launcher's variables tell, in that order."""
    directory = tmp_path_factory.mktemp("ranks")
    for rank in ("0", "1"):
        job = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": rank, "SLURM_NTASKS": "2", "SLURM_LOCALID": rank}
        job |= {"SLURM_NODEID": "0", "SLURM_JOB_NUM_NODES": "1", "QUELL_RANKS": "0,1"}
        command = [quell.binary(), "record", "-q", "-o", directory / "job.qtrace", "--", "/bin/cat", "/etc/hostname"]
        run(*command, env={**os.environ, **job})
    return [directory / "job.rank1.qtrace", directory / "job.qtrace"]


@pytest.fixture(scope="session")
def alone():
    """A Python that has the wheel and nothing else."""
    return MADE / "alone/bin/python"


@pytest.fixture(scope="session")
def pandas_only(tmp_path_factory, alone):
    """A Python that has pandas and no polars: the installed packages by links."""
    packages = tmp_path_factory.mktemp("pandas")
    installed = Path(sys.prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    for path in installed.iterdir():
        if path.name.split("-")[0].split(".")[0] in ("pandas", "numpy", "pyarrow", "dateutil", "tzdata", "six"):
            (packages / path.name).symlink_to(path)
    return alone, {**os.environ, "PYTHONPATH": str(packages)}
