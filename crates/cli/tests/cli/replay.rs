//! `quell replay`: what it issues is what was recorded, by a recording of the replay itself, and nothing is left behind.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::harness::{Need, Outcome, QUELL, Test, send, wait_until};

/// A program with a child, threads, a working directory in the tree, inherited files, and changes.
const PROGRAM: &str = r#"
import os, subprocess, threading
os.chdir("tree")
names = [f"lib/{number}.txt" for number in range(20)]
def read(mine):
    for name in mine:
        with open(name) as file: file.read()
        try: os.stat(name + ".absent")
        except FileNotFoundError: pass
threads = [threading.Thread(target=read, args=(names[start::4],)) for start in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
inherited = os.open("lib/0.txt", os.O_RDONLY)
subprocess.run(["cat", "-", "lib/1.txt", "../tree/lib/2.txt"], stdin=inherited, check=True, stdout=subprocess.DEVNULL)
os.close(inherited)
directory = os.open("lib", os.O_RDONLY)
os.stat("3.txt", dir_fd=directory)
os.listdir(directory)
with open("new.txt", "w") as file: file.write("x" * 5000)
os.makedirs("out/deep")
os.rename("new.txt", "out/deep/moved.txt")
os.stat("out/deep/moved.txt")
os.symlink("moved.txt", "out/deep/link")
with open("out/deep/link") as file: file.read()
with open("lib/4.txt", "a") as file: file.write("more")
os.unlink("lib/5.txt")
"#;

const NEEDS: &[Need] = &[Need::Ptrace, Need::Program("python3")];

/// The tree, as it was before the program changed it.
fn plant(test: &Test) {
    for number in 0..20 {
        test.write(&format!("tree/lib/{number}.txt"), format!("{number}\n").repeat(1000));
    }
}

/// The program's recording, with the tree as it was before.
fn recorded() -> Option<Test> {
    let test = Test::privileged(NEEDS)?;
    plant(&test);
    test.write("program.py", PROGRAM);
    test.quell(&["-q", "record", "-o", "a.qtrace", "--", "python3", "-IS", "program.py"]).succeeds();
    std::fs::remove_dir_all(test.path("tree")).unwrap();
    plant(&test);
    Some(test)
}

fn json(outcome: Outcome) -> serde_json::Value {
    serde_json::from_str(&outcome.succeeds()).unwrap()
}

/// Calls on the tree by class, as replayed; those that failed.
fn classes(replayed: &serde_json::Value) -> BTreeMap<String, (u64, u64)> {
    let rows = replayed["classes"].as_array().unwrap().iter();
    rows.map(|row| {
        let number = |key: &str| row[key].as_u64().unwrap();
        (row["class"].as_str().unwrap().to_owned(), (number("operations"), number("errors")))
    })
    .collect()
}

/// Metadata operations below the tree, as a recording has them by directory.
fn asked(test: &Test, trace: &str) -> (u64, u64) {
    let report = test.json(&["report", "--json", trace]);
    let tree = "[DIR]/tree";
    let rows = report["top_paths"].as_array().unwrap().iter().filter(|row| {
        row["path"].as_str().unwrap().starts_with(tree)
            && !row["path"].as_str().unwrap().contains(".quell-replay")
    });
    rows.fold((0, 0), |sum, row| {
        (sum.0 + row["metadata_operations"].as_u64().unwrap(), sum.1 + row["missed"].as_u64().unwrap())
    })
}

fn files_of_tree(test: &Test) -> Vec<String> {
    test.files().into_iter().filter(|name| name.starts_with("tree")).collect()
}

#[test]
fn privileged_a_replay_issues_what_was_recorded_and_changes_nothing() {
    let Some(test) = recorded() else { return };
    let before = files_of_tree(&test);
    let content = test.read("tree/lib/4.txt");
    let replay = ["replay", "a.qtrace", "--root", "tree", "--from", "tree", "--json"];
    let replayed = json(test.quell(&replay));
    assert_eq!(replayed["differences"]["failing"], 0, "{replayed}");
    assert_eq!(replayed["processes"], 2, "cat is a process of its own");
    let by_class = classes(&replayed);
    assert_eq!(by_class["stat"].1, 20 + 1, "the absent names, and the directory to be made: {replayed}");
    assert!(by_class["read"].0 >= 20 && by_class["list"].0 == 2, "{replayed}");
    assert!(replayed["skipped"]["writes"].as_u64().unwrap() >= 8, "{replayed}");
    assert!(replayed["skipped"]["made"].as_u64().unwrap() >= 1, "{replayed}");
    assert_eq!(files_of_tree(&test), before);
    assert_eq!(test.read("tree/lib/4.txt"), content);
}

#[test]
fn privileged_a_recording_of_a_replay_shows_the_recorded_operations_and_no_others() {
    let Some(test) = recorded() else { return };
    test.quell(&["-q", "synth", "warp", "--tree", "made", "-o", "w.qtrace"]).succeeds();
    let record =
        ["-q", "record", "-o", "of.qtrace", "--", *QUELL, "replay", "w.qtrace", "--root", "made", "--json"];
    test.quell(&record).succeeds();
    let count = |trace: &str, name: &str| {
        let report = test.json(&["report", "--json", trace]);
        let rows = report["top_directories"].as_array().unwrap().clone();
        let below = rows.into_iter().filter(|row| row["path"].as_str().unwrap().starts_with("[DIR]/made/"));
        below.map(|row| row[name].as_u64().unwrap()).sum::<u64>()
    };
    for name in ["metadata_operations", "missed"] {
        assert_eq!(count("of.qtrace", name), count("w.qtrace", name), "{name}");
    }
    test.script("$quell -q record -o py.qtrace -- $quell replay a.qtrace --root tree --from tree --writes")
        .succeeds();
    let (own, replayed) = (asked(&test, "a.qtrace"), asked(&test, "py.qtrace"));
    assert!(own.0 >= replayed.0 && replayed.0 + 40 > own.0, "{own:?} {replayed:?}: changes are issued aside");
    assert!(replayed.1 <= own.1 && replayed.1 >= 20, "{own:?} {replayed:?}");
}

#[test]
fn privileged_writes_are_issued_aside_and_removed() {
    let Some(test) = recorded() else { return };
    let before = files_of_tree(&test);
    let content = test.read("tree/lib/4.txt");
    let replay =
        ["replay", "a.qtrace", "--root", "tree", "--from", "tree", "--writes", "--ranks", "3", "--json"];
    let replayed = json(test.quell(&replay));
    assert_eq!(replayed["differences"]["failing"], 0, "{replayed}");
    assert_eq!(replayed["skipped"]["writes"], 0, "{replayed}");
    assert_eq!(replayed["bytes_written"], 3 * (5000 + 4), "{replayed}");
    assert_eq!(replayed["rank_seconds"].as_array().unwrap().len(), 3);
    assert_eq!(files_of_tree(&test), before);
    assert_eq!(test.read("tree/lib/4.txt"), content);
}

/// Writes through links that it makes and removes again: into the tree and out of it, by absolute and relative names.
const LINKS: &str = r#"
import os
top = os.getcwd()
def change(link):
    fd = os.open(link, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, b"changed")
    os.close(fd)
    os.chmod(link, 0o600)
    os.utime(link)
    os.unlink(link)
os.symlink(top + "/tree/lib/0.txt", "tree/tmp")
change("tree/tmp")
os.symlink(top + "/outside", "tree/tmp2")
change("tree/tmp2")
os.symlink("../outside", "tree/up")
change("tree/up")
"#;

#[test]
fn privileged_what_a_recorded_link_led_to_stays_as_it_is() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    let afresh = || {
        _ = std::fs::remove_dir_all(test.path("tree"));
        plant(&test);
        test.write("outside", "outside");
    };
    afresh();
    test.write("program.py", LINKS);
    test.quell(&["-q", "record", "-o", "a.qtrace", "--", "python3", "-IS", "program.py"]).succeeds();
    assert_eq!(test.read_text("outside"), "changed");
    afresh();
    test.run(&["cp", "-a", "tree", "elsewhere"]).succeeds();
    let looks = |name: &str| {
        let metadata = test.path(name).metadata().unwrap();
        (test.read_text(name), metadata.permissions(), metadata.modified().unwrap())
    };
    let all = ["tree/lib/0.txt", "elsewhere/lib/0.txt", "outside"];
    let before = (all.map(looks), test.files());
    for root in ["tree", "elsewhere"] {
        let replay = ["replay", "a.qtrace", "--root", root, "--from", "tree", "--writes", "--json"];
        let said = test.quell(&replay);
        let replayed = said.json();
        assert_eq!(classes(&replayed)["change"].0, 3 * 4, "{replayed}");
        assert_eq!(replayed["bytes_written"], 0, "{replayed}");
        assert_eq!((all.map(looks), test.files()), before, "{root}");
    }
}

