"""Writers, compactions and readers at the same time, some of them killed: no job is lost, and none is there twice."""

import random
import subprocess
import threading
import time

import duckdb

from conftest import DAY, QUELL, quell

JOBS = f"read_parquet('jobs/day=*/*.parquet')"


def killed_at_random(chance, words):
    """Runs quell until it ends by itself, with status 0; some runs are killed."""
    while True:
        process = subprocess.Popen([QUELL, "-q", *map(str, words)], stderr=subprocess.PIPE, text=True)
        if random.random() < chance:
            time.sleep(random.uniform(0, 0.15))
            process.kill()
        error = process.communicate()[1]
        if process.returncode == 0:
            return
        assert process.returncode in (-9, 2) and (process.returncode == -9 or "another process compacts" in error), error


def seen(data_set):
    """The jobs that a reader sees, and its rows. A file may be gone after it was listed: then the reader lists again."""
    while True:
        try:
            with duckdb.connect() as connection:
                rows = connection.execute(f"SELECT job FROM read_parquet('{data_set}/jobs/day=*/*.parquet')").fetchall()
            return {int(job) for job, in rows}, len(rows)
        except duckdb.IOException:
            pass


def test_eight_writers_and_killed_compactions_lose_and_double_nothing(tmp_path, recordings):
    data_set = tmp_path / "fleet"
    made = recordings(160)
    number = {trace: int(trace.stem) for trace in made}
    quell("collect", made[0], "-o", data_set)
    added, over = {number[made[0]]}, threading.Event()
    lock, failures = threading.Lock(), []

    def guarded(work):
        def run(*arguments):
            try:
                work(*arguments)
            except BaseException as failure:
                failures.append(failure)
        return run

    @guarded
    def write(traces):
        for trace in traces:
            killed_at_random(0.3, ["collect", trace, "-o", data_set])
            with lock:
                added.add(number[trace])

    @guarded
    def compact():
        while not over.is_set():
            killed_at_random(0.7, ["collect", "--compact", "-o", data_set])

    @guarded
    def read():
        while not over.is_set():
            with lock:
                before = set(added)
            # A compaction that was killed between two steps is ended by the next writer or compaction.
            until = time.monotonic() + 300
            while (missing := before - seen(data_set)[0]) and time.monotonic() < until:
                pass
            assert not missing

    writers = [threading.Thread(target=write, args=(made[1 + start::8],)) for start in range(8)]
    others = [threading.Thread(target=compact), threading.Thread(target=read)]
    for thread in writers + others:
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    for thread in others:
        thread.join()
    assert not failures, failures

    everything = set(number.values())
    assert seen(data_set)[0] == everything
    quell("collect", "--compact", "-o", data_set)
    quell("collect", "--compact", "-o", data_set)
    assert seen(data_set) == (everything, len(everything))
    assert len(list((data_set / "jobs" / f"day={DAY}").iterdir())) == 1
    assert [path.name for path in (data_set / ".compact").iterdir()] == ["lock"]


def test_compactions_that_are_not_killed_show_no_job_twice(tmp_path, recordings):
    data_set = tmp_path / "fleet"
    made = recordings(40)
    quell("collect", *made[:2], "-o", data_set)
    over, twice, lost, added = threading.Event(), [], [], set()

    def read():
        while not over.is_set():
            before = set(added)
            jobs, rows = seen(data_set)
            if len(jobs) != rows:
                twice.append(rows - len(jobs))
            if not before <= jobs and not before <= seen(data_set)[0]:
                lost.append(before - jobs)

    reader = threading.Thread(target=read)
    reader.start()
    compacting = None
    for trace in made[2:]:
        if compacting is None or compacting.poll() is not None:
            compacting = subprocess.Popen([QUELL, "-q", "collect", "--compact", "-o", data_set])
        quell("collect", trace, "-o", data_set)
        added.add(int(trace.stem))
    compacting.wait()
    over.set()
    reader.join()
    assert not twice and not lost, (twice, lost)
    quell("collect", "--compact", "-o", data_set)
    assert seen(data_set) == (set(range(1, 41)), 40)
