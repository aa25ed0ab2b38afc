//! The part of a file that an image holds: the bytes that the recording read or touched, and all where they are not known.
#![allow(clippy::unwrap_used)]

#[path = "support/session.rs"]
mod session;
#[path = "../../image/tests/support/mod.rs"]
mod support;

use quell_image::FileContent;
use quell_trace::{Call, Event, Extent, Fd, Nanos, Outcome, Pid, Process, ProcessId, Thread, ThreadId};
use session::Session;
use support::at;

/// Blocks of the file.
const BLOCKS: u64 = 40;

/// A page and a bit, as programs read.
const SIZE: i64 = 5000;

/// The calls of a recording on the file, and the runs of blocks that its image must hold; none for all.
type Case = (&'static str, fn(&mut Session), &'static [(u64, u64)]);

/// One file open, as programs have it; each step moves the clock.
fn on(session: &mut Session, call: Call, fd: Fd, offset: Option<i64>, outcome: Outcome) {
    session.clock += 1000;
    let event = Event { start: Nanos(session.clock), fd, offset, outcome, ..Event::new(call) };
    session.writer.event(&event).unwrap();
}

fn open(session: &mut Session) -> Fd {
    session.open("env/file", 0)
}

fn read(session: &mut Session, fd: Fd) {
    on(session, Call::Read, fd, None, Outcome::Success(SIZE));
}

/// A process that the first one forks, with a thread; they come to be now.
fn fork(session: &mut Session) -> ThreadId {
    session.clock += 1000;
    let start = Nanos(session.clock);
    let child = Process { pid: Pid(2), parent: Some(ProcessId(0)), start, end: None, exit: None };
    let process = session.writer.process(child).unwrap();
    let thread = Thread {
        tid: Pid(2),
        process,
        parent: Some(ThreadId(0)),
        start,
        shares_files: false,
        shares_directory: false,
    };
    session.writer.thread(thread).unwrap()
}

fn map(session: &mut Session, fd: Fd) {
    on(session, Call::Mmap, fd, Some(0), Outcome::Success(0));
}

const CASES: [Case; 12] = [
    (
        "read from the start on",
        |session| {
            let fd = open(session);
            (0..3).for_each(|_| read(session, fd));
        },
        &[(0, 4)],
    ),
    (
        "read where lseek went",
        |session| {
            let fd = open(session);
            on(session, Call::Lseek, fd, Some(0), Outcome::Success(20 * 4096));
            read(session, fd);
        },
        &[(0, 1), (20, 22)],
    ),
    (
        "read at an offset, which moves nothing",
        |session| {
            let fd = open(session);
            on(session, Call::Pread64, fd, Some(30 * 4096), Outcome::Success(1));
            read(session, fd);
        },
        &[(0, 2), (30, 31)],
    ),
    (
        "read at the position by `preadv2`",
        |session| {
            let fd = open(session);
            read(session, fd);
            on(session, Call::Preadv2, fd, Some(-1), Outcome::Success(4096));
        },
        &[(0, 3)],
    ),
    (
        "the same open file under two numbers",
        |session| {
            let fd = open(session);
            on(session, Call::Dup, fd, None, Outcome::Success(99));
            read(session, fd);
            read(session, Fd(99));
        },
        &[(0, 3)],
    ),
    (
        "two open files",
        |session| {
            let (first, second) = (open(session), open(session));
            read(session, first);
            on(session, Call::Lseek, second, Some(0), Outcome::Success(9 * 4096));
            read(session, second);
            read(session, first);
        },
        &[(0, 3), (9, 11)],
    ),
    (
        "an open file that a child shares",
        |session| {
            let fd = open(session);
            fork(session);
            read(session, fd);
        },
        &[],
    ),
    (
        "a file that was open already",
        |session| {
            let fd = open(session);
            on(session, Call::Close, fd, None, Outcome::Success(0));
            on(session, Call::Sendfile, Fd(3), None, Outcome::Success(9));
            // The number is not one that an open gave.
            session.writer.seen(ThreadId(0), Fd(77).into(), None).unwrap();
            let path = session.top.join("env/file").into_os_string().into_encoded_bytes();
            let path = session.writer.path(&path).unwrap();
            session.writer.seen(ThreadId(0), Fd(77).into(), Some(path)).unwrap();
            read(session, Fd(77));
        },
        &[],
    ),
    (
        "a read that its thread did not live to see the end of",
        |session| {
            let fd = open(session);
            read(session, fd);
            on(session, Call::Read, fd, None, Outcome::Unfinished);
        },
        &[],
    ),
    (
        "descriptors that were passed",
        |session| {
            let fd = open(session);
            on(session, Call::Recvmsg, Fd(5), None, Outcome::Success(1));
            read(session, fd);
        },
        &[],
    ),
    (
        "mapped, and unmapped before the end",
        |session| {
            let fd = open(session);
            map(session, fd);
        },
        &[],
    ),
    (
        "mapped, touched and read",
        |session| {
            let fd = open(session);
            map(session, fd);
            read(session, fd);
            let path = session.top.join("env/file").into_os_string().into_encoded_bytes();
            let path = session.writer.path(&path).unwrap();
            let extents = [Extent { offset: 7 * 4096, size: 8192 }, Extent { offset: 39 * 4096, size: 4096 }];
            session.writer.touched(ProcessId(0), path, &extents).unwrap();
        },
        &[(0, 2), (7, 9), (39, 40)],
    ),
];

/// A session with the file, of which case `number` is recorded.
fn recorded(number: usize) -> Session {
    let mut session = Session::new("lustre");
    let content: Vec<u8> = (0..BLOCKS * 4096 - 100).map(|at| (at / 4096) as u8).collect();
    session.file("env/file", &content);
    (CASES[number].1)(&mut session);
    session
}

/// First block and end of what the image holds of the file; none if it holds all of it.
fn held(session: Session) -> Vec<(u64, u64)> {
    let (rest, _) = session.pack();
    let image = rest.open();
    match image.content(at(&image, &rest.path("env/file"))).unwrap() {
        FileContent::Part(part) => part.blocks().runs().map(|run| (run.start, run.end)).collect(),
        FileContent::Held(_) => Vec::new(),
        FileContent::Original => panic!("nothing is held"),
    }
}

#[test]
fn what_was_used_is_held() {
    for (number, (what, _, expected)) in CASES.iter().enumerate() {
        let mut session = recorded(number);
        session.writer.looked(ProcessId(0)).unwrap();
        assert_eq!(held(session), *expected, "{what}");
    }
}

#[test]
fn all_is_held_where_nobody_looked() {
    for (number, (what, ..)) in CASES.iter().enumerate() {
        let session = recorded(number);
        assert_eq!(held(session), [], "{what}");
    }
}

#[test]
fn small_files_are_held_whole() {
    for (size, whole) in [(32 << 10, true), ((32 << 10) + 1, false)] {
        let mut session = Session::new("lustre");
        session.file("env/file", &vec![7; size]);
        let fd = open(&mut session);
        read(&mut session, fd);
        session.writer.looked(ProcessId(0)).unwrap();
        assert_eq!(held(session).is_empty(), whole, "{size}");
    }
}
