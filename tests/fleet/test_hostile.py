"""Data sets in which others write: of a member of the group, or of a program that is not quell."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys

import duckdb
import pytest

from conftest import DAY, QUELL, quell

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="skipped, because other users are needed")
# Two members of a group.
GROUP, MEMBERS = 2500, (1501, 1502)
# A process that waits for a pipe waits for ever.
PATIENCE = 300


def run(*words, user=None, **more):
    """Runs quell as a user; returns its status and what it says."""
    if user is not None:
        # Another user may not look into the home of this one.
        environment = {**os.environ, "HOME": "/"}
        more = {"user": user, "group": GROUP, "extra_groups": [], "env": environment} | more
    done = subprocess.run([QUELL, *map(str, words)], capture_output=True, text=True, check=False, timeout=PATIENCE, **more)
    return done.returncode, done.stdout + done.stderr


def jobs(data_set):
    """The jobs that `quell fleet` counts, and the rows of the day."""
    rows = duckdb.sql(f"SELECT count(*) FROM read_parquet('{data_set}/jobs/day={DAY}/*.parquet')").fetchone()[0]
    return json.loads(quell("fleet", data_set, "--json"))["all"]["jobs"], rows


@pytest.fixture
def several(tmp_path, recordings):
    """A data set of three jobs in three files, and their day."""
    for recording in recordings(3):
        quell("collect", recording, "-o", tmp_path / "fleet")
    return tmp_path / "fleet", tmp_path / "fleet" / "jobs" / f"day={DAY}"


@pytest.fixture
def shared(tmp_path, recordings):
    """A data set of a group, with a job of each member, and their day."""
    if os.geteuid() != 0:
        pytest.skip("skipped, because other users are needed")
    for place in [tmp_path, *tmp_path.parents][:3]:
        place.chmod(0o755)
    data_set = tmp_path / "shared"
    data_set.mkdir()
    os.chown(data_set, MEMBERS[0], GROUP)
    data_set.chmod(0o2770)
    for member, recording in zip(MEMBERS, recordings(2), strict=True):
        for path in [recording, *recording.iterdir()]:
            os.chown(path, member, GROUP)
        assert run("collect", recording, "-o", data_set, user=member)[0] == 0
    return data_set, data_set / "jobs" / f"day={DAY}"


def test_members_of_a_group_compact_each_others_files(shared, recordings):
    data_set, day = shared
    for member in MEMBERS:
        status, said = run("collect", "--compact", "-o", data_set, user=member)
        assert status == 0, said
        [file] = day.iterdir()
        assert (file.stat().st_mode & 0o777, file.stat().st_gid) == (0o640, GROUP)
        assert (day.stat().st_mode & 0o7777, day.stat().st_gid) == (0o2770, GROUP)
        assert [path.name for path in (data_set / ".compact").iterdir()] == ["lock"]
        [recording] = recordings(1)
        for path in [recording, *recording.iterdir()]:
            os.chown(path, member, GROUP)
        assert run("collect", recording, "-o", data_set, user=member) == (0, f"quell: added 1 job to `{data_set}`\n")


@needs_root
@pytest.mark.parametrize("words", [["--compact"], ["1.qtrace"]])
def test_root_works_in_no_data_set_of_others(tmp_path, recordings, words):
    recordings(1)
    (tmp_path / "own").mkdir()
    for name, owner, mode, reason in [("other", 1500, 0o755, "belongs to user 1500"), ("group", 0, 0o2770, "others may write in"),
                                      ("all", 0, 0o1777, "others may write in"), ("own/jobs", 1500, 0o755, "belongs to user 1500")]:
        place = tmp_path / name
        place.mkdir()
        os.chown(place, owner, GROUP)
        place.chmod(mode)
        data_set = place.parent if place.name == "jobs" else place
        if words == ["--compact"] and place.name == "jobs":
            (place / f"day={DAY}").mkdir()
        status, said = run("collect", *words, "-o", data_set, cwd=tmp_path)
        assert status == 2 and reason in said and "hint: `runuser -u " in said, (name, said)
        assert len(said.splitlines()) == 2, said
        status, said = run("fleet", data_set)
        assert status == 2 and reason in said, (name, said)
        assert {path.name for path in data_set.rglob("*")} <= {"jobs", f"day={DAY}", ".compact", "lock", "paths"}
    # A data set of root, on a path that another may change.
    home = tmp_path / "home"
    (home / "fleet").mkdir(parents=True)
    os.chown(home, 1500, GROUP)
    for data_set in [home / "fleet", home / "new"]:
        status, said = run("collect", *words, "-o", data_set, cwd=tmp_path)
        assert status == 2 and "belongs to user 1500" in said, said
    status, said = run("fleet", home / "fleet")
    assert status == 2 and "belongs to user 1500" in said, said


def test_what_quell_did_not_write_stays(several):
    data_set, day = several
    own = next(day.iterdir())
    foreign = [b"part-0.parquet", b"notes.txt", b".hidden", b"caf\xe9.csv"]
    for name in foreign:
        shutil.copy(own, os.path.join(os.fsencode(day), name))
    (day / "directory").mkdir()
    quell("collect", "--compact", "-o", data_set)
    names = set(os.listdir(os.fsencode(day)))
    assert names > {*foreign, b"directory"} and len(names) == len(foreign) + 2
    assert jobs(data_set) == (3, 4)


def test_a_recording_may_be_collected_again_while_its_day_is_compacted(several, tmp_path):
    data_set, day = several
    own = next(day.iterdir())
    for number in range(600):
        shutil.copy(own, day / f"{number:032x}.parquet")
    compacting = subprocess.Popen([QUELL, "collect", "--compact", "-o", data_set], stderr=subprocess.PIPE, text=True)
    for _ in range(3):
        quell("collect", tmp_path / "1.qtrace", "-o", data_set)
    said = compacting.communicate()[1]
    assert compacting.returncode == 0, said
    quell("collect", "--compact", "-o", data_set)
    assert jobs(data_set) == (3, 3)


def test_the_engine_may_be_behind_a_wrapper(several, tmp_path):
    data_set, day = several
    (tmp_path / "bin").mkdir()
    # It passes no descriptors on.
    (tmp_path / "bin" / "python3").write_text(f"""#!{sys.executable}
