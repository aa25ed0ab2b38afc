//! The touched parts of mapped files in a recording, for every way in which a process can end.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use quell_trace::{Exit, Recording};
use std::path::Path;
use std::process::{Command, Stdio};
use support::{Run, Stage, fixture, may_trace};

/// The size of each file that the fixture maps.
const SIZE: u64 = 10 << 20;

fn page_size() -> u64 {
    let output = Command::new("getconf").arg("PAGESIZE").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

fn stage(how: &str) -> Stage {
    let prepare = |work: &Path| {
        for name in ["data", "gone", "li\nne \\040.so"] {
            // A hole has no cached pages that the kernel could map beside a touched one.
            std::fs::File::create(work.join(name)).unwrap().set_len(SIZE).unwrap();
        }
    };
    Stage::new(&[fixture("touches").to_str().unwrap(), how]).prepared(prepare)
}

/// The parts of a file that a process touched, as first page and number of pages.
fn parts(run: &Run, stage: &Stage, process: u32, name: &str) -> Vec<(u64, u64)> {
    let path = std::fs::canonicalize(stage.directory()).unwrap().join(name).into_os_string();
    let wanted = run.recording.paths.find(path.as_encoded_bytes());
    let rows = run.recording.touched().unwrap().expect("the recorder looks");
    let rows = rows.into_iter().filter(|row| row.process.0 == process && Some(row.path) == wanted);
    let page = page_size();
    rows.map(|row| (row.offset / page, row.size / page)).collect()
}

#[test]
fn privileged_pages_that_were_touched_are_known_however_the_process_ends() {
    let Some(()) = may_trace() else { return };
    let changes = [(7, 3), (100, 1), (2559, 1)];
    let executes = [(1, 2), (7, 3), (100, 1), (2559, 1)];
    let status = Exit::Status;
    for (how, exit, expected) in [
        ("changes", status(0), &[&changes[..]][..]),
        ("reads", status(0), &[&[(0, 1), (500, 1), (1000, 1), (1500, 1)]]),
        ("executes", status(0), &[&executes]),
        ("leader", status(0), &[&[(20, 2)]]),
        ("many", status(6), &[&[(23, 1)]]),
        // One thread is always in a call, at which the recorder has stopped it.
        ("busy", status(0), &[&[(24, 1)]]),
        ("busy", status(0), &[&[(24, 1)]]),
        ("killed", Exit::Signal(9), &[&[(22, 1)]]),
        // A child inherits the changed pages of its parent.
        ("forks", status(0), &[&[(30, 1), (32, 1)], &[(30, 2)]]),
        // A child that borrows memory leaves the pages that it touched to its parent.
        ("vforks", status(0), &[&[(40, 2)], &changes]),
    ] {
        let stage = stage(how);
        let run = stage.record();
        assert_eq!(run.recording.header.exit, Some(exit), "{how}");
        assert_eq!(run.recording.context.processes.len(), expected.len(), "{how}");
        for (process, &expected) in expected.iter().enumerate() {
            assert_eq!(parts(&run, &stage, process as u32, "data"), expected, "{how}, process {process}");
        }
    }
}

#[test]
fn privileged_files_that_left_the_memory_have_no_rows() {
    let Some(()) = may_trace() else { return };
    let stage = stage("forgets");
    let run = stage.record();
    assert_eq!(parts(&run, &stage, 0, "data"), [], "unmapped before the end");
    assert_eq!(parts(&run, &stage, 0, "gone"), [], "deleted");
    assert_eq!(
        parts(&run, &stage, 0, "li\nne \\040.so"),
        [(52, 1)],
        "a name that the kernel escapes in part"
    );
}

#[test]
fn privileged_programs_and_libraries_are_among_the_files() {
    let Some(()) = may_trace() else { return };
    let run = Stage::new(&["/bin/sh", "-c", "/bin/true; true"]).record();
    let rows = run.recording.touched().unwrap().unwrap();
    let names = |process: u32| {
        let rows = rows.iter().filter(|row| row.process.0 == process);
        rows.map(|row| run.recording.paths.display(row.path)).collect::<std::collections::BTreeSet<_>>()
    };
    for (process, program) in [(0, "/bin/sh"), (1, "/bin/true")] {
        let program = std::fs::canonicalize(program).unwrap();
        assert!(names(process).contains(program.to_str().unwrap()), "{:?}", names(process));
        assert!(names(process).iter().any(|name| name.contains("/libc.so")), "{:?}", names(process));
    }
    let page = page_size();
    assert!(rows.iter().all(|row| row.size % page == 0 && row.offset % page == 0));
    // Files of the kernel's own file systems cannot be packed.
    assert!(names(0).iter().all(|name| name.starts_with('/') && !name.starts_with("/proc/")));
}

#[test]
fn privileged_a_killed_recorder_says_nothing_of_processes_that_it_had_not_seen_to_their_end() {
    let Some(folder) = support::traced_directory() else { return };
    let trace = folder.path().join("t.qtrace");
    let script = "/bin/true; while :; do /bin/ls -d /; done";
    let mut recorder = Command::new(support::recorder());
    recorder.arg(&trace).args(["/bin/sh", "-c", script]).stdout(Stdio::null());
    let mut recorder = recorder.spawn().unwrap();
    let known = || Recording::open(&trace).ok()?.touched().ok()?.filter(|rows| !rows.is_empty());
    while known().is_none() {
        assert_eq!(recorder.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let recording = Recording::open(&trace).unwrap();
    let rows = recording.touched().unwrap().unwrap();
    assert!(rows.iter().any(|row| row.process.0 == 1));
    let ended = |process: usize| recording.context.processes[process].end.is_some();
    assert!(rows.iter().all(|row| row.process.0 != 0 && ended(row.process.0 as usize)));
}
