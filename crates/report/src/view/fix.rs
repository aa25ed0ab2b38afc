//! The object of `quell fix --json`.

use super::findings::Finding;
use super::headline::pack_command;
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
    /// All steps in one line, for the recorded command alone. Absent where a step is no change of that command, or the line would be
    /// that of the only step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_this_command: Option<String>,
    /// The command that makes an image, where there is no remedy and only local disks were asked: it serves where these files lie on a
    /// shared file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub where_shared: Option<String>,
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
        for_this_command: plan.in_one_line.clone().filter(|line| !is_only_step(plan, line)),
        where_shared: where_shared(summary, plan),
        doubts: summary.doubts().iter().map(Doubt::from).collect(),
    }
}

fn is_only_step(plan: &RemedyPlan, line: &str) -> bool {
    matches!(&plan.steps[..], [step] if step.finding.remedy.command == line)
}

fn where_shared(summary: &Summary, plan: &RemedyPlan) -> Option<String> {
    let is_worth_it = plan.steps.is_empty() && plan.metadata_operations >= WORTH_AN_IMAGE;
    (is_worth_it && !quell_analyse::local_roots(summary).is_empty()).then(|| pack_command(summary))
}

/// The fewest operations for which an image is named that no finding asks for: those of a start that people notice on many nodes.
const WORTH_AN_IMAGE: u64 = 1000;

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
