//! The measurements, by case.

use super::fit::{ClosedLaw, ClosedLawPoint, fit};
use super::statistics::SampleSummary;
use crate::operation::LoadOperation;
use crate::workers::{DataAccess, PhaseResult};
use std::collections::BTreeMap;

/// The operation of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaseKind {
    /// A metadata operation.
    Metadata(LoadOperation),
    /// A read of data; in the results never [`DataAccess::Write`].
    Data(DataAccess),
}

impl CaseKind {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata(operation) => operation.name(),
            Self::Data(DataAccess::Write) => "write",
            Self::Data(DataAccess::Sequential) => "read in order",
            Self::Data(DataAccess::Random) => "pread",
            Self::Data(DataAccess::Mapped) => "page fault",
        }
    }
}

/// The directories of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaseLayout {
    /// All processes use one directory, or one file.
    Shared,
    /// Each process has its own.
    Unique,
}

impl CaseLayout {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Unique => "unique",
        }
    }
}

/// This client's knowledge of the entries before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaseCache {
    /// Nothing: names that were never asked for, or attributes that must be asked of the server.
    Cold,
    /// Another process of this client made them.
    Own,
    /// Another client made them, and this one sees them for the first time.
    Other,
    /// Their pages are in this client's memory.
    Warm,
}

impl CaseCache {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Own => "own client's",
            Self::Other => "other client's",
            Self::Warm => "warm",
        }
    }
}

/// One row of the results. The order is that of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CalibrationCase {
    /// The operation.
    pub kind: CaseKind,
    /// The directories of the entries.
    pub layout: CaseLayout,
    /// To what.
    pub cache: CaseCache,
    /// Clients that do it at once.
    pub clients: u16,
    /// Processes of each.
    pub processes: u16,
    /// Threads of each process.
    pub threads: u16,
}

impl CalibrationCase {
    /// Requests at once, if each operation is one.
    pub fn population(&self) -> u32 {
        u32::from(self.clients) * u32::from(self.processes) * u32::from(self.threads)
    }
}

/// The case by which an idle request is known: one process asks for names that are not there, and no other asks.
pub const IDLE: CalibrationCase = CalibrationCase {
    kind: CaseKind::Metadata(LoadOperation::StatAbsent),
    layout: CaseLayout::Unique,
    cache: CaseCache::Cold,
    clients: 1,
    processes: 1,
    threads: 1,
};

/// One repetition of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseRun {
    /// Operations that were done.
    pub count: u64,
    /// From the first start to the last end.
    pub seconds: f64,
    /// Of each operation. Unit: microseconds.
    pub latencies_us: Vec<f64>,
    /// Of the closes behind opens. Unit: microseconds.
    pub closes_us: Vec<f64>,
}

impl CaseRun {
    /// The work of several processes of one node behind one barrier; of several nodes, whose clocks differ, the longest time
    /// counts.
    pub(crate) fn of(nodes: &[&[PhaseResult]]) -> Self {
        let elapsed = nodes.iter().filter_map(|node| {
            let began = node.iter().map(|done| done.began).min()?;
            Some(node.iter().map(|done| done.ended).max()?.saturating_sub(began))
        });
        let all = || nodes.iter().flat_map(|node| node.iter());
        let microseconds = |nanoseconds: &u64| *nanoseconds as f64 / 1e3;
        Self {
            seconds: elapsed.max().unwrap_or(0) as f64 / 1e9,
            count: all().map(|done| done.count).sum(),
            latencies_us: all().flat_map(|done| done.latencies.iter().map(microseconds)).collect(),
            closes_us: all().flat_map(|done| done.closes.iter().map(microseconds)).collect(),
        }
    }

    /// Operations a second, all processes together. `None` where nothing was done.
    pub fn rate(&self) -> Option<f64> {
        (self.count > 0 && self.seconds > 0.0).then(|| self.count as f64 / self.seconds)
    }
}

/// All repetitions of all cases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CalibrationResults {
    runs: BTreeMap<CalibrationCase, Vec<CaseRun>>,
}

impl CalibrationResults {
    /// One more repetition.
    pub(crate) fn add(&mut self, case: CalibrationCase, run: CaseRun) {
        self.runs.entry(case).or_default().push(run);
    }

    /// Every case with its repetitions, in the order of tables.
    pub fn iter(&self) -> impl Iterator<Item = (&CalibrationCase, &[CaseRun])> {
        self.runs.iter().map(|(case, runs)| (case, runs.as_slice()))
    }

    /// Rates of a case over its repetitions. Unit: operations a second.
    pub fn rates(&self, case: &CalibrationCase) -> Option<SampleSummary> {
        SampleSummary::of(self.runs.get(case)?.iter().filter_map(CaseRun::rate))
    }

    /// Latencies of all operations of a case. Unit: microseconds.
    pub fn latencies(&self, case: &CalibrationCase) -> Option<SampleSummary> {
        SampleSummary::of(self.runs.get(case)?.iter().flat_map(|run| run.latencies_us.iter().copied()))
    }

    /// The same of the closes behind opens.
    pub fn closes(&self, case: &CalibrationCase) -> Option<SampleSummary> {
        SampleSummary::of(self.runs.get(case)?.iter().flat_map(|run| run.closes_us.iter().copied()))
    }

    /// The closed law of one client's cases of this kind, once for each repetition that has two populations.
    pub fn laws(&self, kind: CaseKind, layout: CaseLayout, cache: CaseCache) -> Vec<ClosedLaw> {
        let cases = self.runs.iter().filter(|(case, _)| {
            (case.kind, case.layout, case.cache, case.clients) == (kind, layout, cache, 1)
        });
        let cases: Vec<_> = cases.collect();
        let repetitions = cases.iter().map(|(_, runs)| runs.len()).max().unwrap_or(0);
        let of = |repetition: usize| {
            let point = |(case, runs): &(&CalibrationCase, &Vec<CaseRun>)| {
                Some(ClosedLawPoint { population: case.population(), rate: runs.get(repetition)?.rate()? })
            };
            fit(&cases.iter().filter_map(point).collect::<Vec<_>>())
        };
        (0..repetitions).filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(count: u64, began: u64, ended: u64) -> PhaseResult {
        PhaseResult { count, began, ended, latencies: vec![1000; count as usize], ..PhaseResult::default() }
    }

    #[test]
    fn a_phase_lasts_from_the_first_start_to_the_last_end() {
        let run =
            CaseRun::of(&[&[done(10, 1_000_000_000, 2_000_000_000), done(20, 1_500_000_000, 3_000_000_000)]]);
        assert_eq!((run.count, run.seconds, run.rate()), (30, 2.0, Some(15.0)));
        assert_eq!(run.latencies_us.len(), 30);
    }

    #[test]
    fn clocks_of_two_nodes_are_not_compared() {
        let run = CaseRun::of(&[&[done(10, 0, 1_000_000_000)], &[done(10, 77_000_000_000, 79_000_000_000)]]);
        assert_eq!(run.rate(), Some(10.0));
    }

    #[test]
    fn nothing_done_has_no_rate() {
        assert_eq!(CaseRun::of(&[]).rate(), None);
        assert_eq!(CaseRun::of(&[&[done(0, 5, 5)]]).rate(), None);
    }
}
