//! `quell collect` and `quell fleet` without an engine: the files of a data set, and what is said. `tests/fleet` has the answers.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::harness::{Need, Test, session};

/// Makes a trace of a start on 2023-11-14.
fn recording(test: &Test) {
    let log = "7 1700000000.000 execve(\"/apps/app\", [\"app\"], 0x0 /* 1 var */) = 0 <0.000100>\n\
        7 1700000000.900 +++ exited with 0 +++\n";
    test.write("app.log", log);
    test.quell(&["-q", "import", "strace", "app.log", "-o", "app.qtrace", "--directory", "/work"]).succeeds();
}

/// The files of a data set, with their permissions.
fn files(test: &Test, table: &str) -> Vec<(PathBuf, u32)> {
    let day = test.path(&format!("fleet/{table}/day=2023-11-14"));
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.path(), entry.metadata().unwrap().permissions().mode() & 0o777)
    };
    day.read_dir().unwrap().map(file).collect()
}

#[test]
fn a_job_is_collected_once_into_its_day() {
    let test = Test::new();
    recording(&test);
    session!(|line| test.script(line), @"
    $ quell collect app.qtrace -o fleet
    quell: added 1 job to `fleet`
    $ mv app.qtrace other.qtrace
    $ quell collect other.qtrace -o fleet
    quell: added 1 job to `fleet`, 1 of them again
    $ quell collect app.log -o fleet => 2
    quell: error: `app.log` is not a trace: it is no directory
    hint: `quell record -- CMD` makes a trace, named after the program
    ");
    for table in ["jobs", "paths"] {
        let files = files(&test, table);
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(files[0].1, 0o600);
    }
}

#[test]
fn a_directory_for_a_group_stays_one() {
    // Root does not work where a group may write.
    let test = match rustix::process::geteuid().is_root() {
        true => Test::of_ordinary_user(&[]),
        false => Some(Test::new()),
    };
    let Some(test) = test else { return };
    recording(&test);
    test.script("mkdir fleet && chmod 2770 fleet").succeeds();
    test.script("umask 077 && $quell -q collect app.qtrace -o fleet").succeeds();
    assert_eq!(files(&test, "jobs")[0].1, 0o640);
    let mode = test.path("fleet/jobs/day=2023-11-14").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o2770);
}

#[test]
fn root_does_not_collect_where_others_may_write() {
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    recording(&test);
    test.script("mkdir group other && chmod 2770 group && chown 65534 other").succeeds();
    session!(|line| test.script(line), @"
    $ quell collect app.qtrace -o group => 2
    quell: error: root works only where root alone may write: others may write in `group`
    hint: `runuser -u USER -- quell ...`, as a user who may write there
    $ quell collect --compact -o other 2>&1 | sed 's/-u [a-z]*/-u OWNER/'
    --- stdout
    quell: error: root works only where root alone may write: `other` belongs to user 65534
    hint: `runuser -u OWNER -- quell ...`
    $ rmdir group other
    ");
}

#[test]
fn questions_need_jobs_and_an_engine() {
    let test = Test::new();
    recording(&test);
    session!(|line| test.script(line), @"
    $ quell fleet fleet => 2
    quell: error: `fleet` holds no jobs
    hint: `quell collect T... -o DIR` adds them
    $ quell -q collect app.qtrace -o fleet
    $ PATH=/absent quell fleet fleet => 2
    quell: error: DuckDB is neither a program nor a module of `python3` on this node
    hint: `pip install duckdb`, or ask another engine what `--sql` prints
    $ PATH=/absent quell collect --compact -o fleet => 2
    quell: error: DuckDB is neither a program nor a module of `python3` on this node
    hint: `pip install duckdb`, or ask another engine what `--sql` prints
    $ quell fleet fleet --json --openmetrics => 2
    quell: error: `--json` and `--openmetrics` would both go to standard output
    hint: leave one out; a settings file may have set the other
    ");
    // The queries need neither.
    let queries = test.quell(&["fleet", "absent", "--by", "finding", "--sql", "spark"]).succeeds();
    assert!(queries.contains("explode(findings)") && !queries.contains("libraries"), "{queries}");
}
