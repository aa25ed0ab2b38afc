"""A gate for continuous integration: fails when a program's start asks more of the file system than before.

    python3 -m quell.ci --base origin/main --fail-on-increase metadata_operations=2% --summary summary.md -- python3 app.py

The command runs twice: plain, so that byte code and caches are there, then recorded. With `--base` the same is done with that
commit checked out, and the two recordings are compared; `--before` names one that is there already. Exit status: 0; 1 when a
total grew by more than it may, or is above `--most`; 2 for an error, also of the command.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._answers import Answer, diff, report
from ._binary import QuellError, QuellWarning, binary

TOTALS = {
    "metadata_operations": "metadata operations",
    "missed": "missed: the name is absent",
    "repeated": "repeated: had succeeded before",
    "distinct_paths": "distinct paths",
    "calls": "file-system calls",
}

# Rows of a table of what grew.
ROWS = 5


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the gate; returns its exit status."""
    given = _parser().parse_args(arguments)
    # The tables say it.
    warnings.filterwarnings("ignore", "quell: warning: `.*` rose from", QuellWarning)
    try:
        if given.base:
            given.before = _at_base(given)
        _start(given.setup, given.command, given.output)
        text, failures = _judge(given)
    except QuellError as error:
        print(f"quell.ci: error: {error}", file=sys.stderr)
        return 2
    if given.summary:
        with open(given.summary, "a", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="")
    for failure in failures:
        print(f"quell.ci: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m quell.ci", description="Fail when a program's start asks more than before.")
    parser.add_argument("--base", metavar="COMMIT", help="check this commit out, record its start, and compare with that")
    parser.add_argument("--before", metavar="T", help="the recording to compare with [default with --base: before.qtrace]")
    parser.add_argument("--output", metavar="T", default="after.qtrace", help="the new recording [default: %(default)s]")
    parser.add_argument("--setup", metavar="COMMAND", help="a shell command that makes each commit ready to start")
    parser.add_argument(
        "--fail-on-increase",
        metavar="METRIC",
        action="append",
        help="a total that may not grow: METRIC, METRIC=COUNT or METRIC=PERCENT%% [default: metadata_operations=2%%]",
    )
    parser.add_argument("--most", metavar="N", type=int, help="the most metadata operations that a start may have")
    parser.add_argument("--summary", metavar="FILE", help="append the tables to FILE, as Markdown, instead of printing them")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="what to start, behind `--`")
    return parser


def _start(setup: Optional[str], command: Sequence[str], output: str) -> None:
    """Runs the command plain, then recorded."""
    if setup:
        _run(["sh", "-ec", setup])
    _run(command)
    _run([binary(), "record", "--quiet", "--force", "--output", output, "--", *command])


def _at_base(given: argparse.Namespace) -> Optional[str]:
    """The recording of the base's start, if it starts. Comes back to the commit or the branch that was checked out."""
    before: str = given.before or "before.qtrace"
    branch = _git("rev-parse", "--abbrev-ref", "HEAD")
    here = _git("rev-parse", "HEAD") if branch == "HEAD" else branch
    _check_out(_commit(given.base))
    try:
        _start(given.setup, given.command, before)
        return before
    except QuellError as error:
        print(f"quell.ci: {given.base} gives no recording: {error.message}", file=sys.stderr)
        return None
    finally:
        _git("checkout", "--quiet", here)


def _commit(base: str) -> str:
    """The base's commit by a name that is known here."""
    try:
        _git("rev-parse", "--quiet", "--verify", base + "^{commit}")
        return base
    except QuellError:
        # A clone of CI holds the tested commit alone. The server knows its branches without the remote's name.
        remote, _, branch = base.partition("/")
        if not branch or remote not in _git("remote").split():
            remote, branch = "origin", base
        try:
            _git("fetch", "--quiet", "--depth=1", "--", remote, branch)
        except QuellError as error:
            hint = "`--base` takes a commit, or a branch of the remote; `git fetch --unshallow` gets the whole history"
            raise QuellError(f"there is no `{base}` here: {error.message}", hint) from error
        return "FETCH_HEAD"


def _check_out(commit: str) -> None:
    try:
        _git("checkout", "--quiet", "--detach", commit)
    except QuellError as error:
        # A line of each file, in any language.
        files = [line.strip() for line in error.message.splitlines() if line.startswith("\t")]
        if not files:
            raise
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        message = f"cannot check the base out over changes that are not committed: `{files[0]}`{more}"
        raise QuellError(message, "commit them, or put them aside with `git stash --include-untracked`") from error


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise QuellError(f"`git {' '.join(words)}` fails: {done.stderr.strip()}")
    return done.stdout.strip()


def _run(words: Sequence[str]) -> None:
    try:
        # What a command prints goes to the log, not between the tables.
        status = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=sys.stderr).returncode
    except OSError as error:
        raise QuellError(f"cannot run `{words[0]}`: {error.strerror}") from error
    if status != 0:
        raise QuellError(f"`{shlex.join(words)}` ended with status {status}")


def _judge(given: argparse.Namespace) -> Tuple[str, List[str]]:
    """The tables as Markdown, and a sentence for each total that is above its limit."""
    after = report(given.output, {})
    lines = ["### Operations at start-up", "", _code(shlex.join(after["command"])), ""]
    failures = []
    if given.before and os.path.isdir(given.before):
        change = diff(given.before, given.output, fail_on_increase=given.fail_on_increase or ["metadata_operations=2%"])
        for one in change["increases"]:
            failures.append(f"`{one['metric']}` rose from {one['a']} to {one['b']}; at most {one['most']} allowed")
        lines += _table(["", "before", "after", "difference"], _compared(change)) + _grown(change)
    else:
        rows = [[text, str(after["totals"][name])] for name, text in TOTALS.items()]
        lines += _table(["", "operations"], rows) + ["There is no earlier recording to compare with.", ""]
    operations = after["totals"]["metadata_operations"]
    if given.most is not None and operations > given.most:
        failures.append(f"the start asks {operations} metadata operations; at most {given.most} allowed")
    lines += _findings(after)
    lines += [f"**Failed**: {failure}." for failure in failures] or ["Passed."]
    return "\n".join(lines) + "\n", failures


def _compared(change: Dict[str, Any]) -> List[List[str]]:
    pairs = {text: (change["totals"]["a"][name], change["totals"]["b"][name]) for name, text in TOTALS.items()}
    pairs["of them on network file systems"] = next((by["a"], by["b"]) for by in change["served_by"] if by["by"] == "network")
    return [[text, str(a), str(b), f"{b - a:+d}" if b != a else "same"] for text, (a, b) in pairs.items()]


def _grown(change: Dict[str, Any]) -> List[str]:
    """The directories in which paths were asked more than before."""
    grown = [one for one in change["paths"]["directories"] if one["b"] > one["a"]][:ROWS]
    rows = [[_code(one["name"]), str(one["a"]), str(one["b"])] for one in grown]
    return _table(["paths that differ, by directory", "before", "after"], rows) if rows else []


def _findings(after: Answer) -> List[str]:
    rows = [[_code(one["code"]), one["title"], one["remedy"]["text"]] for one in after["findings"][:ROWS]]
    return _table(["finding", "", "remedy"], rows) if rows else []


def _code(text: str) -> str:
    return "`" + text.replace("`", "'").replace("\n", " ") + "`"


def _table(header: List[str], rows: List[List[str]]) -> List[str]:
    cells = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in cells] + [""]


if __name__ == "__main__":
    sys.exit(main())
