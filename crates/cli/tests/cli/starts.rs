//! `quell predict T...`: a start on many nodes, from a recording to JSON and to a terminal; what is refused.

use serde_json::Value;

use crate::harness::{Need, Test};

fn traced() -> Test {
    let test = Test::new();
    test.quell(&["synth", "warp", "-o", "w.qtrace"]).succeeds();
    test
}

fn json(test: &Test, words: &[&str]) -> Value {
    let all = [&["predict", "w.qtrace", "--json"], words].concat();
    serde_json::from_str(&test.quell(&all).succeeds()).unwrap()
}

fn p50(object: &Value, at: usize) -> f64 {
    object["points"][at]["seconds"]["p50"].as_f64().unwrap()
}

#[test]
fn a_start_has_a_curve_with_range_bounds_and_knee() {
    let test = traced();
    let object = json(&test, &["--fs", "lustre,nfs", "--nodes", "1,16,1024", "--ppn", "2", "--samples", "5"]);
    assert_eq!(object["schema_version"], 1);
    assert_eq!(object["profile"], "lustre");
    let points = object["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    for point in points {
        let seconds = |key: &str| point["seconds"][key].as_f64().unwrap();
        assert!(seconds("p10") <= seconds("p50") && seconds("p50") <= seconds("p90"), "{point}");
        let bound = |key: &str| point["bounds"][key].as_f64().unwrap();
        assert!(
            bound("lower") <= seconds("p50") * 1.001 && seconds("p50") <= bound("upper") * 1.001,
            "{point}"
        );
    }
    assert_eq!(points[2]["ranks"], 2048);
    assert_eq!(points[2]["saturated"], true);
    assert!(object["knee_nodes"].as_f64().unwrap() < 1024.0);
    assert_eq!(object["profiles"].as_array().unwrap().len(), 2);
    assert_eq!(object["inputs"]["processes_per_node"], 2);
    // The same seed gives the same ranges.
    let again = json(&test, &["--fs", "lustre,nfs", "--nodes", "1,16,1024", "--ppn", "2", "--samples", "5"]);
    assert_eq!(object, again);
}

#[test]
fn changes_change_what_they_say() {
    let test = traced();
    let with = |words: &[&str]| {
        let all =
            [&["--fs", "hopper-home", "--nodes", "512", "--ppn", "2", "--samples", "1"], words].concat();
        json(&test, &all)
    };
    let plain = p50(&with(&[]), 0);
    for words in [
        &["--image"][..],
        &["--image=broadcast"],
        &["--keep-absences"],
        &["--fewer-misses", "1/2"],
        &["--fewer-files", "50%"],
        &["--warm"],
    ] {
        assert!(p50(&with(words), 0) <= plain * 1.001, "{words:?}");
    }
    assert!(p50(&with(&["--image"]), 0) < plain / 10.0);
    assert!(p50(&with(&["--background", "50%"]), 0) > plain * 1.9);
    let launched = p50(&with(&["--launch", "70"]), 0);
    assert!((launched - plain - 70.0).abs() < 1e-6, "{launched} {plain}");
    assert_eq!(with(&["--image", "--atomic-open"])["inputs"]["what_if"].as_array().unwrap().len(), 2);
}

#[test]
fn a_file_system_that_nobody_named_is_a_wide_prior_and_says_so() {
    let outcome = traced().quell(&["predict", "w.qtrace", "--nodes", "1,65536", "--samples", "5"]);
    assert!(outcome.stderr.contains("warning: no --fs: this is a wide prior"), "{outcome}");
    assert!(outcome.stderr.contains("quell calibrate DIR"), "{outcome}");
    assert!(outcome.stdout.contains("wide (prior)"), "{outcome}");
    assert!(outcome.stdout.contains("expect failures"), "{outcome}");
}

