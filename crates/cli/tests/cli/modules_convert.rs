//! `quell modules convert` under difficulties: file systems that cannot exchange names, renames that fail, interruptions
//! between two steps, paths with `..`, closed directories, trees that other users may write.

use crate::harness::{Need, Outcome, Test, session, snapshot};
use crate::modules_tools::tool;
use serde_json::Value;
use std::os::unix::fs::chown;
use std::path::Path;

/// Two modulepaths, `one` with `foo` and `two` with `bar`, each with a default that `--to rc` moves.
fn plant(test: &Test) {
    for (tree, name) in [("one", "one/foo"), ("two", "two/bar")] {
        for version in ["1.0", "2.0"] {
            test.write(&format!("{name}/{version}"), "#%Module\n");
        }
        test.write(&format!("{name}/.version"), "#%Module\nset ModulesVersion 1.0\n");
        test.mode(tree, 0o755);
        test.mode(name, 0o755);
    }
}

const IN_PLACE: [&str; 8] = ["modules", "convert", "--to", "rc", "--in-place", "--no-verify", "one", "two"];

/// Runs quell while strace makes its renames fail, or kills it there.
fn injected(test: &Test, inject: &[&str], words: &[&str]) -> Outcome {
    let mut command = vec!["strace", "-f", "-o", "/dev/null", "-e", "trace=rename,renameat,renameat2"];
    inject.iter().for_each(|what| command.extend(["-e", what]));
    command.push(*crate::harness::QUELL);
    test.run(&[&command[..], words].concat())
}

/// The strace option for a file system without RENAME_EXCHANGE.
const NO_EXCHANGE: &str = "inject=renameat2:error=EINVAL";

/// The effects that strace can have on a rename.
const FAILS: &str = "inject=rename,renameat:error=EIO:when=";
const KILLS: &str = "inject=rename,renameat:signal=KILL:when=";

#[test]
fn privileged_a_conversion_in_place_needs_no_exchange_of_names() {
    let Some(test) = Test::privileged(&[Need::Program("strace"), Need::Ptrace]) else { return };
    plant(&test);
    let before = test.files();
    injected(&test, &[NO_EXCHANGE], &IN_PLACE).succeeds();
    for (tree, name) in [("one", "foo"), ("two", "bar")] {
        let text = test.read_text(&format!("{tree}/.modulerc"));
        assert!(text.contains(&format!("module-version {name}/1.0 default")), "{text}");
        assert!(test.path(&format!("{tree}.quell-before/{name}/.version")).exists());
        let record = format!("{tree}.quell-plan.json");
        injected(&test, &[NO_EXCHANGE], &["modules", "convert", "--undo", &record]).succeeds();
    }
    assert_eq!(test.files(), before);
}

#[test]
fn privileged_a_rename_that_fails_leaves_everything_as_it_was() {
    let Some(test) = Test::privileged(&[Need::Program("strace"), Need::Ptrace]) else { return };
    plant(&test);
    let before = test.files();
    for other in [&[][..], &[NO_EXCHANGE]] {
        // Two renames for a tree without exchange, one with it.
        for number in 1..=2 + 2 * other.len() {
            let fails = format!("{FAILS}{number}");
            let failed = injected(&test, &[other, &[&fails]].concat(), &IN_PLACE);
            assert_eq!(failed.code(), 2, "{fails} {other:?}\n{failed}");
            assert_eq!(test.files(), before, "{fails} {other:?}\n{failed}");
        }
    }
    // If the conversion cannot be reverted either, nothing is removed, and the record allows undoing it.
    let failed = injected(&test, &[NO_EXCHANGE, &format!("{FAILS}4+")], &IN_PLACE);
    assert!(
        failed.stderr.contains("stopped half-way; the record is `[DIR]/one.quell-plan.json`"),
        "{failed}"
    );
    for tree in ["one", "two"] {
        test.quell(&["modules", "convert", "--undo", &format!("{tree}.quell-plan.json")]).succeeds();
    }
    assert_eq!(test.files(), before);
}

