//! Findings with their remedies.

use quell_analyse::findings;
use schemars::JsonSchema;
use serde::Serialize;

/// A cause of operations, with its remedy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Its stable name.
    pub code: String,
    /// The observation, in one sentence.
    pub title: String,
    /// Details, most important first; one sentence each.
    pub evidence: Vec<String>,
    /// The limit that it is over.
    pub threshold: Threshold,
    /// Metadata operations, or on the data side requests, that it causes.
    pub operations: u64,
    /// The unit of `operations`: `metadata_operations` or `requests`.
    pub counted: String,
    /// The remedy.
    pub remedy: Remedy,
}

/// A limit, and what was measured against it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Threshold {
    /// Its stable name.
    pub name: String,
    /// The limit.
    pub value: f64,
    /// The measured figure.
    pub measured: f64,
    /// The unit of both.
    pub unit: String,
}

/// The change that removes a cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Remedy {
    /// One sentence.
    pub text: String,
    /// The exact command or change.
    pub command: String,
    /// The price of applying it: `nothing`, `image`, `setup` or `program`.
    pub cost: String,
    /// Metadata operations of the whole run that the file systems behind still have to answer with it; what an image
    /// answers on the node is not among them.
    pub metadata_operations_after: u64,
    /// Of the finding's own operations, those that remain with it.
    pub operations_after: u64,
}

/// A limit as it stands without `--threshold`.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRow {
    /// Its stable name.
    pub name: &'static str,
    /// The limit.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The figure that is measured against it.
    pub meaning: &'static str,
    /// A finding has this code.
    pub is_code: bool,
}

/// Every limit, in the order of the rules.
pub fn limits() -> Vec<LimitRow> {
    let codes = findings::codes();
    let row = |limit: &findings::FindingLimit| {
        let findings::Threshold { name, value, unit } = limit.threshold;
        LimitRow { name, value, unit, meaning: limit.meaning, is_code: codes.contains(&name) }
    };
    findings::LIMITS.iter().map(row).collect()
}

impl From<&findings::Finding> for Finding {
    fn from(finding: &findings::Finding) -> Self {
        let (threshold, remedy) = (&finding.threshold, &finding.remedy);
        Self {
            code: finding.code.into(),
            title: finding.title.clone(),
            evidence: finding.evidence.clone(),
            threshold: Threshold {
                name: threshold.name.into(),
                value: threshold.value,
                measured: finding.measured,
                unit: threshold.unit.into(),
            },
            operations: finding.operations,
            counted: finding.counted.name().into(),
            remedy: Remedy {
                text: remedy.text.clone(),
                command: remedy.command.clone(),
                cost: remedy.cost.name().into(),
                metadata_operations_after: remedy.metadata_operations_after,
                operations_after: remedy.operations_after,
            },
        }
    }
}
