//! `quell run --auto`: one word, and never a reason to regret it.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::harness::{Need, Outcome, QUELL, Test, User, snapshot, wait_until};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace];

/// A program that looks for many names, reads a file of its argument, and ends as its second argument says.
const PROGRAM: &str = "#!/bin/sh\n\
    cd \"${0%/*}/..\"\n\
    n=0\n\
    while [ $n -lt 300 ]; do test -e lib/absent$n && echo no; n=$((n + 1)); done\n\
    cat lib/$1.txt\n\
    echo \"arguments: $*\"\n\
    case $2 in kill) kill -TERM $$;; '') ;; *) exit $2;; esac\n";

fn plant(test: &Test) {
    test.write_mode("env/bin/app", PROGRAM, 0o755);
    for number in 0..10 {
        test.write(&format!("env/lib/{number}.txt"), format!("content {number}\n"));
    }
}

/// A program that goes on after its start until a file appears beside its tree.
const LONG: &str = "#!/bin/sh\n\
    cd \"${0%/*}/..\"\n\
    n=0\n\
    while [ $n -lt 300 ]; do test -e lib/absent$n && echo no; n=$((n + 1)); done\n\
    while ! test -e ../go; do sleep 0.2; done\n\
    exit 9\n";

/// Runs a line with `$auto`, the beginning of a command with the test's cache.
fn auto(test: &Test, line: &str) -> Outcome {
    test.script(&format!("export QUELL_CACHE=$PWD/cache; auto=\"$quell run --auto --root env\"; {line}"))
}