#[test]
fn privileged_an_interrupted_replay_leaves_nothing() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    plant(&test);
    let program = "import os, time\nopen('tree/new', 'w').close()\ntime.sleep(1)\nos.unlink('tree/new')";
    test.quell(&["-q", "record", "-o", "a.qtrace", "--", "python3", "-ISc", program]).succeeds();
    let before = files_of_tree(&test);
    let replay = [
        "replay", "a.qtrace", "--root", "tree", "--from", "tree", "--writes", "--think", "60", "--ranks", "2",
    ];
    let written = || test.files().iter().filter(|name| name.ends_with("/new")).count() == 2;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = test.command(&[&[*QUELL], &replay[..]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("both ranks have written", written);
        send(i32::try_from(child.id()).unwrap(), signal);
        let outcome = test.wait(child);
        assert_eq!(outcome.code(), code, "{outcome}");
        assert!(outcome.stderr.contains("interrupted"), "{outcome}");
        test.silence();
        assert_eq!(files_of_tree(&test), before);
    }
    // A killed conductor cannot clean up, but its ranks end.
    let mut child = test.command(&[&[*QUELL], &replay[..]].concat()).spawn().unwrap();
    wait_until("both ranks have written", written);
    child.kill().unwrap();
    child.wait().unwrap();
    test.silence();
    let next = test.quell(&["replay", "a.qtrace", "--root", "tree", "--from", "tree", "--writes"]);
    assert!(next.stderr.contains("when none runs: rm -r [DIR]/tree/.quell-replay-"), "{next}");
}

