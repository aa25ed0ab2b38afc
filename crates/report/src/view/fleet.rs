//! The object of `quell fleet --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// The cost of many jobs, and the savings of remedies.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetView {
    /// The version of this object.
    pub schema_version: u32,
    /// The directory of the data set.
    pub data_set: String,
    /// Jobs that began before it are left out. Shape: `2026-11-21 12:20`, UTC; null for all jobs.
    pub since: Option<String>,
    /// All jobs together.
    pub all: FleetCost,
    /// In the order in which they were asked for.
    pub tables: Vec<FleetTable>,
    /// Beside what the file system's servers counted, where that was given.
    pub served: Option<FleetServed>,
}

/// Jobs that the servers of a file system counted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetServed {
    /// Jobs in the statistics.
    pub jobs: u64,
    /// Operations that the servers answered for them.
    pub operations: u64,
    /// Those of the jobs that have a recording in the data set.
    pub recorded_jobs: u64,
    /// The operations that the servers answered for these.
    pub recorded_operations: u64,
    /// Sorted by operations, most first, then by job.
    pub rows: Vec<FleetServedJob>,
}

/// A job that the servers counted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetServedJob {
    /// Its number.
    pub job: String,
    /// Operations that the servers answered for it.
    pub operations: u64,
    /// Bytes that were read and written. Unit: bytes.
    pub bytes: u64,
    /// Its recordings in the data set, such as ranks and steps.
    pub recordings: u64,
    /// The cost of the recordings together, as in the data set; null without one.
    pub cost: Option<u64>,
    /// The part of that cost that remains with all remedies.
    pub cost_after: Option<u64>,
    /// The user of a recording.
    pub user: Option<String>,
    /// The program of a recording.
    pub program: Option<String>,
}

/// Jobs by one of their properties.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetTable {
    /// `user`, `program`, `library` or `finding`.
    pub by: String,
    /// Sorted by operations, most first, then by name.
    pub rows: Vec<FleetCost>,
}

/// Jobs together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct FleetCost {
    /// The user, program, library, or code of a finding; empty for all jobs.
    pub name: String,
    /// Jobs.
    pub jobs: u64,
    /// Metadata operations: those on network file systems, or of a job that used none, all. For a finding those that it
    /// causes, or on the data side its requests.
    pub operations: u64,
    /// What remains of them: of jobs with all remedies, of a finding with its own. Null for a library.
    pub operations_after: Option<u64>,
    /// Metadata operations that failed because the name is absent. Null for a finding.
    pub missed: Option<u64>,
    /// Their duration together. Unit: seconds; null for a library and a finding.
    pub seconds: Option<f64>,
}

impl FleetCost {
    /// The operations that the remedies save; `None` for a library.
    pub fn saved(&self) -> Option<u64> {
        self.operations_after.map(|after| self.operations.saturating_sub(after))
    }
}
