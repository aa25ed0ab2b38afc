//! The view of `quell calibrate`: rates and latencies of each case, the client's cache, and the profile.
//!
//! It has no JSON: the profile is the output for programs.

use quell_calibrate::{
    CacheAspect, CacheLifetime, Calibration, CalibrationCase, CaseKind, CaseRun, DataAccess, LifetimeVerdict,
    SampleSummary,
};
use quell_predict::profile::{Profile, ProfileSlot};
use std::collections::BTreeSet;

/// A measured file system.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrateView {
    /// Processes at most.
    pub processes: u16,
    /// Repetitions of each case.
    pub iterations: u64,
    /// The cases, in the order of the tables.
    pub cases: Vec<CalibratedCase>,
    /// The client's cache.
    pub kept: Vec<KeptByClient>,
    /// The figures of the profile, in its order.
    pub figures: Vec<CalibratedFigure>,
}

/// Operations of one kind by one crowd.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedCase {
    /// The operation.
    pub operation: &'static str,
    /// The directories that it was done in.
    pub directory: &'static str,
    /// The state of the files in caches.
    pub files: &'static str,
    /// Cases with the same operation, directory and files have the same number. Ascending in the order of the tables.
    pub row: usize,
    /// The tables that it belongs to.
    pub group: CaseGroup,
    /// Clients at once.
    pub clients: u16,
    /// Processes of each client.
    pub processes: u16,
    /// Threads of each process.
    pub threads: u16,
    /// Requests in flight at most.
    pub population: u64,
    /// Rates over the repetitions. Unit: operations a second.
    pub rates: Option<SampleSummary>,
    /// Each repetition.
    pub runs: Vec<CalibratedRun>,
}

/// The kind of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseGroup {
    /// A metadata operation.
    Metadata,
    /// A read of 4 KiB.
    SmallRead,
    /// Other data.
    Data,
}

/// One repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedRun {
    /// Operations that were done.
    pub count: u64,
    /// Unit: seconds.
    pub seconds: f64,
    /// Unit: operations a second.
    pub rate: Option<f64>,
    /// Unit: bytes a second; `None` for metadata.
    pub bytes_per_second: Option<f64>,
    /// Unit: microseconds.
    pub latency: Option<SampleSummary>,
}

/// One kind of entry in the client's cache.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptByClient {
    /// The entry, in words.
    pub what: &'static str,
    /// Its lifetime.
    pub lifetime: LifetimeVerdict,
}

/// A figure or a switch of the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedFigure {
    /// Its key, without the section.
    pub key: String,
    /// Its value.
    pub value: CalibratedValue,
}

/// A value of the profile.
#[derive(Clone, Debug, PartialEq)]
pub enum CalibratedValue {
    /// A range.
    Figure(quell_predict::profile::Figure),
    /// A switch.
    Switch(bool),
}

/// The view of a calibration with the profile that it comes to.
pub fn calibrate(calibration: &Calibration, profile: &Profile) -> CalibrateView {
    let key = |case: &CalibrationCase| (case.kind, case.layout, case.cache);
    let rows: BTreeSet<_> = calibration.results.iter().map(|(case, _)| key(case)).collect();
    let case = |(case, runs): (&CalibrationCase, &[CaseRun])| CalibratedCase {
        operation: case.kind.name(),
        directory: case.layout.name(),
        files: case.cache.name(),
        row: rows.iter().position(|row| *row == key(case)).unwrap_or(0),
        group: match case.kind {
            CaseKind::Metadata(_) => CaseGroup::Metadata,
            CaseKind::Data(DataAccess::Random | DataAccess::Mapped) => CaseGroup::SmallRead,
            CaseKind::Data(_) => CaseGroup::Data,
        },
        clients: case.clients,
        processes: case.processes,
        threads: case.threads,
        population: case.population().into(),
        rates: calibration.results.rates(case),
        runs: runs.iter().map(|run| calibrated_run(case.kind, run)).collect(),
    };
    CalibrateView {
        processes: calibration.bounds.processes,
        iterations: calibration.bounds.iterations.into(),
        cases: calibration.results.iter().map(case).collect(),
        kept: calibration.lifetimes.iter().map(kept).collect(),
        figures: figures(profile),
    }
}

fn calibrated_run(kind: CaseKind, run: &CaseRun) -> CalibratedRun {
    let bytes_per_second = match kind {
        CaseKind::Metadata(_) => None,
        CaseKind::Data(access) => run.rate().map(|rate| rate * access.bytes() as f64),
    };
    CalibratedRun {
        count: run.count,
        seconds: run.seconds,
        rate: run.rate(),
        bytes_per_second,
        latency: SampleSummary::of(run.latencies_us.iter().copied()),
    }
}

fn kept(lifetime: &CacheLifetime) -> KeptByClient {
    let what = match lifetime.aspect {
        CacheAspect::Name => "name of a file",
        CacheAspect::Absence => "absence of a name",
        CacheAspect::DirectoryName => "name of a directory",
        CacheAspect::Attributes => "attributes of an open file",
        CacheAspect::Listing => "listing of a directory",
    };
    KeptByClient { what, lifetime: lifetime.verdict() }
}

fn figures(profile: &Profile) -> Vec<CalibratedFigure> {
    let mut copy = profile.clone();
    let figure = |(_, key, slot): (&str, &str, ProfileSlot<'_>)| {
        let value = match slot {
            ProfileSlot::Figure(figure, _) => CalibratedValue::Figure(figure.clone()?),
            ProfileSlot::Switch(on) => CalibratedValue::Switch((*on)?),
        };
        Some(CalibratedFigure { key: key.to_owned(), value })
    };
    copy.slots().into_iter().filter_map(figure).collect()
}
