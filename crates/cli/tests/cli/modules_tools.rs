//! `quell modules` where it runs the site's own tools: measure, verify, convert to a cache, check.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Need, Outcome, Test, skip};

/// The prefix of a version that `tests/modules/install` unpacks; `None`, and a line that says why, where it cannot be had.
fn tool(name: &str) -> Option<String> {
    let directory = match std::env::var_os("QUELL_TEST_MODULE_TOOLS") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(env!("CARGO_TARGET_TMPDIR")).join("../module-tools"),
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/install");
    let installed = Command::new(script).arg(&directory).output().unwrap();
    let prefix = directory.join(name);
    match installed.status.success() && prefix.is_dir() {
        true => Some(prefix.canonicalize().unwrap().to_str().unwrap().to_owned()),
        false => skip(&format!("{name} cannot be had here")),
    }
}

/// A test with a small example in `m`.
fn example(needs: &[Need]) -> Option<Test> {
    let test = Test::privileged(needs)?;
    test.quell(&["-q", "modules", "example", "--names", "2", "--versions", "2", "m"]).succeeds();
    Some(test)
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stderr))
}

#[test]
fn privileged_measure_counts_every_strategy_that_a_version_has() {
    let Some(prefix) = tool("modules-5.2.0") else { return };
    let Some(test) = example(&[Need::Ptrace, Need::Fuse]) else { return };
    let words =
        ["modules", "measure", "--json", "--runs", "1", "--tools", &prefix, "m/applications", "m/libraries"];
    let measured = json(&test.quell(&words));
    let row = |name: &str, command: &str| {
        let rows = measured["strategies"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name && row["command"] == command).cloned().unwrap_or_default()
    };
    let on_tree = |name: &str, command: &str| row(name, command)["on_tree"].as_u64().unwrap_or(u64::MAX);
    assert_eq!(row("plain", "avail")["modulefiles"], 8, "{measured}");
    assert!(row("plain", "avail")["calls"].as_u64().unwrap() > 200);
    assert!(on_tree("no extension library", "avail") > on_tree("plain", "avail"));
    assert!(on_tree("eval", "avail") < on_tree("modulepath rc", "avail"));
    assert!(on_tree("virtual", "avail -t") < on_tree("eval", "avail -t"));
    assert_eq!(on_tree("image", "load"), 0);
    let not: Vec<&str> = measured["not_measured"]
        .as_array()
        .unwrap()
        .iter()
        .map(|not| not["name"].as_str().unwrap())
        .collect();
    assert_eq!(not, ["cache", "cache, 4096 bytes", "cache, 1000000 bytes", "cache ignored"]);
    assert_eq!(measured["advice"].as_array().unwrap().len(), 6);
}

#[test]
fn privileged_verify_shows_what_differs_and_ends_with_one() {
    let Some(prefix) = tool("modules-5.2.0") else { return };
    let Some(test) = example(&[]) else { return };
    test.run(&["cp", "-a", "m", "n"]).succeeds();
    let (old, new) = ("m/applications:m/libraries", "n/applications:n/libraries");
    let words = ["modules", "verify", "--tools", &prefix, old, new];
    let same = test.quell(&words);
    assert!(same.stdout.starts_with("no answer differs: "), "{}{}", same.stdout, same.stderr);
    assert_eq!(same.code(), 0);
    test.write("n/applications/appa/.version", "#%Module\nset ModulesVersion 1.0\n");
    let differs = test.quell(&words);
    assert_eq!(differs.code(), 1);
    for part in ["module load appa    Modules 5.2.0, as ", "answers differ: "] {
        assert!(differs.stdout.contains(part), "{}", differs.stdout);
    }
    let found = json(&test.quell(&[&words[..], &["--json"]].concat()));
    assert_eq!(found["same"], false);
    assert!(found["differences"].as_array().unwrap().iter().any(|one| one["question"] == "path appa"));
    let unequal = test.quell(&["modules", "verify", "--tools", &prefix, old, "n/libraries"]);
    assert_eq!((unequal.code(), unequal.stderr.contains("2 old modulepaths, and 1 new ones")), (2, true));
}

#[test]
fn privileged_a_cache_is_built_and_told_to_be_stale() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = example(&[]) else { return };
    let build = ["modules", "convert", "--to", "cache", "--tools", &prefix, "m/applications"];
    assert_eq!(test.quell(&["modules", "check", "m/applications"]).code(), 1, "there is none");
    let dry = test.quell(&[&build[..], &["--dry-run"]].concat());
    assert!(dry.stdout.contains("would be built") && !test.path("m/applications/.modulecache").exists());
    test.quell(&build).succeeds();
    assert_eq!(
        test.quell(&["modules", "check", "m/applications"]).stdout,
        "the caches are what their trees are\n"
    );
    test.write("m/applications/appa/9.0", "#%Module\n");
    let stale = test.quell(&["modules", "check", "--json", "m/applications"]);
    assert_eq!(stale.code(), 1);
    assert_eq!(json(&stale)["changes"][0]["path"], "appa/9.0");
    test.quell(&[&build[..], &["--no-verify"]].concat()).succeeds();
    assert_eq!(test.quell(&["modules", "check", "m/applications"]).code(), 0);
    let no_tool = test.quell(&["modules", "convert", "--to", "cache", "--tools", "m", "m/applications"]);
    assert!(no_tool.stderr.contains("neither Environment Modules nor Lmod is there"), "{}", no_tool.stderr);
    assert_eq!(no_tool.code(), 2);
}