/// The entries of the cache.
fn entries(test: &Test) -> Vec<PathBuf> {
    let names = std::fs::read_dir(test.path("cache")).into_iter().flatten();
    let mut paths: Vec<PathBuf> = names.map(|name| name.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The target of the only entry's `current`.
fn current(test: &Test) -> Option<String> {
    let [entry] = &entries(test)[..] else { return None };
    Some(std::fs::read_link(entry.join("current")).ok()?.to_str().unwrap().to_owned())
}

fn until_there_is_an_image(test: &Test) {
    wait_until("an image was made", || current(test).is_some_and(|name| name.starts_with("image-")));
    test.silence();
}

/// The first run, and the image that is made of it.
fn first(test: &Test) {
    plant(test);
    auto(test, "$auto -- env/bin/app 0").succeeds();
    until_there_is_an_image(test);
}

/// Operations that a run sent on to the originals; `None` for one that was plain.
fn originals(test: &Test, arguments: &str) -> Option<u64> {
    auto(test, &format!("$auto --stats stats.json -- env/bin/app {arguments}")).succeeds();
    let stats: Value = serde_json::from_slice(&test.read("stats.json")).unwrap();
    let counts = stats["original"].as_object().unwrap().values();
    (stats["mode"] != "off").then(|| counts.map(|count| count.as_u64().unwrap()).sum())
}

#[test]
fn privileged_the_first_start_is_recorded_and_later_ones_come_from_the_image() {
    for test in [Test::privileged(ALL), Test::of_ordinary_user(ALL)].into_iter().flatten() {
        first(&test);
        assert_eq!(originals(&test, "0"), Some(0));
        let entry = entries(&test).pop().unwrap();
        assert_eq!(std::fs::metadata(test.path("cache")).unwrap().mode() & 0o777, 0o700);
        let mut names: Vec<_> = std::fs::read_dir(entry)
            .unwrap()
            .map(|name| name.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["about.json", "current", "image-1.qimg", "log", "used"]);
    }
}

/// The recording ends with the start: the image is there while the first job still runs, and later jobs use it at once.
#[test]
fn privileged_a_long_job_leaves_its_image_when_it_has_started() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    test.write_mode("env/bin/app", LONG, 0o755);
    let mut shell = test.shell("QUELL_CACHE=$PWD/cache exec $quell run --auto --root env -- env/bin/app");
    let mut job = shell.spawn().unwrap();
    wait_until("an image was made", || current(&test).is_some_and(|name| name.starts_with("image-")));
    assert!(job.try_wait().unwrap().is_none(), "it still runs");
    test.write("go", "");
    assert_eq!(job.wait().unwrap().code(), Some(9));
    test.silence();
    assert_eq!(auto(&test, "$auto -- env/bin/app").code(), 9);
}

/// With `--auto` no image comes first: what follows the program is the program's.
#[test]
fn the_separator_may_be_left_out() {
    let test = Test::new();
    let run = |line: &str| test.script(&format!("QUELL_AUTO=0 $quell run {line}")).succeeds();
    assert_eq!(run("--auto echo a"), "a\n");
    assert_eq!(run("--auto sh -c 'echo $0 $1' --explain --help"), "--explain --help\n");
    assert_eq!(run("--cache . --auto --root=. --root env printf '%s ' --version -- -q"), "--version -- -q ");
    assert_eq!(run("--auto echo -- a"), "a\n");
    assert_eq!(run("--auto -- echo -- a"), "-- a\n");
    assert_eq!(test.quell(&["run", "--auto", "--root"]).code(), 125);
}

/// The recording ends before a process does what a traced process may not do.
#[test]
fn privileged_a_first_command_may_trace_and_gain_privileges() {
    let needs = [Need::Root, Need::Fuse, Need::Ptrace, Need::Program("strace"), Need::Program("id")];
    let Some(test) = Test::of_ordinary_user(&needs) else { return };
    plant(&test);
    test.script("cp $(command -v id) suid").succeeds();
    std::os::unix::fs::chown(test.path("suid"), Some(0), Some(0)).unwrap();
    test.mode("suid", 0o4755);
    let script =
        "strace -qq -o /dev/null ../suid -u; ../suid -u; cd ../env; ../suid -ur; exec $OLDPWD/../suid -u\n";
    for script in [script.to_owned(), script.replace("strace -qq -o /dev/null ", "")] {
        test.write_mode(
            "env/bin/app",
            PROGRAM.replace("case $2", &format!("cd lib; {script}case $2")),
            0o755,
        );
        let plain = test.script("env/bin/app 0");
        assert_eq!(auto(&test, "$quell cache prune --all > /dev/null; $auto -- env/bin/app 0"), plain);
        until_there_is_an_image(&test);
    }
}

/// A tracer of one run decides nothing for the next.
#[test]
fn privileged_a_traced_run_is_plain_and_the_next_is_recorded() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Ptrace, Need::Program("strace")]) else { return };
    plant(&test);
    let traced = auto(&test, "strace -f -qq -o /dev/null $auto -- env/bin/app 0");
    assert_eq!(traced.stderr, "");
    assert_eq!(traced.succeeds(), "content 0\narguments: 0\n");
    auto(&test, "$auto -- env/bin/app 0").succeeds();
    until_there_is_an_image(&test);
}

/// A daemon that the first command leaves behind delays nothing, and is not touched.
#[test]
fn privileged_a_first_command_that_leaves_a_daemon_ends_by_itself() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    let daemon = "(while ! test -e ended; do :; done; : > outlived) > /dev/null 2>&1 < /dev/null & exit 4\n";
    test.write_mode("env/bin/app", PROGRAM.replace("case $2", &format!("cd ..; {daemon}case $2")), 0o755);
    // The daemon waits until quell has ended, and would be waited for.
    assert_eq!(auto(&test, "$auto -- env/bin/app 0; code=$?; : > ended; exit $code").code(), 4);
    wait_until("the daemon went on", || test.path("outlived").exists());
    until_there_is_an_image(&test);
}

/// Recorded, from the image and plain, a command says and does the same.
#[test]
fn privileged_a_command_behaves_as_without_quell() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    for arguments in ["0 7", "0 kill", "none 3"] {
        let plain = test.script(&format!("env/bin/app {arguments}"));
        for run in ["recorded", "from the image"] {
            assert_eq!(
                auto(&test, &format!("$auto -- env/bin/app {arguments}")),
                plain,
                "{run}, {arguments}"
            );
            until_there_is_an_image(&test);
        }
        auto(&test, "$quell cache prune --all").succeeds();
    }
    let killed = auto(&test, "exec $auto -- env/bin/app 0 kill");
    assert_eq!(killed.code(), 128 + 15);
    let absent = auto(&test, "$auto -- no-such-command");
    assert_eq!(absent.code(), 127);
    assert_eq!(auto(&test, "$auto -- env/lib/0.txt").code(), 126);
}

