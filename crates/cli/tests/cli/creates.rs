//! `quell predict create`, the profiles that come with quell, `quell validate`: what is printed, what is refused.

use serde_json::Value;

use crate::harness::Test;

fn json(test: &Test, words: &[&str]) -> Value {
    let all = [&["predict", "create", "--json"], words].concat();
    test.json(&all)
}

#[test]
fn settings_of_the_file_system_lower_the_time_of_4096_nodes() {
    let test = Test::new();
    let p50 = |words: &[&str]| {
        let all = [&["--fs", "coral", "--nodes", "4096"], words].concat();
        json(&test, &all)["points"][0]["seconds"]["p50"].as_f64().unwrap()
    };
    let (old, round_2, round_3) =
        (p50(&[]), p50(&["--pre-split", "6"]), p50(&["--pre-split", "6", "--all-to-all"]));
    assert!(old > 250.0 && round_2 < old && round_3 < round_2, "{old} {round_2} {round_3}");
    assert!(p50(&["--grown", "--pre-split", "6"]) < 5.0);
    let whole = json(&test, &["--fs", "coral", "--nodes", "1..64", "--ppn", "24", "--files", "3"]);
    assert_eq!(whole["schema_version"], 1);
    assert_eq!(whole["points"].as_array().unwrap().len(), 7);
    assert_eq!(whole["points"][6]["files"], 64 * 72);
    for key in ["what_ifs", "advice", "inputs", "notes"] {
        assert!(!whole[key].as_array().unwrap().is_empty(), "{key}");
    }
}

#[test]
fn a_profile_that_is_printed_can_be_read() {
    let test = Test::new();
    let list = test.quell(&["predict", "--list-fs"]).succeeds();
    for name in ["beegfs", "coral", "gpfs", "hopper-home", "hopper-scratch", "lustre", "nfs", "wide"] {
        assert!(list.lines().any(|line| line.split(' ').next() == Some(name)), "{name}: {list}");
    }
    test.write("own.toml", test.quell(&["predict", "--print-fs", "nfs"]).succeeds());
    let words = ["--nodes", "100", "--fs"];
    assert_eq!(
        json(&test, &[&words[..], &["own.toml"]].concat()),
        json(&test, &[&words[..], &["nfs"]].concat())
    );
    // Printed from a file it has no comments, and is the same profile.
    test.write("again.toml", test.quell(&["predict", "--print-fs", "own.toml"]).succeeds());
    assert_eq!(test.quell(&["predict", "--print-fs", "again.toml"]).succeeds(), test.read_text("again.toml"));
}

#[test]
fn a_prior_that_nobody_asked_for_is_named() {
    let test = Test::new();
    let outcome = test.quell(&["predict", "create", "--nodes", "64"]);
    assert!(outcome.stdout.contains("not a measurement of your file system"), "{outcome}");
    assert!(outcome.stderr.contains("warning: no --fs: this is the prior `gpfs`"), "{outcome}");
    assert!(outcome.stderr.contains("quell calibrate DIR"), "{outcome}");
}

