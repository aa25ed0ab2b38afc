//! Two summaries side by side: who served what; which calls, searches and paths there are, are gone, are new; whether
//! calls became slower; whether a total grew beyond what is allowed.
//!
//! Times are shown and never judged: no two runs take the same.

mod change;
mod fold;
mod limits;
mod model;
mod paths;
mod searches;

pub use change::Change;
pub use limits::{Increase, IncreaseLimit, LimitError, Metric, Tolerance, increases};
pub use model::{CallPair, CallsAndErrors, ComparedRun, Comparison};
pub use paths::{Common, CommonBy, PathPair, Paths, Share};
pub use searches::EntryPair;

use crate::Summary;
use quell_trace::Call;
use std::collections::BTreeSet;

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

fn side(summary: &Summary) -> ComparedRun {
    ComparedRun {
        names: summary.recordings.iter().map(|facts| facts.name.clone()).collect(),
        command: summary.command().to_vec(),
        seconds: summary.seconds(),
        totals: summary.totals(),
        served: summary.served,
        doubts: summary.doubts(),
        client_counters: summary
            .client_counters()
            .map(|(host, counters)| (host.to_owned(), counters.clone())),
    }
}
