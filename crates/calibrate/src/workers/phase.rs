//! The parts of every kind of phase: preparation, a limit of time, threads.

use super::protocol::PhaseResult;
use crate::operation::{OperationTime, elapsed};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// An operation that failed: on what, and how.
pub(super) type Failed = (String, Errno);

/// A prepared phase. It runs when the start is given.
pub(super) type PreparedPhase<'a> = Box<dyn FnOnce() -> Result<PhaseResult, Failed> + 'a>;

/// The time after which no operation begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct PhaseLimit {
    began: Instant,
    lasts: Duration,
}

impl PhaseLimit {
    pub(super) fn of(milliseconds: u64) -> Self {
        Self { began: Instant::now(), lasts: Duration::from_millis(milliseconds) }
    }

    pub(super) fn is_over(&self) -> bool {
        elapsed(self.began) >= u64::try_from(self.lasts.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The work of several threads of one process, added up.
pub(super) fn in_threads(
    threads: usize,
    share: impl Fn(usize) -> Result<PhaseResult, Failed> + Sync,
) -> Result<PhaseResult, Failed> {
    let share = &share;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        let mut sum = PhaseResult::default();
        for thread in running {
            let done = joined(thread)?;
            sum.count += done.count;
            sum.latencies.extend(done.latencies);
            sum.closes.extend(done.closes);
            sum.computed += done.computed;
        }
        Ok(sum)
    })
}

/// The result of a thread. Its panic goes on in this one.
pub(super) fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl PhaseResult {
    /// One more operation.
    pub(super) fn add(&mut self, took: OperationTime) {
        self.count += 1;
        self.latencies.push(took.operation);
        self.closes.extend(took.close);
    }
}

pub(super) fn now(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
        + u64::try_from(now.tv_nsec).unwrap_or(0)
}

pub(super) fn open_directory(at: BorrowedFd<'_>, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}