#[test]
fn privileged_ranks_of_a_launcher_begin_at_once_and_report_once() {
    let needs = &[Need::Program("mpirun.openmpi"), Need::Program("mpiexec.mpich")];
    let Some(test) = Test::privileged(needs) else { return };
    test.quell(&["-q", "synth", "julia", "--packages", "4", "--tree", "tree", "-o", "j.qtrace"]).succeeds();
    let open_mpi =
        ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm", "isolated", "-n", "4"];
    // Free a moment ago; the kernel gives no other process of this machine ports one after the other.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let meet = format!("127.0.0.1:{port}");
    let mpich = &["mpiexec.mpich", "-n", "4"];
    for (launcher, further) in [(&open_mpi[..], &[][..]), (mpich, &[]), (mpich, &["--meet", &meet])] {
        let words = [launcher, &[*QUELL, "replay", "j.qtrace", "--root", "tree", "--json"], further].concat();
        let mut command: Command = test.command(&words);
        std::fs::create_dir_all(test.path("session")).unwrap();
        command.env("TMPDIR", test.path("session"));
        let replayed = json(test.finish(command));
        assert_eq!(replayed["ranks"], 4, "{replayed}");
        let stats = 2 * 4 * 50 + 2000 + 4000;
        assert_eq!(classes(&replayed)["stat"], (4 * stats, 4 * 4000), "{replayed}");
    }
}

#[test]
fn times_between_calls_are_waited_for_as_often_as_asked() {
    let test = Test::new();
    let synth = ["-q", "synth", "julia", "--packages", "1", "--compute", "0.2", "--tree", "tree"];
    test.quell(&[&synth[..], &["-o", "j.qtrace"]].concat()).succeeds();
    for (think, least) in [("recorded", 0.19), ("2", 0.39)] {
        let words = ["replay", "j.qtrace", "--root", "tree", "--json", "--think", think];
        let replayed = json(test.quell(&words));
        assert!(replayed["seconds"].as_f64().unwrap() >= least, "{replayed}");
        assert!(replayed["rank_seconds"][0].as_f64().unwrap() >= least, "{replayed}");
    }
}

