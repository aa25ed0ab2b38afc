"""Recordings and data sets for the tests of many jobs."""

import json
import os
import pathlib
import subprocess

import pytest

QUELL = os.environ["QUELL"]
LOG = """7 1700000000.000 execve("/usr/bin/python3", ["python3", "app.py"], 0x0 /* 1 var */) = 0 <0.000100>
7 1700000000.100 openat(AT_FDCWD, "/v/lib/python3.11/site-packages/numpy/core.py", O_RDONLY) = 3 <0.000016>
7 1700000000.300 stat("/v/lib/python3.11/site-packages/absent.py", 0x7ffc00000000) = -1 ENOENT (No such file or directory) <0.000020>
7 1700000000.900 +++ exited with 0 +++
"""
# The day of the log, which is over.
DAY = "2023-11-14"


def quell(*words, status=0, **more):
    """Runs quell; returns what it prints."""
    done = subprocess.run([QUELL, *map(str, words)], capture_output=True, text=True, check=False, **more)
    assert done.returncode == status, (words, done.stderr)
    return done.stdout


@pytest.fixture
def recordings(tmp_path):
    """Makes recordings that differ in their headers: `recordings(3, user=7)`."""
    (tmp_path / "app.log").write_text(LOG)
    quell("-q", "import", "strace", tmp_path / "app.log", "-o", tmp_path / "app.qtrace")
    header = json.loads((tmp_path / "app.qtrace" / "header.json").read_text())

    def make(count, **fields):
        made = []
        for _ in range(count):
            make.number += 1
            copy = pathlib.Path(tmp_path, f"{make.number}.qtrace")
            copy.mkdir()
            for file in (tmp_path / "app.qtrace").glob("*.parquet"):
                os.link(file, copy / file.name)
            (copy / "header.json").write_text(json.dumps(header | {"job": f"{make.number}.0"} | fields))
            made.append(copy)
        return made

    make.number = 0
    return make
