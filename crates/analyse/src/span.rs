//! The time from the first begin to the last end of operations.

use quell_trace::{Event, Nanos};

/// First begin and last end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: Nanos,
    pub(crate) last: Nanos,
}

impl Span {
    pub(crate) fn of(event: &Event) -> Self {
        Self { first: event.start, last: event.end() }
    }

    /// True where no processor is that fast. The log then had no times, or times in whole seconds: its events have an order and
    /// no times.
    pub(crate) fn is_too_short_for(self, operations: u64) -> bool {
        self.last.since(self.first).0 < operations.saturating_sub(1).saturating_mul(FASTEST.0)
    }

    pub(crate) fn union(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// Less than any system call takes, or its share when many threads call at once.
const FASTEST: Nanos = Nanos(5);
