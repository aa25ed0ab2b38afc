"""Storms of packages that users install: the remedy of a finding is applied, and the start is recorded again."""

import json
import os
import subprocess
import sys

import quell

PLOT = 'import matplotlib\nmatplotlib.use("agg")\nimport matplotlib.pyplot\n'


def test_matplotlib_keeps_its_list_of_fonts_with_the_remedy(tmp_path):
    (tmp_path / "plot.py").write_text(PLOT)
    # No user, root included, makes a directory below it.
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MPL", "XDG_"))}
    home = {**variables, "HOME": "/dev/null"}

    def shell(line):
        subprocess.run(["sh", "-ec", line], cwd=tmp_path, env=home, check=True, stderr=subprocess.DEVNULL)

    def report(name):
        trace = tmp_path / name
        return json.loads(subprocess.run([quell.binary(), "report", trace, "--json"], check=True, stdout=subprocess.PIPE).stdout)

    start, record = f"{sys.executable} plot.py", f"{quell.binary()} record -q -o"
    shell(f"{start}; {record} before.qtrace -- {start}")
    before = report("before.qtrace")
    (finding,) = [finding for finding in before["findings"] if finding["code"] == "font-cache"]
    remedy = finding["remedy"]
    shell(f"{remedy['command']}; {start}; {record} after.qtrace -- {start}")
    after = report("after.qtrace")
    assert "font-cache" not in [finding["code"] for finding in after["findings"]]
    operations = [trace["totals"]["metadata_operations"] for trace in (before, after)]
    # The finding leaves out the libraries of fc-list, so that it promises less than what is saved.
    assert operations[1] <= remedy["metadata_operations_after"] < operations[0]
    assert remedy["metadata_operations_after"] - operations[1] < 0.1 * operations[0]
