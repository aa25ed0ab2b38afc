//! The recorder's own cost of a call, which think times must not hold.
//!
//! A recorded call is stopped twice, and each stop changes over to the recorder and back. From its two time stamps a call's duration
//! holds one of the two changes, and the gap before the next call the other. Calls that need no work (`lseek`, `dup`, `fcntl`) show the
//! first: their median, because on a busy machine some of them waited for a processor. Where a program computes hardly anything between
//! two calls, the gap shows the second: the shorter ones tell. A call with a path takes longer, because the path is read from the
//! program's memory: the quicker of such calls tell by how much. Neither is much more than the first, so a recording in which every
//! call waited for a server, or computed long, does not mislead. This was 59 to 98 % of what a recorded call really
//! added (decision 081). The rest is computing that finds the processor's caches full of the recorder's data. A log without times
//! tells nothing, and costs nothing.

use quell_trace::{Call, Event, Nanos, ProcessId, Recording, ThreadId, TraceError};
use std::collections::HashMap;

/// The cost of the recorder. Unit: seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Overhead {
    /// The change that a call's duration holds.
    a_stop: f64,
    /// The change that the gap after a call holds.
    a_gap: f64,
    /// A path's, beside that. A call's duration holds it.
    a_path: f64,
}

/// The first so many calls of each kind tell.
const SAMPLES: usize = 65_536;
/// A gap's part and a path's are no more than this, over the cost of a stop.
const MOST_GAP: f64 = 1.5;
const MOST_PATH: f64 = 0.5;
/// The quickest of all calls tell the first change in a recording whose calls all need work.
const QUICKEST: f64 = 0.05;
/// Of gaps, and of calls with a path, so many are quicker than the one that tells.
const QUICK: f64 = 0.25;

impl Overhead {
    pub(super) fn of(recording: &Recording) -> Result<Self, TraceError> {
        let [mut idle, mut all, mut paths, mut gaps] = [const { Vec::new() }; 4];
        let mut last_ends: HashMap<(ProcessId, ThreadId), Nanos> = HashMap::new();
        let add = |times: &mut Vec<u64>, nanoseconds| {
            if times.len() < SAMPLES {
                times.push(nanoseconds);
            }
        };
        recording.for_each_event(|event| {
            let last_end = last_ends.insert((event.process, event.thread), event.end());
            if let Some(last_end) = last_end.filter(|last_end| *last_end <= event.start) {
                add(&mut gaps, event.start.since(last_end).0);
            }
            add(&mut all, event.duration.0);
            if is_idle(event) {
                add(&mut idle, event.duration.0);
            } else if has_path(event) {
                add(&mut paths, event.duration.0);
            }
        })?;
        let stop = quantile(&mut idle, 0.5).or_else(|| quantile(&mut all, QUICKEST));
        let Some(stop) = stop else { return Ok(Self::default()) };
        let gap = quantile(&mut gaps, QUICK).unwrap_or(stop).min(MOST_GAP * stop);
        let path = quantile(&mut paths, QUICK).unwrap_or(stop) - stop;
        Ok(Self { a_stop: stop, a_gap: gap, a_path: path.clamp(0.0, MOST_PATH * stop) })
    }

    /// Of one call: within its duration, and in the gap after it.
    pub(super) fn of_call(&self, event: &Event) -> f64 {
        self.within(event) + self.a_gap
    }

    /// The part of it that the call's duration holds.
    pub(super) fn within(&self, event: &Event) -> f64 {
        self.a_stop + if has_path(event) { self.a_path } else { 0.0 }
    }
}

/// A call that needs no work.
fn is_idle(event: &Event) -> bool {
    use Call::{Dup, Dup2, Dup3, Fcntl, Lseek};
    matches!(event.call, Lseek | Dup | Dup2 | Dup3 | Fcntl) && event.outcome.is_success()
}

fn has_path(event: &Event) -> bool {
    event.path.is_some() && event.call.class().is_metadata()
}

/// Unit: seconds.
fn quantile(nanoseconds: &mut [u64], part: f64) -> Option<f64> {
    let at = (nanoseconds.len() as f64 * part) as usize;
    (!nanoseconds.is_empty()).then(|| *nanoseconds.select_nth_unstable(at).1 as f64 / 1e9)
}
