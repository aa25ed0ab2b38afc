//! The counts of a replay: calls by class with their times, and outcomes that differ from the recorded ones.

use super::latency::LatencyHistogram;
use quell_trace::{Call, Class, Errno};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Calls on the tree that are not issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedCalls {
    /// They would change something.
    pub writes: u64,
    /// They are about something that the recording itself made.
    pub made: u64,
    /// The trace does not say enough of them, or they would wait for others: locks, watches, device controls.
    pub unable: u64,
}

/// Counts of one class of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassTally {
    /// Calls that failed, here and now.
    pub errors: u64,
    /// The times of calls.
    pub latency: LatencyHistogram,
}

/// A call that succeeded in the recording and fails now, or the other way round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeDifference {
    /// The call's name.
    pub call: String,
    /// The file, as it was asked for here; escaped.
    pub path: String,
    /// The error now.
    pub errno: u16,
}

/// The counts of one process, or of many. Merging is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayTally {
    /// By class.
    pub classes: BTreeMap<Class, ClassTally>,
    /// Unit: bytes.
    pub bytes_read: u64,
    /// Unit: bytes.
    pub bytes_written: u64,
    /// Recorded time between calls that was waited for, of all threads. Unit: nanoseconds.
    pub think_nanos: u64,
    /// Calls that succeeded in the recording and fail now.
    pub failing: u64,
    /// The first of them. Shape: at most [`NAMED`].
    pub first: Vec<OutcomeDifference>,
    /// Calls that failed in the recording and succeed now.
    pub succeeding: u64,
    /// Calls on files that could not be opened.
    pub orphaned: u64,
    /// Processes that ended before they had told what they did.
    pub lost: u64,
    /// The system's error by which the first of them could not be started or heard; `None` where it gave none.
    pub lost_errno: Option<u16>,
}

/// Differences that are kept by name.
pub const NAMED: usize = 10;

impl ReplayTally {
    /// Adds what others did.
    pub fn merge(&mut self, other: &Self) {
        for (class, counts) in &other.classes {
            let mine = self.classes.entry(*class).or_default();
            mine.errors += counts.errors;
            mine.latency.merge(&counts.latency);
        }
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.think_nanos = self.think_nanos.saturating_add(other.think_nanos);
        self.failing += other.failing;
        self.succeeding += other.succeeding;
        self.orphaned += other.orphaned;
        self.lost += other.lost;
        self.lost_errno = self.lost_errno.or(other.lost_errno);
        let room = NAMED.saturating_sub(self.first.len());
        self.first.extend(other.first.iter().take(room).cloned());
    }

    /// Counts a process that will not tell what it did.
    pub(super) fn lose(&mut self, error: &std::io::Error) {
        self.lost += 1;
        self.lost_errno = self.lost_errno.or_else(|| Errno::of(error).map(|errno| errno.0));
    }

    /// Calls that were issued.
    pub fn operations(&self) -> u64 {
        self.classes.values().map(|counts| counts.latency.count()).sum()
    }

    /// Judges an outcome by the recorded one. `failed` is the recorded error, 0 for success.
    pub(super) fn compare(
        &mut self,
        call: Call,
        failed: u16,
        now: Option<Errno>,
        path: impl FnOnce() -> String,
    ) {
        // A trace does not name attributes, so another one was asked for.
        if call.class() == Class::Xattr {
            return;
        }
        match (failed, now) {
            (0, Some(errno)) => {
                self.failing += 1;
                if self.first.len() < NAMED {
                    self.first.push(OutcomeDifference {
                        call: call.name().to_owned(),
                        path: path(),
                        errno: errno.0,
                    });
                }
            }
            (1.., None) => self.succeeding += 1,
            _ => {}
        }
    }
}
