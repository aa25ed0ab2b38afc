//! Workload, profile and question in; points of a curve, with their spread, out.

use super::engine::StartEngine;
use super::point::{StartForecast, StartSummary};
use super::replays::computing_before_a_request;
use super::runs;
use crate::StartParameters;
use crate::forecast::Forecast;
use crate::profile::Profile;
use crate::question::StartQuestion;
use crate::workload::StartScript;

/// Predicts a start. Shape of `scripts`: at least one; ranks run them in turn, and the forecast is their mean.
pub fn forecast(scripts: &[StartScript], profile: &Profile, question: &StartQuestion) -> StartForecast {
    let own = profile
        .tells_requests_in_a_row()
        .then(|| profile.after_computing(computing_before_a_request(scripts, profile, question)));
    let profile = own.as_ref().unwrap_or(profile);
    let mut engine = StartEngine::new(scripts, profile, question);
    let median = StartParameters::median(profile);
    let runs = runs::runs(profile, question);
    let points: Vec<_> = question.nodes.iter().map(|nodes| engine.point(*nodes, &median, &runs)).collect();
    let largest = points.last();
    let sensitivities =
        largest.map_or_else(Vec::new, |point| runs::sensitivities(&mut engine, &median, point));
    let summary = StartSummary {
        knee: largest.map_or(f64::INFINITY, |point| engine.knee(point.nodes, &median)),
        assumed: median.assumed.clone(),
        think: engine.think(),
        image_bytes: question.changes.image.map(|_| engine.image_bytes()),
    };
    Forecast { profile: profile.name.clone(), points, sensitivities, summary }
}