#[test]
fn wrong_requests_are_one_line() {
    let test = Test::new();
    test.write(
        "typo.toml",
        "schema_version = 1\nname = 'x'\nkind = 'prior'\n[metadata.operations_per_second]\ncreat = 5\n",
    );
    test.write("silent.toml", "schema_version = 1\nname = 'x\\u001b[2J'\nkind = 'prior'\n");
    test.write("other.toml", [0u8, 255, 7]);
    test.write("huge.toml", vec![b'#'; (1 << 20) + 1]);
    let before = test.files();
    for (fs, said) in [
        ("luster", "perhaps `lustre`"),
        ("absent.toml", "`absent.toml` is neither a file nor a profile"),
        ("typo.toml", "line 5: `creat` is not a key of `[metadata.operations_per_second]`"),
        ("silent.toml", "says nothing about creates"),
        ("other.toml", "this is not UTF-8"),
        ("huge.toml", "`huge.toml` is too large to be a profile"),
        (".", "cannot read the profile `.`: EISDIR"),
    ] {
        let outcome = test.quell(&["predict", "create", "--nodes", "4", "--fs", fs]);
        assert_eq!(outcome.code(), 2, "{outcome}");
        assert!(outcome.stderr.contains(said) && outcome.stdout.is_empty(), "{fs}: {outcome}");
        assert!(!outcome.stderr.contains('\u{1b}'), "{outcome}");
    }
    for words in [
        &["--nodes", "1..1e9"][..],
        &["--nodes", "0"],
        &["--nodes", "4", "--ppn", "0"],
        &["--nodes", "4", "--files", "-3"],
        &["--nodes", "4", "--pre-split", "17"],
        &["--nodes", "4", "--files", "1000000000", "--ppn", "65536"],
        &[],
    ] {
        let outcome = test.quell(&[&["predict", "create", "--fs", "coral"], words].concat());
        assert_eq!(outcome.code(), 2, "{words:?}: {outcome}");
        assert!(outcome.stdout.is_empty(), "{outcome}");
    }
    assert_eq!(test.files(), before);
}

#[test]
fn the_page_is_whole_and_holds_what_was_measured() {
    let test = Test::new();
    test.write("times.csv", "nodes,ppn,seconds\n64,1,3.5\n");
    let words = ["predict", "create", "--fs", "coral", "--nodes", "1..64", "--html", "page.html"];
    test.quell(&[&words[..], &["--measured", "times.csv"]].concat()).succeeds();
    let page = test.read_text("page.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    for part in ["id=\"points\"", "id=\"what-if\"", "id=\"advice\"", "id=\"inputs\"", "\"seconds\":3.5"] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(
        test.quell(&["predict", "create", "--fs", "coral", "--nodes", "1..64", "--html", "-"]).succeeds(),
        {
            test.quell(&words).succeeds();
            test.read_text("page.html")
        }
    );
    test.write("bad.csv", "nodes,ppn,seconds\n64,1,3.5\n64;1;3.5\u{1b}[2J\n");
    let before = test.files();
    for (words, said) in [
        (
            &["--html", "new.html", "--measured", "bad.csv"][..],
            "`bad.csv`, line 3: `64;1;3.5\\x1b[2J` is not a number",
        ),
        (&["--html", "new.html", "--measured", "absent.csv"], "cannot read `absent.csv`: ENOENT"),
        (&["--html", "absent/new.html"], "cannot write `absent/new.html`: ENOENT"),
        (&["--html", "-", "--json"], "would both go to standard output"),
        (&["--measured", "times.csv"], "--html <FILE>"),
    ] {
        let outcome = test.quell(&[&["predict", "create", "--fs", "coral", "--nodes", "4"], words].concat());
        assert_eq!(outcome.code(), 2, "{outcome}");
        assert!(outcome.stderr.contains(said) && outcome.stdout.is_empty(), "{said}: {outcome}");
    }
    assert_eq!(test.files(), before);
}

#[test]
fn published_figures_stand_beside_predictions_and_misses_stay() {
    let test = Test::new();
    let whole = test.json(&["validate", "--json"]);
    let rows = whole["rows"].as_array().unwrap();
    let count = |used: &str, verdict: &str| {
        rows.iter().filter(|row| row["use"] == used && row["verdict"] == verdict).count()
    };
    assert_eq!(count("V", "holds") + count("V", "misses"), 11);
    assert_eq!((count("V", "misses"), count("P", "fitted"), count("C", "holds")), (3, 4, 0));
    assert!(!whole["not_reproducible"].as_array().unwrap().is_empty());
    let text = test.quell(&["validate"]).succeeds();
    assert!(text.contains("misses: scale-1m,") && text.contains("Cannot be reproduced"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
