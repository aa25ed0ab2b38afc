//! The operations of programs, as the sources count them: system calls, not of requests at a server.

use crate::workload::{Demand, Segment};
use crate::{PerOperation, ServerOperation};

/// Calls of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartCounts {
    /// Opens that succeed.
    pub opens: f64,
    /// Opens of absent names.
    pub opens_failed: f64,
    /// stat() that succeed.
    pub stats_ok: f64,
    /// stat() of absent names.
    pub stats_failed: f64,
    /// Reads of file data.
    pub reads: f64,
}

impl StartCounts {
    /// Warp, each core. Source: Zhao et al., section IV: 3388 opens (495 successful), 1632 stats (848 successful), 500 reads.
    pub const WARP: Self = Self {
        opens: 495.0,
        opens_failed: 3388.0 - 495.0,
        stats_ok: 848.0,
        stats_failed: 1632.0 - 848.0,
        reads: 500.0,
    };

    /// Julia with a dozen modules. Source: Tovar: 12 000 stat() calls, fewer than 10 opens; how many fail is not said.
    pub const JULIA: Self =
        Self { opens: 10.0, opens_failed: 0.0, stats_ok: 12_000.0, stats_failed: 0.0, reads: 0.0 };

    /// The same with a system image: about 200 stat() calls.
    pub const JULIA_IMAGE: Self = Self { stats_ok: 200.0, ..Self::JULIA };

    /// Opens and stats.
    pub fn operations(&self) -> f64 {
        self.opens + self.opens_failed + self.stats()
    }

    /// stat() of both kinds.
    pub fn stats(&self) -> f64 {
        self.stats_ok + self.stats_failed
    }

    /// Of so many processes.
    #[must_use]
    pub fn times(&self, processes: u64) -> Self {
        let times = |count: f64| count * processes as f64;
        Self {
            opens: times(self.opens),
            opens_failed: times(self.opens_failed),
            stats_ok: times(self.stats_ok),
            stats_failed: times(self.stats_failed),
            reads: times(self.reads),
        }
    }

    /// Requests, if every call is one: no client keeps anything, and an open is one request with its lookup.
    pub fn requests(&self) -> PerOperation {
        PerOperation::of(|operation| match operation {
            ServerOperation::Open => self.opens,
            ServerOperation::LookupAbsent => self.opens_failed + self.stats_failed,
            ServerOperation::Getattr => self.stats_ok,
            ServerOperation::Read => self.reads,
            _ => 0.0,
        })
    }

    /// The demand of a node with so many processes, in one go, without computing between.
    pub fn demand(&self, processes: u32) -> Demand {
        let processes = f64::from(processes);
        let mut asks = PerOperation::default();
        asks.add_all(&self.requests(), processes);
        let segment = Segment { waits: self.requests(), asks, ..Segment::default() };
        Demand { segments: vec![segment], processes, ..Demand::default() }
    }
}

/// One column of the tables of `module avail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    pub(super) name: &'static str,
    /// Name and calls of each system call.
    columns: Vec<(&'static str, u64)>,
    /// As printed.
    pub(super) total: u64,
}

impl Configuration {
    /// The sum of the column.
    pub(super) fn calls(&self) -> u64 {
        self.columns.iter().map(|(_, calls)| calls).sum()
    }

    /// Calls of one system call.
    pub(super) fn of(&self, call: &str) -> u64 {
        self.columns.iter().find(|(name, _)| *name == call).map_or(0, |(_, calls)| *calls)
    }
}

/// The tables of source 000. Shape: configuration, call, calls, errors; the printed total last of each configuration.
const MODULE_AVAIL: &str = include_str!("../../published/module-avail.csv");

/// The tables, by configuration.
pub(super) fn module_avail() -> Vec<Configuration> {
    let mut all: Vec<Configuration> = Vec::new();
    for line in MODULE_AVAIL.lines().skip(1) {
        let mut cells = line.split(',');
        let (Some(name), Some(call), Some(calls)) = (cells.next(), cells.next(), cells.next()) else {
            continue;
        };
        let calls = calls.parse().expect("a test reads every line");
        if all.last().is_none_or(|last| last.name != name) {
            all.push(Configuration { name, columns: Vec::new(), total: 0 });
        }
        let last = all.last_mut().expect("one was just made");
        match call {
            "printed total" => last.total = calls,
            call => last.columns.push((call, calls)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_has_its_calls_and_its_total() {
        let all = module_avail();
        assert_eq!(all.len(), 7);
        for configuration in &all {
            assert!(configuration.total >= 440 && configuration.columns.len() >= 17, "{configuration:?}");
        }
        assert_eq!(all[0].of("readlink"), 1452);
    }

    #[test]
    fn warp_asks_what_was_published() {
        assert_eq!(StartCounts::WARP.operations(), 5020.0);
        assert_eq!(StartCounts::WARP.demand(24).asks().metadata(), 5020.0 * 24.0);
        assert_eq!(StartCounts::WARP.demand(24).waits().metadata(), 5020.0);
    }
}
