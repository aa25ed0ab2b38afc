"""Frames against the files of the trace, its documentation, and what the binary counts."""

import json
import os
import re
import subprocess
import urllib.parse

import pandas
import polars as pl
import pyarrow.parquet
import pytest
import quell
from conftest import SOURCE, run

TABLES = [name for name, value in vars(quell.Trace).items() if hasattr(value, "name")]
ROWS = {"processes": "process", "threads": "thread", "executions": "execution", "mounts": "file_system"}


def documented():
    """The columns of each table in docs/trace.md, with their unit."""
    text = (SOURCE / "docs/trace.md").read_text()
    tables = {}
    for name, body in re.findall(r"^## (\w+)\.parquet\n(.*?)(?=^## )", text, re.M | re.S):
        tables[name] = dict(re.findall(r"^\| `(\w+)` \| \w+ \|([^|]*)\|", body, re.M))
    return tables


def test_every_documented_table_is_a_frame_with_its_columns(recording):
    tables = documented()
    assert sorted(TABLES) == sorted(tables)
    trace = quell.open(recording)
    for name, columns in tables.items():
        rows = [ROWS[name]] if name in ROWS else []
        schema = getattr(trace, name).collect_schema()
        assert schema.names() == ["recording", *rows, *columns], name
        texts = [column for column, unit in columns.items() if unit.strip() == "id" and (name, column) != ("paths", "id")]
        assert all(schema[column] == pl.String for column in texts), name
        referring = [column for column, unit in columns.items() if unit.startswith(" row")]
        assert all(schema[column] == pl.Int32 for column in [*rows, *referring]), name


def test_both_libraries_give_the_same_rows(recording, ranks):
    lazy, eager = quell.open(recording, *ranks, frames="polars"), quell.open(recording, *ranks, frames="pandas")
    for name in TABLES:
        expected, frame = getattr(lazy, name).collect(), getattr(eager, name)
        assert isinstance(frame, pandas.DataFrame)
        rows = [tuple(None if value is pandas.NA else value for value in row) for row in frame.itertuples(index=False)]
        assert list(frame.columns) == expected.columns
        assert rows == expected.rows(), name


def test_events_are_the_rows_of_the_file_with_paths_for_numbers(recording):
    raw = pyarrow.parquet.read_table(recording / "events.parquet").to_pylist()
    paths = pyarrow.parquet.read_table(recording / "paths.parquet").to_pylist()
    texts = {path["id"]: path["path"] for path in paths} | {None: None}
    for row in raw:
        row["recording"] = 0
        for column in ("path", "path2", "target", "target2"):
            row[column] = texts[row[column]]
    assert quell.open(recording).events.collect().to_dicts() == [dict(sorted(row.items(), key=order)) for row in raw]


def order(item):
    names = ["recording", *documented()["events"]]
    return names.index(item[0])


def test_frames_count_what_the_report_counts(recording):
    trace = quell.open(recording)
    totals = trace.report()["totals"]
    metadata = trace.events.filter(pl.col("class").is_in(quell.METADATA))
    for engine in ("in-memory", "streaming"):
        assert metadata.select(pl.len()).collect(engine=engine).item() == totals["metadata_operations"]
        assert metadata.filter(pl.col("errno").is_in([2, 20])).collect(engine=engine).height == totals["missed"]
    assert metadata.select(pl.col("target").drop_nulls().n_unique()).collect().item() == totals["distinct_paths"]
    by = trace.events.join(trace.mounts, on=["recording", "file_system"]).filter(pl.col("class").is_in(quell.METADATA))
    counted = dict(by.group_by("served_by").agg(pl.len()).collect().iter_rows())
    assert counted == {name: number for name, number in trace.report()["served_by"].items() if number and name != "unknown"}


def test_the_classes_of_metadata_operations_are_the_documented_ones():
    text = (SOURCE / "docs/trace.md").read_text()
    listed = re.search(r"`class` is one of (.*?)\n\(these ten", text, re.S)[1]
    assert list(quell.METADATA) == re.findall(r"`(\w+)`", listed)


def test_a_frame_reads_only_the_columns_that_are_asked_for(recording):
    plan = quell.open(recording).events.filter(pl.col("class") == "open").select("target").explain()
    assert re.search(r"PROJECT 2/\d+ COLUMNS", plan), plan


def test_odd_names_are_escaped_text(recording):
    events = quell.open(recording).events
    assert events.filter(pl.col("path") == r"not\xffutf8").collect().height == 1
    assert events.filter(pl.col("path") == "link/x").collect()["target"][0].endswith("/json/x")


def test_numbers_of_rows_join_tables_of_one_recording(recording, ranks):
    trace = quell.open(*ranks, recording)
    ran = trace.executions.join(trace.processes, on=["recording", "process"]).sort("recording", "execution").collect()
    programs = [json.loads(arguments)[0] for arguments in ran["arguments"]]
    assert programs == ["/usr/bin/python3", "/bin/true", "/bin/cat", "/bin/cat"]
    variables = trace.variables.join(trace.executions, on=["recording", "execution"]).collect()
    assert set(variables["recording"]) == {0, 1, 2}


