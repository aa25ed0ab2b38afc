//! Which calls cost a request, judged by how long they take when nobody waits: less than half an idle request is answered
//! here, one and a half of them is two.

use super::IDLE;
use super::series::{Cache, Case, Kind, Layout, Results};
use super::statistics::Summary;
use crate::Operation;

/// What was found; `None` where it was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Habits {
    /// Opening a file whose name is known asks.
    pub open_asks: Option<bool>,
    /// Lookup and open of a file that another client made are one request.
    pub atomic_open: Option<bool>,
    /// Closing asks.
    pub close_asks: Option<bool>,
    /// A listing brings names and attributes along.
    pub readdir_fills: Option<bool>,
    /// Attributes that are forced from the server are asked, and not answered by the client all the same.
    pub getattr_asks: Option<bool>,
    /// Stats of files that another process of this client made are asked.
    pub own_stats_ask: Option<bool>,
}

impl Habits {
    pub(super) fn of(results: &Results, after_listing: &[f64]) -> Self {
        let Some(idle) = results.latencies(&IDLE).map(|idle| idle.p50) else { return Self::default() };
        let asks = |latency: Option<Summary>| latency.map(|latency| latency.p50 >= ASKED * idle);
        let median =
            |operation, cache| results.latencies(&alone(operation, cache)).map(|latency| latency.p50);
        let reopen = [Cache::Other, Cache::Own].map(|cache| alone(Operation::Reopen, cache));
        let reopened = reopen.iter().find_map(|case| results.latencies(case));
        let closes = reopen.iter().find_map(|case| results.closes(case));
        let open_asks = asks(reopened);
        let cold_open = median(Operation::Open, Cache::Other).zip(median(Operation::Stat, Cache::Other));
        Self {
            open_asks,
            // Where opening asks nothing there is nothing to join.
            atomic_open: match open_asks {
                Some(true) => cold_open.map(|(open, stat)| open < TWO * stat),
                _ => None,
            },
            close_asks: asks(closes),
            readdir_fills: asks(Summary::of(after_listing.iter().copied())).map(|asked| !asked),
            getattr_asks: asks(results.latencies(&alone(Operation::Getattr, Cache::Cold))),
            own_stats_ask: asks(results.latencies(&alone(Operation::Stat, Cache::Own))),
        }
    }
}

/// This part of an idle request or more is a request.
const ASKED: f64 = 0.5;
/// This many times a request or more is two.
const TWO: f64 = 1.5;

/// One process, nobody else.
fn alone(operation: Operation, cache: Cache) -> Case {
    Case {
        kind: Kind::Metadata(operation),
        layout: Layout::Unique,
        cache,
        clients: 1,
        processes: 1,
        threads: 1,
    }
}
