//! `quell predict T... --html`: the page of a start, with what each change would give at the largest number of nodes.

use super::measured;
use crate::failure::Failure;
use crate::html;
use crate::printer::Printer;
use quell_predict::{Changes, Image, Prediction, Profile, Question, Script};
use quell_report::view::{self, PredictedChange, PredictedChanges};
use std::path::Path;

/// What was predicted.
pub(super) struct Asked<'a> {
    pub(super) scripts: &'a [Script],
    pub(super) question: &'a Question,
    pub(super) predictions: &'a [(Profile, Prediction)],
}

/// Writes the page to `file`.
pub(super) fn write(
    asked: &Asked<'_>,
    object: &view::PredictView,
    file: &Path,
    measured: Option<&Path>,
    printer: &Printer,
) -> Result<(), Failure> {
    let measured = measured.map(measured::load).transpose()?.unwrap_or_default();
    let Asked { scripts, question, predictions } = asked;
    let what_ifs = predictions.iter().map(|(profile, _)| what_ifs(scripts, profile, question)).collect();
    let page = view::page_of_start(object, what_ifs, &measured);
    html::write(&quell_report::html::prediction(&page, object)?, file, printer)
}

/// Each change alone, on top of what was asked.
fn what_ifs(scripts: &[Script], profile: &Profile, question: &Question) -> PredictedChanges {
    let nodes = question.nodes.last().copied().unwrap_or(1);
    let change = |(words, changes): (&str, Changes)| {
        let question = Question { nodes: vec![nodes], changes, ..question.clone() };
        let prediction = quell_predict::predict(scripts, profile, &question);
        let slowest = prediction.points.first().map(|point| point.slowest).unwrap_or_default();
        PredictedChange {
            change: words.to_owned(),
            seconds: view::Range { p10: slowest.p10, p50: slowest.p50, p90: slowest.p90 },
        }
    };
    PredictedChanges {
        name: profile.name.clone(),
        nodes,
        changes: changes(&question.changes).into_iter().map(change).collect(),
    }
}

/// What is asked, then each change that is not asked already.
fn changes(asked: &Changes) -> Vec<(&'static str, Changes)> {
    let all = [
        ("from an image that each node reads", Changes { image: Some(Image::Read), ..asked.clone() }),
        ("from an image that is broadcast", Changes { image: Some(Image::Broadcast), ..asked.clone() }),
        ("clients keep absent names", Changes { keeps_absences: true, ..asked.clone() }),
        ("half the misses", Changes { fewer_misses: asked.fewer_misses.max(0.5), ..asked.clone() }),
        ("half the files", Changes { fewer_files: asked.fewer_files.max(0.5), ..asked.clone() }),
        ("lookup and open in one request", Changes { atomic_open: true, ..asked.clone() }),
    ];
    let new = all.into_iter().filter(|(_, changes)| changes != asked);
    std::iter::once(("as asked", asked.clone())).chain(new).collect()
}
