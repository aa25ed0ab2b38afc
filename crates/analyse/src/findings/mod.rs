//! Causes with remedies: stable code, what was seen, the threshold that it is over, what to change, and the metadata
//! operations that remain afterwards, computed from this trace.
//!
//! ```text
//! Summary, Rules -> Case (paths in order, what counts) -> rules, one file a family -> Found { Finding, Effect }
//!                                                                                       |-> findings: by operations
//!                                                                                       `-> plan: by cost and saving
//! ```
//!
//! Where a network file system was asked, only what it was asked counts; else everything, as if it were shared. Each
//! finding is computed as if its remedy were applied alone; the [`Plan`] adds remedies up without counting twice.

mod case;
mod draft;
mod effect;
mod files;
mod image;
mod julia;
mod limits;
mod locale;
mod modules;
mod network;
mod output;
mod parallel;
mod plan;
mod python;
mod readlinks;
mod repeated;
mod requests;
mod search_paths;
mod words;

pub use limits::{LIMITS, Limit};
pub use plan::{Plan, Step};

use crate::Summary;
use case::Case;
use draft::Found;

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
    /// What `operations` counts.
    pub counted: Counted,
    /// What removes them.
    pub remedy: Remedy,
}

/// What the operations of a finding are.
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
    /// What it counts: `operations`, `bytes`, `files`.
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
    /// Metadata operations of the whole run that the file systems behind still have to answer with it. What an image
    /// answers on the node is not among them.
    pub metadata_operations_after: u64,
    /// Of the finding's own operations, those that remain with it.
    pub operations_after: u64,
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

/// A rule: what it looks for in a case.
type Rule = fn(&Case<'_>) -> Vec<Found>;

/// Every rule with the codes that it may give. Shape: in no order that matters; codes are distinct.
const RULES: &[(&[&str], Rule)] = &[
    (&["network-start-up"], network::start_up),
    (&["search-path-misses", "python-user-site"], search_paths::search_paths),
    (&["repeated-stats"], repeated::stats),
    (&["repeated-listings"], repeated::listings),
    (&["readlink-storm"], readlinks::readlinks),
    (&["python-imports"], python::imports),
    (&["python-bytecode"], python::bytecode),
    (&["julia-without-image"], julia::julia),
    (&["module-tree-walk"], modules::walks),
    (&["module-rc-files"], modules::rc_files),
    (&["locale-files"], locale::locale),
    (&["tiny-reads", "tiny-writes"], requests::tiny),
    (&["open-close-churn"], files::churn),
    (&["many-creates"], files::creates),
    (&["small-files-by-every-rank"], files::by_every_rank),
    (&["collective-buffering"], parallel::buffering),
    (&["lustre-striping"], parallel::striping),
    (&["chatty-output"], output::output),
];

/// Every code that a finding can have. Shape: sorted.
pub fn codes() -> Vec<&'static str> {
    let mut codes: Vec<_> = RULES.iter().flat_map(|(codes, _)| *codes).copied().collect();
    codes.sort_unstable();
    codes
}

/// What is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// Everything that is over its limit. Shape: sorted by operations, most first, then by code and title.
    pub findings: Vec<Finding>,
    /// Their remedies in the order in which to apply them.
    pub plan: Plan,
}

/// Applies every rule.
pub fn diagnose(summary: &Summary, rules: &Rules) -> Diagnosis {
    let case = Case::new(summary, rules);
    let found = found(&case);
    let findings = found.iter().map(|found| found.finding.clone()).collect();
    Diagnosis { findings, plan: plan::plan(&case, found) }
}

/// The findings alone.
pub fn findings(summary: &Summary, rules: &Rules) -> Vec<Finding> {
    diagnose(summary, rules).findings
}

fn found(case: &Case<'_>) -> Vec<Found> {
    let mut found: Vec<_> = RULES.iter().flat_map(|(_, rule)| rule(case)).collect();
    found.sort_by(|Found { finding: a, .. }, Found { finding: b, .. }| {
        b.operations.cmp(&a.operations).then_with(|| (a.code, &a.title).cmp(&(b.code, &b.title)))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_limit_of_its_name() {
        let limits: Vec<_> = LIMITS.iter().map(|limit| limit.threshold.name).collect();
        assert!(codes().iter().all(|code| limits.contains(code)), "{:?}", codes());
        assert!(codes().is_sorted_by(|a, b| a < b));
    }
}