def test_recordings_are_numbered_as_the_binary_sorts_them(recording, ranks):
    trace = quell.open(*ranks, recording)
    assert [header["rank"] for header in trace.headers] == [None, 0, 1]
    assert [row["name"] for row in trace.report()["recordings"]] == trace.directories
    by_rank = trace.events.group_by("recording").len().sort("recording").collect()["len"].to_list()
    assert by_rank == [header["recorder"]["events"] for header in trace.headers]


def test_a_directory_of_recordings_is_opened_as_one_trace(ranks):
    together = quell.open(ranks[0].parent)
    assert together.directories == quell.open(*ranks).directories
    assert together.events.collect().equals(quell.open(*ranks).events.collect())
    assert quell.diff(together, ranks)["increases"] == []


def test_a_table_that_no_recorder_wrote_is_an_error_and_of_some_it_is_left_out(recording, tmp_path):
    older = tmp_path / "older.qtrace"
    run("cp", "-r", recording, older)
    (older / "touched.parquet").unlink()
    with pytest.raises(quell.QuellError, match="has no table `touched`"):
        quell.open(older).touched
    assert set(quell.open(older, recording).touched.collect()["recording"]) <= {0, 1}
    assert set(quell.open(older, recording).events.collect()["recording"]) == {0, 1}


def test_a_column_that_only_a_newer_quell_writes_is_null_elsewhere(recording, tmp_path):
    newer = tmp_path / "newer.qtrace"
    run("cp", "-r", recording, newer)
    table = pyarrow.parquet.read_table(newer / "links.parquet")
    table = table.append_column("added", pyarrow.array(["new"] * table.num_rows))
    pyarrow.parquet.write_table(table, newer / "links.parquet")
    for frames, collect in (("polars", lambda frame: frame.collect().to_pandas()), ("pandas", lambda frame: frame)):
        links = collect(quell.open(newer, recording, frames=frames).links)
        assert sorted(links["added"].isna()) == [False] * table.num_rows + [True] * table.num_rows


def test_what_is_no_trace_is_refused(tmp_path, recording):
    with pytest.raises(quell.QuellError, match="cannot read") as missing:
        quell.open(tmp_path / "nothing.qtrace")
    assert "quell record" in missing.value.hint and missing.value.status == 2
    odd = ['{"format": "quell-trace"%s}' % more for more in ("", ', "version": "1"', ', "version": 1, "rank": "0"')]
    for text in ("[]", "{}", '{"format": "other"}', "\xff", "", *odd):
        (tmp_path / "header.json").write_text(text, encoding="latin-1")
        with pytest.raises(quell.QuellError, match="is not a trace"):
            quell.open(tmp_path)
    header = json.loads((recording / "header.json").read_text()) | {"version": 2}
    (tmp_path / "header.json").write_text(json.dumps(header))
    with pytest.raises(quell.QuellError, match="of version 2; this quell reads up to 1"):
        quell.open(tmp_path)
    assert subprocess.run([quell.binary(), "report", tmp_path], capture_output=True).returncode == 2
    with pytest.raises(quell.QuellError):
        quell.open()
    with pytest.raises(ValueError):
        quell.open(recording, frames="spark")


def test_a_partial_recording_is_reported_and_has_no_frames(tmp_path):
    command = ["/bin/sh", "-c", "echo begun; exec sleep 1000"]
    program = [quell.binary(), "record", "-q", "-o", tmp_path / "app.qtrace", "--", *command]
    with subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True) as recorder:
        assert recorder.stdout.readline() == b"begun\n"
        recorder.kill()
        os.killpg(recorder.pid, 9)
    trace = quell.open(tmp_path / "app.qtrace")
    assert trace.headers[0]["completeness"] == "partial"
    assert trace.report()["recordings"][0]["partial"]
    with pytest.raises(quell.QuellError, match="ended early") as partial:
        trace.events
    assert "quell export" in partial.value.hint


def test_a_name_may_hold_what_readers_take_for_patterns(recording, tmp_path, monkeypatch):
    for name in ("a[b]*.qtrace", "-q.qtrace", "two words.qtrace", urllib.parse.quote("a/b?.qtrace", safe="")):
        run("cp", "-r", recording, tmp_path / name)
        trace = quell.open(tmp_path / name)
        assert trace.events.select(pl.len()).collect().item() == trace.headers[0]["recorder"]["events"]
    monkeypatch.chdir(tmp_path)
    trace = quell.open("-q.qtrace")
    assert trace.report()["totals"] == quell.open(recording).report()["totals"]
    assert quell.diff("-q.qtrace", trace)["increases"] == []


def test_without_a_library_frames_say_what_to_install(alone, pandas_only, recording):
    program = "import quell, sys; t = quell.open(sys.argv[1]); print(t.report()['totals']['calls']); print(type(t.events))"
    done = subprocess.run([alone, "-c", program, recording], capture_output=True, text=True)
    calls = str(quell.open(recording).report()["totals"]["calls"])
    assert done.stdout == calls + "\n"
    assert done.stderr.endswith("ImportError: frames need polars or pandas: python3 -m pip install polars\n")
    python, environment = pandas_only
    printed = run(python, "-c", program, recording, env=environment)
    assert printed == f"{calls}\n<class 'pandas.DataFrame'>\n"
    wanted = "import quell, sys; quell.open(sys.argv[1], frames='pandas').events"
    done = subprocess.run([alone, "-c", wanted, recording], capture_output=True, text=True)
    assert done.stderr.endswith("ImportError: frames need pandas: python3 -m pip install pandas pyarrow\n")
