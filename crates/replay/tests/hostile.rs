//! A replay is planned of any trace that can be read, whatever its events claim of processes, descriptors and paths; no
//! plan changes the tree, and every plan comes to its end when it is played.
//!
//! This program is its own test harness: the processes of a replay are the program that plays it, started again.

#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use quell_replay::{self as replay, ReplayConductor, ReplayManner, ReplayPlan, ReplayWrites};
use quell_trace::resolve::NoFileSystem;
use quell_trace::writer::Ending;
use quell_trace::{
    Bytes, Call, Event, Fd, Header, Nanos, Outcome, PathId, Pid, Process, ProcessId, Recording, Thread,
    ThreadId, Writer,
};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == replay::ARGUMENT) {
        return replay::process();
    }
    a_close_that_failed_keeps_no_thread_waiting();
    a_process_has_open_files_of_the_one_that_starts_it();
    what_a_link_of_a_trace_leads_to_stays_as_it_is();
    any_trace_that_can_be_read_can_be_planned_and_played();
    ExitCode::SUCCESS
}

/// A thread: its process, the thread that started it, and when.
type Begun = (u32, Option<u32>, u64);

fn header() -> Header {
    Header::begun("test", "0", vec!["hostile".to_owned()])
}

const PATHS: [&[u8]; 10] =
    [b"/t", b"/t/a", b"/t/a/b", b"a", b"../..", b"/t/../etc/passwd", b"", b"/etc", b"a/./b/", b"/t/new"];

#[derive(Clone, Debug)]
struct Claim {
    thread: u32,
    call: usize,
    fd: i32,
    fd2: i32,
    paths: (usize, usize),
    flags: u64,
    value: i64,
    size: u64,
    offset: i64,
}

fn claim() -> impl Strategy<Value = Claim> {
    let fd = || prop_oneof![3 => -1..8_i32, 1 => Just(-100), 1 => any::<i32>()];
    let flags = prop_oneof![Just(0_u64), Just(0o1102), Just(0o2_000_000), any::<u64>()];
    let value = prop_oneof![3 => 0..8_i64, 1 => -120..0_i64, 1 => any::<i64>()];
    let paths = (0..=PATHS.len(), 0..=PATHS.len());
    (0..6_u32, 0..Call::ALL.len(), fd(), fd(), paths, flags, value, any::<u64>(), any::<i64>()).prop_map(
        |(thread, call, fd, fd2, paths, flags, value, size, offset)| Claim {
            thread,
            call,
            fd,
            fd2,
            paths,
            flags,
            value,
            size,
            offset,
        },
    )
}

fn write(
    directory: &Path,
    paths: &[&[u8]],
    threads: &[Begun],
    claims: &[Claim],
) -> Result<(), quell_trace::TraceError> {
    let mut writer = Writer::create(directory, header())?;
    let ids: Vec<PathId> = paths.iter().map(|path| writer.path(path)).collect::<Result<_, _>>()?;
    writer.working_directory(ids[0])?;
    for number in 0..3 {
        let parent = (number > 0).then(|| ProcessId(number - 1));
        writer.process(Process { pid: Pid(1), parent, start: Nanos(0), end: Some(Nanos(40)), exit: None })?;
    }
    for (number, (process, parent, start)) in threads.iter().enumerate() {
        writer.thread(Thread {
            tid: Pid(1),
            process: ProcessId(*process),
            parent: parent.map(ThreadId),
            start: Nanos(*start),
            shares_files: number % 2 == 0,
            shares_directory: false,
        })?;
    }
    for (number, claim) in claims.iter().enumerate() {
        let process = threads.get(claim.thread as usize).map_or(0, |thread| thread.0);
        writer.event(&Event {
            start: Nanos(10 * number as u64),
            duration: Nanos(5),
            process: ProcessId(process),
            thread: ThreadId(claim.thread),
            outcome: Outcome::from_return_value(claim.value),
            fd: Fd(claim.fd),
            fd2: Fd(claim.fd2),
            path: ids.get(claim.paths.0).copied(),
            path2: ids.get(claim.paths.1).copied(),
            flags: claim.flags,
            size: Bytes(claim.size),
            offset: Some(claim.offset),
            ..Event::new(Call::ALL[claim.call])
        })?;
    }
    let ending =
        Ending { ended: None, exit: None, took: None, lost: 0, notes: Vec::new(), client_counters: None };
    writer.finish(ending, &mut NoFileSystem)?;
    Ok(())
}