#[test]
fn what_fails_now_is_named_and_is_a_finding() {
    let test = Test::new();
    test.quell(&["-q", "synth", "julia", "--packages", "1", "--tree", "tree", "-o", "j.qtrace"]).succeeds();
    std::fs::remove_file(test.path("tree/project/Manifest.toml")).unwrap();
    let outcome = test.quell(&["replay", "j.qtrace", "--root", "tree"]);
    assert_eq!(outcome.code(), 1, "{outcome}");
    assert!(outcome.stdout.contains("openat  ENOENT (no such file or directory)"), "{outcome}");
    assert!(outcome.stderr.contains("quell synth"), "{outcome}");
}

#[test]
fn lost_processes_and_what_was_not_issued_are_warned_of_in_every_form() {
    let test = Test::new();
    let opens: String = (3..60).map(|fd| format!("1 openat(AT_FDCWD, \"a\", O_RDONLY) = {fd}\n")).collect();
    let child = "1 fstat(59, {st_mode=S_IFREG}) = 0\n1 vfork() = 2\n2 stat(\"a\", {st_mode=S_IFREG}) = 0\n";
    test.write("log", format!("{opens}{child}2 +++ exited with 0 +++\n1 +++ exited with 0 +++\n"));
    test.write("t/a", "");
    test.quell(&["-q", "import", "strace", "log", "--directory", "/t", "-o", "a.qtrace"]).succeeds();
    for form in ["", "--csv", "--json"] {
        let said =
            test.script(&format!("ulimit -n 40; exec $quell replay a.qtrace --root t --from /t {form}"));
        assert_eq!(said.code(), 1, "{said}");
        for warning in [
            "warning: 1 operations were not issued, because their file could not be opened",
            "warning: 1 processes ended before they told what they did; the first: EMFILE",
        ] {
            assert!(said.stderr.contains(warning), "{form}: {said}");
        }
    }
}

#[test]
fn a_replay_that_cannot_be_is_one_line() {
    let test = Test::new();
    test.quell(&["-q", "synth", "julia", "-o", "j.qtrace"]).succeeds();
    test.quell(&["-q", "synth", "warp", "--file-system", "ext4", "-o", "local.qtrace"]);
    test.write("log", "1 getpid() = 1\n1 close(3) = 0\n1 +++ exited with 0 +++\n");
    test.quell(&["-q", "import", "strace", "log", "-o", "empty.qtrace"]).succeeds();
    test.write("file", "");
    test.write("log", "1 openat(AT_FDCWD, \"a\", O_RDONLY) = 3\n1 +++ exited with 0 +++\n");
    let import = ["-q", "import", "strace", "log", "--directory", "/t/job", "-o", "job.qtrace"];
    test.quell(&import).succeeds();
    for (arguments, says) in [
        (&["j.qtrace", "--root", "nowhere"][..], "cannot use `[DIR]/nowhere`: ENOENT"),
        (&["j.qtrace", "--root", "file"], "cannot use `[DIR]/file`"),
        (&["job.qtrace", "--root", ".", "--from", "/t"], "cannot use `[DIR]/job`: ENOENT"),
        (&["nothing.qtrace", "--root", "."], "cannot open `nothing.qtrace`"),
        (&["file", "--root", "."], "is not a trace"),
        (&["local.qtrace", "--root", "."], "used no network file system"),
        (&["empty.qtrace", "--root", "."], "no file-system calls"),
        (&["j.qtrace", "--root", ".", "--from", "/elsewhere"], "no call of the recording is on `/elsewhere`"),
    ] {
        let outcome = test.quell(&[&["replay"], arguments].concat());
        assert_eq!(outcome.code(), 2, "{outcome}");
        assert!(outcome.stderr.contains(says) && outcome.stderr.contains("hint:"), "{outcome}");
    }
    for wrong in [&["--ranks", "0"][..], &["--think", "-1"]] {
        let outcome = test.quell(&[&["replay", "j.qtrace", "--root", "."], wrong].concat());
        assert_eq!(outcome.code(), 2, "{outcome}");
    }
}
