//! `quell modules`, run by root on trees of another user. Root evaluates nothing that the other user wrote, follows no link
//! that the other user planted, and no lock of the other user stops it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::{Need, Outcome, Test, skip};
use crate::modules_tools::tool;

/// The other user. No system gives this number a name.
const STRANGER: u32 = 12345;

/// A file that only root may read.
const SECRET: &str = "s3cret-of-root";

/// A tree `m` of the other user. Each of its files appends to `who` the user and groups as which it is evaluated.
fn strangers(needs: &[Need]) -> Option<Test> {
    let test = Test::privileged(&[&[Need::Root, Need::Program("setpriv")], needs].concat())?;
    test.write_mode("who", "", 0o666);
    test.write_mode("secret", format!("#%Module\nmodule-alias {SECRET} foo/1.0\n"), 0o600);
    let spy = spy(&test);
    for name in ["m/foo/1.0", "m/foo/2.0", "m/.modulerc", "m/foo/.modulerc"] {
        test.write(name, &spy);
    }
    give(&test, "m");
    Some(test)
}

fn spy(test: &Test) -> String {
    format!("#%Module\ncatch {{exec sh -c {{echo $(id -u) $(id -G) >>{}}}}}\n", test.text("who"))
}

/// A change that `--to rc` makes.
fn mergeable(test: &Test) {
    test.write("m/.modulerc", "#%Module\n");
    test.write("m/foo/.modulerc", "#%Module\nmodule-version ./2.0 sym\n");
}

fn give(test: &Test, name: &str) {
    let stranger = format!("{STRANGER}:{STRANGER}");
    test.run(&["chown", "-hR", &stranger, name]).succeeds();
}

/// The users and groups as which the tree was evaluated since the last call.
fn who(test: &Test) -> Vec<Vec<u32>> {
    let text = test.read_text("who");
    test.write_mode("who", "", 0o666);
    let line = |line: &str| line.split(' ').map(|number| number.parse().unwrap()).collect();
    let mut found: Vec<Vec<u32>> = text.lines().map(line).collect();
    found.sort();
    found.dedup();
    found
}

#[track_caller]
fn not_as_root(test: &Test) {
    let who = who(test);
    assert!(!who.is_empty(), "nothing was evaluated, which proves nothing");
    assert!(who.iter().all(|ids| !ids.contains(&0)), "{who:?}");
}

/// A process of the other user. It is killed when this is dropped.
struct Stranger(Child);

impl Stranger {
    fn runs(test: &Test, script: &str) -> Self {
        let id = STRANGER.to_string();
        let words = ["--reuid", &id, "--regid", &id, "--clear-groups", "--", "sh", "-c", script];
        let mut command = Command::new("setpriv");
        command.args(words).current_dir(test.path("")).stdin(Stdio::null()).stdout(Stdio::piped());
        command.process_group(0).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Waits for a line of its output.
    fn says_something(mut self) -> Self {
        let mut byte = [0];
        std::io::Read::read_exact(self.0.stdout.as_mut().unwrap(), &mut byte).unwrap();
        self
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        _ = self.0.wait();
    }
}

#[test]
fn privileged_what_a_modulefile_plants_in_the_work_directory_is_not_followed() {
    for prefix in ["modules-5.7.0", "lmod-8.7.60"] {
        let Some(prefix) = tool(prefix) else { return };
        let Some(test) = strangers(&[Need::Ptrace]) else { return };
        std::fs::remove_file(test.path("m/.modulerc")).unwrap();
        std::fs::remove_file(test.path("m/foo/.modulerc")).unwrap();
        std::fs::create_dir(test.path("victim")).unwrap();
        test.mode("victim", 0o700);
        test.write_mode("victim/file", "kept", 0o600);
        let (victim, file) = (test.text("victim"), test.text("victim/file"));
        let plant = format!(
            "{}set work [file dirname [file dirname $env(MODULEPATH)]]\n\
             foreach name {{recordings rc eval virtual cache lmod-cache}} {{\n\
               catch {{exec ln -sn {victim} $work/$name}}\n}}\n\
             catch {{exec ln -sfn {file} $work/without-library.tcl}}\n\
             catch {{\n\
               foreach made [glob $work/recordings/*] {{\n\
                 catch {{exec rm -rf $made}}\n\
                 catch {{exec ln -sfn {victim} $made}}\n}}\n}}\n",
            spy(&test)
        );
        test.write("m/foo/1.0", &plant);
        test.write("m/foo/2.0", &plant);
        give(&test, "m");
        for user in ["nobody", "12345"] {
            let words =
                ["modules", "measure", "--runs", "1", "--tools", &prefix, "--work", ".", "--user", user, "m"];
            test.quell(&words);
            not_as_root(&test);
            let metadata = test.path("victim").metadata().unwrap();
            assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (0, 0o700), "{prefix} {user}");
            assert_eq!(test.read_text("victim/file"), "kept");
            assert_eq!(test.path("victim").read_dir().unwrap().count(), 1);
            assert!(test.files().iter().all(|name| !name.contains("quell-modules-")), "{:?}", test.files());
        }
    }
}

