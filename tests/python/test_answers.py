"""Answers, errors and pages against what the binary itself prints, and the package as type checkers see it."""

import html
import json
import os
import pickle
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pandas
import polars as pl
import pytest
import quell
from conftest import run


def test_the_binary_is_that_of_the_wheel(alone):
    assert Path(quell.binary()) == Path(sys.prefix, "bin/quell")
    printed = run(alone, "-c", "import quell; print(quell.binary())", env={**os.environ, "PATH": "/nowhere"})
    assert printed == f"{alone.parent / 'quell'}\n"


def test_a_report_is_the_json_of_the_binary_and_prints_as_it(recording):
    report = quell.open(recording).report()
    assert report == json.loads(run(quell.binary(), "report", "--json", recording))
    text = run(quell.binary(), "report", recording)
    assert str(report) == text
    assert report._repr_html_() == f"<pre>{html.escape(text)}</pre>"
    strict = quell.open(recording).report(threshold="repeated-stats=0")
    assert strict == json.loads(run(quell.binary(), "report", "--json", "--threshold", "repeated-stats=0", recording))


def test_findings_are_those_of_the_report_and_make_a_frame(tmp_path):
    run(quell.binary(), "synth", "search-path", "-q", "-o", tmp_path / "app.qtrace")
    trace = quell.open(tmp_path / "app.qtrace")
    findings = trace.findings()
    assert [found.code for found in findings] == [found["code"] for found in trace.report()["findings"]] != []
    assert findings[0].metadata_operations_after < trace.report()["totals"]["metadata_operations"]
    assert pl.DataFrame(findings).columns == list(pandas.DataFrame(findings).columns) == list(quell.Finding._fields)
    assert trace.findings(threshold=[f"{one['code']}=1e9" for one in trace.report()["findings"]]) == []


def test_a_difference_is_an_answer_and_no_error(recording, ranks):
    same, other = quell.diff(recording, recording), quell.diff(recording, quell.open(*ranks))
    assert same["totals"]["a"] == same["totals"]["b"] == quell.open(recording).report()["totals"]
    joined = ",".join(quell.open(*ranks).directories)
    done = subprocess.run([quell.binary(), "diff", recording, joined], stdout=subprocess.PIPE, text=True)
    assert (done.returncode, str(other)) == (1, done.stdout)
    with pytest.warns(quell.QuellWarning, match="`missed` rose from"):
        limited = quell.diff(ranks[0], recording, fail_on_increase=["missed", "calls=100000%"])
    assert [one["metric"] for one in limited["increases"]] == ["missed"]


def test_a_prediction_is_that_of_the_same_flags(recording):
    trace = quell.open(recording)
    flags = ["--fs", "lustre", "--nodes", "1,16", "--ppn", "4", "--root", "/", "--warm", "--seed", "7"]
    expected = json.loads(run(quell.binary(), "predict", "-q", "--json", *flags, recording))
    assert quell.predict(trace, fs="lustre", nodes=[1, 16], ppn=4, root="/", warm=True, seed=7) == expected
    compared = quell.predict(recording, fs=["lustre", "nfs"], nodes="1..4", root="/")
    assert len(compared["profiles"]) == 2
    assert quell.predict(trace, fs="lustre", nodes=1, root="/", image=None)["points"][0]["nodes"] == 1


def test_errors_of_the_binary_have_message_hint_and_status(recording):
    with pytest.raises(quell.QuellError) as raised:
        quell.predict(recording, fs="nofs")
    error = raised.value
    assert error.message == "`nofs` is neither a file nor a profile that comes with quell"
    assert error.hint.splitlines()[0] == "perhaps `nfs`"
    assert error.status == 2
    done = subprocess.run([quell.binary(), "predict", recording, "--fs", "nofs"], capture_output=True, text=True)
    assert f"quell: error: {error}\n" == done.stderr
    again = pickle.loads(pickle.dumps(error))
    assert (again.message, again.hint, again.status) == (error.message, error.hint, error.status)
    with pytest.raises(quell.QuellError, match="unexpected argument '--no-such-flag'"):
        quell.predict(recording, no_such_flag=True)


