//! `quell report --html`: where the page goes, and that it is there whole or not at all.

use crate::harness::{Need, Test, session};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

/// A recording `app.qtrace`.
fn recorded() -> Option<Test> {
    let test = Test::privileged(&[Need::Ptrace])?;
    test.quell(&["-q", "record", "-o", "app.qtrace", "--", "ls", "</script>"]);
    Some(test)
}

/// A page, with the test's directory as what commands printed has it.
fn page(test: &Test, name: &str) -> String {
    test.read_text(name).replace(test.text("").trim_end_matches('/'), "[DIR]")
}

/// The object inside a page.
fn numbers(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"report\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn privileged_a_page_is_written_instead_of_the_report() {
    let Some(test) = recorded() else { return };
    session!(|line| test.script(line), @"
    $ quell report app.qtrace --html app.html
    quell: wrote `app.html`, a page for a browser
    ");
    let page = page(&test, "app.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    let json = test.json(&["report", "app.qtrace", "--json"]);
    assert!(numbers(&page) == json, "the numbers inside are those of --json");
    assert!(test.files().iter().all(|file| !file.contains(".quell-")), "{:?}", test.files());
}

#[test]
fn privileged_the_page_may_go_to_standard_output_and_beside_json() {
    let Some(test) = recorded() else { return };
    let printed = test.quell(&["report", "app.qtrace", "--html", "-"]);
    assert_eq!(printed.stderr, "");
    test.quell(&["-q", "report", "app.qtrace", "--html", "app.html"]).succeeds();
    assert!(printed.succeeds() == page(&test, "app.html"), "the page is the same wherever it goes");
    let both = test.quell(&["-q", "report", "app.qtrace", "--json", "--html", "both.html"]).succeeds();
    let both: serde_json::Value = serde_json::from_str(&both).unwrap();
    assert!(numbers(&page(&test, "both.html")) == both);
}

#[test]
fn privileged_an_earlier_page_is_replaced_whole_where_it_lies() {
    let Some(test) = recorded() else { return };
    test.write("real.html", "old");
    symlink("real.html", test.path("link.html")).unwrap();
    let before = std::fs::metadata(test.path("real.html")).unwrap().ino();
    test.script("umask 027; $quell -q report app.qtrace --html link.html").succeeds();
    let metadata = std::fs::metadata(test.path("real.html")).unwrap();
    assert!(test.path("link.html").is_symlink() && metadata.ino() != before);
    assert_eq!(metadata.permissions().mode() & 0o777, 0o640, "as the user's mask has it");
    // A pipe is not replaced by a file.
    let out = test
        .script("mkfifo pipe; cat pipe >got & $quell -q report app.qtrace --html pipe && wait")
        .succeeds();
    assert_eq!(out, "");
    assert_eq!(test.read("got"), test.read("real.html"));
}

#[test]
fn privileged_what_cannot_be_written_is_said_in_one_line() {
    let Some(test) = recorded() else { return };
    std::fs::create_dir(test.path("directory")).unwrap();
    session!(|line| test.script(line), @"
    $ quell report app.qtrace --html directory => 2
    quell: error: cannot write `directory`: EISDIR (is a directory)
    hint: name a file, such as `--html report.html`
    $ quell report app.qtrace --html absent/app.html => 2
    quell: error: cannot write `absent/app.html`: ENOENT (no such file or directory)
    hint: the directory must be there already
    $ quell report app.qtrace --html /dev/full => 2
    quell: error: cannot write `/dev/full`: ENOSPC (no space left on device)
    $ quell report app.qtrace --json --html - => 2
    quell: error: `--json` and `--html -` would both go to standard output
    hint: leave one out; a settings file may have set the other
    ");
}