#[test]
fn privileged_root_measures_in_no_directory_of_others() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = strangers(&[Need::Ptrace]) else { return };
    std::fs::create_dir(test.path("work")).unwrap();
    give(&test, "work");
    let refused = test.quell(&["modules", "measure", "--tools", &prefix, "--work", "work", "m"]);
    assert!(
        refused.code() == 2 && refused.stderr.contains("other users can change `[DIR]/work`"),
        "{refused}"
    );
    assert_eq!(test.run(&["ls", "-A", "work"]).succeeds(), "");
}

#[test]
fn privileged_what_others_wrote_is_not_evaluated_as_root_when_a_cache_is_built() {
    for (prefix, to) in
        [("modules-5.7.0", "cache"), ("lmod-8.6.19", "lmod-cache"), ("lmod-8.7.60", "lmod-cache")]
    {
        let Some(prefix) = tool(prefix) else { return };
        let Some(test) = strangers(&[]) else { return };
        let mut build = vec!["modules", "convert", "--to", to, "--tools", &prefix, "m"];
        if to == "lmod-cache" {
            build.extend(["--out", "out"]);
        }
        test.quell(&build).succeeds();
        not_as_root(&test);
        let again =
            test.quell(&[&["modules", "check"][..], &[if to == "cache" { "m" } else { "out" }]].concat());
        assert_eq!(again.code(), 0, "{again}");
        // A tree of root's, below a directory in which other users can exchange it.
        std::fs::create_dir(test.path("theirs")).unwrap();
        test.run(&["cp", "-r", "m", "theirs/m"]).succeeds();
        test.run(&["rm", "-f", "theirs/m/.modulecache"]).succeeds();
        chown(test.path("theirs"), Some(STRANGER), None).unwrap();
        *build.iter_mut().find(|word| **word == "m").unwrap() = "theirs/m";
        test.quell(&[&build[..], &["--no-verify"]].concat());
        not_as_root(&test);
        // A closed tree: no user without rights can enter it.
        test.run(&["rm", "-f", "theirs/m/.modulecache"]).succeeds();
        test.mode("theirs", 0o700);
        let out = [&build[..], &["--no-verify", "--json"]].concat();
        let refused = test.quell(&out);
        assert_ne!(refused.code(), 0, "{refused}");
        assert!(who(&test).is_empty(), "{refused}");
    }
}

#[test]
fn privileged_what_all_users_of_lmod_evaluate_holds_no_code_of_others() {
    let Some(prefix) = tool("lmod-8.7.60") else { return };
    let Some(test) = strangers(&[]) else { return };
    let mark = test.text("mark");
    let brackets: String = (1..9).map(|level| format!("[{0}[]{0}]", "=".repeat(level))).collect();
    let help = format!("a\\n]] .. os.execute('touch {mark}') .. [[ {brackets} ");
    test.write("m/bar/1.0.lua", format!("help(\"{help}\")\n"));
    give(&test, "m");
    let words = ["modules", "convert", "--to", "lmod-cache", "--tools", &prefix, "--out", "out", "m"];
    let refused = test.quell(&words);
    assert!(
        refused.code() == 2 && refused.stderr.contains("must not be evaluated by every user"),
        "{refused}"
    );
    assert!(!test.path("mark").exists() && !test.path("out/spiderT.lua").exists());
}

#[test]
fn privileged_a_cache_is_written_behind_no_link_of_others() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = strangers(&[]) else { return };
    let build = ["modules", "convert", "--to", "cache", "--no-verify", "--tools", &prefix, "m"];
    test.write_mode("victim", "kept", 0o600);
    symlink(test.path("victim"), test.path("m/.modulecache")).unwrap();
    give(&test, "m/.modulecache");
    test.quell(&build);
    assert_eq!(test.read_text("victim"), "kept");
    std::fs::create_dir(test.path("elsewhere")).unwrap();
    give(&test, "elsewhere");
    let out = test.quell(&[&build[..], &["--out", "elsewhere"]].concat());
    assert!(out.code() == 2 && out.stderr.contains("other users can change `[DIR]/elsewhere`"), "{out}");
}

