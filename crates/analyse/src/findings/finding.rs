//! A finding: the observation, the limit that it is over, and the remedy.

use std::collections::BTreeMap;

/// A cause of operations, with what removes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its stable name, as `--fail-on` takes it: `search-path-misses`.
    pub code: &'static str,
    /// The observation, in one sentence with its numbers.
    pub title: String,
    /// Details, most important first: entries, files, directories; one sentence each.
    pub evidence: Vec<String>,
    /// The limit that it is over.
    pub threshold: Threshold,
    /// The figure that is over the limit, in the threshold's unit.
    pub measured: f64,
    /// Metadata operations, or for the data side requests, that it causes.
    pub operations: u64,
    /// The unit of `operations`.
    pub counted: Counted,
    /// The remedy.
    pub remedy: Remedy,
}

/// The kind of a finding's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Calls on names or attributes.
    MetadataOperations,
    /// Reads, writes, or files on the data side; metadata operations stay as they are.
    Requests,
}

impl Counted {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MetadataOperations => "metadata_operations",
            Self::Requests => "requests",
        }
    }
}

/// A limit of a rule: shown with each finding, and overridable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Its stable name, as `--threshold NAME=VALUE` takes it.
    pub name: &'static str,
    /// The limit. What is measured is over it when it is more, not when it is equal.
    pub value: f64,
    /// Its unit: `operations`, `bytes`, `files`.
    pub unit: &'static str,
}

/// The change that removes a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// One sentence.
    pub text: String,
    /// The exact command or change.
    pub command: String,
    /// The price of applying it: remedies that cost nothing come first.
    pub cost: Cost,
    /// Metadata operations of the whole run that the file systems behind still have to answer with it. What an image
    /// answers on the node is not among them.
    pub metadata_operations_after: u64,
    /// Of the finding's own operations, those that remain with it.
    pub operations_after: u64,
}

/// The price of applying a remedy.
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

/// The limits that the user set, and a fact that no trace tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitsInForce {
    /// Limits that the user set, by name.
    pub thresholds: BTreeMap<String, f64>,
    /// Object storage targets of the file system, for advice on striping.
    pub osts: Option<u32>,
}
