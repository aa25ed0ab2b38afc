//! `quell diff`: what went away and what came, of one recording or several on each side, and when it fails.
//!
//! Most recordings here are made of strace's logs, so that every number in them is known.

use crate::harness::{Need, QUELL, Test, session, snapshot};
use serde_json::Value;

/// A call of a made-up run: a stat of this path, which is there or not.
type Stat<'a> = (&'a str, bool);

const CONFIG: Stat = ("/apps/etc/config", true);

/// Makes the recording `name` of a run that asked for these paths.
fn recording(test: &Test, name: &str, stats: &[Stat]) {
    let mut log = String::from(
        "7 1700000000.000000 execve(\"/apps/app\", [\"app\"], 0x0 /* 1 var */) = 0 <0.000100>\n",
    );
    for (index, (path, found)) in stats.iter().enumerate() {
        let answer = if *found { "0" } else { "-1 ENOENT (No such file or directory)" };
        log += &format!("7 1700000000.1{index:05} stat(\"{path}\", 0x7ffc00000000) = {answer} <0.000016>\n");
    }
    log += "7 1700000000.900000 +++ exited with 0 +++\n";
    test.write(&format!("{name}.log"), log);
    let (log, trace) = (format!("{name}.log"), format!("{name}.qtrace"));
    test.quell(&["-q", "import", "strace", &log, "-o", &trace]).succeeds();
}

fn json(test: &Test, arguments: &[&str]) -> Value {
    test.quell(&[&["diff", "--json"], arguments].concat()).json()
}