#[test]
fn privileged_jobs_with_fifty_different_arguments_share_an_image_that_learns() {
    let Some(test) = Test::privileged(ALL) else { return };
    first(&test);
    for number in 0..50 {
        let said = auto(&test, &format!("$auto -- env/bin/app {} 0 more{number}", number % 10)).succeeds();
        assert_eq!(said, format!("content {0}\narguments: {0} 0 more{number}\n", number % 10));
    }
    assert_eq!(entries(&test).len(), 1);
    let images = || {
        let names = std::fs::read_dir(entries(&test).pop().unwrap()).unwrap();
        names.filter(|name| name.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".qimg")).count()
    };
    assert!(images() <= 2);
}

/// A run that needs much that the image lacks teaches it.
#[test]
fn privileged_what_runs_ask_of_the_originals_is_taken_in() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    let program = "#!/bin/sh\ncd \"${0%/*}/..\"\nn=0\n\
        while [ $n -lt 300 ]; do test -e lib/absent$n; n=$((n + 1)); done\n\
        n=0; while [ $n -lt $1 ]; do cat more/$n/file; n=$((n + 1)); done\n";
    test.write_mode("env/bin/app", program, 0o755);
    for number in 0..40 {
        test.write(&format!("env/more/{number}/file"), format!("{number}\n"));
    }
    auto(&test, "$auto -- env/bin/app 1").succeeds();
    until_there_is_an_image(&test);
    assert!(originals(&test, "40").is_some_and(|count| count > 40));
    test.silence();
    auto(&test, "$auto -- env/bin/app 40").succeeds();
    wait_until("the image has learned", || current(&test).is_some_and(|name| name == "image-2.qimg"));
    test.silence();
    assert_eq!(originals(&test, "40"), Some(0));
    assert_eq!(originals(&test, "1"), Some(0));
}

#[test]
fn privileged_of_two_hundred_processes_at_once_one_records_and_none_fails() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    let many =
        "n=0; while [ $n -lt 200 ]; do { $auto -- env/bin/app 0 || echo failed; } & n=$((n + 1)); done; wait";
    for _ in 0..2 {
        let said = auto(&test, many);
        assert_eq!(said.stderr, "");
        for line in ["content 0\n", "arguments: 0\n"] {
            assert_eq!(said.stdout.matches(line).count(), 200, "{said}");
        }
        until_there_is_an_image(&test);
    }
    let [entry] = &entries(&test)[..] else { panic!("one program has one entry") };
    let log = std::fs::read_to_string(entry.join("log")).unwrap();
    // On a busy machine the recorded start may end early. A later run then teaches a second image.
    assert_eq!(log.matches("made image-1.qimg").count(), 1, "{log}");
}

#[test]
fn privileged_an_edited_program_is_always_seen() {
    let Some(test) = Test::privileged(ALL) else { return };
    first(&test);
    test.write_mode("env/bin/app", PROGRAM.replace("arguments:", "words:"), 0o755);
    let said = auto(&test, "$auto --stats s.json -- env/bin/app 0");
    assert_eq!(
        said.stderr,
        "quell: 1 entry has changed and comes from the originals; the image is made anew\n"
    );
    assert_eq!(said.succeeds(), "content 0\nwords: 0\n");
    let stats: Value = serde_json::from_slice(&test.read("s.json")).unwrap();
    assert_eq!(stats["mode"], "mount", "the rest comes from the image");
    wait_until("the image was made anew", || current(&test).is_some_and(|name| name == "image-2.qimg"));
    test.silence();
    assert_eq!(originals(&test, "0"), Some(0));
    assert!(auto(&test, "$auto -- env/bin/app 0").succeeds().contains("words: 0"));
}

