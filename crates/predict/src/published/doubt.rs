//! Assumptions that the published figures cannot tell apart, and the weight of each figure in a prediction.

use super::counts::StartCounts;
use super::directory;
use super::engine::{knee_ranks, median};
use super::startup::{CORES, profile};
use crate::create;
use crate::forecast::{DerivativeStep, FigureSensitivity};
use crate::profile::{Figure, Profile, ProfileSlot};

/// One assumption about what reaches Hopper's servers, and the rates that it takes to give the published times.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The requests that reach the server, in words.
    pub assumption: &'static str,
    /// Operations of a rank that do.
    pub operations: f64,
    /// The rate that gives 400 s on 1024 cores of /home. Unit: operations a second.
    pub home: f64,
    /// The rate that gives a quarter of /home's time from /scratch. Unit: operations a second.
    pub scratch: f64,
    /// The time that follows for 8000 cores of /home. Unit: seconds.
    pub at_8000: f64,
    /// Cores at the knee.
    pub knee: f64,
}

/// The change of a time with a figure: d ln T / d ln figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Elasticity {
    /// The row.
    pub row: &'static str,
    /// The figure's key.
    pub key: String,
    /// 1: the time is proportional to it; -1: inversely; 0: it does not matter.
    pub value: f64,
}

/// The assumptions that Zhao et al. leave open.
pub(super) fn alternatives() -> Vec<Alternative> {
    let all = StartCounts::WARP;
    let opens = StartCounts { stats_ok: 0.0, stats_failed: 0.0, ..all };
    let found = StartCounts { opens_failed: 0.0, ..opens };
    let share = 1.0 / f64::from(CORES);
    let shared = StartCounts {
        opens: all.opens * share,
        opens_failed: all.opens_failed * share,
        stats_ok: all.stats_ok * share,
        stats_failed: all.stats_failed * share,
        reads: all.reads,
    };
    [
        ("every open and stat of every rank", all),
        ("every open, no stat", opens),
        ("opens of files that are there, nothing else", found),
        ("every open and stat once for each node of 24 cores", shared),
    ]
    .into_iter()
    .map(|(assumption, counts)| alternative(assumption, &counts))
    .collect()
}

fn alternative(assumption: &'static str, counts: &StartCounts) -> Alternative {
    let mut home = profile("hopper-home");
    let scale = fitted(&home, counts, 1024, 400.0);
    home.scale_rates(scale);
    let mut scratch = profile("hopper-scratch");
    let quarter = median(&home, counts, CORES, 36_864) / 4.0;
    let scratch_scale = fitted(&scratch, counts, 36_864, quarter);
    scratch.scale_rates(scratch_scale);
    Alternative {
        assumption,
        operations: counts.operations(),
        home: rate(&home),
        scratch: rate(&scratch),
        at_8000: median(&home, counts, CORES, 8000),
        knee: knee_ranks(&home, counts).p50,
    }
}

fn rate(profile: &Profile) -> f64 {
    profile.rates.open.as_ref().map_or(f64::NAN, |figure| figure.p50)
}

/// By what all rates must be multiplied to give this time, by halving the interval.
fn fitted(profile: &Profile, counts: &StartCounts, ranks: u64, seconds: f64) -> f64 {
    let time = |exponent: f64| {
        let mut scaled = profile.clone();
        scaled.scale_rates(exponent.exp());
        median(&scaled, counts, CORES, ranks)
    };
    let (mut low, mut high) = (-7.0, 7.0);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        // More rate, less time.
        if time(middle) > seconds { low = middle } else { high = middle }
    }
    ((low + high) / 2.0_f64).exp()
}

/// Enough for seven digits.
const HALVINGS: u32 = 28;

impl Profile {
    /// Multiplies every rate of the metadata servers.
    pub(super) fn scale_rates(&mut self, by: f64) {
        for (title, _, slot) in self.slots() {
            let (crate::profile::RatesSection::TITLE, ProfileSlot::Figure(Some(figure), _)) = (title, slot)
            else {
                continue;
            };
            let Figure { p10, p50, p90, .. } = figure;
            (*p10, *p50, *p90) = (*p10 * by, *p50 * by, *p90 * by);
        }
    }
}

/// Elasticities of the rows for validation whose times depend on several figures.
pub(super) fn elasticities() -> Vec<Elasticity> {
    let [old, round_1, _, round_3] = directory::rounds();
    let creates = [("scale-baseline", old), ("scale-round-1", round_1), ("scale-round-3", round_3)];
    let of_creates = creates.into_iter().flat_map(|(row, state)| {
        let all = create::sensitivities(&directory::coral(), &directory::CREATES, &state).unwrap_or_default();
        all.into_iter().map(move |known| Elasticity::of(row, known))
    });
    let starts = [("warp-home-slope", "hopper-home", 1024), ("warp-dlfm-10", "hopper-scratch", 36_864)];
    let of_starts = starts.into_iter().flat_map(|(row, name, ranks)| of_start(row, &profile(name), ranks));
    of_starts.chain(of_creates).filter(|elasticity| elasticity.value.abs() >= LEAST).collect()
}

/// A figure that changes a time by less than this part of its own change is left out.
const LEAST: f64 = 0.005;
const NUDGE: f64 = 1.01;

fn of_start(row: &'static str, profile: &Profile, ranks: u64) -> Vec<Elasticity> {
    let mut copy = profile.clone();
    let slots = copy.slots().into_iter();
    let figures = slots.filter(|(.., slot)| matches!(slot, ProfileSlot::Figure(Some(_), _)));
    let change = |(title, key, _): (&str, &str, ProfileSlot<'_>)| {
        let known = FigureSensitivity::of(&format!("{title}.{key}"), DerivativeStep::Up(NUDGE), |at| {
            let changed = profile.with(&format!("{title}.{key}"), at)?;
            Some(median(&changed, &StartCounts::WARP, CORES, ranks))
        })?;
        Some(Elasticity::of(row, known))
    };
    figures.filter_map(change).collect()
}

impl Elasticity {
    fn of(row: &'static str, known: FigureSensitivity) -> Self {
        Self { row, key: known.figure, value: known.elasticity }
    }
}
