//! Workload, profile and question in; points of a curve, with their spread, out.

use super::engine::{Care, StartEngine};
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
    let profile = &seen_by_program(profile, scripts, question);
    let mut engine = StartEngine::new(scripts, profile, question);
    let median = StartParameters::median(profile);
    let runs = runs::runs(profile, question);
    let (points, of_runs): (Vec<_>, Vec<_>) =
        question.nodes.iter().map(|nodes| engine.point(*nodes, &median, &runs)).unzip();
    let largest = points.last();
    let last_start = largest.map_or(0.0, |point| engine.scale(point.nodes).last_start());
    let of_last = of_runs.last().map_or(&[][..], Vec::as_slice);
    let of_runs = of_last.iter().map(|seconds| seconds - last_start).collect();
    let sensitivities = largest.map_or_else(Vec::new, |point| runs::sensitivities(&mut engine, point.nodes));
    let knee = largest.map_or(f64::INFINITY, |point| engine.knee(point.nodes, &median));
    let capacity = engine.capacity.clone();
    let summary = StartSummary {
        knee,
        is_knee_lower_limit: largest.is_some_and(|point| engine.knee(point.nodes, &capacity) != knee),
        at_medians: largest.map_or(0.0, |point| {
            engine.times(point.nodes, &median, Care::Quick).times.slowest + question.launch
        }),
        runs: of_runs,
        assumed: median.assumed.clone(),
        think: engine.think(),
        image_bytes: question.changes.image.map(|_| engine.image_bytes()),
        most_read: engine
            .most_read_file(&median)
            .filter(|_| largest.is_some_and(|point| point.detail.bytes > 0.0)),
    };
    Forecast { profile: profile.name.clone(), points, sensitivities, summary }
}

/// The profile as the program sees it by its computing between requests and between calls.
fn seen_by_program(profile: &Profile, scripts: &[StartScript], question: &StartQuestion) -> Profile {
    let seen = match profile.tells_requests_in_a_row() {
        true => profile.after_computing(computing_before_a_request(scripts, profile, question)),
        false => profile.clone(),
    };
    let think: f64 = scripts.iter().map(StartScript::think).sum();
    let calls: usize = scripts.iter().map(StartScript::acts_by_call).sum();
    seen.sharing_cores(1e6 * think / calls.max(1) as f64)
}
