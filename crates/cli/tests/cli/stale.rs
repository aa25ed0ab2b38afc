//! Originals that change between `quell pack` and `quell run`: the program prints and returns what it does without quell, and what
//! did not change still comes from the image.

use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};

use crate::harness::{Need, Outcome, QUELL, Test, kill, next_line, snapshot, wait_until, with_quell};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace];

/// Looks at everything in `home/app`, and at two names that are absent.
const APP: &str = r#"#!/bin/sh
cd "${0%/*}/.." || exit 9
cat conf/settings lib/core.txt lib/deep/data lib/zero 2>&1
stat -c '%n %F %s %a %u %h %Y %Z' conf/settings lib lib/core.txt lib/deep lib/deep/data lib/zero pkgs link 2>&1
cat lib/override.conf 2>&1
test -e ../.condarc && cat ../.condarc
ls pkgs 2>&1
cat pkgs/*/version 2>&1
readlink link; cat link 2>&1
cat current/name 2>&1
test -x bin/tool && echo tool || echo no tool
for name in "$@"; do stat -c '%n %F %s %a %Y' "$name"; cat "$name"; done 2>&1
cat conf/settings > /dev/null 2>&1
"#;

/// Something that happens after the image was packed.
struct Change {
    /// A shell script in the directory that holds `home`.
    script: &'static str,
    /// Arguments of the program after it.
    arguments: &'static [&'static str],
    /// True if the program learned something that does not hold any more.
    noticed: bool,
}

const fn noticed(script: &'static str) -> Change {
    Change { script, arguments: &[], noticed: true }
}

const fn unnoticed(script: &'static str) -> Change {
    Change { script, arguments: &[], noticed: false }
}

const fn with(arguments: &'static [&'static str], change: Change) -> Change {
    Change { arguments, ..change }
}

const CHANGES: [Change; 46] = [
    unnoticed(":"),
    noticed("echo changed > home/app/lib/core.txt"),
    noticed(
        "cd home/app/lib; cp -p core.txt ../../keep; echo CORE > core.txt; touch -r ../../keep core.txt; rm ../../keep",
    ),
    noticed("echo more >> home/app/lib/core.txt"),
    unnoticed("echo new > home/app/lib/new.txt"),
    with(&["lib/new.txt"], unnoticed("echo new > home/app/lib/new.txt")),
    noticed("echo override > home/app/lib/override.conf"),
    noticed("echo conda > home/.condarc"),
    noticed("rm home/app/lib/core.txt"),
    unnoticed("rm home/app/lib/unread.txt"),
    with(&["lib/unread.txt"], unnoticed("rm home/app/lib/unread.txt")),
    noticed("echo CORE > home/app/lib/c; mv home/app/lib/c home/app/lib/core.txt"),
    noticed("rm home/app/lib/core.txt; mkdir home/app/lib/core.txt"),
    noticed("mv home/app/lib/core.txt home/app/lib/c; ln -s c home/app/lib/core.txt"),
    noticed("chmod 000 home/app/lib/core.txt"),
    noticed("chmod +x home/app/bin/tool"),
    noticed("mkdir -p home/app/pkgs/three/sub; echo 3 > home/app/pkgs/three/version"),
    noticed("rm -r home/app/pkgs/two"),
    unnoticed("mkdir home/app/lib/__pycache__; echo code > home/app/lib/__pycache__/core.pyc"),
    noticed("ln -sfn lib/deep/data home/app/link"),
    noticed("ln -sfn v2 home/app/current"),
    with(&["lib/unread.txt", "lib/none", "aside/far/data"], unnoticed(":")),
    unnoticed("mkdir home/app/results; echo result > home/app/results/1"),
    unnoticed("echo log > home/app/slurm-9.out; echo log > home/app/lib/run.log"),
    unnoticed("touch home/app home/app/lib home/app/pkgs"),
    unnoticed("touch home; echo note > home/notes.txt"),
    noticed("mv home/app home/app.old; cp -a home/app.old home/app"),
    noticed("cp -a home/app home/backup; rm -r home/app; mv home/backup home/app"),
    noticed(
        "cp -a home/app/lib/deep deep; rm -r home/app/lib/deep; mkdir home/app/lib/deep; cp deep/* home/app/lib/deep",
    ),
    unnoticed("mv home away; mv away home"),
    noticed("chmod 700 home/app/lib/deep"),
    noticed("chmod 000 home/app/lib/deep"),
    noticed("ln home/app/lib/core.txt home/app/lib/again"),
    noticed(": > home/app/lib/core.txt"),
    noticed("seq 300 >> home/app/lib/core.txt"),
    noticed("echo full > home/app/lib/zero"),
    with(&["lib/unread.txt"], unnoticed("seq 50 >> home/app/lib/unread.txt")),
    with(&["lib/unread.txt"], unnoticed(": > home/app/lib/unread.txt")),
    with(
        &["lib/unread.txt"],
        unnoticed("echo u > home/app/lib/u; mv home/app/lib/u home/app/lib/unread.txt"),
    ),
    noticed("mv home/app/lib home/app/lib.1; ln -s lib.1 home/app/lib"),
    noticed("rm -r home/app/lib/deep; echo file > home/app/lib/deep"),
    noticed("rm -r home/app/lib"),
    noticed("rm -r home/app/lib home/app/pkgs; mkdir home/app/lib; echo other > home/app/lib/core.txt"),
    noticed(
        "mv home/app/lib/core.txt c; mv home/app/lib/unread.txt home/app/lib/core.txt; mv c home/app/lib/unread.txt",
    ),
    unnoticed("touch -d 2001-01-01 home/app/lib home/app/pkgs"),
    noticed("find home -type f -exec touch {} +"),
];

fn plant(test: &Test) {
    test.write_mode("home/app/bin/app", APP, 0o755);
    let files = [
        ("bin/tool", "tool\n"),
        ("conf/settings", "set\n"),
        ("lib/core.txt", "core\n"),
        ("lib/deep/data", "data\n"),
        ("lib/zero", ""),
        ("lib/unread.txt", "unread\n"),
        ("pkgs/one/version", "1\n"),
        ("pkgs/two/version", "2\n"),
        ("v1/name", "v1\n"),
        ("v2/name", "v2\n"),
        ("aside/far/data", "far\n"),
    ];
    files.iter().for_each(|(name, text)| test.write(&format!("home/app/{name}"), text));
    for (name, target) in [("link", "lib/core.txt"), ("current", "v1")] {
        symlink(target, test.path("home/app").join(name)).unwrap();
        test.give(&format!("home/app/{name}"));
    }
    (0..30).for_each(|number| test.write(&format!("home/file-{number}"), "of the user\n"));
}

fn pack(test: &Test) {
    plant(test);
    test.quell(&["-q", "record", "-o", "app.qtrace", "--", "home/app/bin/app"]).succeeds();
    test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "home"]).succeeds();
}

/// The outcome without what quell says, and that.
fn apart(outcome: Outcome) -> (Outcome, String) {
    let is_ours = |line: &&str| line.starts_with("quell: ") || line.starts_with("hint: ");
    let (ours, theirs): (Vec<&str>, Vec<&str>) = outcome.stderr.lines().partition(is_ours);
    let (ours, theirs) = (ours.join("\n"), theirs.join("\n"));
    (Outcome { stderr: theirs, ..outcome }, ours)
}

fn run(test: &Test, on_stale: &str, arguments: &[&str]) -> (Outcome, String) {
    let run = ["run", "--on-stale", on_stale, "app.qimg", "--", "home/app/bin/app"];
    apart(test.quell(&[&run[..], arguments].concat()))
}

#[test]
fn privileged_every_change_gives_what_the_plain_program_gives() {
    for change in &CHANGES {
        for test in [Test::privileged(ALL), Test::of_ordinary_user(ALL)].into_iter().flatten() {
            pack(&test);
            test.script(change.script).succeeds();
            let words = [&["home/app/bin/app"], change.arguments].concat();
            let plain = apart(test.run(&words)).0;
            let says_so = |said: &str| said.contains("changed since app.qimg was packed");
            for turn in 1..3 {
                let (outcome, said) = run(&test, "live", change.arguments);
                assert_eq!(outcome, plain, "{}, run {turn}: {said}", change.script);
                assert_eq!(says_so(&said), change.noticed, "{}: {said}", change.script);
            }
            let before = test.read("app.qimg");
            let (outcome, said) = run(&test, "refresh", change.arguments);
            assert_eq!(outcome, plain, "{}: {said}", change.script);
            assert!(!said.contains("hint"), "{}: {said}", change.script);
            if change.noticed {
                wait_until("the image is refreshed", || test.read("app.qimg") != before);
            }
            test.silence();
            let (outcome, said) = run(&test, "refresh", change.arguments);
            assert_eq!((&outcome, &said[..]), (&plain, ""), "{}, after the refresh", change.script);
            let plainly = run(&test, "plain", change.arguments);
            assert_eq!((plainly.0, plainly.1.as_str()), (plain, ""), "{}", change.script);
        }
    }
}

/// Starts a command from the image that prints a line, reads one, and goes on.
fn started(test: &Test, then: &str) -> Child {
    let script = format!("echo ready; read -r line; {then}");
    let words = ["run", "--on-stale", "live", "app.qimg", "--", "sh", "-c", &script];
    let mut command = test.command(&with_quell(&words));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert_eq!(next_line(&mut child), "ready");
    child
}

#[test]
fn privileged_the_next_server_knows_what_changed() {
    for test in [Test::privileged(ALL), Test::of_ordinary_user(ALL)].into_iter().flatten() {
        pack(&test);
        test.script("echo changed > home/app/lib/core.txt; echo o > home/app/lib/override.conf; rm home/app/conf/settings")
            .succeeds();
        let look = "cat home/app/lib/core.txt home/app/lib/override.conf; test -e home/app/conf/settings || echo gone";
        let mut child = started(&test, look);
        let servers = test.servers();
        servers.iter().copied().for_each(kill);
        wait_until("another server answers", || !test.servers().is_empty() && test.servers() != servers);
        drop(child.stdin.take());
        assert_eq!(test.wait(child).succeeds(), "changed\no\ngone\n");
    }
}

#[test]
fn privileged_a_run_that_began_before_a_change_keeps_no_later_one_from_it() {
    for test in [Test::privileged(ALL), Test::of_ordinary_user(ALL)].into_iter().flatten() {
        pack(&test);
        let mut earlier = started(&test, "cat home/app/lib/core.txt");
        test.write("home/app/lib/core.txt", "changed\n");
        test.write("home/app/lib/new.txt", "new\n");
        let cat =
            ["run", "--on-stale", "live", "app.qimg", "cat", "home/app/lib/core.txt", "home/app/lib/new.txt"];
        assert_eq!(test.quell(&cat).succeeds(), "changed\nnew\n");
        drop(earlier.stdin.take());
        assert_eq!(test.wait(earlier).succeeds(), "core\n");
    }
}

#[test]
fn privileged_the_user_chooses_what_a_change_does() {
    let Some(test) = Test::privileged(ALL) else { return };
    pack(&test);
    test.write("home/app/lib/core.txt", "changed\n");
    let image = test.read("app.qimg");
    let with = |options: &[&str]| {
        let outcome =
            test.quell(&[&["run"], options, &["app.qimg", "cat", "home/app/lib/core.txt"]].concat());
        test.silence();
        outcome
    };
    snapshot!(with(&["--on-stale", "live"]), @"
    status 0
    --- stdout
    changed
    --- stderr
    quell: warning: 1 entry changed since app.qimg was packed and is served from the originals: [DIR]/home/app/lib/core.txt
    hint: quell pack --refresh app.qimg
    ");
    snapshot!(with(&["--on-stale", "plain"]), @"
    status 0
    --- stdout
    changed
    --- stderr
    quell: warning: the image is not used and the command runs plain: cannot use the image: 1 of its originals changed since it was packed
    hint: `quell pack --refresh IMG` makes the image anew
    quell: its files are read ahead beside it
    ");
    insta::allow_duplicates! { for strict in [&["--on-stale", "fail"][..], &["--require"]] {
        snapshot!(with(strict), @"
        status 1
        --- stderr
        quell: error: 1 of the image's originals changed since it was packed
          [DIR]/home/app/lib/core.txt has another size
        hint: quell pack --refresh app.qimg
        hint: `--check none` runs with the image as it is
        ");
    } }
    assert!(test.read("app.qimg") == image);
    snapshot!(with(&[]), @"
    status 0
    --- stdout
    changed
    --- stderr
    quell: warning: 1 entry changed since app.qimg was packed and is served from the originals: [DIR]/home/app/lib/core.txt
    ");
    wait_until("the image is refreshed", || test.read("app.qimg") != image);
    test.silence();
    assert_eq!(test.quell(&["check", "--valid-for", "0", "app.qimg"]).code(), 0);
}

/// Another user could put an image in place of the new one, or owns the image.
#[test]
fn privileged_only_the_users_own_image_in_a_private_directory_is_refreshed() {
    let Some(test) = Test::of_ordinary_user(ALL) else { return };
    pack(&test);
    test.write("home/app/lib/core.txt", "changed\n");
    let image = test.read("app.qimg");
    let run = ["run", "--trust", "app.qimg", "cat", "home/app/lib/core.txt"];
    let is_left = || {
        let outcome = test.quell(&run);
        test.silence();
        assert!(outcome.stderr.ends_with("hint: quell pack --refresh app.qimg\n"), "{outcome}");
        assert_eq!(outcome.succeeds(), "changed\n");
        assert!(test.read("app.qimg") == image);
    };
    test.mode("", 0o777);
    is_left();
    test.mode("", 0o755);
    std::os::unix::fs::chown(test.path("app.qimg"), Some(0), Some(0)).unwrap();
    test.mode("app.qimg", 0o644);
    is_left();
}

#[test]
fn privileged_what_cannot_be_used_in_part_runs_plain() {
    let Some(test) = Test::privileged(ALL) else { return };
    pack(&test);
    let complete = ["-q", "pack", "app.qtrace", "--complete", "-o", "whole.qimg", "--root", "home"];
    test.quell(&complete).succeeds();
    test.write("home/app/lib/core.txt", "changed\n");
    test.script("mv home elsewhere; ln -s elsewhere home").succeeds();
    for image in ["whole.qimg", "app.qimg"] {
        let outcome = test.quell(&["run", image, "cat", "home/app/lib/core.txt"]);
        assert!(outcome.stderr.contains("the command runs plain: cannot use the image"), "{outcome}");
        assert_eq!(outcome.succeeds(), "changed\n");
    }
}

#[test]
fn privileged_an_extraction_shows_the_originals_of_what_changed() {
    let look = "cd home/app; cat lib/core.txt lib/new.txt lib/override.conf conf/settings pkgs/one/version current/name 2>&1; ls lib";
    for change in [
        ":",
        "echo changed > home/app/lib/core.txt",
        "echo new > home/app/lib/new.txt",
        "echo o > home/app/lib/override.conf",
        "rm home/app/lib/core.txt",
        "rm -r home/app/lib; mkdir home/app/lib",
        "ln -sfn v2 home/app/current",
        "mv home/app/lib home/app/l; ln -s l home/app/lib",
        "rm -r home/app/pkgs/one; echo 1 > home/app/pkgs/one",
    ] {
        for test in [Test::privileged(ALL), Test::of_ordinary_user(ALL)].into_iter().flatten() {
            pack(&test);
            test.script(change).succeeds();
            let plain = test.run(&["sh", "-c", look]);
            let run = ["run", "--on-stale", "live", "--mode", "extract", "app.qimg", "--", "sh", "-c", look];
            let (outcome, said) = apart(test.quell(&run));
            assert_eq!(outcome, apart(plain).0, "{change}: {said}");
            assert!(!said.contains("plain"), "{change}: {said}");
        }
    }
}

/// A node of a job step of two: namespaces of its own, and the launcher's variables. `before` happens in its namespaces.
fn on_node(test: &Test, (step, node): (&str, u32), before: &str, command: &str) -> Child {
    let script =
        format!("{before}; exec {} run --trust --on-stale live app.qimg -- sh -c '{command}'", *QUELL);
    let mut words = test.command(&["unshare", "--mount", "--net", "sh", "-c", &script]);
    let number = node.to_string();
    for (name, value) in [
        ("SLURM_PROCID", &number[..]),
        ("SLURM_NODEID", &number),
        ("SLURM_LOCALID", "0"),
        ("SLURM_NTASKS", "2"),
        ("SLURM_STEP_NUM_NODES", "2"),
        ("SLURM_JOB_ID", "7"),
        ("SLURM_STEP_ID", step),
    ] {
        words.env(name, value);
    }
    words.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// True once a rank has claimed or published the outcome of a check.
fn is_published(test: &Test) -> bool {
    test.files().iter().any(|name| name.contains(".verdict-"))
}

/// A change that only the second node sees: it serves that if it compares.
const APART: &str = "echo apart > apart; mount --bind apart home/app/lib/core.txt";

const LOOK: &str = "cat home/app/lib/core.txt; test -e home/app/lib/override.conf || echo absent";

const UNTIL_DONE: &str = "while [ ! -e done ]; do sleep 0.05; done";

#[test]
fn privileged_one_node_compares_for_all() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Fuse, Need::Ptrace]) else { return };
    pack(&test);
    let until_done = format!("{LOOK}; {UNTIL_DONE}");
    for (change, first, second) in [
        (":", "core\nabsent\n", "core\nabsent\n"),
        ("echo changed > home/app/lib/core.txt", "changed\nabsent\n", "apart\nabsent\n"),
        ("echo o > home/app/lib/override.conf", "changed\n", "apart\n"),
    ] {
        test.script(change).succeeds();
        let comparing = on_node(&test, ("0", 0), ":", &until_done);
        wait_until("the first node compares", || is_published(&test));
        let outcome = test.wait(on_node(&test, ("0", 1), APART, LOOK));
        assert_eq!((outcome.stderr.as_str(), outcome.stdout.as_str()), ("", second), "{change}");
        assert!(is_published(&test));
        test.write("done", "");
        let outcome = test.wait(comparing);
        assert_eq!(outcome.stderr.contains("changed since"), change != ":", "{outcome}");
        assert_eq!(outcome.succeeds(), first, "{change}");
        test.silence();
        assert!(!is_published(&test), "it is removed with the run");
        test.script("rm -f done").succeeds();
    }
    // Each node compares for itself if nothing can be published.
    test.mode("", 0o777);
    let outcome = test.wait(on_node(&test, ("0", 1), APART, LOOK));
    assert_eq!(outcome.succeeds(), "apart\n");
}

/// The first node's part of the step is over, or it is another program.
#[test]
fn privileged_a_node_that_no_other_compares_for_compares_for_the_job() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Fuse, Need::Ptrace]) else { return };
    pack(&test);
    test.wait(on_node(&test, ("0", 0), ":", "true")).succeeds();
    test.silence();
    let late = on_node(&test, ("0", 1), ":", &format!("{LOOK}; {UNTIL_DONE}"));
    wait_until("it compares", || is_published(&test));
    let outcome = test.wait(on_node(&test, ("0", 2), APART, LOOK));
    assert_eq!(outcome.succeeds(), "core\nabsent\n", "it does not compare");
    test.write("done", "");
    assert_eq!(test.wait(late).succeeds(), "core\nabsent\n");
    test.silence();
    assert!(!is_published(&test));
}

#[test]
fn privileged_the_next_job_sweeps_what_a_killed_one_left() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Fuse, Need::Ptrace]) else { return };
    pack(&test);
    let mut killed = on_node(&test, ("0", 0), ":", "exec sleep 1000");
    wait_until("the outcome is published", || test.script("test -s *.verdict-*").status.success());
    wait_until("the command has begun", || !test.servers().is_empty());
    test.kill_all_servers();
    kill(i32::try_from(killed.id()).unwrap());
    killed.wait().unwrap();
    test.silence();
    assert!(is_published(&test));
    test.script("touch -d '1 hour ago' *.verdict-*").succeeds();
    test.wait(on_node(&test, ("1", 0), ":", "true")).succeeds();
    test.silence();
    assert!(!is_published(&test));
}
