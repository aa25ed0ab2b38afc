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
