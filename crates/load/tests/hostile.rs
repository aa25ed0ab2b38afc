//! A replay is planned of any trace that can be read, whatever its events claim of processes, descriptors and paths; and no
//! plan changes the tree.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use proptest::prelude::*;
use quell_load::replay::{self, Writes};
use quell_trace::resolve::Nobody;
use quell_trace::writer::Ending;
use quell_trace::{
    Bytes, Call, Event, Fd, Header, Nanos, Outcome, PathId, Pid, Process, ProcessId, Recording, Thread,
    ThreadId, Writer,
};

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
    directory: &std::path::Path,
    threads: &[(u32, Option<u32>)],
    claims: &[Claim],
) -> Result<(), quell_trace::TraceError> {
    let mut writer = Writer::create(directory, header())?;
    let ids: Vec<PathId> = PATHS.iter().map(|path| writer.path(path)).collect::<Result<_, _>>()?;
    writer.working_directory(ids[0])?;
    for number in 0..3 {
        let parent = (number > 0).then(|| ProcessId(number - 1));
        writer.process(Process { pid: Pid(1), parent, start: Nanos(0), end: Some(Nanos(40)), exit: None })?;
    }
    for (number, (process, parent)) in threads.iter().enumerate() {
        writer.thread(Thread {
            tid: Pid(1),
            process: ProcessId(*process),
            parent: parent.map(ThreadId),
            start: Nanos(number as u64),
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
    let ending = Ending { exit: None, took: None, lost: 0, notes: Vec::new() };
    writer.finish(ending, &mut Nobody)?;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_trace_that_can_be_read_can_be_planned(
        threads in proptest::collection::vec((0..3_u32, proptest::option::of(0..6_u32)), 1..6),
        claims in proptest::collection::vec(claim(), 1..40),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("t.qtrace");
        write(&trace, &threads, &claims).unwrap();
        let Ok(recording) = Recording::open(&trace) else { return Ok(()) };
        for writes in [Writes::Skip, Writes::Private] {
            for moves in [false, true] {
                if let Ok(plan) = replay::plan(&recording, b"/t", moves, writes) {
                    prop_assert!(plan.operations as usize <= claims.len());
                    prop_assert!(plan.spares_tree());
                }
            }
        }
    }
}
