//! The remedies of a trace in the order in which to apply them, and what is left after each.

use super::case::Case;
use super::draft::Found;
use super::effect::RemedySum;
use super::image;
use super::scoped;
use super::{Cost, Counted, Finding};
use std::cmp::Reverse;

/// Remedies in the order in which to apply them.
#[derive(Clone, Debug, PartialEq)]
pub struct RemedyPlan {
    /// Metadata operations of the run as it was recorded.
    pub metadata_operations: u64,
    /// Shape: remedies that cost nothing first, best first; each remedy once.
    pub steps: Vec<RemedyStep>,
    /// All steps in one line, for the recorded command alone; `None` where they are not all changes of it.
    pub in_one_line: Option<String>,
}

/// A remedy, with the findings that it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct RemedyStep {
    /// The finding that it is for; the first of several.
    pub finding: Finding,
    /// The codes of all findings that this same remedy is for. Shape: distinct, in the order of the findings.
    pub codes: Vec<&'static str>,
    /// Metadata operations that it takes away when nothing else is applied.
    pub saves: u64,
    /// Metadata operations that remain when this step and all before it are applied. What two of them would take away
    /// is counted once.
    pub together: u64,
}

/// The plan for these findings.
pub(super) fn plan(case: &Case<'_>, found: Vec<Found>) -> RemedyPlan {
    let mut left = remedies(case, found);
    let operations = |path| case.operations(path);
    let (mut together, mut steps, mut applied_steps) = (RemedySum::default(), Vec::new(), Vec::new());
    while let Some(next) = best(&left, &together, case.total, &operations) {
        let (found, codes) = left.remove(next);
        let mut applied = together.clone();
        applied.apply(&found.effect, &operations);
        let gain = together.after(case.total).saturating_sub(applied.after(case.total));
        let saves = case.total.saturating_sub(found.finding.remedy.metadata_operations_after);
        if is_done(&found.finding, gain, saves) {
            continue;
        }
        together = applied;
        let finding = found.finding.clone();
        steps.push(RemedyStep { finding, codes, saves, together: together.after(case.total) });
        applied_steps.push(found);
    }
    let in_one_line = scoped::in_one_line(case, applied_steps.iter()).filter(|_| !steps.is_empty());
    RemedyPlan { metadata_operations: case.total, steps, in_one_line }
}

/// True where the steps before did nearly all that this one would do alone: it would not be a finding any more.
fn is_done(finding: &Finding, gain: u64, saves: u64) -> bool {
    finding.counted == Counted::MetadataOperations && gain.saturating_mul(DONE) <= saves
}

/// A step that still does one part in so many of what it would do alone is done. Smaller, and steps are shown that hardly
/// do anything; larger, and some are left out that would.
const DONE: u64 = 10;

/// Findings that one command removes are one remedy: that of the finding for which it does most; of
/// equals, that with most operations. An image is that of all its findings: on local disks each names directories of its own.
fn remedies(case: &Case<'_>, found: Vec<Found>) -> Vec<(Found, Vec<&'static str>)> {
    let mut remedies: Vec<(Found, Vec<&'static str>)> = Vec::new();
    for found in found {
        let same = |(other, _): &&mut (Found, _)| is_same(&other.finding, &found.finding);
        match remedies.iter_mut().find(same) {
            None => {
                let codes = vec![found.finding.code];
                remedies.push((found, codes));
            }
            Some((other, codes)) => {
                if !codes.contains(&found.finding.code) {
                    codes.push(found.finding.code);
                }
                merge(other, found);
            }
        }
    }
    for (found, _) in remedies.iter_mut().filter(|(found, _)| found.finding.remedy.cost == Cost::Image) {
        let whole = image::joined(case, std::mem::take(&mut found.image_roots));
        found.take(case, whole);
    }
    remedies
}

/// Keeps the finding whose own remedy does more, with the roots of both.
fn merge(kept: &mut Found, mut found: Found) {
    let worth = |Finding { remedy, operations, .. }: &Finding| {
        (remedy.metadata_operations_after, Reverse(*operations))
    };
    if worth(&found.finding) < worth(&kept.finding) {
        std::mem::swap(kept, &mut found);
    }
    kept.image_roots.append(&mut found.image_roots);
}

/// True where one step removes both: the same command, or an image, of which one is enough.
fn is_same(a: &Finding, b: &Finding) -> bool {
    a.remedy.command == b.remedy.command || (a.remedy.cost == Cost::Image && b.remedy.cost == Cost::Image)
}

/// The cheapest remedy that takes most away of what is left; ties by its code.
fn best(
    left: &[(Found, Vec<&'static str>)],
    together: &RemedySum,
    total: u64,
    operations: &dyn Fn(u32) -> u64,
) -> Option<usize> {
    let cheapest = left.iter().map(|(found, _)| found.finding.remedy.cost).min()?;
    let candidates = left.iter().enumerate();
    let candidates = candidates.filter(|(_, (found, _))| found.finding.remedy.cost == cheapest);
    let key = |(_, (found, _)): &(usize, &(Found, Vec<&'static str>))| {
        let mut tried = together.clone();
        tried.apply(&found.effect, operations);
        let finding = &found.finding;
        let requests = finding.operations.saturating_sub(finding.remedy.operations_after);
        (tried.after(total), Reverse(requests), finding.code)
    };
    candidates.min_by_key(key).map(|(index, _)| index)
}
