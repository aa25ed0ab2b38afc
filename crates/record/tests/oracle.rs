//! The recorder against strace: the same calls, in the same order, with the same paths and errors.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use support::{Stage, Threads, assert_same, counts, may_trace, sequences};

/// Fixtures whose every thread does the same in every run.
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

fn compare(what: &str, stage: &Stage) {
    let recorded = stage.record();
    let plain = stage.run_plain();
    assert_eq!(recorded.output.status.code(), Some(shell_status(plain.status)), "{what}: status");
    assert_eq!(recorded.output.stdout, plain.stdout, "{what}: output");
    assert_eq!(recorded.recording.header.recorder.lost, 0, "{what}: lost");
    let (ours, theirs) = (without_files(recorded.threads()), without_files(stage.strace()));
    assert_same(what, sequences(ours.clone()), sequences(theirs.clone()));
    assert_eq!(counts(&ours), counts(&theirs), "{what}: counts");
    assert_eq!(ours.values().map(Vec::len).sum::<usize>() as u64, recorded.recording.header.recorder.events);
}

/// The fixtures do to descriptors what no path tells; `context.rs` says what the recorder makes of that.
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
    if !may_trace() {
        return;
    }
    for name in DETERMINISTIC {
        compare(name, &Stage::fixture(name));
    }
}

#[test]
fn privileged_a_shell_pipeline_equals_strace() {
    if !may_trace() {
        return;
    }
    let script = "for i in 1 2 3; do echo $i > file$i; done; cat file2 | sort -r | head -n 1 > out; \
                  test -e nothing || ls > /dev/null; (cd / && ls > /dev/null); rm file1 file2 file3";
    compare("pipeline", &Stage::new(&["/bin/sh", "-c", script]));
}

/// Threads interleave differently in each run, so the recorder's counts must lie within those of five runs.
fn within_envelope(what: &str, stage: &Stage, tolerant: &[&str]) {
    let ours = counts(&stage.record().threads());
    let runs: Vec<_> = (0..5).map(|_| counts(&stage.strace())).collect();
    for name in ours.keys().chain(runs.iter().flat_map(|run| run.keys())) {
        let of = |run: &std::collections::BTreeMap<String, (usize, usize)>| {
            run.get(name).copied().unwrap_or_default()
        };
        let (calls, errors) = of(&ours);
        let range = |part: fn((usize, usize)) -> usize| {
            let values = || runs.iter().map(|run| part(of(run)));
            values().min().unwrap()..=values().max().unwrap()
        };
        if tolerant.contains(&name.as_str()) {
            continue;
        }
        assert!(
            range(|count| count.0).contains(&calls),
            "{what}: {name} {calls} calls, {:?}",
            range(|c| c.0)
        );
        assert!(
            range(|count| count.1).contains(&errors),
            "{what}: {name} {errors} errors, {:?}",
            range(|c| c.1)
        );
    }
}

#[test]
fn privileged_threads_are_within_the_envelope_of_strace() {
    if !may_trace() {
        return;
    }
    within_envelope("threads", &Stage::fixture("threads"), &[]);
    within_envelope("threaded_exec", &Stage::fixture("threaded_exec"), &[]);
}

#[test]
fn privileged_a_static_go_program_is_within_the_envelope_of_strace() {
    if std::process::Command::new("go").arg("version").output().is_err() {
        println!("skipped, because Go is not installed");
        return;
    }
    if !may_trace() {
        return;
    }
    // Its runtime wakes sleeping threads through a pipe or polls as it likes: those calls vary from run to run.
    within_envelope("go", &Stage::fixture("go"), &["write", "read", "fcntl", "mmap"]);
}
