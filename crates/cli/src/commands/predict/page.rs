//! `quell predict T... --html`: the page of a start, with what each change would give at the largest number of nodes.

use super::measured;
use crate::failure::Failure;
use crate::html;
use crate::printer::Printer;
use quell_base::escape;
use quell_predict::start::{self, StartForecast};
use quell_predict::{ImageDelivery, Profile, StartChanges, StartQuestion, StartScript};
use quell_report::view::{self, PredictedChange, PredictedChanges};
use std::path::Path;

/// The predictions, with their question.
pub(super) struct AskedPredictions<'a> {
    pub(super) scripts: &'a [StartScript],
    pub(super) question: &'a StartQuestion,
    pub(super) forecasts: &'a [(Profile, StartForecast)],
}

/// Writes the page to `file`.
pub(super) fn write(
    asked: &AskedPredictions<'_>,
    object: &view::PredictView,
    file: &Path,
    measured: Option<&Path>,
    printer: &Printer,
) -> Result<(), Failure> {
    let measured = measured.map(measured::load).transpose()?.unwrap_or_default();
    let AskedPredictions { scripts, question, forecasts } = asked;
    let others = measured.iter().filter(|point| point.ppn != u64::from(question.processes)).count();
    if others > 0 {
        printer.warn(&format!(
            "{others} of {} measured times are of another number of ranks a node than --ppn {}",
            measured.len(),
            question.processes
        ));
    }
    let what_ifs = forecasts.iter().map(|(profile, _)| what_ifs(scripts, profile, question)).collect();
    let page = view::page_of_start(object, what_ifs, &measured);
    html::write(&quell_report::html::prediction(&page, object)?, file, printer)
}

/// Each change alone, on top of what was asked.
fn what_ifs(scripts: &[StartScript], profile: &Profile, question: &StartQuestion) -> PredictedChanges {
    let nodes = question.nodes.last().copied().unwrap_or(1);
    let change = |(words, changes): (&str, StartChanges)| {
        let question = StartQuestion { nodes: vec![nodes], changes, ..question.clone() };
        let forecast = start::forecast(scripts, profile, &question);
        let slowest = forecast.points.first().map(|point| point.seconds).unwrap_or_default();
        PredictedChange {
            change: words.to_owned(),
            seconds: view::Range { p10: slowest.p10, p50: slowest.p50, p90: slowest.p90 },
        }
    };
    PredictedChanges {
        name: escape(profile.name.as_bytes()),
        nodes,
        changes: changes(&question.changes).into_iter().map(change).collect(),
    }
}

/// The changes as asked, then each further change.
fn changes(asked: &StartChanges) -> Vec<(&'static str, StartChanges)> {
    let all = [
        (
            "from an image that each node reads",
            StartChanges { image: Some(ImageDelivery::Read), ..asked.clone() },
        ),
        (
            "from an image that is broadcast",
            StartChanges { image: Some(ImageDelivery::Broadcast), ..asked.clone() },
        ),
        ("clients keep absent names", StartChanges { keeps_absences: true, ..asked.clone() }),
        ("half the misses", StartChanges { fewer_misses: asked.fewer_misses.max(0.5), ..asked.clone() }),
        ("half the files", StartChanges { fewer_files: asked.fewer_files.max(0.5), ..asked.clone() }),
        ("lookup and open in one request", StartChanges { atomic_open: true, ..asked.clone() }),
    ];
    let new = all.into_iter().filter(|(_, changes)| changes != asked);
    std::iter::once(("as asked", asked.clone())).chain(new).collect()
}
