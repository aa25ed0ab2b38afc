"""The answers of `quell fleet`, and the same queries in other engines."""

import json
import os
import pathlib
import re
import subprocess
import sys

import duckdb
import polars
import pytest

from conftest import quell

GENERATE = pathlib.Path(__file__).parents[2] / "bench" / "fleet" / "generate.py"


@pytest.fixture
def many(tmp_path, recordings):
    """A data set of 20 000 jobs, of which some are there twice."""
    quell("collect", *recordings(1), "-o", tmp_path / "one")
    like = next((tmp_path / "one").glob("jobs/*/*.parquet"))
    subprocess.run([sys.executable, GENERATE, tmp_path / "many", "--like", like, "--jobs", "20000", "--days", "3"], check=True)
    day = min((tmp_path / "many" / "jobs").iterdir())
    table = polars.read_parquet(next(day.iterdir()), hive_partitioning=False)
    table.head(500).write_parquet(day / ("f" * 32 + ".parquet"))
    return tmp_path / "many"


def rows(view):
    """Of the object of --json: what each engine must say, without the durations, which are floating-point sums."""
    tables = [("all", [view["all"]])] + [(table["by"], table["rows"]) for table in view["tables"]]
    return [(by, row["name"], row["jobs"], row["operations"], row["operations_after"], row["missed"])
            for by, rows in tables for row in rows]


def answer(records):
    """The same of an engine's rows."""
    number = lambda value: None if value is None else int(value)
    return [(row["grouped_by"], row["name"], *(number(row.get(name)) for name in ("jobs", "operations", "operations_after", "missed")))
            for row in records]


def queries(data_set, dialect):
    """The view and the queries, without their semicolons."""
    return [part.strip() for part in quell("fleet", data_set, "--sql", dialect).split(";") if part.strip()]


def test_each_job_counts_once_and_the_queries_run_elsewhere(many):
    view = json.loads(quell("fleet", many, "--json"))
    assert view["all"]["jobs"] == 20_000
    jobs = polars.scan_parquet(many / "jobs" / "**" / "*.parquet", hive_partitioning=True).unique("id").collect()
    assert view["all"]["operations"] == jobs["cost"].sum()
    users = jobs.group_by("user_name").agg(polars.len(), polars.col("cost").sum()).sort("cost", descending=True)
    said = [(row["name"], row["jobs"], row["operations"]) for row in view["tables"][0]["rows"]]
    assert said == users.head(10).rows()
    libraries = jobs.select(polars.col("libraries").explode()).drop_nulls().unnest("libraries").group_by("name").agg(
        polars.len(), polars.col("operations").sum()).sort("operations", descending=True)
    assert [(row["name"], row["jobs"], row["operations"]) for row in view["tables"][2]["rows"]] == libraries.head(10).rows()

    os.chdir(many)
    with duckdb.connect() as connection:
        create, *questions = queries(many, "duckdb")
        connection.execute(create)
        records = []
        for question in questions:
            found = connection.execute(question)
            names = [column[0] for column in found.description]
            records += [dict(zip(names, row)) for row in found.fetchall()]
    assert answer(records) == rows(view)