#[test]
fn privileged_wherever_a_conversion_is_killed_it_can_be_undone() {
    let Some(test) = Test::privileged(&[Need::Program("strace"), Need::Ptrace]) else { return };
    plant(&test);
    let before = test.files();
    for other in [&[][..], &[NO_EXCHANGE]] {
        for number in 1..=2 + 2 * other.len() {
            let kills = format!("{KILLS}{number}");
            let killed = injected(&test, &[other, &[&kills]].concat(), &IN_PLACE);
            assert_eq!(killed.code(), 137, "{kills} {other:?}\n{killed}");
            for tree in ["one", "two"] {
                let record = format!("{tree}.quell-plan.json");
                // Undoing is interrupted too, and goes on from there.
                let undo = ["modules", "convert", "--undo", &record];
                injected(&test, &[other, &[&format!("{KILLS}1")]].concat(), &undo);
                if test.path(&record).exists() {
                    test.quell(&undo).succeeds();
                }
            }
            let left: Vec<String> =
                test.files().into_iter().filter(|name| !name.contains(".quell-new")).collect();
            assert_eq!(left, before, "{kills} {other:?}");
            assert_eq!(test.read_text("one/foo/.version"), "#%Module\nset ModulesVersion 1.0\n");
        }
    }
}

#[test]
fn undoing_is_told_before_it_is_done() {
    let test = Test::new();
    plant(&test);
    let before = test.files();
    test.quell(&IN_PLACE).succeeds();
    let converted = test.files();
    session!(|line| test.script(line), @"
    $ quell modules convert --undo one.quell-plan.json --dry-run
    quell: `[DIR]/one` would be restored
    ");
    assert_eq!(test.files(), converted);
    let undo = |tree: &str, more: &[&str]| {
        let record = format!("one/../{tree}.quell-plan.json");
        let told = test.quell(&[&["modules", "convert", "--json", "--undo", &record], more].concat());
        serde_json::from_str::<Value>(&told.succeeds()).unwrap()
    };
    assert_eq!((undo("two", &["--dry-run"])["undone"].as_bool(), test.files()), (Some(false), converted));
    let done = undo("two", &[]);
    assert_eq!((done["undone"].as_bool(), &done["restored"][0]), (Some(true), &Value::from("[DIR]/two")));
    undo("one", &[]);
    assert_eq!(test.files(), before);
    test.quell(&["modules", "convert", "--to", "rc", "one", "two", "--out", "new", "--no-verify"]).succeeds();
    session!(|line| test.script(line), @"
    $ quell modules convert --undo new
    quell: `[DIR]/new/one` is removed
    quell: `[DIR]/new/two` is removed
    ");
}

#[test]
fn where_nothing_changes_in_place_nothing_is_told_to_be_written() {
    let test = Test::new();
    plant(&test);
    test.quell(&IN_PLACE).succeeds();
    test.script("rm -r *.quell-before *.json").succeeds();
    let before = test.files();
    snapshot!(test.quell(&IN_PLACE), @"
    status 0
    --- stderr
    quell: warning: verification is skipped: no tool compares old and new
    quell: `[DIR]/one`: nothing to change
    quell: `[DIR]/two`: nothing to change
    ");
    assert_eq!(test.files(), before);
}

#[test]
fn a_flag_that_would_do_nothing_is_refused() {
    let test = Test::new();
    plant(&test);
    session!(|line| test.script(line), @"
    $ quell modules convert --to rc one --out new --delete-strays => 2
    quell: error: `--delete-strays` does nothing with `--to rc`
    hint: only `mcookie_check=eval` lists strays, and only `--to eval` hides or leaves them out
    ");
}

#[test]
fn privileged_a_modulepath_has_one_name_however_it_is_written() {
    let Some(prefix) = tool("modules-5.2.0") else { return };
    let Some(test) = Test::privileged(&[]) else { return };
    plant(&test);
    let words = ["modules", "convert", "--to", "rc", "--tools", &prefix, "--user", "nobody", "--out"];
    test.quell(&[&words[..], &["one/../new", "two/.././one", "two/"]].concat()).succeeds();
    let verify =
        ["modules", "verify", "--tools", &prefix, "--user", "nobody", "one/:new/../two", "new/one/:new/two/"];
    let same = test.quell(&verify);
    assert!(same.stdout.starts_with("no answer differs"), "{same}");
    std::os::unix::fs::symlink("new/one", test.path("link")).unwrap();
    session!(|line| test.script(line), @"
    $ quell modules convert --to rc link/../one --dry-run => 2
    quell: error: `link/../one` leads through the link `[DIR]/link` and back
    hint: give the path without `..`
    ");
}

#[test]
fn privileged_a_conversion_is_the_same_with_any_umask_and_says_what_is_out_of_reach() {
    let Some(prefix) = tool("modules-5.2.0") else { return };
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    plant(&test);
    let convert =
        format!("\"$quell\" modules convert --to eval --tools {prefix} --user nobody one two --out");
    let made = test.script(&format!("umask 077; exec {convert} new"));
    assert_eq!(made.code(), 0, "{made}");
    let modes = test.run(&["find", "new", "-printf", "%m %P\n"]).succeeds();
    let open =
        |line: &str| line.starts_with("755 ") || line.starts_with("644 ") || line.ends_with("plan.json");
    assert!(modes.lines().all(open), "{modes}");
    test.script("mkdir -m 700 closed").succeeds();
    snapshot!(test.script(&format!("exec {convert} closed/new -q > /dev/null")), @"
    status 2
    --- stderr
    quell: error: nobody cannot reach `[DIR]/closed/new/.quell-new/one`, so nothing can be asked about it
    hint: `--out` or TMPDIR may lie below a directory that is closed to other users
    ");
    assert_eq!(test.run(&["ls", "-A", "closed"]).succeeds(), "");
}

#[test]
fn privileged_what_others_may_write_is_not_evaluated_as_root() {
    let Some(prefix) = tool("modules-5.2.0") else { return };
    let Some(test) = Test::privileged(&[Need::Root, Need::Program("tclsh")]) else { return };
    plant(&test);
    let spy = format!("#%Module\nexec id -u >>{}\n", test.text("who"));
    test.write("one/foo/2.0", &spy);
    test.write_mode("who", "", 0o666);
    let convert = |out: &str, more: &[&str]| {
        let words = ["modules", "convert", "--to", "rc", "--tools", &prefix, "one", "two", "--out", out];
        let converted = test.quell(&[&words[..], more].concat());
        assert_eq!(converted.code(), 0, "{converted}");
        let told = converted.stderr.contains("not asked: root; other users can change `[DIR]/one/foo/1.0`");
        let who = std::mem::take(&mut test.read_text("who"));
        test.write_mode("who", "", 0o666);
        (told, who.lines().any(|user| user == "0"), who.lines().any(|user| user == "65534"))
    };
    assert_eq!(convert("a", &[]), (false, true, true), "all is root's");
    chown(test.path("one/foo/1.0"), Some(1000), None).unwrap();
    assert_eq!(convert("b", &[]), (true, false, true));
    assert_eq!(convert("c", &["--user", "root"]), (false, true, false));
}

#[test]
fn privileged_an_ordinary_user_makes_no_copy_that_another_user_can_read() {
    let Some(test) = Test::of_ordinary_user(&[]) else { return };
    plant(&test);
    let mode = |path: &Path| std::fs::metadata(path).unwrap();
    let out = ["modules", "convert", "--to", "rc", "one", "--no-verify", "--out"];
    // A file that every user may read may belong to any user.
    test.quell(&[&out[..], &["new"]].concat()).succeeds();
    let file = test.path("one/foo/2.0");
    chown(&file, Some(65534), Some(60)).unwrap();
    test.mode("one/foo/2.0", 0o640);
    test.quell(&[&out[..], &["closed"]].concat());
    let refused = test.quell(&[&out[..], &["other"]].concat());
    assert_eq!(refused.code(), 2, "{refused}");
    assert!(
        refused.stderr.contains("`[DIR]/one/foo/2.0` has an owner or group that this user cannot give"),
        "{refused}"
    );
    assert!(!test.path("other").exists());
    // A member of the group can give the file to the group.
    let member = ["setpriv", "--reuid", "65534", "--regid", "65534", "--groups", "60", "--"];
    let words: Vec<&str> = [&member[..], &[*crate::harness::QUELL], &out, &["other"]].concat();
    let mut command = std::process::Command::new(words[0]);
    command.args(&words[1..]).current_dir(test.path("")).env_clear();
    let made = test.finish(command);
    assert_eq!(made.code(), 0, "{made}");
    use std::os::unix::fs::MetadataExt;
    let copy = mode(&test.path("other/one/foo/2.0"));
    assert_eq!((copy.gid(), copy.mode() & 0o777), (60, 0o640));
    // In place, another user's file would become ours.
    chown(&file, Some(0), Some(0)).unwrap();
    test.mode("one/foo/2.0", 0o644);
    let refused = test.quell(&["modules", "convert", "--to", "rc", "one", "--no-verify", "--in-place"]);
    assert!(refused.stderr.contains("`[DIR]/one/foo/2.0` has an owner"), "{refused}");
    assert!(!test.path("one.quell-new").exists());
}

/// Runs quell and kills it at the n-th call that changes a name.
fn killed_at(test: &Test, number: usize, words: &[&str]) -> Outcome {
    let calls = "linkat,unlinkat,renameat,renameat2,unlink,rename";
    let kill = format!("inject={calls}:signal=KILL:when={number}");
    let trace = format!("trace={calls}");
    let command = ["strace", "-f", "-o", "/dev/null", "-e", &trace, "-e", &kill, *crate::harness::QUELL];
    test.run(&[&command[..], words].concat())
}

#[test]
fn privileged_wherever_a_build_of_a_cache_is_killed_it_can_be_undone() {
    let Some(test) = Test::privileged(&[Need::Program("strace"), Need::Ptrace]) else { return };
    let (Some(modules), Some(lmod)) = (tool("modules-5.7.0"), tool("lmod-8.7.60")) else { return };
    plant(&test);
    // Caches that the tools made without quell are there before.
    test.write("one/.modulecache", "#%Module5.5\n");
    test.write("cache/spiderT.lua", "-- theirs\n");
    test.write("cache/timestamp", "");
    let before = test.files();
    let state = || ["one/.modulecache", "cache/spiderT.lua"].map(|name| test.read_text(name));
    let contents = state();
    let build = |to: &'static str, tool: &str, more: &[&'static str]| -> Vec<String> {
        let words = ["modules", "convert", "--to", to, "--no-verify", "--tools", tool, "one"];
        words.iter().chain(more).map(|word| (*word).to_owned()).collect()
    };
    let builds = [
        (build("cache", &modules, &[]), "one/.modulecache"),
        (build("lmod-cache", &lmod, &["--out", "cache"]), "cache/quell-cache.json"),
    ];
    for (words, record) in &builds {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let undo = ["modules", "convert", "--undo", record];
        let is_undone = || {
            let names = test.files().into_iter().filter(|name| !name.contains(".quell-cache-"));
            names.filter(|name| !name.ends_with("quell-lock")).collect::<Vec<_>>() == before
        };
        for number in 1.. {
            let killed = killed_at(&test, number, &words);
            // A file that quell was writing goes with the next build.
            test.quell(&words).succeeds();
            for number in 1.. {
                if killed_at(&test, number, &undo).code() != 137 {
                    break;
                }
            }
            if !is_undone() {
                test.quell(&undo).succeeds();
            }
            assert!(is_undone(), "{words:?} {number}: {:?}", test.files());
            assert_eq!(state(), contents, "{words:?} {number}");
            if killed.code() == 0 {
                break;
            }
        }
    }
}