/// Each job writes its output beside the program, which lists that directory: no news, and no reason for another image.
#[test]
fn privileged_an_output_beside_the_program_changes_nothing() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    test.write_mode("env/bin/app", PROGRAM.replace("cat lib", "ls; cat lib"), 0o755);
    auto(&test, "$auto -- env/bin/app 0").succeeds();
    until_there_is_an_image(&test);
    for job in 1..4 {
        test.write(&format!("env/slurm-{job}.out"), "");
        let said = auto(&test, "$auto --stats stats.json -- env/bin/app 0");
        assert_eq!(said.stderr, "");
        assert!(said.succeeds().contains(&format!("slurm-{job}.out\n")));
        assert_eq!(test.read_json("stats.json")["mode"], "mount");
        test.silence();
        assert_eq!(current(&test).as_deref(), Some("image-1.qimg"));
    }
}

#[test]
fn privileged_a_program_that_is_not_worth_it_is_left_alone_and_told_so_once() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.write("env/few", "few\n");
    let run = || auto(&test, "$auto -- cat env/few");
    snapshot!(run(), @r"
    status 0
    --- stdout
    few
    ");
    wait_until("that is known", || current(&test).is_some());
    test.silence();
    snapshot!(run(), @r"
    status 0
    --- stdout
    few
    --- stderr
    quell: `--auto` leaves this program alone: it asks the given directories for 2 metadata operations, fewer than 200
    ");
    snapshot!(run(), @r"
    status 0
    --- stdout
    few
    ");
}

#[test]
fn the_list_names_a_program_that_is_left_alone_before_any_recording() {
    let test = Test::new();
    let cache = "export QUELL_CACHE=$PWD/cache";
    test.script(&format!("{cache}; $quell run --auto -- cat /dev/null")).succeeds();
    test.silence();
    let listed = test.script(&format!("{cache}; $quell cache ls")).succeeds();
    assert!(listed.contains(" in 1 program\n"), "{listed}");
    assert!(listed.lines().any(|line| line.ends_with("/cat")), "{listed}");
}

/// The tests' machine may have a network file system, so the program has mounts of its own, of which none is.
#[test]
fn privileged_a_node_without_a_network_file_system_is_told_what_works() {
    let Some(test) = Test::privileged(ALL) else { return };
    let hidden = "awk '$3 ~ /nfs|lustre|gpfs|9p|ceph|fuse/ { print $2 }' /proc/mounts | xargs -r umount -l";
    test.write("run", format!("{hidden}\nexec $quell run --auto --cache cache -- true\n"));
    let run = || test.script("exec unshare --mount sh run");
    snapshot!(run(), @"
    status 0
    --- stderr
    quell: `--auto` leaves this program alone: this node has no network file system
    hint: quell run --auto --root DIR -- CMD packs below DIR, whatever its file system
    ");
    snapshot!(run(), @"status 0");
}

#[test]
fn privileged_the_switch_runs_plain_and_makes_nothing() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    for switch in ["QUELL_AUTO=0", "QUELL_AUTO=off", "QUELL_DISABLE=1", "QUELL_MODE=off"] {
        auto(&test, &format!("{switch} $auto -- env/bin/app 0")).succeeds();
        assert!(!test.path("cache").exists(), "{switch}");
    }
}

#[test]
fn privileged_damage_is_put_aside_and_made_anew() {
    let Some(test) = Test::privileged(ALL) else { return };
    first(&test);
    let entry = entries(&test).pop().unwrap();
    let image = std::fs::File::options().write(true).open(entry.join("image-1.qimg")).unwrap();
    image.set_len(image.metadata().unwrap().len() / 2).unwrap();
    std::fs::write(entry.join("about.json"), "{\"program\": \"/b").unwrap();
    assert!(auto(&test, "$quell cache ls").succeeds().contains("(unknown)"));
    let said = auto(&test, "$auto -- env/bin/app 0");
    assert_eq!(said.stderr.lines().count(), 1, "{said}");
    assert_eq!(said.succeeds(), "content 0\narguments: 0\n");
    auto(&test, "$auto -- env/bin/app 0").succeeds();
    until_there_is_an_image(&test);
    assert_eq!(originals(&test, "0"), Some(0));
    std::fs::remove_file(entry.join(current(&test).unwrap())).unwrap();
    auto(&test, "$auto -- env/bin/app 0").succeeds();
    auto(&test, "$auto -- env/bin/app 0").succeeds();
    until_there_is_an_image(&test);
    assert_eq!(originals(&test, "0"), Some(0));
}

/// A cache that cannot be written to, or that others can: plain, with one line.
#[test]
fn privileged_a_cache_that_cannot_be_used_costs_one_line() {
    let Some(test) = Test::of_ordinary_user(ALL) else { return };
    plant(&test);
    let one_line = |line: &str| {
        let said = auto(&test, line);
        assert_eq!(said.stderr.lines().count(), 1, "{said}");
        let stderr = said.stderr.clone();
        assert_eq!(said.succeeds(), "content 0\narguments: 0\n");
        stderr
    };
    std::fs::create_dir_all(test.path("foreign/KEY")).unwrap();
    assert!(one_line("QUELL_CACHE=$PWD/foreign $auto -- env/bin/app 0").contains("user 0 owns"));
    assert!(one_line("QUELL_CACHE=$PWD/foreign/new $auto -- env/bin/app 0").contains("EACCES"));
    assert!(one_line("QUELL_CACHE=/proc/quell $auto -- env/bin/app 0").contains("cannot create"));
    assert!(one_line("unset QUELL_CACHE HOME; $auto -- env/bin/app 0").contains("HOME"));
    std::fs::create_dir(test.path("open")).unwrap();
    std::fs::set_permissions(test.path("open"), PermissionsExt::from_mode(0o777)).unwrap();
    assert!(
        one_line("QUELL_CACHE=$PWD/open/cache $auto -- env/bin/app 0").contains("other users can change")
    );
    test.write("home/x", "");
    symlink(test.path("open"), test.path("home/link")).unwrap();
    assert!(one_line("QUELL_CACHE=$PWD/home/link $auto -- env/bin/app 0").contains("user 0 owns"));
    assert!(test.path("open").read_dir().unwrap().next().is_none());
}

/// Another user has prepared the entry before, in a directory that both may write to.
#[test]
fn privileged_an_image_that_another_user_planted_is_not_used() {
    let Some(test) = Test::of_ordinary_user(ALL) else { return };
    plant(&test);
    auto(&test, "$auto -- env/bin/app 0").succeeds();
    until_there_is_an_image(&test);
    let [entry] = &entries(&test)[..] else { panic!("one entry") };
    let image = entry.join("image-1.qimg");
    std::os::unix::fs::chown(&image, Some(1), None).unwrap();
    let said = auto(&test, "$auto -- env/bin/app 0");
    assert!(said.stderr.contains("is not used"), "{said}");
    assert_eq!(said.succeeds(), "content 0\narguments: 0\n");
}

#[test]
fn privileged_on_a_full_disk_commands_run() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Ptrace, Need::Root]) else { return };
    plant(&test);
    for size in ["8k", "40k", "100k", "200k"] {
        let mount = "mkdir -p cache && chmod 700 cache && mount -t tmpfs -o mode=700,size=";
        let lines = format!(
            "{mount}{size} none cache && cat /dev/zero > cache/filler 2> /dev/null; truncate -s -{size} cache/filler; \
             for n in 1 2 3 4; do $auto -- env/bin/app 0 || echo failed; sleep 0.3; done"
        );
        let said = test.script(&format!(
            "unshare -m sh -c 'export QUELL_CACHE=$PWD/cache; auto=\"$quell run --auto --root env\"; {lines}'"
        ));
        let expected = "content 0\narguments: 0\n".repeat(4);
        assert_eq!(said.succeeds(), expected, "{size}");
        test.silence();
    }
}

