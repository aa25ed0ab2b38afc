//! Two runs side by side.

use super::paths::Paths;
use super::searches::EntryPair;
use crate::{Doubt, Latency, Served, Totals};
use quell_counters::ClientCounters;
use quell_trace::Call;

/// The two runs of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The run before, or the plain one.
    pub a: ComparedRun,
    /// The run after, or the one with an image.
    pub b: ComparedRun,
    /// Shape: sorted by the name of the call; each is in at least one of the runs.
    pub calls: Vec<CallPair>,
    /// Entries of search lists that were asked differently.
    pub searches: Vec<EntryPair>,
    /// Paths that were asked differently.
    pub paths: Paths,
}

/// One run of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRun {
    /// The names of its recordings.
    pub names: Vec<String>,
    /// Its command.
    pub command: Vec<String>,
    /// Its duration. Unit: seconds.
    pub seconds: Option<f64>,
    /// The whole in a few numbers.
    pub totals: Totals,
    /// Metadata operations by who served them.
    pub served: Served,
    /// Doubts that a reader must know beside the numbers.
    pub doubts: Vec<Doubt>,
    /// A node's name, and the counters of its clients.
    pub client_counters: Option<(String, ClientCounters)>,
}

/// One call in both runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPair {
    /// The call.
    pub call: Call,
    /// Its calls and failures in the first run; zero when never called.
    pub a: CallsAndErrors,
    /// The same of the second run.
    pub b: CallsAndErrors,
    /// Its durations in the first run; `None` when it never returned.
    pub latency_a: Option<Latency>,
    /// The same of the second run.
    pub latency_b: Option<Latency>,
}

/// Calls and failures of a system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallsAndErrors {
    /// Calls.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
}

impl Comparison {
    /// Calls of the first run that the second never made. Shape: sorted by name.
    pub fn disappeared(&self) -> Vec<Call> {
        self.calls.iter().filter(|pair| pair.b.calls == 0).map(|pair| pair.call).collect()
    }

    /// Calls of the second run that the first never made. Shape: sorted by name.
    pub fn appeared(&self) -> Vec<Call> {
        self.calls.iter().filter(|pair| pair.a.calls == 0).map(|pair| pair.call).collect()
    }

    /// True where any count is different: of a call, of a kind of file system, of a search or of a path.
    pub fn differs(&self) -> bool {
        let calls = self.calls.iter().any(|pair| pair.a != pair.b);
        calls || self.a.served != self.b.served || !self.searches.is_empty() || !self.paths.changed.is_empty()
    }

    /// The reason for which totals of the two runs cannot be compared as they are.
    pub fn doubt(&self) -> Option<Doubt> {
        let (a, b) = (self.a.names.len(), self.b.names.len());
        (a != b).then_some(Doubt::RecordingsDiffer { a, b })
    }
}
