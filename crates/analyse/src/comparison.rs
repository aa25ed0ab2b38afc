//! Two summaries side by side: who served what, which calls there are, which are gone.

use crate::{Doubt, Served, Summary, Totals};
use quell_trace::Call;
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
}

/// How often a call was called and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallsAndErrors {
    /// Calls.
    pub calls: u64,
    /// Those that failed.
    pub errors: u64,
}

/// Compares two runs.
pub fn compare(a: &Summary, b: &Summary) -> Comparison {
    let of = |summary: &Summary, call| {
        let counts = summary.call(call);
        CallsAndErrors { calls: counts.calls, errors: counts.errors }
    };
    let called: BTreeSet<(&str, Call)> =
        a.calls().iter().chain(&b.calls()).map(|(call, _)| (call.name(), *call)).collect();
    let calls = called.into_iter().map(|(_, call)| CallPair { call, a: of(a, call), b: of(b, call) });
    Comparison { a: side(a), b: side(b), calls: calls.collect() }
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

    /// Whether any count of a call, or of who served metadata operations, is different.
    pub fn differs(&self) -> bool {
        self.a.served != self.b.served || self.calls.iter().any(|pair| pair.a != pair.b)
    }
}
