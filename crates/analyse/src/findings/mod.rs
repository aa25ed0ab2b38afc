//! Causes with remedies: stable code, what was seen, the threshold that it is over, what to change, and the metadata
//! operations that remain afterwards, computed from this trace.
//!
//! ```text
//! Summary, LimitsInForce -> Case (paths in order, what counts) -> rules, one file a family -> Found { Finding, Effect }
//!                                                                                       |-> findings: by rank, then operations
//!                                                                                       `-> plan: by cost and saving
//! ```
//!
//! In a run that used a network file system, only its operations count; else all, as if they were shared. Each
//! finding is computed as if its remedy were applied alone; the [`RemedyPlan`] adds remedies up without counting twice.

mod attributes;
mod case;
mod command_change;
mod distributions;
mod draft;
mod effect;
mod files;
mod finding;
mod fonts;
mod image;
mod julia;
mod limits;
mod lists;
mod locale;
mod modules;
mod network;
mod output;
mod parallel;
mod plan;
mod polling;
mod python;
mod readlinks;
mod repeated;
mod requests;
mod scoped;
mod search_paths;
mod temporary;
mod words;
mod wrappers;

pub use finding::{Cost, Counted, Finding, LimitsInForce, Remedy, Threshold};
pub use limits::{FindingLimit, LIMITS};
pub use plan::{RemedyPlan, RemedyStep};

use crate::Summary;
use case::Case;
use draft::Found;
use std::cmp::Reverse;

/// A rule: gives its findings in a case.
type Rule = fn(&Case<'_>) -> Vec<Found>;

/// Every rule with the codes that it may give. Shape: in no order that matters; codes are distinct.
const RULES: &[(&[&str], Rule)] = &[
    (&["network-start-up"], network::start_up),
    (&["search-path-misses", "python-user-site"], search_paths::search_paths),
    (&["search-list-misses"], lists::lists),
    (&["program-wrappers"], wrappers::wrappers),
    (&["polling"], polling::polling),
    (&["repeated-stats"], repeated::stats),
    (&["repeated-listings"], repeated::listings),
    (&["readlink-storm"], readlinks::readlinks),
    (&["python-imports"], python::imports),
    (&["python-bytecode"], python::bytecode),
    (&["python-distributions"], distributions::distributions),
    (&["absent-attributes"], attributes::absent),
    (&["font-cache"], fonts::font_cache),
    (&["julia-without-image"], julia::julia),
    (&["module-tree-walk"], modules::walks),
    (&["module-rc-files"], modules::rc_files),
    (&["locale-files"], locale::locale),
    (&["tiny-reads", "tiny-writes"], requests::tiny),
    (&["open-close-churn"], files::churn),
    (&["many-creates"], files::creates),
    (&["temporary-files"], temporary::files),
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

/// Findings and their remedies.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// Everything that is over its limit. Shape: by `FindingRank`, then by operations, most first, then by code and title.
    pub findings: Vec<Finding>,
    /// Their remedies in the order in which to apply them.
    pub plan: RemedyPlan,
}

/// Applies every rule.
pub fn diagnose(summary: &Summary, limits: &LimitsInForce) -> Diagnosis {
    let case = Case::new(summary, limits);
    let found = found(&case);
    let findings = found.iter().map(|found| found.finding.clone()).collect();
    Diagnosis { findings, plan: plan::plan(&case, found) }
}

/// The findings alone.
pub fn findings(summary: &Summary, limits: &LimitsInForce) -> Vec<Finding> {
    diagnose(summary, limits).findings
}

fn found(case: &Case<'_>) -> Vec<Found> {
    let mut found: Vec<_> = RULES.iter().flat_map(|(_, rule)| rule(case)).collect();
    found.sort_by_cached_key(|found| {
        let (rank, finding) = (FindingRank::of(found, case.total), &found.finding);
        (rank, Reverse(finding.operations), finding.code, finding.title.clone())
    });
    found
}

/// The place of a finding among others: a free and exact remedy comes before an image, and a cause before the sum of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FindingRank {
    /// A remedy that costs nothing and saves a notable part of the run's metadata operations.
    Free,
    /// A cause.
    Cause,
    /// Reads of a file that the client has had from its server by the first.
    ReadAhead,
    /// The sum of all causes.
    Sum,
}

impl FindingRank {
    fn of(Found { finding, is_read_ahead, .. }: &Found, total: u64) -> Self {
        let saved = total.saturating_sub(finding.remedy.metadata_operations_after);
        if finding.code == limits::NETWORK_START_UP.threshold.name {
            Self::Sum
        } else if *is_read_ahead {
            Self::ReadAhead
        } else if finding.remedy.cost == Cost::Nothing && saved.saturating_mul(NOTABLE) >= total && saved > 0
        {
            Self::Free
        } else {
            Self::Cause
        }
    }
}

/// One part in so many of a run's metadata operations is notable. Less, and a cause that does more harm comes first.
const NOTABLE: u64 = 10;

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
