//! The recorder against strace: the same calls, in the same order, with the same paths and errors.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use support::tree::{Seeds, assert_same_effects};
use support::{Run, Stage, Threads, assert_same, counts, may_trace, sequences};

/// Fixtures whose threads behave the same in every run.
const DETERMINISTIC: &[&str] = &[
    "bad_paths",
    "daemon",
    "descriptors",
    "exec_without_leader",
    "exit_in_call",
    "group_stop",
    "interrupted",
    "killed",
    "long_paths",
    "longjmp",
    "memory_file",
    "names",
    "pass_descriptor",
    "posix_spawn",
    "removed_directory",
    "static",
    "traps",
    "vectors",
    "vfork",
];

/// Longer than any program of these tests is quiet: the start is the whole run.
const WHOLE: f64 = 1000.0;

/// With a filter and without.
fn compare(what: &str, stage: &Stage) {
    compare_run(what, stage, &stage.record());
    compare_run(&format!("{what}, without a filter"), stage, &stage.record_start(WHOLE));
}

fn compare_run(what: &str, stage: &Stage, recorded: &Run) {
    let plain = stage.run_plain();
    assert_eq!(recorded.output.status.code(), Some(shell_status(plain.status)), "{what}: status");
    assert_eq!(recorded.output.stdout, plain.stdout, "{what}: output");
    assert_eq!(recorded.recording.header.recorder.lost, 0, "{what}: lost");
    let (ours, theirs) = (without_files(recorded.threads()), without_files(stage.strace()));
    assert_same(what, sequences(ours.clone()), sequences(theirs.clone()));
    assert_eq!(counts(&ours), counts(&theirs), "{what}: counts");
    assert_eq!(ours.values().map(Vec::len).sum::<usize>() as u64, recorded.recording.header.recorder.events);
}

/// Drops the files of descriptors, which the fixtures change in ways that no path shows. `context.rs` tests the
/// recorder's view of that.
fn without_files(mut threads: Threads) -> Threads {
    threads.values_mut().flatten().for_each(|seen| seen.file = None);
    threads
}

fn shell_status(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

#[test]
fn privileged_fixtures_equal_strace() {
    let Some(()) = may_trace() else { return };
    for name in DETERMINISTIC {
        compare(name, &Stage::fixture(name));
    }
}

#[test]
fn privileged_a_shell_pipeline_equals_strace() {
    let Some(()) = may_trace() else { return };
    let script = "for i in 1 2 3; do echo $i > file$i; done; cat file2 | sort -r | head -n 1 > out; \
                  test -e nothing || ls > /dev/null; (cd / && ls > /dev/null); rm file1 file2 file3";
    compare("pipeline", &Stage::new(&["/bin/sh", "-c", script]));
}

/// Threads interleave and wake each other differently in each run. Their effects on names and files are the same.
fn compare_effects(what: &str, stage: &Stage) {
    let runs = [0; 2].map(|_| Seeds::of_log(stage.strace_log()).effects());
    for recorded in [stage.record(), stage.record_start(WHOLE)] {
        assert_same_effects(what, &Seeds::of_run(&recorded).effects(), &runs);
    }
}

#[test]
fn privileged_threads_do_to_files_what_strace_sees() {
    let Some(()) = may_trace() else { return };
    compare_effects("threads", &Stage::fixture("threads"));
    compare_effects("threaded_exec", &Stage::fixture("threaded_exec"));
}

#[test]
fn privileged_a_static_go_program_does_to_files_what_strace_sees() {
    if std::process::Command::new("go").arg("version").output().is_err() {
        println!("skipped, because Go is not installed");
        return;
    }
    let Some(()) = may_trace() else { return };
    compare_effects("go", &Stage::fixture("go"));
}