@pytest.mark.parametrize("variable", ["RUST_BACKTRACE", "RUST_LIB_BACKTRACE"])
def test_the_release_tells_its_errors_where_the_environment_asks_for_backtraces(tmp_path, variable):
    asked = {**os.environ, variable: "full"}
    done = subprocess.run([quell.binary(), "report", tmp_path / "none"], capture_output=True, text=True, env=asked)
    assert (done.returncode, done.stderr.splitlines()[0][:27]) == (2, "quell: error: cannot open `")
    assert f"{variable}=full" in run(quell.binary(), "record", "-q", "-o", tmp_path / "t", "--", "env", env=asked).splitlines()


def test_warnings_of_the_binary_are_warnings(recording):
    with pytest.warns(quell.QuellWarning, match="no --fs: this is a wide prior") as caught:
        answer = quell.predict(recording, nodes=1, root="/")
    assert {Path(warning.filename) for warning in caught} == {Path(__file__)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "nodes" in str(answer)


def test_settings_of_the_user_do_not_change_what_is_read(recording):
    program = "import quell, sys; print(quell.open(sys.argv[1]).report())"
    plain = run(sys.executable, "-c", program, recording)
    assert run(sys.executable, "-c", program, recording, env={**os.environ, "QUELL_COLOUR": "always"}) == plain


def test_a_page_is_that_of_the_binary_and_private(recording, tmp_path):
    page = quell.open(recording).plot()
    assert page.html == run(quell.binary(), "report", "--html", "-", recording)
    old = os.umask(0)
    page.save(tmp_path / "page.html")
    os.umask(old)
    assert (tmp_path / "page.html").read_text() == page.html
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600
    assert quell.predict(recording, fs="lustre", nodes=[1, 4], root="/").plot().html.startswith("<!DOCTYPE html>")


def test_a_notebook_shows_the_page(recording, tmp_path):
    """The frame that a notebook puts into its page holds the report, drawn: asked in a browser."""
    page = tmp_path / "notebook.html"
    look = """<script>
    function look() {
        const drawn = document.querySelector("iframe").contentDocument;
        if (!drawn || !drawn.querySelector("svg, canvas")) return setTimeout(look, 50);
        document.title = "drawn";
        document.body.textContent = "shown: " + drawn.body.innerText;
    }
    look();
    </script>"""
    page.write_text(f"<!doctype html><body>{quell.open(recording).plot()._repr_html_()}{look}</body>")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=60000", "--dump-dom"]
    shown = run("chromium", *flags, page.as_uri(), stderr=subprocess.DEVNULL)
    assert "shown: " in shown, shown[-2000:]
    operations = quell.open(recording).report()["totals"]["metadata_operations"]
    assert str(operations) in re.sub(r"[\s\u2009\u202f\xa0]", "", shown)


TYPED = """
import quell

frames = quell.open("a.qtrace", frames="polars")
reveal_type(frames.events)
reveal_type(quell.open("a.qtrace", frames="pandas").paths)
reveal_type(frames.findings()[0].operations)
reveal_type(quell.predict(frames, fs="lustre").plot())
quell.open(1)
"""


def test_the_package_is_typed(tmp_path):
    mypy = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache"]
    run(*mypy, "-p", "quell", cwd=tmp_path)
    (tmp_path / "user.py").write_text(TYPED)
    done = subprocess.run([*mypy, tmp_path / "user.py"], capture_output=True, text=True, cwd=tmp_path)
    revealed = re.findall(r'Revealed type is "([\w.]+)"', done.stdout)
    assert [name.split(".")[-1] for name in revealed] == ["LazyFrame", "DataFrame", "int", "Page"], done.stdout
    assert done.stdout.count(" error: ") == 1 and "user.py:9: error: No overload variant" in done.stdout, done.stdout
