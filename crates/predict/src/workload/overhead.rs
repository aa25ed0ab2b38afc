//! The recorder's own cost of a call, which think times must not hold.
//!
//! A recorded call is stopped twice, and each stop changes over to the recorder and back. From its two time stamps a
//! call's duration holds one of the two changes, and the gap between calls the other. So calls that need no
//! work (`lseek`, `dup`, `fcntl`, `close`) show what a stop costs: their median duration, twice. A median, because on a
//! busy machine some of them waited for a processor. A log without times tells nothing, and costs nothing.

use quell_trace::{Call, Event, Recording, TraceError};

/// The cost of the recorder.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Overhead {
    /// Unit: seconds a call.
    pub(super) a_call: f64,
}

impl Overhead {
    pub(super) fn of(recording: &Recording) -> Result<Self, TraceError> {
        let mut durations = Vec::new();
        recording.for_each_event(|event| durations.extend(idle(event)))?;
        let middle = durations.len() / 2;
        if durations.is_empty() {
            return Ok(Self::default());
        }
        let (_, median, _) = durations.select_nth_unstable(middle);
        Ok(Self { a_call: 2.0 * *median as f64 / 1e9 })
    }
}

/// The duration of a call that needs no work. Unit: nanoseconds.
fn idle(event: &Event) -> Option<u64> {
    use Call::{Dup, Dup2, Dup3, Fcntl, Lseek};
    let is_idle = matches!(event.call, Lseek | Dup | Dup2 | Dup3 | Fcntl) && event.outcome.is_success();
    is_idle.then_some(event.duration.0)
}
