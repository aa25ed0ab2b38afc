//! `quell synth`: its counts are those of the sources, and what it makes is a trace and a tree like any other.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::harness::{Test, send, wait_until};

/// Calls and errors by name, as `quell report --json` has them.
fn calls(test: &Test, trace: &str) -> BTreeMap<String, (u64, u64)> {
    let report = report(test, trace);
    let rows = report["syscalls"].as_array().unwrap();
    let number = |row: &serde_json::Value, key: &str| row[key].as_u64().unwrap();
    rows.iter()
        .map(|row| (row["name"].as_str().unwrap().to_owned(), (number(row, "calls"), number(row, "errors"))))
        .collect()
}

fn report(test: &Test, trace: &str) -> serde_json::Value {
    test.json(&["report", "--json", trace])
}

fn made(arguments: &[&str]) -> Test {
    let test = Test::new();
    test.quell(&[&["-q", "synth"], arguments, &["-o", "a.qtrace"]].concat()).succeeds();
    test
}

/// The sum of several calls.
fn sum(calls: &BTreeMap<String, (u64, u64)>, names: &[&str]) -> (u64, u64) {
    let found = names.iter().filter_map(|name| calls.get(*name));
    found.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1))
}

#[test]
fn warp_makes_the_calls_of_source_003() {
    let test = made(&["warp"]);
    let calls = calls(&test, "a.qtrace");
    assert_eq!(calls["openat"], (3388, 3388 - 495));
    assert_eq!(sum(&calls, &["stat", "fstat"]), (1632, 1632 - 848));
    assert_eq!(calls["read"], (500, 0));
    assert_eq!(calls["mmap"], (4 * 48, 0), "48 libraries of four parts");
    let report = report(&test, "a.qtrace");
    assert_eq!(report["file_systems"][0]["type"], "lustre");
    assert_eq!(report["file_systems"][0]["metadata_operations"], 3388 + 1632 + 1);
}

#[test]
fn julia_makes_the_calls_of_source_001() {
    let test = made(&["julia"]);
    let calls = calls(&test, "a.qtrace");
    assert_eq!(calls["stat"], (12_000, 4000));
    let report = report(&test, "a.qtrace");
    let busiest = &report["top_paths"].as_array().unwrap()[0];
    assert_eq!(
        (&busiest["path"], &busiest["metadata_operations"]),
        (&"/shared/julia/project/Project.toml".into(), &2001.into())
    );
    let shared = calls["openat"].0 - 2;
    assert!(shared < 10, "{shared} opens below the root; the loader's two are the node's");
}

#[test]
fn module_avail_makes_the_calls_of_source_000() {
    // access, getdents64, newfstatat, openat, read, stat: calls and errors of the source's tables.
    for (setup, expected) in [
        ("plain", [(37, 2), (64, 0), (55, 0), (219, 10), (355, 0), (196, 2)]),
        ("rc-file", [(9, 2), (64, 0), (55, 0), (191, 10), (299, 0), (168, 2)]),
        ("eval", [(9, 2), (64, 0), (55, 0), (63, 6), (175, 0), (164, 2)]),
        ("virtual", [(9, 2), (4, 0), (25, 0), (33, 6), (175, 0), (10, 2)]),
    ] {
        let calls = calls(&made(&["modules", "--setup", setup]), "a.qtrace");
        let found = ["access", "getdents64", "newfstatat", "openat", "read", "stat"].map(|name| calls[name]);
        assert_eq!(found, expected, "{setup}");
        assert_eq!((calls["execve"], calls["readlink"]), ((8, 6), (25, 25)), "{setup}");
    }
}

#[test]
fn pynamic_is_of_the_size_of_source_003_and_in_phases() {
    let test = made(&["pynamic", "--visit", "2", "--compute", "1"]);
    let report = report(&test, "a.qtrace");
    let phases = report["phases"].as_array().unwrap();
    let names: Vec<_> = phases.iter().map(|phase| phase["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["loader", "initialisation", "steady"], "launch, import, visit");
    let visit = phases[2]["seconds"].as_f64().unwrap();
    assert!((2.0..2.1).contains(&visit), "{visit}");
    let libraries = 280 + 215 + 2;
    assert_eq!(calls(&test, "a.qtrace")["mmap"], (4 * libraries + 4, 0), "and the C library");
}

#[test]
fn a_search_path_misses_as_often_as_its_positions_say() {
    for (flags, missed) in [
        (&["--entries", "30", "--names", "60"][..], 2 * (29 * 30 / 2)),
        (&["--entries", "5", "--names", "4", "--positions", "1,5,0,2"], 4 + 5 + 1),
    ] {
        let calls = calls(&made(&[&["search-path"], flags].concat()), "a.qtrace");
        assert_eq!(calls["openat"].1, missed, "{flags:?}");
    }
}

#[test]
fn the_same_flags_give_the_same_bytes_and_the_tree_holds_what_the_trace_finds() {
    let test = made(&["modules"]);
    test.quell(&["-q", "synth", "modules", "-o", "b.qtrace"]).succeeds();
    test.run(&["diff", "-r", "a.qtrace", "b.qtrace"]).succeeds();
    test.quell(&["-q", "synth", "julia", "--packages", "3", "--tree", "tree", "-o", "t.qtrace"]).succeeds();
    assert_eq!(test.files().iter().filter(|name| name.ends_with(".jl")).count(), 150);
    test.quell(&["-q", "pack", "t.qtrace"]).succeeds();
    test.quell(&["-q", "image", "check", "t.qimg"]).succeeds();
}

#[test]
fn what_cannot_be_made_is_one_line_and_leaves_nothing() {
    let test = Test::new();
    test.write("full/file", "");
    for (arguments, says) in [
        (&["synth", "julia", "--tree", "full"][..], "`full` holds something already"),
        (&["synth", "pynamic", "--bytes", "9000T", "--tree", "new"], "has room for"),
        (&["synth", "julia", "--packages", "100000", "--files", "100000"], "a trace may have"),
        (
            &["synth", "search-path", "--names", "2", "--bytes", "8388608T", "--tree", "new"],
            "a shape may have",
        ),
        (&["synth", "pynamic", "--bytes", "16777215T", "--tree", "new"], "a shape may have"),
        (&["synth", "warp", "--at", "/"], "cannot be the directory"),
        (&["synth", "pynamic", "--bytes", "9000T", "--tree", "new/and/deep"], "has room for"),
    ] {
        let outcome = test.quell(arguments);
        assert_eq!(outcome.code(), 2, "{outcome}");
        assert!(outcome.stderr.contains(says) && outcome.stderr.contains("hint:"), "{outcome}");
        assert_eq!(test.files(), ["full", "full/file"]);
    }
}

#[test]
fn an_interrupted_shape_leaves_nothing() {
    let test = Test::new();
    let child = test.start(&["synth", "pynamic", "--tree", "new/tree", "-o", "a.qtrace"]);
    wait_until("there are files", || test.files().len() > 5);
    send(child.id().cast_signed(), Signal::TERM);
    let outcome = test.wait(child);
    assert_eq!(outcome.code(), 143, "{outcome}");
    assert!(outcome.stderr.contains("interrupted; what was made is removed"), "{outcome}");
    assert!(test.files().is_empty(), "{:?}", test.files());
}
