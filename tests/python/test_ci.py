"""The gate for CI, and the shell steps of the action and of GitLab's job, run in a real clone of a repository."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from conftest import MADE, SOURCE, run

ACTION = SOURCE / "packaging/ci/action.yml"
GITLAB = SOURCE / "packaging/ci/gitlab.yml"
COMMAND = "exec /usr/bin/python3 -I app.py"
WHEEL = next(MADE.glob("*.whl"))


def git(directory, *words):
    names = ["-c", "user.name=n", "-c", "user.email=n@localhost", "-c", "protocol.file.allow=always"]
    return run("git", "-C", directory, *names, *words).strip()


def commit(directory, content):
    (directory / "app.py").write_text(content)
    git(directory, "add", "app.py")
    git(directory, "commit", "-q", "--allow-empty", "-m", "change")
    return git(directory, "rev-parse", "HEAD")


class Pipeline:
    """A clone as CI makes it, which holds the tested commit alone, and the commits before."""

    def __init__(self, directory):
        self.directory = directory
        origin = directory / "origin"
        run("git", "init", "-q", "-b", "main", origin)
        git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
        self.broken = commit(origin, "raise SystemExit(3)")
        self.lean = commit(origin, "import json")
        self.same = commit(origin, "import json")
        self.more = commit(origin, "import json, email.message")
        self.origin = origin

    def check_out(self, tested):
        clone = self.directory / "clone"
        run("rm", "-rf", clone)
        run("git", "init", "-q", clone)
        git(clone, "remote", "add", "origin", f"file://{self.origin}")
        git(clone, "fetch", "-q", "--depth=1", "origin", tested)
        git(clone, "checkout", "-q", "--detach", "FETCH_HEAD")
        return clone

    def action(self, tested, **inputs):
        """Runs the steps of the action as a runner does; returns the status of the first that fails, and the summary."""
        clone, temporary = self.check_out(tested), self.directory / "temporary"
        installed = temporary.exists()
        temporary.mkdir(exist_ok=True)
        (temporary / "summary").unlink(missing_ok=True)
        files = {"RUNNER_TEMP": str(temporary), "GITHUB_STEP_SUMMARY": str(temporary / "summary")}
        action = yaml.safe_load(ACTION.read_text())
        known = {name: value.get("default", "") for name, value in action["inputs"].items()}
        required = [name for name, value in action["inputs"].items() if value.get("required")]
        given = {name.replace("_", "-"): value for name, value in inputs.items()} | {"wheel": str(WHEEL)}
        assert set(required) <= set(given) <= set(known)
        status = 0
        # What the first step installs serves all tests.
        for step in action["runs"]["steps"][1 if installed else 0 :]:
            assert step["shell"] == "bash" and "${{" not in step["run"]
            environment = {name: expanded(value, {**known, **given}) for name, value in step["env"].items()}
            script = temporary / "step.sh"
            script.write_text(step["run"])
            flags = ["--noprofile", "--norc", "-e", "-o", "pipefail"]
            status = subprocess.run(["bash", *flags, script], cwd=clone, env={**os.environ, **files, **environment}).returncode
            if status:
                break
        assert git(clone, "rev-parse", "HEAD") == tested
        summary = temporary / "summary"
        return status, summary.read_text() if summary.exists() else ""

    def gitlab(self, tested, base, **variables):
        """Runs the job's script as a runner's shell does; returns its status and the summary."""
        clone = self.check_out(tested)
        job = yaml.safe_load(GITLAB.read_text())[".quell"]
        environment = {**job["variables"], **variables, "START_WHEEL": str(WHEEL), "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
        statuses = [
            subprocess.run(["sh", "-ec", "\n".join(job[part])], cwd=clone, env={**os.environ, **environment}).returncode
            for part in ("script", "after_script")
        ]
        assert statuses[1] == 0
        assert all((clone / path).exists() for path in job["artifacts"]["paths"])
        return statuses[0], (clone / "quell.md").read_text()


def expanded(value, inputs):
    """The only expressions that steps use."""
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], value)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return Pipeline(tmp_path_factory.mktemp("pipeline"))


def cells(summary, row):
    """The cells of a row of the summary's tables, by its first."""
    return next(line.strip("| ").split(" | ")[1:] for line in summary.splitlines() if line.startswith(f"| {row} |"))


def test_the_action_fails_when_a_start_asks_more(pipeline):
    status, summary = pipeline.action(pipeline.more, command=COMMAND, base=pipeline.same)
    before, after, difference = cells(summary, "metadata operations")
    assert status == 1
    assert int(after) - int(before) == int(difference) > 100
    assert f"**Failed**: `metadata_operations` rose from {before} to {after}; at most " in summary
    assert "| `/usr/lib/python3.11/email` |" in summary or "/email` |" in summary


def test_the_action_passes_when_a_start_asks_the_same_or_less(pipeline):
    status, summary = pipeline.action(pipeline.same, command=COMMAND, base=pipeline.lean)
    assert (status, cells(summary, "metadata operations")[2]) == (0, "same")
    assert summary.endswith("Passed.\n")
    assert pipeline.action(pipeline.lean, command=COMMAND, base=pipeline.more)[0] == 0


def test_the_action_allows_what_it_was_told(pipeline):
    given = {"command": COMMAND, "base": pipeline.same}
    status, summary = pipeline.action(pipeline.more, **given, fail_on_increase="metadata_operations=10000,missed=10000")
    assert status == 0 and "Passed." in summary
    status, summary = pipeline.action(pipeline.more, **given, fail_on_increase="calls,missed=9999")
    assert status == 1 and summary.count("**Failed**") == 1 and "`calls` rose" in summary