def test_spark_says_the_same(many, monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.chdir(many)
    session = sql.SparkSession.builder.master("local[2]").config("spark.sql.session.timeZone", "UTC").config(
        "spark.ui.enabled", "false").getOrCreate()
    for since in ([], ["--since", "1d"]):
        create, *questions = [part.strip() for part in quell("fleet", many, "--sql", "spark", *since).split(";") if part.strip()]
        session.sql(re.sub("^CREATE", "CREATE OR REPLACE", create))
        records = [row.asDict() for question in questions for row in session.sql(question).collect()]
        view = json.loads(quell("fleet", many, "--json", *since))
        if since:
            # The moment moves between the two: which jobs are in it may differ by those of a few seconds.
            assert 0 < records[0]["jobs"] <= 20_000
        else:
            assert answer(records) == rows(view)
    session.stop()


def test_what_a_trace_names_reaches_no_query_and_no_shell(tmp_path, recordings):
    evil = "a'); DROP TABLE jobs; -- \"}\n$(touch pwned)`touch pwned`\x1b[31m<script>alert(1)</script>"
    quell("collect", *recordings(2, command=["/bin/" + evil.replace("/", ""), "x"], host=evil), "-o", tmp_path / "it's [a] *set")
    assert len(list((tmp_path / "it's [a] *set").glob("jobs/*/*.parquet"))) == 1
    for form in ["--json", "--openmetrics", "--html=-", "--by=program"]:
        text = quell("fleet", tmp_path / "it's [a] *set", form, cwd=tmp_path)
        assert "DROP TA" in text and "\x1b" not in text and (form != "--html=-" or "<script>alert" not in text), form
        assert "DROP" not in quell("fleet", tmp_path / "it's [a] *set", "--sql")
    assert json.loads(quell("fleet", tmp_path / "it's [a] *set", "--json"))["all"]["jobs"] == 2
    assert not list(tmp_path.rglob("pwned"))


def test_a_module_in_the_data_set_is_not_run(tmp_path, recordings):
    quell("collect", *recordings(2), "-o", tmp_path / "fleet")
    for name in ["duckdb.py", "json.py", "importlib.py"]:
        (tmp_path / "fleet" / name).write_text("open('pwned', 'w')\n")
    assert json.loads(quell("fleet", tmp_path / "fleet", "--json", cwd=tmp_path / "fleet"))["all"]["jobs"] == 2
    assert not list(tmp_path.rglob("pwned"))


def test_since_leaves_older_jobs_out(tmp_path, recordings):
    import time
    quell("collect", *recordings(3), *recordings(2, began=time.time() - 100), "-o", tmp_path / "fleet")
    for since, jobs in [("1h", 2), ("1s", 0), ("36500d", 5)]:
        view = json.loads(quell("fleet", tmp_path / "fleet", "--since", since, "--json"))
        assert view["all"]["jobs"] == jobs, since


def test_gauges_are_of_the_form_that_prometheus_reads(tmp_path, recordings):
    quell("collect", *recordings(2), "-o", tmp_path / "fleet")
    lines = quell("fleet", tmp_path / "fleet", "--openmetrics").splitlines()
    assert lines[-1] == "# EOF"
    sample = re.compile(r'quell_fleet_[a-z_]+\{by="[a-z]+",name="([^"\\\n]|\\.)*"\} [0-9.e+]+')
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)


def test_the_servers_counts_join_by_the_number_of_the_job(tmp_path, recordings):
    """Of each job what Lustre's servers counted, its recordings, and its user; hostile names are values."""
    fleet = tmp_path / "fleet"
    quell("collect", *recordings(2), *recordings(1, job="1.1"), *recordings(1, job=None), "-o", fleet)
    evil = "x'); DROP TABLE served; COPY jobs TO '/tmp/quell-stolen'; --"
    counts = {"1": 5000, "2": 70, "99": 900, evil: 30}
    parts = [f"- job_id: {job}\n  snapshot_time: 1700000000\n  open: {{ samples: {count}, unit: usecs, sum: 1 }}\n"
             "  read_bytes: { samples: 1, unit: bytes, min: 9, max: 9, sum: 9 }\n" for job, count in counts.items()]
    stats = tmp_path / "job_stats"
    stats.write_text("mdt.work-MDT0000.job_stats=\njob_stats:\n" + "".join(parts))
    served = json.loads(quell("fleet", fleet, "--json", "--job-stats", stats))["served"]
    whole = ("jobs", "operations", "recorded_jobs", "recorded_operations")
    assert [served[name] for name in whole] == [4, 6000, 2, 5070]
    said = [(row["job"], row["operations"], row["bytes"], row["recordings"], row["cost"]) for row in served["rows"]]
    assert said == [("1", 5000, 9, 2, 6), ("99", 900, 9, 0, None), ("2", 70, 9, 1, 3), (evil, 30, 9, 0, None)]
    assert not pathlib.Path("/tmp/quell-stolen").exists()
    for form in ([], ["--html", "-"], ["--openmetrics"]):
        assert quell("fleet", fleet, "--job-stats", stats, *form)
    text = quell("fleet", fleet, "--job-stats", stats, "--rows", 2)
    assert "servers  6 000 operations for 4 jobs; 85 % for 2 recorded jobs" in text
    later = tmp_path / "later"
    later.write_text(stats.read_text().replace("1700000000", "1700000600").replace("samples: 70,", "samples: 80,"))
    served = json.loads(quell("fleet", fleet, "--json", "--job-stats", later, "--job-stats", stats))["served"]
    assert served["recorded_operations"] == 5080
    stats.write_text("hello\n")
    quell("fleet", fleet, "--job-stats", stats, status=2)