#[test]
fn privileged_with_a_read_only_home_commands_run_and_one_line_says_so() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Ptrace, Need::Root]) else { return };
    plant(&test);
    let said = test.script(
        "mkdir home; unshare -m sh -c 'mount -t tmpfs -o ro none home; export HOME=$PWD/home; unset XDG_CACHE_HOME; \
         exec $quell run --auto --root env -- env/bin/app 0'",
    );
    assert!(said.stderr.contains("EROFS") && said.stderr.lines().count() == 1, "{said}");
    assert_eq!(said.succeeds(), "content 0\narguments: 0\n");
}

#[test]
fn privileged_the_cache_is_listed_and_pruned() {
    let Some(test) = Test::privileged(ALL) else { return };
    assert_eq!(auto(&test, "$quell cache path").succeeds(), "[DIR]/cache\n");
    snapshot!(auto(&test, "$quell cache ls; $quell cache prune --all"), @r"
    status 0
    --- stdout
    [DIR]/cache: [SIZE] in 0 programs
    0 programs removed, [SIZE]
    ");
    first(&test);
    auto(&test, "cp env/bin/app env/bin/other; $auto -- env/bin/other 0").succeeds();
    test.silence();
    let listed = auto(&test, "$quell cache ls").succeeds();
    assert!(listed.contains("[DIR]/env/bin/app\n") && listed.contains("[DIR]/env/bin/other\n"), "{listed}");
    snapshot!(auto(&test, "$quell cache prune --max 0"), @r"
    status 0
    --- stdout
    0 programs removed, [SIZE]
    --- stderr
    quell: 2 are in use and stay
    ");
    snapshot!(auto(&test, "$quell cache prune --older 1d; $quell cache prune --older 0"), @r"
    status 0
    --- stdout
    0 programs removed, [SIZE]
    2 programs removed, [SIZE]
    ");
    assert!(entries(&test).is_empty());
    assert_eq!(auto(&test, "$quell cache prune").code(), 2);
}

/// Every process of a job, or of the background, may be killed at any moment.
#[test]
fn privileged_kills_at_random_moments_fail_no_later_job_and_leave_no_half_image() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    let mut random = 88_172_645_463_325_252_u64;
    for round in 0..100 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let argument = random % 10;
        let line = match round % 5 {
            0 => format!("exec $auto --refresh -- env/bin/app {argument}"),
            1 => "exec $quell cache prune --max 0".to_owned(),
            _ => format!("exec $auto -- env/bin/app {argument}"),
        };
        let mut shell = test
            .shell(&format!("export QUELL_CACHE=$PWD/cache; auto=\"$quell run --auto --root env\"; {line}"));
        let mut child = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(random % 120));
        test.processes().into_iter().for_each(crate::harness::kill);
        child.wait().unwrap();
        if round % 10 == 9 {
            let said = auto(&test, "rm -f cache/*/attempts; $auto -- env/bin/app 3");
            assert_eq!(said.stderr, "");
            assert_eq!(said.succeeds(), "content 3\narguments: 3\n");
        }
        if let Some(image) = current(&test).filter(|name| name.starts_with("image-")) {
            let image = entries(&test)[0].join(image);
            test.quell(&["image", "check", image.to_str().unwrap()]).succeeds();
        }
    }
    auto(&test, "$quell cache prune --all").succeeds();
    assert!(entries(&test).is_empty());
    auto(&test, "$auto -- env/bin/app 0").succeeds();
    until_there_is_an_image(&test);
    assert_eq!(originals(&test, "0"), Some(0));
}