def test_a_limit_needs_no_commit_before(pipeline):
    for base in ("", "0" * 40):
        status, summary = pipeline.action(pipeline.lean, command=COMMAND, base=base, most="10")
        operations = cells(summary, "metadata operations")[0]
        assert status == 1
        assert f"**Failed**: the start asks {operations} metadata operations; at most 10 allowed." in summary
        assert "no earlier recording" in summary
        assert pipeline.action(pipeline.lean, command=COMMAND, base=base, most=operations)[0] == 0


def test_a_base_that_does_not_start_is_not_compared_with(pipeline):
    status, summary = pipeline.action(pipeline.more, command=COMMAND, base=pipeline.broken)
    assert status == 0 and "no earlier recording" in summary


def test_errors_are_told_from_increases(pipeline, capfd):
    assert pipeline.action(pipeline.broken, command=COMMAND, base="") == (2, "")
    assert "ended with status 3" in capfd.readouterr().err
    assert pipeline.action(pipeline.lean, command=COMMAND, base="f" * 40)[0] == 2
    assert pipeline.action(pipeline.lean, command=COMMAND, base=pipeline.lean, fail_on_increase="nothing")[0] == 2
    assert pipeline.action(pipeline.lean, command=COMMAND, base="", setup="echo ready; exit 4")[0] == 2


def test_a_set_up_runs_in_each_commit(pipeline):
    setup = "git rev-parse HEAD >>../set-up; touch made"
    (pipeline.directory / "set-up").unlink(missing_ok=True)
    assert pipeline.action(pipeline.same, command=f"test -e made; {COMMAND}", base=pipeline.lean, setup=setup)[0] == 0
    assert (pipeline.directory / "set-up").read_text().split() == [pipeline.lean, pipeline.same]


def test_inputs_are_data_and_no_script(pipeline):
    hostile = '"; touch ../hostile; echo "'
    assert pipeline.action(pipeline.lean, command=COMMAND, base=hostile)[0] == 2
    assert pipeline.action(pipeline.lean, command=COMMAND, base="", fail_on_increase=hostile, most=hostile)[0] == 2
    assert not (pipeline.directory / "hostile").exists()


def test_a_branch_stays_checked_out(pipeline, alone):
    clone = pipeline.directory / "branch"
    run("git", "clone", "-q", f"file://{pipeline.origin}", clone)
    gate = [alone, "-m", "quell.ci", "--base", "HEAD~1", "--", "sh", "-c", COMMAND]
    assert subprocess.run(gate, cwd=clone, stdout=subprocess.DEVNULL).returncode == 1
    assert git(clone, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    (clone / "app.py").write_text("not committed")
    refused = subprocess.run(gate, cwd=clone, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "quell.ci: error: cannot check the base out over changes that are not committed: `app.py`\n"
        "hint: commit them, or put them aside with `git stash --include-untracked`\n"
    )
    assert (clone / "app.py").read_text() == "not committed"


def test_a_shallow_clone_of_one_branch_gets_the_base_by_its_usual_name(pipeline, alone):
    clone = pipeline.directory / "shallow"
    git(pipeline.origin, "branch", "-f", "topic", pipeline.more)
    git(pipeline.origin, "branch", "-f", "release/1", pipeline.same)
    url = f"file://{pipeline.origin}"
    run("git", "clone", "-q", "--depth", "1", "--single-branch", "-b", "topic", url, clone)

    def gate(base):
        words = [alone, "-m", "quell.ci", "--base", base, "--", "sh", "-c", COMMAND]
        return subprocess.run(words, cwd=clone, capture_output=True, text=True)

    for base, status in [("origin/main", 0), ("main", 0), ("origin/release/1", 1), ("release/1", 1)]:
        done = gate(base)
        assert done.returncode == status, done
        assert "no earlier recording" not in done.stdout
    absent = gate("origin/absent")
    assert absent.returncode == 2
    error, hint = absent.stderr.splitlines()
    assert error.startswith("quell.ci: error: there is no `origin/absent` here: `git fetch ")
    assert hint == "hint: `--base` takes a commit, or a branch of the remote; `git fetch --unshallow` gets the whole history"


def test_gitlabs_job_judges_as_the_action(pipeline):
    status, summary = pipeline.gitlab(pipeline.more, pipeline.same, START_COMMAND=COMMAND)
    assert status == 1 and "**Failed**: `metadata_operations` rose" in summary
    status, summary = pipeline.gitlab(pipeline.same, pipeline.lean, START_COMMAND=COMMAND, START_MOST="9999")
    assert status == 0 and cells(summary, "metadata operations")[2] == "same"


def test_documented_snippets_name_what_there_is():
    page = (SOURCE / "docs/ci.md").read_text()
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.S)]
    github = next(block for block in blocks if "jobs" in block)
    step = next(step for step in github["jobs"]["start"]["steps"] if "quell" in step.get("uses", ""))
    assert set(step["with"]) <= set(yaml.safe_load(ACTION.read_text())["inputs"])
    gitlab = next(block for block in blocks if "include" in block)
    job = next(value for name, value in gitlab.items() if name != "include")
    assert job["extends"] == ".quell" and set(job["variables"]) <= set(yaml.safe_load(GITLAB.read_text())[".quell"]["variables"])
    for path in re.findall(r"`(packaging/\S+?)`", page):
        assert Path(SOURCE, path).exists(), path
