//! `quell import strace`: the log of a command and its recording are the same trace, and what is no log is refused.

use crate::harness::{Need, Test, session, snapshot};
use quell_trace::{Outcome, PathId, Recording};

/// A thread's doings: calls with paths as given, and errors.
type Sequence = Vec<(String, Option<String>, Option<String>, String)>;

/// Every thread's calls. Shape: sorted, because threads are born in any order.
fn sequences(test: &Test, trace: &str) -> Vec<Sequence> {
    let recording = Recording::open(&test.path(trace)).unwrap();
    let mut threads = vec![Sequence::new(); recording.context.threads.len()];
    let display = |id: Option<PathId>| id.map(|id| recording.paths.display(id));
    recording
        .for_each_event(|event| {
            let outcome = match event.outcome {
                Outcome::Success(_) => String::new(),
                Outcome::Failure(errno) => errno.name(),
                Outcome::Unfinished => "unfinished".to_owned(),
            };
            let call = event.call.name().to_owned();
            threads[event.thread.0 as usize].push((call, display(event.path), display(event.path2), outcome));
        })
        .unwrap();
    threads.sort();
    threads
}

/// Ways to call strace, of which all but the last tell every call.
const WAYS: &[&[&str]] = &[
    &["-f"],
    &["-f", "-tt"],
    &["-f", "-ttt", "-T", "-y"],
    &["-f", "-r", "-yy", "-v"],
    &["-f", "-xx", "-s", "8"],
    &["-f", "-t", "-i", "-X", "verbose"],
    &["-ff", "-tt"],
    &["-ff"],
];

#[test]
fn privileged_a_log_equals_a_recording() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("strace"), Need::Program("python3")])
    else {
        return;
    };
    test.plant();
    test.write("x", "one\ny\n");
    let commands: &[&[&str]] = &[
        &["ls", "-R", "/usr/share/doc/strace"],
        &["sh", "-c", "cat x | grep y & wait; cat none; cd / && ls usr"],
        &["python3", "-S", "-c", "import json, email"],
    ];
    for (number, command) in commands.iter().enumerate() {
        let recorded = format!("{number}.qtrace");
        test.quell(&[&["-q", "record", "-o", &recorded, "--"], *command].concat());
        for (way, flags) in WAYS.iter().enumerate() {
            let name = format!("{number}-{way}");
            let log = format!("{name}.log");
            test.run(&[&["strace"], *flags, &["-o", &log], *command].concat());
            let imported = format!("{name}.qtrace");
            let logs: Vec<String> = test.files().into_iter().filter(|file| file.starts_with(&log)).collect();
            let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
            test.quell(&[&["-q", "import", "strace", "-o", &imported], logs.as_slice()].concat()).succeeds();
            let header = Recording::open(&test.path(&imported)).unwrap().header;
            assert_eq!(header.recorder.lost, 0, "{command:?} {flags:?}: {:?}", header.recorder.notes);
            assert_eq!(header.exit, Recording::open(&test.path(&recorded)).unwrap().header.exit);
            let (ours, theirs) = (sequences(&test, &recorded), sequences(&test, &imported));
            assert_eq!(ours.len(), theirs.len(), "{command:?} {flags:?}: threads");
            for (ours, theirs) in ours.iter().zip(&theirs) {
                let differs = ours.iter().zip(theirs).position(|(ours, theirs)| ours != theirs);
                let at = differs.unwrap_or(ours.len().min(theirs.len()));
                assert_eq!(ours.get(at), theirs.get(at), "{command:?} {flags:?}: call {at}");
            }
        }
    }
}

#[test]
fn privileged_here_adds_mounts_and_links() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("strace")]) else { return };
    test.write("data", "x");
    std::os::unix::fs::symlink("data", test.path("link")).unwrap();
    test.run(&["strace", "-f", "-o", "app.log", "cat", "link"]).succeeds();
    let directory = test.path("").to_str().unwrap().to_owned();
    test.quell(&["-q", "import", "strace", "app.log", "--here", "--directory", &directory]).succeeds();
    let recording = Recording::open(&test.path("app.qtrace")).unwrap();
    let target = recording.paths.find(test.path("data").as_os_str().as_encoded_bytes()).unwrap();
    let mut opened = None;
    recording
        .for_each_event(|event| {
            if event.target == Some(target) && event.call.name() == "openat" {
                opened = event.file_system;
            }
        })
        .unwrap();
    assert!(opened.is_some(), "the link was followed, and its file system is known");
    assert!(!recording.context.elf_files.is_empty());
}

const LOG: &str = "7 execve(\"/bin/a\", [\"a\"], 0x7ff /* 1 var */) = 0\n7 access(\"/b\", R_OK) = -1 ENOENT (No such file)\n\
                   7 exit_group(0) = ?\n7 +++ exited with 0 +++\n";