#[test]
fn privileged_an_owner_of_a_tree_does_not_choose_with_which_rights_it_is_evaluated() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = strangers(&[Need::Program("setfacl")]) else { return };
    let (group, user) = (4242, 4343);
    test.mode("m/foo/1.0", 0o640);
    for (name, rule) in [
        ("m/foo/1.0", format!("g:{group}:r")),
        ("m/foo/2.0", format!("u:{user}:---")),
        // The next number that no file has.
        ("m/.modulerc", "u:65534:r,g:65534:r".to_owned()),
    ] {
        if test.run(&["setfacl", "-m", &rule, name]).code() != 0 {
            return skip("setfacl cannot set a list here").unwrap_or(());
        }
    }
    test.write_mode("closed", "", 0o640);
    chown(test.path("closed"), Some(0), Some(group + 1)).unwrap();
    symlink(test.path("closed"), test.path("m/foo/3.0")).unwrap();
    test.run(&["cp", "-a", "m", "n"]).succeeds();
    let may = |ids: &[u32]| matches!(ids[0], STRANGER | 65534) || ids[0] > 4_000_000_000;
    let no_group = |ids: &[u32]| ids[1..].iter().all(|id| *id == 65534 || *id > 4_000_000_000);
    for words in [
        &["modules", "verify", "--tools", &prefix, "m", "n"][..],
        &["modules", "convert", "--to", "rc", "--tools", &prefix, "m", "--out", "out"],
        &["modules", "convert", "--to", "cache", "--tools", &prefix, "m"],
    ] {
        let outcome = test.quell(words);
        let told = outcome.stdout.clone() + &outcome.stderr;
        let who = who(&test);
        assert!(!who.is_empty(), "{outcome}");
        assert!(who.iter().all(|ids| may(ids) && no_group(ids)), "{who:?}");
        assert!(
            told.contains("not asked: ") && told.contains(&format!("--group {}", group + 1)),
            "{outcome}"
        );
    }
    test.quell(&["modules", "verify", "--tools", &prefix, "--group", &group.to_string(), "m", "n"]);
    let who = who(&test);
    assert!(who.iter().any(|ids| ids.contains(&group)) && !who.iter().any(|ids| ids[0] == 0), "{who:?}");
}

#[test]
fn privileged_a_link_of_others_is_followed_with_their_rights() {
    let Some(test) = strangers(&[]) else { return };
    test.write_mode("closed/dir/1.0", format!("#%Module\nmodule-version ./2.0 {SECRET}\n"), 0o644);
    test.mode("closed", 0o700);
    for name in ["m/.modulerc", "m/foo/.modulerc"] {
        std::fs::remove_file(test.path(name)).unwrap();
    }
    symlink(test.path("closed/dir/1.0"), test.path("m/foo/.modulerc")).unwrap();
    symlink(test.path("secret"), test.path("m/.version")).unwrap();
    symlink(test.path("closed/dir"), test.path("m/bar")).unwrap();
    symlink("/dev/zero", test.path("m/foo/zero")).unwrap();
    symlink("/dev/tty", test.path("m/foo/tty")).unwrap();
    test.run(&["mkfifo", "m/foo/pipe"]).succeeds();
    test.run(&["truncate", "-s", "1T", "m/foo/huge"]).succeeds();
    give(&test, "m");
    for words in [
        &["modules", "audit", "--json", "m"][..],
        &["modules", "check", "m"],
        &["modules", "convert", "--to", "rc", "--dry-run", "m"],
        &["modules", "convert", "--to", "eval", "--dry-run", "m"],
        &["modules", "convert", "--to", "cache", "--dry-run", "m"],
    ] {
        let outcome = test.quell(words);
        assert!(!(outcome.stdout.clone() + &outcome.stderr).contains(SECRET), "{words:?} {outcome}");
    }
}

#[test]
fn privileged_a_relative_path_leads_behind_a_link_of_others_as_little_as_an_absolute_one() {
    let Some(test) = strangers(&[]) else { return };
    test.write_mode("closed/cache/spiderT.lua", "", 0o644);
    test.mode("closed", 0o700);
    symlink(test.path("closed/cache"), test.path("m/cache")).unwrap();
    give(&test, "m");
    for cache in ["m/cache", "./closed/../m/cache", &test.text("m/cache")] {
        let outcome = test.quell(&["modules", "audit", "--lmod-cache", cache, "m"]);
        assert!(outcome.code() == 2 && outcome.stderr.contains("ermission denied"), "{cache} {outcome}");
    }
}