/// The ranks of a step on a node all run from the image, or all without it: an image counts that was there before their
/// launcher. `orted` is the name of Open MPI's process on a node.
#[test]
fn privileged_ranks_of_a_node_agree() {
    let Some(test) = Test::privileged(ALL) else { return };
    first(&test);
    test.run(&["cp", "/bin/sh", "orted"]).succeeds();
    let rank = |number: u32| {
        let variables = format!(
            "export OMPI_COMM_WORLD_RANK={number} OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK={number} PMIX_NAMESPACE=7"
        );
        // With a shell in between, as users write it. `exit` keeps both shells from becoming what they start.
        let rank = "sh -c \"$auto --stats stats.json -- env/bin/app 0; exit\"; exit";
        auto(&test, &format!("export auto; ./orted -c '{variables}; {rank}'")).succeeds();
        let stats: Value = serde_json::from_slice(&test.read("stats.json")).unwrap();
        stats["mode"].as_str().unwrap().to_owned()
    };
    assert_eq!([rank(0), rank(1)], ["off", "off"], "the image is too new for this step");
    test.silence();
    assert_eq!(current(&test).as_deref(), Some("image-1.qimg"), "and it is not recorded again");
    auto(&test, "touch -h -d '2 minutes ago' cache/*/current").succeeds();
    assert_eq!([rank(1), rank(0)], ["mount", "mount"]);
}

