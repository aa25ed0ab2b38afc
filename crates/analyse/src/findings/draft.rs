//! A finding as a rule writes it, before limits and totals are filled in.

use super::case::Case;
use super::command_change::CommandChange;
use super::effect::Effect;
use super::limits::FindingLimit;
use super::{Cost, Counted, Finding, Remedy};

/// A finding with what its remedy takes away.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) finding: Finding,
    pub(super) effect: Effect,
    /// The roots of the image that is the remedy. Shape: empty where it is no image.
    pub(super) image_roots: Vec<Vec<u8>>,
    /// The remedy as a change of the recorded command, if it is one.
    pub(super) command_change: Option<CommandChange>,
    /// The client reads ahead: its servers see next to nothing of the requests.
    pub(super) is_read_ahead: bool,
}

/// A finding of a rule before its effect is counted.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) limit: &'static FindingLimit,
    pub(super) measured: f64,
    pub(super) title: String,
    pub(super) evidence: Vec<String>,
    /// Operations that the cause is responsible for, and what they are.
    pub(super) operations: u64,
    pub(super) change: RemedyDraft,
}

/// A remedy before its effect is counted.
#[derive(Clone, Debug)]
pub(super) struct RemedyDraft {
    text: String,
    command: String,
    cost: Cost,
    /// Metadata operations that the remedy takes away.
    effect: Effect,
    image_roots: Vec<Vec<u8>>,
    command_change: Option<CommandChange>,
}

impl RemedyDraft {
    pub(super) fn of(
        text: impl Into<String>,
        command: impl Into<String>,
        cost: Cost,
        effect: Effect,
    ) -> Self {
        let (text, command) = (text.into(), command.into());
        Self { text, command, cost, effect, image_roots: Vec::new(), command_change: None }
    }

    /// A variable that is set or goes, which costs nothing.
    pub(super) fn variable(text: impl Into<String>, change: CommandChange, effect: Effect) -> Self {
        let command = change.exported();
        Self { command_change: Some(change), ..Self::of(text, command, Cost::Nothing, effect) }
    }

    /// The same with this command to show.
    pub(super) fn with_command(self, command: String) -> Self {
        Self { command, ..self }
    }

    /// Another command in the place of the recorded one, which costs nothing.
    pub(super) fn instead(text: impl Into<String>, command: impl Into<String>, effect: Effect) -> Self {
        let change = Some(CommandChange::Instead);
        Self { command_change: change, ..Self::of(text, command, Cost::Nothing, effect) }
    }

    /// The same, as an image of these roots.
    pub(super) fn with_roots(self, image_roots: Vec<Vec<u8>>) -> Self {
        Self { image_roots, ..self }
    }
}

impl Draft {
    /// The finding about metadata operations; `None` when what was measured is not over the limit.
    pub(super) fn over(self, case: &Case<'_>) -> Option<Found> {
        let remaining = self.change.effect.after(self.operations).min(self.operations);
        self.counted(case, Counted::MetadataOperations, remaining)
    }

    /// The same about requests, of which so many remain.
    pub(super) fn requests(self, case: &Case<'_>, remaining: u64) -> Option<Found> {
        self.counted(case, Counted::Requests, remaining)
    }

    fn counted(self, case: &Case<'_>, counted: Counted, remaining: u64) -> Option<Found> {
        let RemedyDraft { text, command, cost, effect, image_roots, command_change } = self.change;
        let threshold = case.limit(self.limit);
        if self.measured <= threshold.value {
            return None;
        }
        let remedy = Remedy {
            text,
            command,
            cost,
            metadata_operations_after: effect.after(case.total),
            operations_after: remaining,
        };
        let finding = Finding {
            code: threshold.name,
            title: self.title,
            evidence: self.evidence,
            threshold,
            measured: self.measured,
            operations: self.operations,
            counted,
            remedy,
        };
        Some(Found { finding, effect, image_roots, command_change, is_read_ahead: false })
    }
}

impl Found {
    /// Makes the remedy this one; what the finding counts stays.
    pub(super) fn take(&mut self, case: &Case<'_>, change: RemedyDraft) {
        let RemedyDraft { text, command, cost, effect, image_roots, command_change } = change;
        let remedy = &mut self.finding.remedy;
        remedy.metadata_operations_after = effect.after(case.total);
        (remedy.text, remedy.command, remedy.cost) = (text, command, cost);
        (self.effect, self.image_roots, self.command_change) = (effect, image_roots, command_change);
    }
}

/// At most so many sentences of evidence: more are a table, and tables are elsewhere.
pub(super) const EVIDENCE: usize = 5;

/// The largest of `rows`, ties by the key, as sentences; and how many were left out.
pub(super) fn largest<K: Ord>(mut rows: Vec<(u64, K)>, sentence: impl Fn(u64, &K) -> String) -> Vec<String> {
    rows.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let more = rows.len().saturating_sub(EVIDENCE) as u64;
    let mut sentences: Vec<_> =
        rows.iter().take(EVIDENCE).map(|(count, key)| sentence(*count, key)).collect();
    if more > 0 {
        sentences.push(format!("and {} more", super::words::number(more)));
    }
    sentences
}