#[test]
fn a_log_becomes_a_trace_named_after_it() {
    let test = Test::new();
    test.write("app.log", LOG);
    session!(|line| test.script(line), @"
    $ quell import strace app.log
    quell: imported 2 calls of 1 process in `app.qtrace`; next: quell report app.qtrace
    quell: `--here`, on the node where the command ran, adds its file systems and symbolic links
    $ quell import strace app.log -o none/app.qtrace => 2
    quell: error: cannot create `none/app.qtrace`: ENOENT (no such file or directory)
    hint: `-o DIR` writes the trace elsewhere
    $ quell report . => 2
    quell: error: `.` is not a trace: it holds no `header.json`
    hint: name the recordings in it, `DIR/*.qtrace`
    ");
    let report = test.quell(&["report", "app.qtrace"]);
    assert!(
        report.stdout.contains("doubt    the log has no environment: misses in PATH"),
        "{}",
        report.stdout
    );
    let lines = |word: &str| report.stdout.lines().filter(|line| line.contains(word)).count();
    assert!(
        report.stdout.contains("rate     unknown: no times; 1 000 nodes x 2 = 2 000"),
        "{}",
        report.stdout
    );
    assert_eq!((lines(" 0 s"), lines("no known file system")), (0, 0), "{}", report.stdout);
    session!(|line| test.script(line), @"
    $ quell import strace app.log => 2
    quell: error: `app.qtrace` exists already
    hint: `--force` replaces it, `-o DIR` writes elsewhere
    ");
    test.write("app.log", format!("{LOG}7 close(x) = 0\n"));
    session!(|line| test.script(line), @"
    $ quell import strace app.log --force
    quell: warning: the trace lacks 1 call: 1 call could not be understood, the first in line 5
    quell: imported 2 calls of 2 processes in `app.qtrace`; next: quell report app.qtrace
    quell: `--here`, on the node where the command ran, adds its file systems and symbolic links
    ");
    test.quell(&["report", "app.qtrace"]).succeeds();
    test.quell(&["diff", "app.qtrace", "app.qtrace"]).succeeds();
}

#[test]
fn what_is_no_log_is_refused() {
    let test = Test::new();
    test.write("garbage", b"\x00\x01\xff garbage\n");
    test.write("empty", "");
    test.write("counts", "% time     seconds  usecs/call     calls    errors syscall\n------ ------\n");
    for thread in [7, 8] {
        test.write(&format!("app.log.{thread}"), LOG.replace("7 ", ""));
    }
    let before = test.files();
    snapshot!(test.quell(&["import", "strace", "garbage"]), @r"
    status 2
    --- stderr
    quell: error: `garbage` is not a log of strace: line 1 is `\x00\x01\xff garbage`
    hint: `strace -f -v -s 4096 -ttt -T -y -o LOG CMD` writes a log
    ");
    session!(|line| test.script(line), @"
    $ quell import strace empty => 2
    quell: error: `empty` is empty
    hint: `strace -f -v -s 4096 -ttt -T -y -o LOG CMD` writes a log
    $ quell import strace counts => 2
    quell: error: `counts` is a table of `strace -c`, which counts calls but does not log them
    hint: run strace without `-c`: `strace -f -v -s 4096 -ttt -T -y -o LOG CMD`
    $ quell import strace / => 2
    quell: error: `/` is a directory, not a file
    $ quell import strace none.log => 2
    quell: error: cannot read `none.log`: ENOENT (no such file or directory)
    $ quell import strace app.log => 2
    quell: error: cannot read `app.log`: ENOENT (no such file or directory)
    hint: `strace -ff` wrote 2 files: import them all as app.log.*
    ");
    snapshot!(test.quell(&["import", "strace", "app.log.7", "garbage", "-o", "t"]), @r"
    status 2
    --- stderr
    quell: error: `garbage` is not a log of strace: line 1 is `\x00\x01\xff garbage`
    hint: `strace -f -v -s 4096 -ttt -T -y -o LOG CMD` writes a log
    ");
    session!(|line| test.script(line), @"
    $ quell import strace app.log.7 --mounts empty => 2
    quell: error: `empty` lists no mounts
    hint: copy /proc/self/mountinfo on the node where the command ran
    ");
    assert_eq!(test.files(), before, "something is left behind");
}

#[test]
fn a_log_may_come_through_a_pipe_and_be_packed() {
    let test = Test::new();
    test.write("app.log", LOG);
    let expected = "quell: imported 2 calls of 1 process in `t.qtrace`; next: quell report t.qtrace\n";
    for (way, command) in [
        ("standard input", "$quell import strace - -f -o t.qtrace < app.log"),
        ("a packed pipe", "xz -c app.log | $quell import strace - -f -o t.qtrace"),
        ("a substitution", "bash -c '$quell import strace <(zstd -qc app.log) -f -o t.qtrace'"),
    ] {
        let outcome = test.script(command);
        assert!(outcome.stderr.starts_with(expected) && outcome.code() == 0, "{way}: {}", outcome.stderr);
    }
    test.script("gzip app.log").succeeds();
    session!(|line| test.script(line), @"
    $ quell import strace app.log.gz
    quell: imported 2 calls of 1 process in `app.qtrace`; next: quell report app.qtrace
    quell: `--here`, on the node where the command ran, adds its file systems and symbolic links
    ");
    test.write("other.log", "__libc_start_main(0x4, 1) = 0\n+++ exited (status 0) +++\n");
    test.write("alone.log", "vfork() = 8\nclose(3) = 0\n");
    session!(|line| test.script(line), @"
    $ quell import strace other.log => 2
    quell: error: `other.log` is from ltrace, which shows calls of libraries and not what reaches the kernel
    hint: `strace -f -v -s 4096 -ttt -T -y -o LOG CMD` writes a log
    $ quell import strace alone.log
    quell: warning: 1 child of the command is not in the log: `strace -f` follows them
    quell: imported 1 call of 2 processes in `alone.qtrace`; next: quell report alone.qtrace
    quell: `--here`, on the node where the command ran, adds its file systems and symbolic links
    ");
}

#[test]
fn an_import_that_was_killed_is_in_no_ones_way() {
    let test = Test::new();
    test.write("app.log", LOG);
    test.script("$quell import strace app.log && cp -r app.qtrace app.qtrace.new").succeeds();
    test.script("$quell import strace -f app.log").succeeds();
    assert!(!test.path("app.qtrace.new").exists());
}

#[test]
fn privileged_threads_that_close_at_once_close_their_own_files_in_logs_too() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("strace"), Need::Program("cc")]) else {
        return;
    };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../record/fixtures/closers.c");
    test.run(&["cc", "-pthread", "-o", "closers", source]).succeeds();
    for flags in [&["-f"][..], &["-f", "-t"], &["-f", "-ttt", "-T"], &["-f", "-y"]] {
        let strace = [
            &["strace"],
            flags,
            &["-e", "trace=openat,access,close,dup,fcntl,clone,clone3,execve", "-o", "l.log", "./closers"],
        ];
        test.run(&strace.concat()).succeeds();
        let directory = test.path("").to_str().unwrap().to_owned();
        test.quell(&["-q", "import", "strace", "-f", "l.log", "--directory", &directory]).succeeds();
        let recording = Recording::open(&test.path("l.qtrace")).unwrap();
        let (mut named, mut closes, mut wrong) = (std::collections::HashMap::new(), 0, 0);
        recording
            .for_each_event(|event| match event.call.name() {
                "access" if event.outcome.is_success() => _ = named.insert(event.thread, event.target),
                "close" => {
                    let Some(expected) = named.remove(&event.thread) else { return };
                    closes += 1;
                    wrong += u32::from(event.target != expected);
                }
                _ => {}
            })
            .unwrap();
        assert_eq!((closes, wrong), (12 * 400 * 4, 0), "{flags:?}");
    }
}

#[test]
fn privileged_of_two_recorders_to_one_place_the_loser_says_so() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    for round in 0..12 {
        test.script("rm -rf t*.qtrace");
        let record = || test.start(&["record", "-o", "t.qtrace", "--", "true"]);
        let recorders = [record(), record()];
        let said = recorders.map(|recorder| test.wait(recorder)).map(|outcome| {
            assert_eq!(outcome.code(), 0, "{round}: {}", outcome.stderr);
            outcome.stderr.contains("`t.qtrace` exists already: the trace becomes `t-2.qtrace`")
        });
        assert_eq!(said.iter().filter(|lost| **lost).count(), 1, "{round}");
        for trace in ["t.qtrace", "t-2.qtrace"] {
            assert!(
                Recording::open(&test.path(trace)).unwrap().header.recorder.events > 0,
                "{round} {trace}"
            );
        }
    }
    test.script("mkfifo go");
    let first = test.start(&["record", "-o", "u.qtrace", "--", "sh", "-c", "read line < go"]);
    test.script("until [ -s u.qtrace/spool ]; do sleep 0.1; done");
    session!(|line| test.script(line), @"
    $ quell record -f -o u.qtrace -- true => 125
    quell: error: `u.qtrace` is being written by another quell
    hint: `-o DIR` writes elsewhere
    ");
    test.script("echo > go");
    assert_eq!(test.wait(first).code(), 0);
    test.quell(&["record", "-f", "-o", "u.qtrace", "--", "true"]).succeeds();
}