#[test]
fn privileged_what_is_exchanged_while_it_is_copied_is_not_published() {
    let Some(test) = strangers(&[Need::Program("python3")]) else { return };
    let exchange = "import ctypes\n\
                    print('begun', flush=True)\n\
                    rename, f, g = ctypes.CDLL(None).renameat2, b'm/.git/d/f', b'm/.git/d/g'\n\
                    while True: rename(-100, f, -100, g, 2)\n";
    // A scan leaves this directory out, so a change of it does not end a conversion.
    test.write("m/.git/d/f", "");
    symlink(test.path("secret"), test.path("m/.git/d/g")).unwrap();
    test.write_mode("closed/1.0", format!("#%Module\n# {SECRET}\n"), 0o600);
    test.mode("closed", 0o700);
    mergeable(&test);
    give(&test, "m");
    test.write("exchange.py", exchange);
    let stranger = Stranger::runs(&test, "PATH=/usr/bin:/bin exec python3 exchange.py").says_something();
    for number in 0..40 {
        let out = format!("out{number}");
        test.quell(&["-q", "modules", "convert", "--to", "rc", "--no-verify", "m", "--out", &out]);
    }
    drop(stranger);
    let found = test.run(&["sh", "-c", &format!("grep -rl {SECRET} out* || true")]).succeeds();
    assert_eq!(found, "");
}

#[test]
fn privileged_what_is_planted_beside_a_tree_is_not_followed() {
    let Some(test) = strangers(&[]) else { return };
    let convert = |test: &Test, more: &[&str]| {
        let words = ["modules", "convert", "--to", "rc", "--no-verify"];
        test.quell(&[&words[..], more].concat())
    };
    #[track_caller]
    fn refused(outcome: &Outcome) {
        let is_told = outcome.stderr.contains("other users can change") && outcome.stderr.contains("hint: ");
        assert!(outcome.code() == 2 && is_told, "{outcome}");
    }
    mergeable(&test);
    std::fs::create_dir(test.path("theirs")).unwrap();
    test.run(&["cp", "-a", "m", "theirs/m"]).succeeds();
    std::fs::create_dir(test.path("victim")).unwrap();
    symlink(test.path("victim"), test.path("theirs/m.quell-new")).unwrap();
    symlink(test.path("victim/record"), test.path("theirs/m.quell-plan.json")).unwrap();
    symlink(test.path("victim"), test.path("theirs/out")).unwrap();
    give(&test, "theirs");
    refused(&convert(&test, &["--in-place", "theirs/m"]));
    refused(&convert(&test, &["m", "--out", "theirs/out"]));
    refused(&convert(&test, &["m", "--out", "theirs/new"]));
    // A directory for all users, in which each has entries.
    std::fs::create_dir(test.path("shared")).unwrap();
    test.mode("shared", 0o1777);
    std::fs::create_dir(test.path("shared/theirs")).unwrap();
    symlink(test.path("victim"), test.path("shared/link")).unwrap();
    give(&test, "shared/theirs");
    lchown(test.path("shared/link"), Some(STRANGER), None).unwrap();
    refused(&convert(&test, &["m", "--out", "shared/theirs"]));
    refused(&convert(&test, &["m", "--out", "shared/link/new"]));
    assert_eq!(convert(&test, &["m", "--out", "shared/new"]).code(), 0);
    assert_eq!(test.run(&["ls", "-A", "victim"]).succeeds(), "");
    // A tree of the other user, in a directory of root's.
    assert_eq!(convert(&test, &["--in-place", "m"]).code(), 0);
    assert_eq!(test.path("m").metadata().unwrap().uid(), STRANGER);
    assert_eq!(test.quell(&["modules", "convert", "--undo", "m"]).code(), 0);
}

