//! The object of `quell fix --json`.

use super::findings::Finding;
use super::parts::Doubt;
use quell_analyse::Summary;
use quell_analyse::findings::{RemedyPlan, RemedyStep};
use schemars::JsonSchema;
use serde::Serialize;

/// Changes, in the order in which to apply them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FixView {
    /// The version of this object.
    pub schema_version: u32,
    /// The recorded command with its arguments.
    pub command: Vec<String>,
    /// Metadata operations of the run as it was recorded.
    pub metadata_operations: u64,
    /// Remedies that cost nothing first, best first.
    pub steps: Vec<FixStep>,
    /// Reasons to read the numbers with care.
    #[serde(skip)]
    pub doubts: Vec<Doubt>,
}

/// A remedy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FixStep {
    /// The codes of all findings that it is for.
    pub codes: Vec<String>,
    /// The finding that it does most for, with the remedy.
    pub finding: Finding,
    /// Metadata operations that it takes away when nothing else is applied.
    pub saves: u64,
    /// Metadata operations that remain when it and all steps before it are applied; what two of them would take away is
    /// counted once.
    pub metadata_operations_together: u64,
}

/// The object of `quell fix --json`.
pub fn fix(summary: &Summary, plan: &RemedyPlan) -> FixView {
    FixView {
        schema_version: super::SCHEMA_VERSION,
        command: summary.command().to_vec(),
        metadata_operations: plan.metadata_operations,
        steps: plan.steps.iter().map(FixStep::from).collect(),
        doubts: summary.doubts().iter().map(Doubt::from).collect(),
    }
}

impl From<&RemedyStep> for FixStep {
    fn from(step: &RemedyStep) -> Self {
        Self {
            codes: step.codes.iter().map(|code| (*code).to_owned()).collect(),
            finding: (&step.finding).into(),
            saves: step.saves,
            metadata_operations_together: step.together,
        }
    }
}
