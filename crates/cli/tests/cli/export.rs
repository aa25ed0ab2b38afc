//! `quell export`: every call in the forms of other tools, in files that are whole and replace nothing unasked.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::harness::{Test, session};

/// Makes a trace of two processes, one of which executes another program, with names that need quoting.
fn recording(test: &Test) {
    let log = r#"
7 1700000000.000 execve("/apps/app", ["app", "-v"], 0x0 /* 1 var */) = 0 <0.000100>
7 1700000000.100 openat(AT_FDCWD, "/apps/lib/a,b.so", O_RDONLY) = 3 <0.000016>
7 1700000000.200 read(3, "...", 832) = 832 <0.000010>
7 1700000000.300 stat("=1+1", 0x7ffc00000000) = -1 ENOENT (No such file or directory) <0.000020>
7 1700000000.400 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 8 <0.000100>
8 1700000000.500 execve("/apps/other", ["other"], 0x0 /* 1 var */) = 0 <0.000100>
8 1700000000.600 stat("/apps/lib/absent", 0x7ffc00000000) = -1 ENOENT (No such file or directory) <0.000030>
8 1700000000.700 +++ exited with 0 +++
7 1700000000.900 +++ exited with 0 +++
"#;
    test.write("app.log", log.trim_start());
    test.quell(&["-q", "import", "strace", "app.log", "-o", "app.qtrace", "--directory", "/work"]).succeeds();
}