/// Plays a plan once and changes nothing. False when it has not come to its end in time.
fn ends(plan: &ReplayPlan, root: &Path) -> bool {
    let interrupted = Arc::new(AtomicBool::new(false));
    let (over, watched) = mpsc::channel::<()>();
    let flag = Arc::clone(&interrupted);
    let watch = std::thread::spawn(move || {
        let is_late = watched.recv_timeout(Duration::from_secs(300)) == Err(mpsc::RecvTimeoutError::Timeout);
        flag.store(is_late, Ordering::Relaxed);
    });
    let manner = ReplayManner { root: root.to_owned(), first: 0, ranks: 1, think: None, nonce: 1 };
    let stop = || interrupted.load(Ordering::Relaxed);
    let played = ReplayConductor::start(plan, &manner, &stop).and_then(|conductor| conductor.perform(&stop));
    drop(over);
    watch.join().unwrap();
    match played {
        Ok(performance) => performance.rank_seconds.len() == 1,
        Err(replay::ReplayError::Interrupted) => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// Writes, plans and plays.
fn check(threads: &[Begun], claims: &[Claim]) {
    let directory = tempfile::tempdir().unwrap();
    let (trace, root) = (directory.path().join("t.qtrace"), directory.path().join("tree"));
    write(&trace, &PATHS, threads, claims).unwrap();
    std::fs::create_dir_all(root.join("a")).unwrap();
    std::fs::write(root.join("a/b"), "b").unwrap();
    let Ok(recording) = Recording::open(&trace) else { return };
    for writes in [ReplayWrites::Skip, ReplayWrites::Private] {
        for moves in [false, true] {
            if let Ok(plan) = replay::plan(&recording, b"/t", moves, writes) {
                assert!(plan.operations as usize <= claims.len());
                assert!(plan.spares_tree());
                // Data that is written may be of any size.
                assert!(!moves || writes == ReplayWrites::Private || ends(&plan, &root), "it never ends");
            }
        }
    }
    assert_eq!(std::fs::read(root.join("a/b")).unwrap(), b"b");
}

fn any_trace_that_can_be_read_can_be_planned_and_played() {
    let thread = (0..3_u32, proptest::option::of(0..6_u32), 0..200_u64);
    let threads = proptest::collection::vec(thread, 1..6);
    let claims = proptest::collection::vec(claim(), 1..40);
    let config = ProptestConfig {
        cases: 40,
        failure_persistence: None,
        max_shrink_iters: 16,
        ..ProptestConfig::default()
    };
    TestRunner::new(config)
        .run(&(threads, claims), |(threads, claims)| {
            check(&threads, &claims);
            Ok(())
        })
        .unwrap();
}

fn call(thread: u32, call: Call, fd: i32, value: i64) -> Claim {
    let call = Call::ALL.iter().position(|other| *other == call).unwrap();
    Claim { thread, call, fd, fd2: -1, paths: (2, 2), flags: 0, value, size: 0, offset: 0 }
}

fn a_close_that_failed_keeps_no_thread_waiting() {
    let failed = -i64::from(quell_trace::Errno::EBADF.0);
    let calls = [
        call(0, Call::Openat, -100, 3),
        call(0, Call::Close, 3, failed),
        call(0, Call::Fstat, 3, 0),
        call(0, Call::Close, 3, 0),
    ];
    check(&[(0, None, 0)], &calls);
}

/// The trace calls the second process the parent of the third, which the first one starts after it has opened a file.
fn a_process_has_open_files_of_the_one_that_starts_it() {
    let calls = [call(0, Call::Openat, -100, 3), call(1, Call::Openat, -100, 4), call(2, Call::Fstat, 3, 0)];
    check(&[(0, None, 0), (1, Some(0), 1), (2, Some(0), 12)], &calls);
}

/// Links to a file by every kind of content, and what a trace can do through them, against the recorded tree itself.
fn what_a_link_of_a_trace_leads_to_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let (trace, root) = (directory.path().join("t.qtrace"), directory.path().join("tree"));
    std::fs::create_dir_all(root.join("a")).unwrap();
    let victims = [root.join("real"), directory.path().join("real"), root.join("a/real")];
    let look = |victim: &std::path::PathBuf| {
        let metadata = victim.metadata().unwrap();
        (std::fs::read(victim).unwrap(), metadata.permissions(), metadata.modified().unwrap())
    };
    victims.iter().for_each(|victim| std::fs::write(victim, "real").unwrap());
    let before = victims.each_ref().map(look);
    let whole = |name: &str| [root.as_os_str().as_encoded_bytes(), b"/", name.as_bytes()].concat();
    let contents = [
        whole("real"),
        whole("../real"),
        whole("a/real"),
        b"../../real".to_vec(),
        b"../../../real".to_vec(),
        b"../../../../real".to_vec(),
    ];
    for content in &contents {
        for moved in [false, true] {
            let (deep, link) = (whole("x/y/z/link"), whole(if moved { "link" } else { "x/y/z/link" }));
            let made = [whole("x"), whole("x/y"), whole("x/y/z")];
            let paths: [&[u8]; 7] =
                [root.as_os_str().as_encoded_bytes(), &made[0], &made[1], &made[2], content, &deep, &link];
            let claim =
                |of: Call, paths, flags, value| Claim { paths, flags, size: 9, ..call(0, of, -1, value) };
            let mut calls: Vec<Claim> = (1..4).map(|made| claim(Call::Mkdir, (made, 9), 0, 0)).collect();
            calls.push(claim(Call::Symlink, (4, 5), 0, 0));
            if moved {
                calls.push(claim(Call::Rename, (5, 6), 0, 0));
            }
            calls.push(claim(Call::Open, (6, 9), 0o1001, 3));
            calls.push(Claim { size: 9, ..call(0, Call::Write, 3, 9) });
            calls.push(claim(Call::Chmod, (6, 9), 0o777, 0));
            calls.push(claim(Call::Utimes, (6, 9), 0, 0));
            calls.push(claim(Call::Unlink, (6, 9), 0, 0));
            write(&trace, &paths, &[(0, None, 0)], &calls).unwrap();
            let recording = Recording::open(&trace).unwrap();
            let plan = replay::plan(&recording, paths[0], false, ReplayWrites::Private).unwrap();
            assert_eq!(plan.operations, calls.len() as u64);
            assert!(ends(&plan, &root), "it never ends");
            assert_eq!(victims.each_ref().map(look), before, "{} {moved}", content.escape_ascii());
            std::fs::remove_dir_all(&trace).unwrap();
        }
    }
}
