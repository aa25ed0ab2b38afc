//! `quell predict create` and the profiles that come with quell: what is printed, what is refused.

use serde_json::Value;

use crate::harness::Test;

fn json(test: &Test, words: &[&str]) -> Value {
    let all = [&["predict", "create", "--json"], words].concat();
    serde_json::from_str(&test.quell(&all).succeeds()).unwrap()
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
