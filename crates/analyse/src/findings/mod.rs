//! Causes with remedies: stable code, what was seen, the threshold that it is over, what to change, and the metadata
//! operations that remain afterwards, computed from this trace.

use crate::Summary;

/// A cause of operations, with what removes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its stable name, as `--fail-on` takes it: `search-path-misses`.
    pub code: &'static str,
    /// What was seen, in one sentence with its numbers.
    pub title: String,
    /// Details, most important first: entries, files, directories; one sentence each.
    pub evidence: Vec<String>,
    /// The limit that it is over.
    pub threshold: Threshold,
    /// What was measured against the limit, in the threshold's unit.
    pub measured: f64,
    /// Metadata operations, or for the data side requests, that it causes.
    pub operations: u64,
    /// What removes them.
    pub remedy: Remedy,
}

/// A limit of a rule: shown with each finding, and overridable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Its stable name, as `--threshold NAME=VALUE` takes it.
    pub name: &'static str,
    /// The limit.
    pub value: f64,
    /// What it counts: `operations`, `bytes`, `share`.
    pub unit: &'static str,
}

/// What removes a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// One sentence.
    pub text: String,
    /// The exact command or change.
    pub command: String,
    /// What applying it costs: remedies that cost nothing come first.
    pub cost: Cost,
    /// Metadata operations of the whole run with it.
    pub metadata_operations_after: u64,
}

/// What applying a remedy costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cost {
    /// A variable or an option of the command line.
    Nothing,
    /// A command of quell before the job.
    Image,
    /// A change of configuration, installation or directory layout.
    Setup,
    /// A change of the program.
    Program,
}

impl Cost {
    /// Its name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Image => "image",
            Self::Setup => "setup",
            Self::Program => "program",
        }
    }
}

/// The limits in force, and what the rules cannot see in a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// Limits that the user set, by name.
    pub thresholds: std::collections::BTreeMap<String, f64>,
    /// Object storage targets of the file system, for advice on striping.
    pub osts: Option<u32>,
}

/// Everything that is over its limit. Shape: sorted by operations, most first, then by code.
pub fn findings(_summary: &Summary, _rules: &Rules) -> Vec<Finding> {
    Vec::new()
}