#[test]
fn wrong_requests_for_a_start_are_one_line() {
    let test = traced();
    for (words, said) in [
        (&["predict"][..], "no recording is given"),
        (&["predict", "w.qtrace", "--nodes", "1..1e9"], "no number of nodes"),
        (&["predict", "w.qtrace", "--fs", "lustr"], "perhaps `lustre`"),
        (&["predict", "w.qtrace", "--root", "/nowhere"], "no call of this recording went below `/nowhere`"),
        (&["predict", "w.qtrace", "--background", "100%"], "leave something"),
        (&["predict", "w.qtrace", "--fewer-files", "3"], "0 to 1"),
        (&["predict", "w.qtrace", "--skew", "nan"], "from 0 to 1000000"),
        (&["predict", "w.qtrace", "--shared-host"], "--cores"),
        (&["predict", "absent.qtrace"], "cannot open `absent.qtrace`"),
    ] {
        let outcome = test.quell(words);
        assert_eq!(outcome.code(), 2, "{words:?} {outcome}");
        assert!(outcome.stderr.contains(said), "{words:?} {outcome}");
        assert!(outcome.stdout.is_empty(), "{words:?} {outcome}");
    }
}

#[test]
fn a_recording_without_calls_on_a_network_says_what_to_do() {
    let test = Test::new();
    test.quell(&["import", "strace", "/dev/null", "-o", "empty.qtrace"]);
    let outcome = test.quell(&["predict", "empty.qtrace"]);
    assert_eq!(outcome.code(), 2, "{outcome}");
}

#[test]
fn privileged_a_tree_that_changed_since_changes_no_prediction() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("python3")]) else { return };
    std::fs::create_dir_all(test.path("X/t")).unwrap();
    let program = "import os\nfor i in range(300): os.path.exists(f'X/t/{i}') or os.path.exists(f'X/no/{i}')";
    test.quell(&["-q", "record", "-o", "two.qtrace", "--", "python3", "-ISc", program]).succeeds();
    let predicted = |root: &str| -> Value {
        let words =
            ["predict", "two.qtrace", "--root", root, "--depth=2", "--fs=nfs", "--nodes=64", "--json"];
        serde_json::from_str(&test.quell(&[&words[..], &["--samples=2"]].concat()).succeeds()).unwrap()
    };
    let requests = |object: &Value| object["points"][0]["operations"]["lookup_absent"].as_f64().unwrap();
    let notes = |object: &Value| object["notes"].to_string();
    let own = predicted("X");
    assert_eq!(requests(&own), 64.0 * 301.0, "`X/no` is not there, and is asked for once: {own}");
    assert!(notes(&own).contains("/X/no` is not there on this machine"), "{own}");
    std::fs::rename(test.path("X/t"), test.path("X/tt")).unwrap();
    let changed = predicted("X");
    assert_eq!(requests(&changed), 64.0 * 600.0, "{changed}");
    assert!(notes(&changed).contains("has changed since the recording"), "{changed}");
    std::fs::rename(test.path("X"), test.path("Y")).unwrap();
    let gone = predicted(test.path("X").to_str().unwrap());
    assert_eq!(requests(&gone), 64.0 * 600.0, "{gone}");
    assert!(notes(&gone).contains("/X` is not here"), "{gone}");
}

#[test]
fn places_whose_ranges_overlap_are_named() {
    let test = traced();
    let words =
        ["predict", "w.qtrace", "--fs", "lustre,nfs,wide,gpfs,beegfs", "--nodes", "1,1024", "--samples", "9"];
    let outcome = test.quell(&words);
    assert!(outcome.stdout.contains("cannot be told apart from"), "{outcome}");
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{outcome}");
    let object = json(&test, &["--fs", "lustre,nfs", "--nodes", "1024", "--samples", "9"]);
    let second = object["profiles"].as_array().unwrap().iter().find(|profile| profile["rank"] == 2).unwrap();
    assert_eq!(second["overlaps"].as_array().unwrap().len(), 1, "{object}");
}

#[test]
fn a_pipe_that_nobody_writes_into_is_refused() {
    let test = traced();
    rustix::fs::mknodat(rustix::fs::CWD, test.path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    for flag in ["--fs", "--measured"] {
        let outcome = test.quell(&["predict", "w.qtrace", "--nodes=1", "--html=p.html", flag, "pipe"]);
        assert_eq!(outcome.code(), 2, "{outcome}");
        assert!(outcome.stderr.contains("it is a pipe and nobody writes into it"), "{outcome}");
    }
}
