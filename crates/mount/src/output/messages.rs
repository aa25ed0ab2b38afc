//! Messages between a rank's parent and the collector, and what both pass on.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use crate::stats::OutputStats;

/// From a rank's parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToCollector {
    /// Comes first, with the read end of the pipe and the ring's memory.
    Join { label: Vec<u8> },
    /// The command has ended: write what it printed.
    Ended,
}

/// To a rank's parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromCollector {
    /// With the descriptors of [`Target`].
    Ready,
    /// All that was printed before [`ToCollector::Ended`] is in the file, or never will be.
    Done { error: Option<i32>, totals: OutputStats },
}

/// The descriptors that one collector passes on to the next.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) file: OwnedFd,
    /// See [`Generations`](super::ring::Generations).
    pub(super) sizes: OwnedFd,
}
