//! The runs of which ranges are made, and how much of a range each figure makes.

use super::engine::{Care, StartEngine};
use crate::StartParameters;
use crate::chance::Chance;
use crate::forecast::{DerivativeStep, FigureSensitivity};
use crate::profile::{Figure, Profile};
use crate::question::StartQuestion;

/// The parameters of each run of which the spread is made. Computing has a spread even where a profile is exact.
pub(super) fn runs(profile: &Profile, question: &StartQuestion) -> Vec<StartParameters> {
    let mut chance = Chance(question.seed);
    let samples = question.samples as usize;
    let columns: Vec<Vec<f64>> = (0..KEYS.len()).map(|_| chance.stratified(samples)).collect();
    let run = |sample: usize| {
        StartParameters::choose(profile, &|key, figure| {
            let column = column(key);
            choose(key, figure, columns[column][sample])
        })
    };
    (0..samples).map(run).collect()
}

/// The change of the time of so many nodes with each figure, the launch included. Shape: sorted by the swing, largest first.
pub(super) fn sensitivities(engine: &mut StartEngine<'_>, nodes: u64) -> Vec<FigureSensitivity> {
    let (profile, launch) = (engine.profile, engine.question.launch);
    // Replays at the point's own slowness are of the medians alone. A changed lifetime is compared with replays like its own.
    engine.replays.leave();
    let mut sensitivity = |figure: &&'static str| {
        // Each value of a lifetime is a replay, so one on one side has to do.
        let step = if is_lifetime(figure) { DerivativeStep::Up(STEP) } else { DerivativeStep::Both(STEP) };
        FigureSensitivity::of(figure, step, |at| {
            let choice = |key: &'static str, own: &Figure| if key == *figure { at(own) } else { own.p50 };
            let parameters = StartParameters::choose(profile, &choice);
            Some(engine.times(nodes, &parameters, Care::Quick).times.slowest + launch)
        })
    };
    let mut found: Vec<FigureSensitivity> = KEYS
        .iter()
        .filter_map(&mut sensitivity)
        .filter(|found| found.elasticity.abs() > 5e-4 || found.at_p10 != found.at_p90)
        .collect();
    let swing = |found: &FigureSensitivity| ((found.at_p90 - found.at_p10).abs(), found.elasticity.abs());
    found.sort_by(|a, b| swing(b).partial_cmp(&swing(a)).unwrap_or(std::cmp::Ordering::Equal));
    found
}

/// Step of a derivative.
const STEP: f64 = 1.05;

/// The figures that runs vary. All rates of a server vary together: a server that is slow is slow at everything.
const KEYS: &[&str] = &[
    "computing",
    "operations_per_second",
    "round_trip_us",
    "servers",
    "threads",
    "positive_seconds",
    "negative_seconds",
    "directory_seconds",
    "attribute_seconds",
    "requests_in_flight",
    "cpu_us",
    "cpu_us_per_mb",
    "own_answer_us",
    "data.servers",
    "bytes_per_second",
    "client_bytes_per_second",
    "read_us",
    "open_rides_seconds",
    "listing_seconds",
    "cached_entries",
    "stripes",
    "network.bytes_per_second",
    "model",
    "gateways",
    "gateway_threads",
    "gateway_requests_per_second",
    "gateway_round_trip_us",
    "gateway_bytes_per_second",
    "node_keeps_seconds",
    "time_shared",
    "own_answer_shared_us",
];

/// The column of choices that a key takes. A client that keeps names long keeps the rest long, so lifetimes take one, and
/// few replays serve all runs.
fn column(key: &str) -> usize {
    let first = match key {
        key if is_lifetime(key) => "positive_seconds",
        key => key,
    };
    KEYS.iter().position(|known| *known == first).expect("a test sees that every key has a column")
}

fn is_lifetime(key: &str) -> bool {
    key.ends_with("_seconds") || key == "cached_entries"
}

/// Lifetimes and the limit of requests decide what is replayed, so they take one of three values; everything else any.
fn choose(key: &str, figure: &Figure, u: f64) -> f64 {
    match is_lifetime(key) || key == "requests_in_flight" {
        true if u < 0.3 => figure.p10,
        true if u > 0.7 => figure.p90,
        true => figure.p50,
        false => figure.quantile(u),
    }
}
