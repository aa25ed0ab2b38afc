//! Operations and open files over time, and phases.

use super::Rows;
use quell_analyse::{Data, Phases, activity};
use schemars::JsonSchema;
use serde::Serialize;

/// Metadata operations over time, by class and part. Every recording counts from its own begin.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Activity {
    /// Length of an interval. Unit: seconds.
    pub interval_seconds: f64,
    /// Sorted by class and part; all of one length.
    pub series: Vec<Series>,
}

/// Operations of one class that became one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Series {
    /// The class: `open`, `stat`, `access`, `readlink`, `list`, `xattr`, `statfs`, `change`, `exec`, `directory`.
    pub class: String,
    /// The outcome: `needed`, `repeated`, `missed`, `failed`, `unnamed`.
    pub part: String,
    /// Operations that began in each interval.
    pub operations: Vec<u64>,
}

/// Files open over time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OpenFiles {
    /// Length of an interval. Unit: seconds.
    pub interval_seconds: f64,
    /// The most that were open at a time in each interval.
    pub most: Vec<u64>,
    /// The most of one recording at any time.
    #[serde(skip)]
    pub highest: u64,
}

/// A phase of the run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Phase {
    /// `loader`, `initialisation`, `mpi-init` or `steady`.
    pub name: String,
    /// Its duration; the longest of several recordings. Unit: seconds.
    pub seconds: f64,
    /// Calls on names or attributes that began in it.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Metadata operations of all recordings by the time. Unit: operations a second; null for a phase of no length.
    pub metadata_operations_per_second: Option<f64>,
}

pub(super) fn activity(activity: &activity::Activity, rows: Rows) -> Activity {
    let binned = activity.at_most(rows.intervals());
    let series = binned.series.into_iter().map(|series| Series {
        class: series.class.name().into(),
        part: series.part.name().into(),
        operations: series.counts,
    });
    Activity { interval_seconds: binned.interval.as_seconds(), series: series.collect() }
}

pub(super) fn open_files(data: &Data, rows: Rows) -> OpenFiles {
    let (interval, most) = data.open_files.at_most(rows.intervals());
    OpenFiles { interval_seconds: interval.as_seconds(), most, highest: data.open_files.most() }
}

/// Shape: in the order of a run, phases that were met.
pub(super) fn phases(phases: &Phases) -> Vec<Phase> {
    let row = |(phase, counts): (&quell_analyse::Phase, &quell_analyse::phases::PhaseCounts)| {
        let seconds = counts.length.as_seconds();
        Phase {
            name: phase.name().into(),
            seconds,
            metadata_operations: counts.metadata_operations,
            missed: counts.missed,
            metadata_operations_per_second: (seconds > 0.0)
                .then(|| counts.metadata_operations as f64 / seconds),
        }
    };
    phases.counts.iter().map(row).collect()
}
