"""The notebook of the documentation is what its cells give today, and its page names what there is."""

import html
import re

import notebook
import quell
from conftest import SOURCE, run


def test_the_documented_notebook_is_what_its_cells_give():
    executed = notebook.execute()
    page, = notebook.pages(executed)
    held = html.unescape(re.search(r'srcdoc="([^"]*)"', page["text/html"])[1])
    assert held.startswith("<!DOCTYPE html>") and "/shared/search-path/entry030" in held
    written = (SOURCE / "docs/python.ipynb").read_text()
    assert notebook.text(executed) == written, "write it anew: tests/python/run --notebook"
    assert "iframe" not in written and '"output_type": "error"' not in written


def test_the_page_names_what_there_is(recording, tmp_path, monkeypatch):
    page = (SOURCE / "docs/python.md").read_text()
    trace = quell.open(recording)
    # A frame is read when it is asked for; its name is enough.
    assert all(hasattr(quell, name) for name in re.findall(r"`quell\.(\w+)[`(]", page))
    assert all(name in dir(trace) for name in re.findall(r"(?<!\()\btrace\.(\w+)", page))
    assert set(re.findall(r"`(\w+)`", re.search(r"list of `Finding`: (.*)\|", page)[1])) == set(quell.Finding._fields)
    for name in ("app.qtrace", "packed.qtrace"):
        run("cp", "-r", recording, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for example in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(example, {})