#[test]
fn a_diff_shows_what_went_away_and_what_came() {
    let test = Test::new();
    let before =
        [CONFIG, ("/apps/a/.rc", true), ("/apps/b/.rc", true), ("/apps/b/.rc", true), ("/apps/c/.rc", false)];
    recording(&test, "before", &before);
    recording(&test, "after", &[CONFIG, ("/apps/.rc", true)]);
    let mut diff = test.quell(&["diff", "before.qtrace", "after.qtrace"]);
    // Above: the commands, and what an import has to say.
    diff.stdout.drain(..diff.stdout.find("Metadata operations\n").unwrap());
    snapshot!(diff, @"
    status 1
    --- stdout
    Metadata operations
    served by  a  b  difference  ratio
    ---------  -  -  ----------  ---------------
    network    0  0           0  same
    quell      0  0           0  same
    local      0  0           0  same
    unknown    6  3          -3  2.0 times fewer
    ---------  -  -  ----------  ---------------
    all        6  3          -3  2.0 times fewer

    System calls
    a: calls  errors  syscall  b: calls  errors  syscall
    --------  ------  -------  --------  ------  -------
           1          execve          1          execve
           5       1  stat            2          stat
    --------  ------  -------  --------  ------  -------
           6       1  total           3          total

    Time per call, with the recorder's own work in it
    a: mean   median      p99  syscall  b: mean   median      p99
    -------  -------  -------  -------  -------  -------  -------
     100 us   100 us   100 us  execve    100 us   100 us   100 us
    16.0 us  16.0 us  16.0 us  stat     16.0 us  16.0 us  16.0 us

    Paths
    paths  a: operations  b: operations  what became of them
    -----  -------------  -------------  -------------------
        3              4                 only in a
        1                             1  only in b
        2              2              2  the same

    Names by the change of operations, wherever they are
    a  b  difference  paths  name
    -  -  ----------  -----  ----
    4  1          -3      4  .rc

    Paths by the change of operations
    a  b  difference  path
    -  -  ----------  -----------
    2             -2  /apps/b/.rc
       1          +1  /apps/.rc
    1             -1  /apps/a/.rc
    1             -1  /apps/c/.rc

    Paths by the change of repeated operations
    a  b  difference  path
    -  -  ----------  -----------
    1             -1  /apps/b/.rc
    ");
}

#[test]
fn names_that_change_from_run_to_run_are_no_difference() {
    let test = Test::new();
    recording(
        &test,
        "a",
        &[CONFIG, ("/tmp/tmpab12cd_x/f", true), ("/proc/4711/maps", true), ("/tmp/x.aB3dE6", false)],
    );
    recording(
        &test,
        "b",
        &[CONFIG, ("/tmp/tmp1_efgh2k/f", true), ("/proc/92/maps", true), ("/tmp/x.Zz0y9Q", false)],
    );
    recording(
        &test,
        "c",
        &[CONFIG, ("/apps/tool-1.2/f", true), ("/proc/92/maps", true), ("/tmp/x.Zz0y9Q", false)],
    );
    let same = test.quell(&["diff", "a.qtrace", "b.qtrace"]);
    assert_eq!(same.code(), 0, "{same}");
    let paths = &json(&test, &["a.qtrace", "c.qtrace"])["paths"];
    assert_eq!((&paths["folded"], &paths["folded_rows"]), (&4.into(), &2.into()));
    let changed: Vec<&str> =
        paths["changed"].as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(changed, ["/apps/tool-1.2/f", "/tmp/tmpab12cd_x/f"]);
}

#[test]
fn a_side_may_be_several_recordings() {
    let test = Test::new();
    std::fs::create_dir_all(test.path("ranks")).unwrap();
    std::fs::create_dir_all(test.path("ranks/other")).unwrap();
    for name in ["ranks/app.0", "ranks/app.1", "with,comma", "plain"] {
        recording(&test, name, &[CONFIG]);
    }
    let operations = |arguments: &[&str]| {
        let totals = &json(&test, arguments)["totals"];
        [&totals["a"], &totals["b"]].map(|side| side["metadata_operations"].as_u64().unwrap())
    };
    assert_eq!(operations(&["plain.qtrace", "ranks"]), [2, 4]);
    assert_eq!(operations(&["plain.qtrace,ranks/app.0.qtrace", "ranks"]), [4, 4]);
    assert_eq!(operations(&["with,comma.qtrace", "plain.qtrace,ranks"]), [2, 6]);
    let unequal = test.quell(&["diff", "plain.qtrace", "ranks"]);
    assert!(unequal.stdout.contains("doubt    a has 1 and b has 2 recordings"), "{unequal}");
    session!(|line| test.script(line), @"
    $ quell diff plain.qtrace ranks/other => 2
    quell: error: `ranks/other` is not a trace: it holds no `header.json`
    hint: `quell record -- CMD` makes a trace, named after the program
    $ quell diff plain.qtrace,absent ranks => 2
    quell: error: cannot open `absent`: ENOENT (no such file or directory)
    hint: `quell record -- CMD` makes a trace, named after the program
    ");
}

#[test]
fn an_increase_beyond_the_tolerance_fails_and_nothing_else_does() {
    let test = Test::new();
    recording(&test, "a", &[CONFIG, ("/apps/x", false), ("/apps/y", false)]);
    recording(&test, "b", &[CONFIG, ("/apps/x", false), ("/apps/y", false), ("/apps/z", false)]);
    for (from, to, flags, expected) in [
        ("a", "b", vec![], 1),
        ("b", "a", vec![], 1),
        ("a", "b", vec!["--fail-on-increase"], 1),
        ("b", "a", vec!["--fail-on-increase"], 0),
        ("a", "b", vec!["--fail-on-increase=metadata_operations=1"], 0),
        ("a", "b", vec!["--fail-on-increase=metadata_operations=25%"], 0),
        ("a", "b", vec!["--fail-on-increase=metadata_operations=24.9%"], 1),
        ("a", "b", vec!["--fail-on-increase=repeated,network,bytes_read,bytes_written"], 0),
        ("a", "b", vec!["--fail-on-increase=repeated", "--fail-on-increase=missed"], 1),
    ] {
        let traces = [format!("{from}.qtrace"), format!("{to}.qtrace")];
        let outcome = test.quell(&[&["diff"], &flags[..], &[&traces[0], &traces[1]]].concat());
        assert_eq!(outcome.code(), expected, "{flags:?}: {outcome}");
    }
    let mut several =
        test.quell(&["diff", "--fail-on-increase=missed,calls=50%,errors", "a.qtrace", "b.qtrace"]);
    several.stdout.clear();
    snapshot!(several, @"
    status 1
    --- stderr
    quell: warning: `missed` rose from 2 to 3; at most 2 allowed
    quell: warning: `errors` rose from 2 to 3; at most 2 allowed
    ");
    let increases = &json(&test, &["--fail-on-increase=missed", "a.qtrace", "b.qtrace"])["increases"];
    assert_eq!(*increases, serde_json::json!([{ "metric": "missed", "a": 2, "b": 3, "most": 2 }]));
    test.write("quell.toml", "[diff]\nfail-on-increase = [\"bytes_read\"]\n");
    let from_file = ["--config=quell.toml", "-q", "diff", "a.qtrace", "b.qtrace"];
    assert_eq!(test.quell(&from_file).code(), 0);
}

#[test]
fn a_limit_that_makes_no_sense_is_refused() {
    let test = Test::new();
    for (limit, reason) in [
        ("time", "there is no total `time`; there are metadata_operations, missed,"),
        ("missed=-1", "`-1` is neither a count such as 20 nor a percentage such as 5%"),
        ("missed=NaN%", "`NaN%` is neither"),
        ("missed=", "`` is neither"),
    ] {
        let outcome = test.quell(&["diff", &format!("--fail-on-increase={limit}"), "a", "b"]);
        assert!(outcome.code() == 2 && outcome.stderr.contains(reason), "{outcome}");
    }
}

/// The recipe of the Environment Modules cookbook: the `.modulerc` and `.version` files of 30 directories become two, and
/// each of the 28 that are saved is one access, one stat, one open, two reads and one close less.
#[test]
fn privileged_a_module_tree_with_fewer_files_asks_less() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("modulecmd")]) else { return };
    let names = || ('a'..='o').map(|letter| letter.to_string());
    for name in names() {
        for version in ["1.0", "2.0", "3.0", "4.0"] {
            test.write(&format!("apps/app{name}/{version}"), "#%Module\n");
            test.write(&format!("libs/lib{name}/{version}"), "#%Module\n");
        }
        test.write(&format!("apps/app{name}/.version"), "#%Module\nset ModulesVersion 2.0\n");
        test.write(
            &format!("libs/lib{name}/.modulerc"),
            format!("#%Module\nmodule-version lib{name}/3.0 sym\n"),
        );
    }
    let avail = |trace: &str| {
        let mut command =
            test.command(&[*QUELL, "-q", "record", "-o", trace, "--", "modulecmd", "bash", "avail", "-t"]);
        command.env("MODULEPATH", format!("{}:{}", test.text("apps"), test.text("libs")));
        let outcome = test.finish(command);
        outcome.stderr.lines().filter(|line| line.starts_with("app") || line.starts_with("lib")).count()
    };
    let before = avail("before.qtrace");
    for (tree, file, kind, version, what) in
        [("apps", ".version", "app", "2.0", "default"), ("libs", ".modulerc", "lib", "3.0", "sym")]
    {
        let lines = names().map(|name| format!("module-version {kind}{name}/{version} {what}\n"));
        test.write(&format!("{tree}/.modulerc"), format!("#%Module\n{}", lines.collect::<String>()));
        names().for_each(|name| {
            std::fs::remove_file(test.path(&format!("{tree}/{kind}{name}/{file}"))).unwrap()
        });
    }
    assert_eq!((before, avail("after.qtrace")), (120, 120));
    let diff = json(&test, &["before.qtrace", "after.qtrace"]);
    let calls = |name: &str| {
        let row = diff["syscalls"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        row["a"]["calls"].as_i64().unwrap() - row["b"]["calls"].as_i64().unwrap()
    };
    assert_eq!(["access", "openat", "close", "read"].map(calls), [28, 28, 28, 56], "{diff}");
    let names = diff["paths"]["names"].as_array().unwrap();
    let row = |name: &str| names.iter().find(|row| row["name"] == name).unwrap()["paths"].clone();
    assert_eq!((row(".version"), row(".modulerc")), (15.into(), 17.into()));
    assert_eq!(test.quell(&["diff", "before.qtrace", "before.qtrace"]).code(), 0);
}

/// A variable with entries of which nothing comes: the operations below them go away with it.
#[test]
fn privileged_a_shorter_search_list_asks_less() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("python3")]) else { return };
    let import = |trace: &str, path: &str| {
        let mut command =
            test.command(&[*QUELL, "-q", "record", "-o", trace, "--", "python3", "-c", "import json"]);
        command.env("PYTHONPATH", path);
        test.finish(command).succeeds();
    };
    ["one", "two"].iter().for_each(|name| std::fs::create_dir(test.path(name)).unwrap());
    import("before.qtrace", &format!("{}:{}", test.text("one"), test.text("two")));
    import("after.qtrace", "");
    let changed = json(&test, &["before.qtrace", "after.qtrace"])["paths"]["changed"].clone();
    for name in ["one", "two"] {
        let path = test.text(name).replace(&test.text(""), "[DIR]/");
        let row = changed.as_array().unwrap().iter().find(|row| row["path"] == path.as_str());
        assert_eq!(row.unwrap()["change"], "gone", "{changed}");
    }
    let gate =
        test.quell(&["-q", "diff", "--fail-on-increase=missed,repeated", "before.qtrace", "after.qtrace"]);
    assert_eq!(gate.code(), 0, "{gate}");
    let gate = test.quell(&["-q", "diff", "--fail-on-increase", "after.qtrace", "before.qtrace"]);
    assert_eq!(gate.code(), 1, "{gate}");
}
