//! The rate of the operations, and their number on many nodes by plain multiplication.

use crate::Summary;
use quell_trace::{Nanos, ServedBy};

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

/// The share of all metadata operations that makes a start-up. With a higher one, the few files that a program writes at its end
/// stretch the start-up over the whole run; a lower one cuts off late imports.
pub const START_UP_SHARE: f64 = 0.95;

/// Many starts at once, by plain multiplication. It predicts no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Nodes that start the program, once each.
    pub nodes: u64,
    /// Metadata operations of one start, averaged over the recordings and rounded up.
    pub each: u64,
    /// All of them.
    pub operations: u64,
    /// The file systems that are meant: the network's, or all when the run touched no other than local
    /// ones and so shows what a shared one would have to serve.
    pub of: Option<ServedBy>,
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

    /// The operations of `nodes` starts at once, if each does those of one recording.
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
