//! `quell modules audit`, `convert` and `example`: their output for people and programs.

use crate::harness::{Test, session, snapshot};
use serde_json::Value;

/// A small tree that every user can read: two names with a default each, and a stray.
fn plant(test: &Test) {
    for name in ["foo", "bar"] {
        for version in ["1.0", "2.0"] {
            test.write(&format!("tree/{name}/{version}"), "#%Module\n");
        }
        test.write(&format!("tree/{name}/.version"), "#%Module\nset ModulesVersion 1.0\n");
    }
    test.write("tree/foo/README", "read me\n");
    test.write("tree/bar/.modulerc", "#%Module\nputs hello\n");
    for directory in ["tree", "tree/foo", "tree/bar"] {
        test.mode(directory, 0o755);
    }
}

#[test]
fn an_audit_says_what_and_where_and_what_to_do() {
    let test = Test::new();
    plant(&test);
    snapshot!(test.quell(&["modules", "audit", "tree", "--fail-on", "stray"]), @"
    status 1
    --- stdout
    4 modulefiles for every user, 0 for some, 4 for Lmod; 10 entries in 1 modulepath

    rc-left: 2 (rule 12)
      [DIR]/tree/bar/.modulerc
        must stay: line 2: `puts` is not among the commands that can be moved
        -> leave it there; the rest can be merged without it
      [DIR]/tree/bar/.version
        must stay: `bar/.modulerc` stays, and both are read together
        -> leave it there; the rest can be merged without it

    rc-mergeable: 1 (rule 6)
      [DIR]/tree/foo/.version
        could be part of the `.modulerc` at the modulepath's root
        -> `quell modules convert --to rc`

    stray: 1 (rule 13)
      [DIR]/tree/foo/README
        is no modulefile: it has no cookie
        -> move it out of the modulepath; with mcookie_check=eval it would be listed
    ");
    let json = test.json(&["modules", "audit", "tree", "--json"]);
    assert_eq!((json["schema_version"].as_u64(), json["modulefiles"].as_u64()), (Some(1), Some(4)));
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 4);
    assert!(findings.iter().all(|finding| finding["rule"].is_u64() && finding["text"].is_string()));
    assert!(findings.iter().all(|finding| finding["path"].as_str().unwrap().starts_with("[DIR]/tree")));
}

#[test]
fn an_audit_takes_modulepath_where_none_is_given() {
    let test = Test::new();
    plant(&test);
    let of_environment =
        |path: &str| test.script(&format!("MODULEPATH={path} exec \"$quell\" modules audit --json"));
    let json: Value = serde_json::from_str(&of_environment("$PWD/tree:$PWD/gone:").succeeds()).unwrap();
    assert_eq!(json["modulepaths"].as_array().unwrap().len(), 1);
    snapshot!(of_environment(""), @"
    status 2
    --- stderr
    quell: error: no modulepath is given, and MODULEPATH has none
    hint: `module use DIR`, or name the directories
    ");
}

#[test]
fn a_modulepath_that_cannot_be_listed_is_a_finding_and_one_that_is_not_there_an_error() {
    let test = Test::new();
    plant(&test);
    test.write("file", "");
    let json = test.json(&["modules", "audit", "file", "tree", "--json"]);
    assert_eq!(json["modulefiles"].as_u64(), Some(4));
    assert_eq!(json["modulepaths"].as_array().unwrap().len(), 2);
    assert_eq!(json["findings"][0]["code"], "unlisted");
    assert_eq!(test.quell(&["modules", "audit", "tree", "file", "--fail-on", "unlisted"]).code(), 1);
    assert_eq!(test.quell(&["modules", "audit", "tree", "absent"]).code(), 2);
    let alone = test.quell(&["modules", "audit", "file"]);
    let error = "quell: error: cannot read `[DIR]/file`: ENOTDIR (not a directory)\nhint: give a directory that exists\n";
    assert_eq!((alone.code(), alone.stderr.as_str()), (2, error));
}

#[test]
fn a_plan_is_a_diff_and_a_conversion_can_be_undone() {
    let test = Test::new();
    plant(&test);
    let before = test.files();
    snapshot!(test.quell(&["modules", "convert", "--to", "rc", "tree", "--dry-run", "--no-verify"]), @"
    status 0
    --- stdout
    # [DIR]/tree
    --- /dev/null
    +++ b/.modulerc
    @@ -0,0 +1,3 @@
    +#%Module
    +# foo/.version
    +module-version foo/1.0 default
    --- a/foo/.version
    +++ /dev/null
    @@ -1,2 +0,0 @@
    -#%Module
    -set ModulesVersion 1.0
    --- stderr
    quell: `[DIR]/tree`: 2 rc files stay
      bar/.modulerc: line 2: `puts` is not among the commands that can be moved
      bar/.version: `bar/.modulerc` stays, and both are read together
    quell: summary: 1 files go, 1 are written, 2 rc files stay, 0 names are hidden
    quell: verdict: possible; no tool compared old and new
    ");
    let words = ["modules", "convert", "--to", "rc", "tree", "--out", "new", "--no-verify", "-q", "--json"];
    let json = test.json(&words);
    assert_eq!((json["written"].as_bool(), json["strategy"].as_str()), (Some(true), Some("rc")));
    assert_eq!(
        test.read_text("new/tree/.modulerc"),
        "#%Module\n# foo/.version\nmodule-version foo/1.0 default\n"
    );
    test.quell(&["modules", "convert", "--undo", "new"]).succeeds();
    std::fs::remove_dir(test.path("new")).unwrap();
    assert_eq!(test.files(), before);
}

#[test]
fn what_cannot_be_converted_is_refused_with_the_reason() {
    let test = Test::new();
    plant(&test);
    test.write("tree/foo/1", "no module\n");
    snapshot!(test.quell(&["modules", "convert", "--to", "eval", "tree", "--out", "new"]), @"
    status 1
    --- stdout
    # [DIR]/tree
    --- /dev/null
    +++ b/.modulerc
    @@ -0,0 +1,5 @@
    +#%Module
    +# not listed without mcookie_check=eval
    +module-hide --hard foo/README
    +# foo/.version
    +module-version foo/1.0 default
    --- a/foo/.version
    +++ /dev/null
    @@ -1,2 +0,0 @@
    -#%Module
    -set ModulesVersion 1.0
    --- stderr
    quell: `[DIR]/tree`: 2 rc files stay
      bar/.modulerc: line 2: `puts` is not among the commands that can be moved
      bar/.version: `bar/.modulerc` stays, and both are read together
    quell: warning: `[DIR]/tree` cannot be converted to `eval`
      `foo/1` cannot be hidden: `foo/1.0` would be hidden too
    ");
    assert!(!test.path("new").exists());
    session!(|line| test.script(line), @"
    $ quell modules convert --to virtual tree --out new => 2
    quell: error: virtual modules need mcookie_check=eval for every user: without it every load opens every file
    hint: set `mcookie_check eval` in the site's configuration and lock it, then add `--eval-enforced`
    $ quell modules convert --to rc tree => 2
    quell: error: no destination is given
    hint: `--out DIR` makes new modulepaths; `--dry-run` only shows the plan
    ");
}

#[test]
fn an_example_is_made_once() {
    let test = Test::new();
    let made = test.quell(&["modules", "example", "ex", "--json"]).succeeds();
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["modulefiles"].as_u64(), Some(116));
    session!(|line| test.script(line), @"
    $ quell modules example ex => 2
    quell: error: `[DIR]/ex` exists and is not empty
    hint: give the name of a new directory, or move the old one away
    ");
}