import subprocess, sys
sys.exit(subprocess.run([{sys.executable!r}, *sys.argv[1:]]).returncode)
""")
    (tmp_path / "bin" / "python3").chmod(0o755)
    quell("collect", "--compact", "-o", data_set, env=os.environ | {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    assert len(list(day.iterdir())) == 1 and jobs(data_set) == (3, 3)


def test_thousands_of_files_become_one(several):
    data_set, day = several
    own = next(day.iterdir())
    for number in range(2600):
        shutil.copy(own, day / f"{number:032x}.parquet")
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    status, said = run("collect", "--compact", "-o", data_set, preexec_fn=few)
    assert status == 0 and "2 606 files into 2" in said, said
    assert jobs(data_set) == (3, 3)


@pytest.mark.parametrize("content", [b"", b"no Parquet at all", b"PAR1 and no more PAR1"])
def test_a_day_that_fails_stops_no_other(several, recordings, content):
    data_set, day = several
    # Two earlier days, and a later one.
    for began in (1600000000, 1600100000, 1710000000):
        quell("collect", *recordings(1, began=began), "-o", data_set)
        quell("collect", *recordings(1, began=began), "-o", data_set)
    wrong = day / f"{7:032x}.parquet"
    wrong.write_bytes(content)
    os.truncate(sorted((data_set / "jobs").iterdir())[0] / sorted((sorted((data_set / "jobs").iterdir())[0]).iterdir())[0], 100)
    status, said = run("collect", "--compact", "-o", data_set)
    assert status == 2 and str(wrong) in said and said.count("quell: error: ") == 2, said
    assert [len(list(place.iterdir())) for place in sorted((data_set / "jobs").iterdir())] == [2, 1, 2, 1]
    assert [len(list(place.iterdir())) for place in sorted((data_set / "paths").iterdir())] == [1, 1, 1, 1]
    assert [path.name for path in (data_set / ".compact").iterdir()] == ["lock"]


@pytest.mark.parametrize("columns", ["'x' AS cost, id, began", "id AS other, cost, began", "* REPLACE ([cost] AS cost)",
                                     "* REPLACE ([{'name': 'x'}] AS libraries)", "* EXCLUDE (cost), 'x' AS \"Cost\""])
def test_a_file_with_wrong_columns_is_named_and_left(several, columns):
    data_set, day = several
    wrong = day / f"{7:032x}.parquet"
    duckdb.sql(f"COPY (SELECT {columns} FROM read_parquet('{next(day.iterdir())}')) TO '{wrong}' (FORMAT parquet)")
    status, said = run("collect", "--compact", "-o", data_set)
    assert status == 2 and str(wrong) in said and "column" in said, said
    assert len(list(day.iterdir())) == 2
    status, said = run("fleet", data_set)
    assert status == 0 or str(wrong) in said, said
    wrong.unlink()
    assert jobs(data_set) == (3, 3)


def test_directories_that_are_no_dates_are_left_out(several):
    data_set, day = several
    for name in ["day=x", "day=9999-99-99", "day=2023-02-30", "day=__HIVE_DEFAULT_PARTITION__", "other", "day=2024-01-01"]:
        shutil.copytree(day, data_set / "jobs" / name)
    shutil.rmtree(data_set / "jobs" / "day=2024-01-01")
    (data_set / "jobs" / "day=2024-01-01").mkdir()
    (data_set / "jobs" / "day=2024-01-02").write_text("")
    for since in ([], ["--since", "36500d"]):
        assert json.loads(quell("fleet", data_set, "--json", *since))["all"]["jobs"] == 3
    quell("collect", "--compact", "-o", data_set)
    assert len(list((data_set / "jobs" / "day=x").iterdir())) == 3 and len(list(day.iterdir())) == 1


def test_a_pipe_is_not_waited_for(several):
    data_set, day = several
    pipe = day / f"{7:032x}.parquet"
    os.mkfifo(pipe)
    quell("collect", "--compact", "-o", data_set, timeout=PATIENCE)
    assert pipe.is_fifo() and len(list(day.iterdir())) == 2
    status, said = run("fleet", data_set)
    assert status == 2 and f"`{pipe}` is no regular file" in said, said
    pipe.unlink()
    (data_set / ".compact" / "lock").unlink()
    os.mkfifo(data_set / ".compact" / "lock")
    status, said = run("collect", "--compact", "-o", data_set)
    assert status == 2 and "it is no regular file" in said, said


def test_a_link_leads_no_compaction_elsewhere(several, tmp_path):
    data_set, day = several
    victim = tmp_path / "victim"
    shutil.copytree(day, victim)
    (victim / "new").mkdir()
    os.symlink(victim, data_set / "jobs" / "day=2023-11-13")
    os.symlink(victim / "lock", data_set / "lock")
    before = sorted(victim.rglob("*"))
    quell("collect", "--compact", "-o", data_set)
    assert len(list(day.iterdir())) == 1
    shutil.rmtree(data_set / ".compact")
    os.symlink(victim, data_set / ".compact")
    assert run("collect", "--compact", "-o", data_set)[0] == 2
    (data_set / ".compact").unlink()
    (data_set / ".compact").mkdir()
    os.symlink(victim / "made", data_set / ".compact" / "lock")
    assert run("collect", "--compact", "-o", data_set)[0] == 2
    assert sorted(victim.rglob("*")) == before


@needs_root
def test_a_full_disk_loses_nothing(tmp_path, recordings):
    made = recordings(6)
    script = f"""set -e
        mkdir full && mount -t tmpfs -o size=400k,mode=755 none full
        for i in 1 2 3 4 5 6; do {QUELL} -q collect $i.qtrace -o full/fleet || break; done
        before=$({QUELL} fleet full/fleet --json)
        dd if=/dev/zero of=full/ballast bs=4k 2>/dev/null || true
        if {QUELL} collect --compact -o full/fleet; then echo compacted; else echo failed; fi
        ls full/fleet/.compact
        test "$before" = "$({QUELL} fleet full/fleet --json)"
        rm full/ballast
        {QUELL} collect --compact -o full/fleet
        test "$before" = "$({QUELL} fleet full/fleet --json)"
        ls full/fleet/.compact full/fleet/jobs/*
    """
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert made and done.returncode == 0 and "failed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.splitlines()[1] != "jobs", done.stdout