#[test]
fn privileged_images_of_the_site_come_first_and_nothing_is_written_there() {
    let Some(test) = Test::of_ordinary_user(ALL) else { return };
    plant(&test);
    let root = Test::of(User::Ourselves);
    std::fs::set_permissions(root.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(root.path("site")).unwrap();
    std::fs::set_permissions(root.path("site"), PermissionsExt::from_mode(0o755)).unwrap();
    let (app, env, site) = (test.text("env/bin/app"), test.text("env"), root.text("site"));
    let line = format!("$quell run --auto --cache {site} --root {env} -- {app} 0");
    root.script(&line).succeeds();
    wait_until("an image was made", || root.files().iter().any(|name| name.ends_with("image-1.qimg")));
    root.silence();
    let before = root.files();
    let line = format!("$quell run --auto --site-cache {site} --root {env} --stats s.json -- {app} 0");
    auto(&test, &line).succeeds();
    test.silence();
    let stats: Value = serde_json::from_slice(&test.read("s.json")).unwrap();
    assert_eq!(stats["mode"], "mount");
    assert_eq!(root.files(), before);
    assert!(entries(&test).is_empty());
}

#[test]
fn privileged_what_was_decided_is_explained() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    let said = auto(&test, "$auto --explain -- env/bin/app 0");
    for part in ["program: [DIR]/env/bin/app", "key: ", "entry: [DIR]/cache/", "this start is recorded"] {
        assert!(said.stderr.contains(part), "{said}");
    }
    until_there_is_an_image(&test);
    let said = auto(&test, "$auto --explain -- env/bin/app 0");
    assert!(said.stderr.contains("image: [DIR]/cache/"), "{said}");
    auto(&test, "$auto --refresh -- env/bin/app 0").succeeds();
    wait_until("a second image", || current(&test).is_some_and(|name| name == "image-2.qimg"));
    let _in_formats = *QUELL;
}

/// The examples for sites: the wrapper, the module file, the epilogue.
#[test]
fn privileged_a_site_wraps_a_program() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/install");
    test.run(&[script.to_str().unwrap(), *QUELL, &test.text("prefix")]).succeeds();
    // A program with the name of a wrapper, which says whether it was started by quell.
    test.write_mode("env/bin/julia", PROGRAM, 0o755);
    let path = "export PATH=$PWD/prefix/libexec/quell/auto:$PWD/prefix/bin:$PWD/env/bin:$PATH QUELL_CACHE=$PWD/cache";
    let wrapped = |line: &str| test.script(&format!("{path}; {line}"));
    // As rank 0 of a step on a file system of the network: the directories are given by a settings file.
    test.write("quell.toml", format!("[run]\nroot = [\"{}\"]\n", test.text("env")));
    let line = "QUELL_CONFIG=$PWD/quell.toml julia 0";
    assert_eq!(wrapped(line).succeeds(), "content 0\narguments: 0\n");
    until_there_is_an_image(&test);
    assert_eq!(wrapped(&format!("QUELL_STATS=$PWD/s.json {line}")).succeeds(), "content 0\narguments: 0\n");
    let stats: Value = serde_json::from_slice(&test.read("s.json")).unwrap();
    assert_eq!(stats["mode"], "mount");
    assert_eq!(wrapped("QUELL_AUTO=0 julia 0 3").code(), 3);
    assert_eq!(wrapped("rm prefix/bin/quell; julia 0 3").code(), 3);
    let absent = wrapped("rm env/bin/julia; julia 0");
    assert_eq!((absent.code(), absent.stderr.as_str()), (127, "julia: command not found\n"));
}