#[test]
fn privileged_a_record_of_others_makes_root_do_nothing() {
    let Some(test) = strangers(&[]) else { return };
    mergeable(&test);
    give(&test, "m");
    let convert = ["modules", "convert", "--to", "rc", "--no-verify", "m", "--out"];
    test.quell(&[&convert[..], &["out"]].concat()).succeeds();
    let record = test.read_text("out/quell-plan.json");
    let tree = |name: &str| test.path(name).join("m/foo/1.0").is_file();
    let undone = |what: &str| test.quell(&["modules", "convert", "--undo", what]);
    // A directory in which the other user may write.
    test.run(&["cp", "-a", "out", "shared"]).succeeds();
    test.mode("shared", 0o1777);
    chown(test.path("shared/quell-plan.json"), Some(STRANGER), None).unwrap();
    let forged = record.replace("/out/", "/shared/");
    std::fs::write(test.path("shared/quell-plan.json"), &forged).unwrap();
    let refused = undone("shared");
    assert!(refused.code() == 2 && refused.stderr.contains("another user made it"), "{refused}");
    // A record of root's in which other users may write.
    chown(test.path("shared/quell-plan.json"), Some(0), None).unwrap();
    test.mode("shared/quell-plan.json", 0o666);
    let refused = undone("shared");
    assert!(refused.code() == 2 && refused.stderr.contains("other users may write in it"), "{refused}");
    // A record of root's in a directory of the other user, and that user's link to a record of root's.
    test.run(&["cp", "-a", "out", "theirs"]).succeeds();
    std::fs::write(test.path("theirs/quell-plan.json"), record.replace("/out/", "/theirs/")).unwrap();
    chown(test.path("theirs"), Some(STRANGER), None).unwrap();
    assert_eq!(undone("theirs").code(), 2);
    symlink(test.path("out/quell-plan.json"), test.path("shared/other.json")).unwrap();
    assert_eq!(undone("shared/other.json").code(), 2);
    assert!(tree("shared") && tree("theirs") && tree("out"));
    // With any umask only root may write root's record, and it can be undone.
    assert_eq!(test.path("out/quell-plan.json").metadata().unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(undone("out").code(), 0);
    assert!(!test.path("out").join("m").exists());
}

#[test]
fn privileged_a_lock_of_others_stops_nothing() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(lmod) = tool("lmod-8.7.60") else { return };
    let Some(test) = strangers(&[Need::Program("flock")]) else { return };
    mergeable(&test);
    give(&test, "m");
    for name in ["out", "caches", "lmod"] {
        std::fs::create_dir(test.path(name)).unwrap();
    }
    let hold = "flock m sh -c 'flock out sh -c \"flock caches sh -c \\\"flock lmod sh -c \\\\\\\"echo held; sleep 600\\\\\\\"\\\"\"'";
    let _stranger = Stranger::runs(&test, &format!("exec {hold}")).says_something();
    for words in [
        &["--to", "rc", "--no-verify", "m", "--out", "out"][..],
        &["--undo", "out"],
        &["--to", "rc", "--no-verify", "--in-place", "m"],
        &["--undo", "m"],
        &["--to", "cache", "--no-verify", "--tools", &prefix, "m"],
        &["--to", "cache", "--no-verify", "--tools", &prefix, "m", "--out", "caches"],
        &["--to", "lmod-cache", "--no-verify", "--tools", &lmod, "m", "--out", "lmod"],
    ] {
        let outcome = test.quell(&[&["modules", "convert"][..], words].concat());
        assert_eq!(outcome.code(), 0, "{words:?} {outcome}");
    }
    assert!(test.files().iter().all(|name| !name.contains("quell-lock")), "{:?}", test.files());
}

#[test]
fn privileged_a_tool_of_others_is_not_started_as_root() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = strangers(&[]) else { return };
    for name in ["m/.modulerc", "m/foo/.modulerc", "m/foo/1.0", "m/foo/2.0"] {
        test.write(name, "#%Module\n");
    }
    test.run(&["chown", "-R", "0:0", "m"]).succeeds();
    let text = format!(
        "#!/usr/bin/tclsh\ncatch {{exec sh -c {{echo $(id -u) $(id -G) >>{}}}}}\nset argv0 {prefix}/modulecmd.tcl\nsource {}\n",
        test.text("who"),
        modulecmd(&prefix)
    );
    test.write_mode("tools/modulecmd.tcl", text, 0o755);
    give(&test, "tools");
    test.run(&["cp", "-a", "m", "n"]).succeeds();
    test.quell(&["modules", "verify", "--tools", "tools/modulecmd.tcl", "m", "n"]);
    not_as_root(&test);
}

fn modulecmd(prefix: &str) -> String {
    let found = Command::new("find").args([prefix, "-name", "modulecmd.tcl"]).output().unwrap();
    let text = String::from_utf8(found.stdout).unwrap();
    let first = text.lines().next().unwrap().to_owned();
    assert!(Path::new(&first).is_file());
    first
}
