//! Two summaries side by side: who served what; which calls, searches and paths there are, are gone, are new; whether
//! calls became slower; whether a total grew beyond what is allowed.
//!
//! Times are shown and never judged: no two runs take the same.

mod fold;
mod limits;
mod paths;
mod searches;

pub use limits::{Increase, Limit, LimitError, Metric, Tolerance, increases};
pub use paths::{By, Common, PathPair, Paths, Share};
pub use searches::EntryPair;

use crate::{Doubt, Latency, Served, Summary, Totals};
use quell_trace::Call;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The two runs of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The run before, or the plain one.
    pub a: Side,
    /// The run after, or the one with an image.
    pub b: Side,
    /// Shape: sorted by the name of the call; each is in at least one of the runs.
    pub calls: Vec<CallPair>,
    /// Entries of search lists that were asked differently.
    pub searches: Vec<EntryPair>,
    /// Paths that were asked differently.
    pub paths: Paths,
}

/// One run of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The names of its recordings.
    pub names: Vec<String>,
    /// Its command.
    pub command: Vec<String>,
    /// How long it took. Unit: seconds.
    pub seconds: Option<f64>,
    /// The whole in a few numbers.
    pub totals: Totals,
    /// Metadata operations by who served them.
    pub served: Served,
    /// What a reader must know beside the numbers.
    pub doubts: Vec<Doubt>,
}

/// One call in both runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPair {
    /// The call.
    pub call: Call,
    /// How often it was called and failed in the first run; zero when never called.
    pub a: CallsAndErrors,
    /// The same of the second run.
    pub b: CallsAndErrors,
    /// How long it took in the first run; `None` when it never returned.
    pub latency_a: Option<Latency>,
    /// The same of the second run.
    pub latency_b: Option<Latency>,
}

/// How often a call was called and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallsAndErrors {
    /// Calls.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
}

/// What became of something between the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// Only the first run asked for it.
    Gone,
    /// Only the second run asked for it.
    New,
    /// The second run asked less often.
    Less,
    /// The second run asked more often.
    More,
    /// Asked as often, of another kind of file system.
    Moved,
    /// Asked as often of the same file systems, with another outcome.
    Otherwise,
    /// No difference.
    Same,
}

impl Change {
    /// Every change, in the order in which reports show them.
    pub const ALL: [Self; 7] =
        [Self::Gone, Self::New, Self::Less, Self::More, Self::Moved, Self::Otherwise, Self::Same];

    /// Its name in JSON and in CSV.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::New => "new",
            Self::Less => "less",
            Self::More => "more",
            Self::Moved => "moved",
            Self::Otherwise => "otherwise",
            Self::Same => "same",
        }
    }

    /// By how often it was asked for; [`Self::Otherwise`] when that is equal.
    fn of(a: u64, b: u64) -> Self {
        match a.cmp(&b) {
            Ordering::Greater if b == 0 => Self::Gone,
            Ordering::Less if a == 0 => Self::New,
            Ordering::Greater => Self::Less,
            Ordering::Less => Self::More,
            Ordering::Equal => Self::Otherwise,
        }
    }
}

/// Compares two runs.
pub fn compare(a: &Summary, b: &Summary) -> Comparison {
    let of = |summary: &Summary, call| {
        let counts = summary.call(call);
        CallsAndErrors { calls: counts.calls, errors: counts.errors }
    };
    let called: BTreeSet<(&str, Call)> =
        a.calls().iter().chain(&b.calls()).map(|(call, _)| (call.name(), *call)).collect();
    let calls = called.into_iter().map(|(_, call)| CallPair {
        call,
        a: of(a, call),
        b: of(b, call),
        latency_a: a.latency(call),
        latency_b: b.latency(call),
    });
    Comparison {
        a: side(a),
        b: side(b),
        calls: calls.collect(),
        searches: searches::compare(&a.searches, &b.searches),
        paths: paths::compare(a, b),
    }
}

fn side(summary: &Summary) -> Side {
    Side {
        names: summary.recordings.iter().map(|facts| facts.name.clone()).collect(),
        command: summary.command().to_vec(),
        seconds: summary.seconds(),
        totals: summary.totals(),
        served: summary.served,
        doubts: summary.doubts(),
    }
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

    /// Whether any count is different: of a call, of who served metadata operations, of a search or of a path.
    pub fn differs(&self) -> bool {
        let calls = self.calls.iter().any(|pair| pair.a != pair.b);
        calls || self.a.served != self.b.served || !self.searches.is_empty() || !self.paths.changed.is_empty()
    }

    /// Why totals of the two runs cannot be held against each other as they are.
    pub fn doubt(&self) -> Option<Doubt> {
        let (a, b) = (self.a.names.len(), self.b.names.len());
        (a != b).then_some(Doubt::RecordingsDiffer { a, b })
    }
}
