//! Plays what one recorded process did: a process of a replay, from its begin to its end.

use super::child::{PlayingProcess, ProcessOrder, ProcessReport, StartSignal};
use super::issue::{self, CallFailure, Scratch};
use super::package;
use super::stage::{NO_PATH, Stage};
use super::steps::{FileSlot, IssuedCall, ReplayStep};
use super::tally::ReplayTally;
use quell_base::lock;
use quell_talk::{receive, receive_files, send};
use quell_trace::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Result};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Plays the process that the other end of standard input orders, and reports there. Returns when all is done; when the
/// other end goes away before, this process ends too, and so do those that it started.
pub fn process() -> ExitCode {
    let done = perform();
    // Once the socket has gone, no process is left to report to.
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn perform() -> Result<()> {
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let order: ProcessOrder = receive(&mut socket)?;
    let mut files = receive_files(&socket, 1 + order.slots.len())?.into_iter();
    let package = File::from(files.next().ok_or(ErrorKind::UnexpectedEof)?);
    let head = package::head(&package)?;
    let programme = package::programme(&package, order.process)?;
    let stage = Stage::new(programme, head, order.rank)?;
    for (slot, file) in order.slots.iter().zip(files) {
        stage.put(FileSlot(*slot), Some(file), NO_PATH);
    }
    let given = |slot: &FileSlot| order.slots.contains(&slot.0);
    let missing = stage.programme.inherits.iter().map(|(_, its)| *its).filter(|slot| !given(slot));
    // No process opens what the parent could not.
    missing.for_each(|slot| stage.put(slot, None, NO_PATH));
    if order.waits {
        stage.take_position()?;
        send(&mut socket, &StartSignal::Ready)?;
        if receive::<StartSignal>(&mut socket)? != StartSignal::Begin {
            return Err(ErrorKind::InvalidData.into());
        }
    }
    end_with(socket.try_clone()?);
    let began = Instant::now();
    let player =
        Player { stage, package, rank: order.rank, children: Mutex::default(), tally: Mutex::default() };
    let tally = player.play();
    send(&mut socket, &ProcessReport { nanos: began.elapsed().as_nanos() as u64, tally })
}

/// Ends this process when the one that started it has gone.
fn end_with(mut socket: UnixStream) {
    std::thread::spawn(move || {
        let mut byte = [0];
        while matches!(socket.read(&mut byte), Ok(1..)) {}
        std::process::exit(1);
    });
}

/// The time that the program computed between calls, slept: many ranks find room on few cores. What is too short for the kernel's
/// timers is put off to the next calls, and what was slept too long is taken off them.
#[derive(Debug, Default)]
struct ThinkPace {
    /// Recorded times are multiplied by this; `None` leaves them out.
    factor: Option<f64>,
    /// Sleep that is due. Unit: nanoseconds.
    due: i64,
    /// Recorded time so far, multiplied. Unit: nanoseconds.
    thought: u64,
}

impl ThinkPace {
    /// The least that is slept. Unit: nanoseconds.
    const LEAST: i64 = 500_000;

    /// Goes on to a call that came `gap` nanoseconds after the end of the one before, which ended here at `last`.
    fn think(&mut self, gap: u64, last: Instant) {
        let Some(factor) = self.factor else { return };
        let gap = (gap as f64 * factor) as u64;
        self.thought = self.thought.saturating_add(gap);
        self.due = self.due.saturating_add_unsigned(gap).saturating_sub(last.elapsed().as_nanos() as i64);
        if self.due >= Self::LEAST {
            let began = Instant::now();
            std::thread::sleep(Duration::from_nanos(self.due.cast_unsigned()));
            self.due = self.due.saturating_sub(began.elapsed().as_nanos() as i64);
        }
    }
}

/// A process at work.
#[derive(Debug)]
struct Player {
    stage: Stage,
    package: File,
    rank: u32,
    children: Mutex<HashMap<u32, PlayingProcess>>,
    tally: Mutex<ReplayTally>,
}

impl Player {
    fn play(&self) -> ReplayTally {
        std::thread::scope(|scope| self.thread(scope, 0));
        let children = std::mem::take(&mut *lock(&self.children));
        children.into_values().for_each(|child| self.end(child));
        std::mem::take(&mut *lock(&self.tally))
    }

    fn thread<'scope>(&'scope self, scope: &'scope std::thread::Scope<'scope, '_>, number: usize) {
        let Some(steps) = self.stage.programme.threads.get(number) else { return };
        let mut tally = ReplayTally::default();
        let mut scratch = Scratch::default();
        let mut last = Instant::now();
        let mut pace = ThinkPace { factor: self.stage.head.think, ..ThinkPace::default() };
        for step in steps {
            match step {
                ReplayStep::Issue(issue) => {
                    pace.think(issue.gap, last);
                    last = self.call(issue, &mut scratch, &mut tally);
                }
                ReplayStep::Spawn(process) => self.spawn(*process, &mut tally),
                ReplayStep::Await(process) => {
                    let child = lock(&self.children).remove(process);
                    child.into_iter().for_each(|child| self.end(child));
                    last = Instant::now();
                }
                ReplayStep::Thread(number) => {
                    let number = *number as usize;
                    let thread =
                        std::thread::Builder::new().spawn_scoped(scope, move || self.thread(scope, number));
                    if thread.is_err() {
                        // Others would wait for its files; the process that started this one counts it as lost.
                        std::process::exit(1);
                    }
                }
                ReplayStep::Release(slot) => _ = self.stage.close(*slot),
            }
        }
        tally.think_nanos += pace.thought;
        lock(&self.tally).merge(&tally);
    }

    /// Issues a call and counts it. Returns when it ended.
    fn call(&self, issue: &IssuedCall, scratch: &mut Scratch, tally: &mut ReplayTally) -> Instant {
        let recorded = issue.recorded();
        let began = Instant::now();
        let outcome = issue::issue(&self.stage, &issue.operation, issue.failed != 0, scratch);
        let ended = Instant::now();
        self.stage.used(&issue.operation);
        if outcome == Err(CallFailure::Orphan) {
            tally.orphaned += 1;
            return ended;
        }
        let class = tally.classes.entry(recorded.class()).or_default();
        class.latency.add(ended - began);
        let errno = match outcome {
            Ok(moved) => {
                tally.bytes_read += moved.read;
                tally.bytes_written += moved.written;
                None
            }
            Err(CallFailure::Kernel(errno)) => Some(Errno(errno.raw_os_error().unsigned_abs() as u16)),
            Err(CallFailure::Orphan) => None,
        };
        class.errors += u64::from(errno.is_some());
        tally.compare(recorded, issue.failed, errno, || self.stage.describe(&issue.operation));
        ended
    }

    fn spawn(&self, process: u32, tally: &mut ReplayTally) {
        let started = package::programme(&self.package, process).and_then(|programme| {
            let wanted = programme.inherits.into_iter();
            let given: Vec<_> =
                wanted.filter_map(|(mine, its)| Some((its.0, self.stage.take(mine)?))).collect();
            let order = ProcessOrder {
                process,
                rank: self.rank,
                waits: false,
                slots: given.iter().map(|(slot, _)| *slot).collect(),
            };
            let files: Vec<_> = given.iter().map(|(_, file)| file.as_fd()).collect();
            PlayingProcess::start(&order, &self.package, &files)
        });
        match started {
            Ok(child) => {
                lock(&self.children).insert(process, child);
            }
            Err(error) => tally.lose(&error),
        }
    }

    /// Waits for a process that this one started.
    fn end(&self, mut child: PlayingProcess) {
        let report = child.report();
        let mut tally = lock(&self.tally);
        match report {
            Ok(report) => tally.merge(&report.tally),
            Err(error) => tally.lose(&error),
        }
    }
}
