//! How fast the operations came, and what plain multiplication makes of them on many nodes.

use crate::Summary;
use quell_trace::{Event, Nanos, ServedBy};

/// Metadata operations a second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct OpsPerSecond(pub f64);

/// The time in which nearly all metadata operations came. Under the recorder: a plain run is a little faster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartUp {
    /// From the first metadata operation until [`START_UP_SHARE`] of all had begun.
    pub length: Nanos,
    /// Those that had begun by then.
    pub operations: u64,
    /// Operations by length.
    pub rate: OpsPerSecond,
}

/// The share of all metadata operations that makes a start-up. Higher, and the few files that a program closes its
/// run with stretch the start-up over the whole run; lower, and late imports are cut off.
pub const START_UP_SHARE: f64 = 0.95;

/// Less than any system call takes, or its share when many threads call at once.
const FASTEST: Nanos = Nanos(5);

/// So many starts at once, by plain multiplication: an arithmetic statement, no prediction of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// How many nodes start the program, once each.
    pub nodes: u64,
    /// Metadata operations of one start, averaged over the recordings and rounded up.
    pub each: u64,
    /// All of them.
    pub operations: u64,
    /// Whose operations are meant: the network's, or of all file systems when the run touched no other than local
    /// ones and so shows what a shared one would have to serve.
    pub of: Option<ServedBy>,
}

/// First begin and last end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    first: Nanos,
    last: Nanos,
}

impl Span {
    pub(crate) fn of(event: &Event) -> Self {
        Self { first: event.start, last: event.end() }
    }

    /// Whether no processor is that fast: then a log had no times, or those of whole seconds, and the events are
    /// only in their order.
    pub(crate) fn is_too_short_for(self, operations: u64) -> bool {
        self.last.since(self.first).0 < operations.saturating_sub(1).saturating_mul(FASTEST.0)
    }

    pub(crate) fn union(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

impl Summary {
    /// The start-up phase; `None` without metadata operations that have times. In a summary of several recordings each counts from
    /// its own begin, as if all had begun together.
    pub fn start_up(&self) -> Option<StartUp> {
        let span = self.span?;
        let (end, operations) = self.activity.all().reached(START_UP_SHARE)?;
        let length = end.min(span.last).since(span.first).max(Nanos(1));
        Some(StartUp { length, operations, rate: OpsPerSecond(operations as f64 / length.as_seconds()) })
    }

    /// What `nodes` starts at once ask for, if each asks for what one recording did.
    pub fn scaled(&self, nodes: u64) -> Scaled {
        let shared = self.served.network + self.served.quell > 0;
        let (all, of) = match shared {
            true => (self.served.network, Some(ServedBy::Network)),
            false => (self.totals().metadata_operations, None),
        };
        let each = all.div_ceil(self.recordings.len().max(1) as u64);
        Scaled { nodes, each, operations: each.saturating_mul(nodes), of }
    }
}
