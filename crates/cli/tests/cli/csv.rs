//! `--csv`: every table has its header, every row is there, cells are quoted as RFC 4180 says.

use crate::harness::{Test, session, snapshot};
use quell_report::csv::{DIFF_TABLES, REPORT_TABLES};

/// Rows of JSON's tables at most.
const JSON_ROWS: usize = 1000;

/// Makes `app.qtrace` of a run that asked for these names below `/apps`, written as strace escapes them.
fn recording(test: &Test, names: impl IntoIterator<Item = String>) {
    let mut log =
        String::from("7 1.0 execve(\"/apps/app\", [\"app\", \"a b\"], 0x0 /* 1 var */) = 0 <0.000100>\n");
    for name in names {
        log += &format!("7 1.1 stat(\"/apps/{name}\", 0x7ffc00000000) = 0 <0.000016>\n");
    }
    log +=
        "7 1.2 stat(\"/apps/absent\", 0x7ffc00000000) = -1 ENOENT (No such file or directory) <0.000016>\n";
    log += "7 1.9 +++ exited with 0 +++\n";
    test.write("app.log", log);
    test.quell(&["-q", "import", "strace", "app.log", "-o", "app.qtrace"]).succeeds();
}

#[test]
fn hostile_names_stay_one_cell_on_one_line() {
    let test = Test::new();
    recording(&test, [r#"a,\"b\""#, r"new\nline", r"\33[31mred", r"\377"].map(String::from));
    snapshot!(test.quell(&["report", "app.qtrace", "--csv", "paths"]), @r#"
    status 0
    --- stdout
    path,served_by,metadata_operations,missed,repeated
    /apps/\x1b[31mred,,1,0,0
    "/apps/a,""b""",,1,0,0
    /apps/absent,,1,1,0
    /apps/app,,1,0,0
    /apps/new\x0aline,,1,0,0
    /apps/\xff,,1,0,0
    "#);
    session!(|line| test.script(line), @"
    $ quell report app.qtrace --csv commands
    --- stdout
    command,processes,calls,metadata_operations,missed
    app 'a b',1,6,6,1
    $ quell report app.qtrace --csv syscalls
    --- stdout
    name,class,calls,errors,seconds,mean_seconds,p50_seconds,p99_seconds
    stat,stat,5,1,0.00008,0.000016,0.000016,0.000016
    execve,exec,1,0,0.0001,0.0001,0.0001,0.0001
    $ quell report app.qtrace --csv totals
    --- stdout
    calls,errors,metadata_operations,missed,repeated,needed,failed,unnamed,distinct_paths,bytes_read,bytes_written,network,quell,local,unknown,seconds
    6,1,6,1,0,5,0,0,6,0,0,0,0,0,6,8.5
    ");
}

#[test]
fn no_row_is_left_out() {
    let test = Test::new();
    recording(&test, (0..JSON_ROWS + 500).map(|number| format!("f{number}")));
    let lines =
        |table: &str| test.quell(&["report", "app.qtrace", "--csv", table]).succeeds().lines().count();
    // The header, the program and the absent name.
    assert_eq!(lines("paths"), JSON_ROWS + 500 + 3);
    assert_eq!(lines("directories"), 2);
}

#[test]
fn every_table_has_a_header_and_rows_as_long() {
    let test = Test::new();
    recording(&test, ["plain".to_owned()]);
    let report = REPORT_TABLES.iter().map(|table| (vec!["report", "app.qtrace"], table.name));
    let diff = DIFF_TABLES.iter().map(|table| (vec!["diff", "app.qtrace", "app.qtrace"], table.name));
    for (command, table) in report.chain(diff) {
        let text = test.quell(&[&command[..], &["--csv", table]].concat()).succeeds();
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        assert!(
            header
                .split(',')
                .all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b)))
        );
        // No cell of this run holds a comma.
        assert!(
            lines.all(|line| line.matches(',').count() == header.matches(',').count()),
            "{table}: {text}"
        );
        assert_eq!(
            text,
            test.quell(&[&command[..], &["--csv", table]].concat()).stdout,
            "the same each time"
        );
    }
}

#[test]
fn unknown_tables_and_two_forms_at_once_are_refused() {
    let test = Test::new();
    session!(|line| test.script(line), @"
    $ quell diff a b --csv file => 2
    error: invalid value 'file' for '--csv <TABLE>'
      [possible values: totals, syscalls, searches, paths]

    For more information, try '--help'.
    $ quell report a --json --csv paths => 2
    quell: error: `--json` and `--csv` would both go to standard output
    hint: leave one out; a settings file may have set the other
    $ quell diff a b --json --csv paths => 2
    quell: error: `--json` and `--csv` would both go to standard output
    hint: leave one out; a settings file may have set the other
    ");
}