/// A batch system kills the process that makes the image; the epilogue, or the next job, has it made.
#[test]
fn privileged_a_recording_that_waits_becomes_an_image() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    let wait = |who: &str| {
        auto(&test, "$quell cache prune --all; $auto -- env/bin/app 0").succeeds();
        until_there_is_an_image(&test);
        let [entry] = &entries(&test)[..] else { panic!("one entry") };
        auto(&test, "$quell -q record -o trace -f -- env/bin/app 0").succeeds();
        std::fs::remove_file(entry.join("current")).unwrap();
        std::fs::remove_file(entry.join("image-1.qimg")).unwrap();
        std::fs::rename(test.path("trace"), entry.join("trace-of-a-killed-job")).unwrap();
        let listed = auto(&test, "$quell cache ls").succeeds();
        assert!(listed.contains("recorded"), "{who}: {listed}");
    };
    wait("the epilogue");
    assert_eq!(auto(&test, "$quell cache make").succeeds(), "1 image made\n");
    assert_eq!(originals(&test, "0"), Some(0));
    test.silence();
    wait("the next job");
    auto(&test, "$auto -- env/bin/app 0").succeeds();
    until_there_is_an_image(&test);
    assert_eq!(originals(&test, "0"), Some(0));
}

/// The first run teaches an image instead of being recorded where ptrace is barred.
#[test]
fn privileged_without_ptrace_runs_teach_the_image() {
    const SAID: &str = "content 0\narguments: 0\n";
    for test in [Test::privileged(ALL), Test::of_ordinary_user(ALL)].into_iter().flatten() {
        crate::harness::program(&test, "barred", &[]);
        plant(&test);
        let run = || auto(&test, "./barred ptrace $auto --stats stats.json -- env/bin/app 0");
        let told = "quell: runs teach the image instead of a recording: \
            a seccomp filter, as of a container, forbids `ptrace`\n";
        let first = run();
        assert_eq!((&*first.stdout, &*first.stderr), (SAID, told));
        wait_until("the first version was made", || current(&test).as_deref() == Some("image-1.qimg"));
        test.silence();
        let second = run();
        assert_eq!((&*second.stdout, &*second.stderr), (SAID, ""));
        let stats = test.read_json("stats.json");
        let counts = stats["original"].as_object().unwrap().values();
        let asked: u64 = counts.map(|count| count.as_u64().unwrap()).sum();
        assert!(asked <= 3, "{stats:#}");
    }
}

/// A program that asks its software for little is left alone, after it was run from an image that holds nothing.
#[test]
fn privileged_without_ptrace_a_program_that_asks_for_little_is_left_alone() {
    let Some(test) = Test::privileged(ALL) else { return };
    crate::harness::program(&test, "barred", &[]);
    test.write_mode("env/bin/app", "#!/bin/sh\necho ran\n", 0o755);
    let run = || auto(&test, "./barred ptrace $auto -- env/bin/app");
    run().succeeds();
    wait_until("the program is left alone", || {
        current(&test).is_some_and(|name| name.starts_with("settled"))
    });
    test.silence();
    snapshot!(run(), @"
    status 0
    --- stdout
    ran
    --- stderr
    quell: `--auto` leaves this program alone: a run asked for 2 names of its software, fewer than 21
    ");
}

/// One line tells that nothing can be recorded or mounted, and the program runs plain.
#[test]
fn privileged_without_ptrace_and_fuse_the_program_is_left_alone() {
    let Some(test) = Test::privileged(ALL) else { return };
    crate::harness::program(&test, "barred", &[]);
    plant(&test);
    let hidden = "mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3";
    let line =
        format!("unshare --mount sh -c '{hidden} && exec \"$@\"' sh ./barred ptrace $auto -- env/bin/app 0");
    let told = |outcome: &Outcome| {
        outcome.stderr.matches("leaves this program alone: nothing can be recorded here").count()
    };
    let (first, second) = (auto(&test, &line), auto(&test, &line));
    assert_eq!((&*first.stdout, told(&first)), ("content 0\narguments: 0\n", 1), "{first}");
    assert_eq!((&*second.stdout, &*second.stderr), ("content 0\narguments: 0\n", ""));
}