#[test]
fn a_table_has_a_row_for_each_call() {
    let test = Test::new();
    recording(&test);
    session!(|line| test.script(line), @r#"
    $ quell export app.qtrace --format csv -o - | cut -d, -f1,4-15
    --- stdout
    recording,start,duration,pid,tid,command,call,class,result,error,path,path2,target
    0,1,99999,7,7,app -v,execve,exec,0,,/apps/app,,/apps/app
    0,100000000,16000,7,7,app -v,openat,open,3,,"/apps/lib/a,b.so",
    0,200000000,10000,7,7,app -v,read,read,832,,,,"/apps/lib/a
    0,300000000,20000,7,7,app -v,stat,stat,,ENOENT,'=1+1,,/work/=1+1
    0,500000000,100000,8,8,app -v,execve,exec,0,,/apps/other,,/apps/other
    0,600000000,30000,8,8,other,stat,stat,,ENOENT,/apps/lib/absent,,/apps/lib/absent
    "#);
}

#[test]
fn a_timeline_has_a_slice_for_each_call_on_a_named_track() {
    let test = Test::new();
    recording(&test);
    test.quell(&["-q", "export", "app.qtrace", "app.qtrace", "--format", "perfetto", "-o", "job.json"])
        .succeeds();
    let timeline: Value = serde_json::from_slice(&test.read("job.json")).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    let of = |kind: &str| events.iter().filter(|event| event["ph"] == kind).collect::<Vec<_>>();
    let calls = test.json(&["report", "--json", "app.qtrace"])["totals"]["calls"].as_u64().unwrap();
    assert_eq!(of("X").len() as u64, 2 * calls);
    let named: HashMap<u64, &str> = of("M")
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| (event["pid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(named.len(), 4, "two processes of two recordings: {named:?}");
    assert!(of("X").iter().all(|event| named.contains_key(&event["pid"].as_u64().unwrap())));
    let opened = of("X").into_iter().find(|event| event["name"] == "openat").unwrap();
    assert_eq!((&opened["args"]["path"], &opened["cat"]), (&"/apps/lib/a,b.so".into(), &"open".into()));
    assert_eq!((opened["ts"].as_f64(), opened["dur"].as_f64()), (Some(100_000.0), Some(16.0)));
}

#[test]
fn a_flame_graph_adds_up_to_what_the_report_counts() {
    let test = Test::new();
    recording(&test);
    test.quell(&["-q", "export", "app.qtrace", "--format", "speedscope"]).succeeds();
    let graph: Value = serde_json::from_slice(&test.read("app.speedscope.json")).unwrap();
    let frames = graph["shared"]["frames"].as_array().unwrap();
    let profile = &graph["profiles"][0];
    let (samples, weights) = (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
    assert_eq!(samples.len(), weights.len());
    let name =
        |frame: &Value| frames[usize::try_from(frame.as_u64().unwrap()).unwrap()]["name"].as_str().unwrap();
    let stacks: BTreeMap<String, u64> = samples
        .iter()
        .zip(weights)
        .map(|(stack, weight)| {
            (
                stack.as_array().unwrap().iter().map(name).collect::<Vec<_>>().join(" "),
                weight.as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(stacks["other / apps/ lib/ absent stat: ENOENT"], 1);
    let operations = test.json(&["report", "--json", "app.qtrace"])["totals"]["metadata_operations"].as_u64();
    assert_eq!(Some(stacks.values().sum()), operations);
    assert_eq!(profile["endValue"].as_u64(), operations);
}

#[test]
fn an_export_replaces_nothing_unasked_and_is_private() {
    let test = Test::new();
    recording(&test);
    session!(|line| test.script(line), @"
    $ quell export app.qtrace --format parquet
    quell: wrote `app.parquet`, a table with a row for each call
    $ quell export app.qtrace --format parquet => 2
    quell: error: `app.parquet` exists
    hint: `--force` replaces it, `-o FILE` writes elsewhere
    $ quell export -f app.qtrace --format parquet -o app.parquet
    quell: wrote `app.parquet`, a table with a row for each call
    $ quell export app.qtrace --format csv -o absent/app.csv => 2
    quell: error: cannot write `absent/app.csv`: ENOENT (no such file or directory)
    hint: the directory must be there already
    $ quell export app.log --format csv => 2
    quell: error: `app.log` is not a trace: it is no directory
    hint: `quell record -- CMD` makes a trace, named after the program
    $ quell export app.qtrace --format csv -o - | head -n 1 | cut -c1-20
    --- stdout
    recording,rank,host,
    ");
    let mode = test.path("app.parquet").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_export_goes_into_a_pipe_and_ends_with_its_reader() {
    let test = Test::new();
    let calls = (0..20_000).map(|number| {
        format!("7 1700000000.{number:06} stat(\"/absent/{number}\", 0x7ffc00000000) = -1 ENOENT (No such file or directory) <0.000001>\n")
    });
    let start = "7 1699999999.000000 execve(\"/apps/app\", [\"app\"], 0x0 /* 1 var */) = 0 <0.000100>\n";
    test.write(
        "app.log",
        start.to_owned() + &calls.collect::<String>() + "7 1700000001.000000 +++ exited with 0 +++\n",
    );
    test.quell(&["-q", "import", "strace", "app.log", "-o", "app.qtrace"]).succeeds();
    for format in ["csv", "perfetto", "speedscope", "parquet"] {
        test.quell(&["-q", "export", "app.qtrace", "--format", format, "-o", "whole"]).succeeds();
        let piped = format!(
            "mkfifo pipe; cat pipe > got & $quell -q export app.qtrace --format {format} -o pipe; wait; test -p pipe && rm pipe && cmp got whole"
        );
        test.script(&piped).succeeds();
        let short = format!(
            "{{ $quell export app.qtrace --format {format} -o -; echo $? > status; }} | head -c 1 > /dev/null"
        );
        assert_eq!(test.script(&short).stderr, "", "{format}");
        assert_eq!(test.read_text("status"), "0\n", "{format}");
        let full = test.script(&format!("$quell export app.qtrace --format {format} -o - > /dev/full"));
        assert_eq!(full.status.code(), Some(2), "{format}");
        assert_eq!(
            full.stderr,
            "quell: error: cannot write standard output: ENOSPC (no space left on device)\nhint: `-o FILE` writes elsewhere\n"
        );
        test.script("rm whole").succeeds();
    }
}
