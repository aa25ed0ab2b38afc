//! The work of a replay's ranks.

use super::tally::{ReplayTally, SkippedCalls};
use serde::{Deserialize, Serialize};

/// The work of ranks, added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayPerformance {
    /// From the word to begin until the last rank's end. Unit: seconds.
    pub seconds: f64,
    /// Shape: one entry a rank. Unit: seconds.
    pub rank_seconds: Vec<f64>,
    /// All ranks together.
    pub tally: ReplayTally,
}

impl ReplayPerformance {
    /// Adds what other ranks did at the same time.
    pub fn merge(&mut self, other: Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.rank_seconds.extend(other.rank_seconds);
        self.tally.merge(&other.tally);
    }
}

/// A replay that has been played, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayedReplay {
    /// The recordings' command, for people.
    pub command: Vec<String>,
    /// The recorded directory, escaped.
    pub from: String,
    /// The directory in its place, escaped.
    pub root: String,
    /// The number of ranks.
    pub ranks: u32,
    /// Recorded processes of each rank.
    pub processes: u64,
    /// Times between calls were multiplied by this; `None` for full speed.
    pub think: Option<f64>,
    /// Calls of each rank that were not issued.
    pub skipped: SkippedCalls,
    /// The work of the ranks.
    pub performance: ReplayPerformance,
}
