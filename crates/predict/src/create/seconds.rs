//! Seconds of creates with their range, and how each figure of a profile moves them.

use super::error::CreateError;
use super::parameters::{CreateInput, CreateParameters, SplitLawChoice, inputs};
use super::point::CreateDetail;
use super::terms::{CreateSeconds, Creates, DirectoryState, TimeTerm};
use crate::forecast::{Bottleneck, DerivativeStep, FigureSensitivity, ForecastPoint, Spread};
use crate::model::Bounds;
use crate::profile::Profile;

/// One point of a forecast.
pub(crate) fn point(
    parameters: &CreateParameters,
    creates: Creates,
    state: &DirectoryState,
) -> ForecastPoint<CreateDetail> {
    let samples: Vec<CreateSeconds> =
        (0..SAMPLES).map(|k| CreateSeconds::of(&creates, state, &parameters.sample(k))).collect();
    let median = |term: TimeTerm| Spread::of(samples.iter().map(|seconds| seconds[term]).collect()).p50;
    let terms: Vec<_> = TimeTerm::ALL.into_iter().map(|term| (term, median(term))).collect();
    let larger = |best: (TimeTerm, f64), next: &(TimeTerm, f64)| if next.1 > best.1 { *next } else { best };
    let at = |u: f64| {
        parameters.laws().iter().map(move |law| CreateSeconds::of(&creates, state, &parameters.at(u, *law)))
    };
    let overlapped = |seconds: CreateSeconds| seconds[seconds.largest()];
    let lower = at(0.0).map(overlapped).fold(f64::INFINITY, f64::min);
    let upper = at(1.0).map(|seconds| seconds.total()).fold(0.0, f64::max);
    ForecastPoint {
        nodes: creates.nodes,
        ranks: creates.ranks(),
        seconds: Spread::of(samples.iter().map(CreateSeconds::total).collect()),
        bounds: Bounds { lower, upper },
        bottleneck: Bottleneck::Term(terms.iter().fold((TimeTerm::Creates, 0.0), larger).0),
        detail: CreateDetail { creates, terms },
    }
}

/// With every figure at its median; where there are two laws of splits, their mean.
pub(super) fn typical(parameters: &CreateParameters, creates: &Creates, state: &DirectoryState) -> f64 {
    let laws = parameters.laws();
    let total = |law: &SplitLawChoice| CreateSeconds::of(creates, state, &parameters.at(0.5, *law)).total();
    laws.iter().map(total).sum::<f64>() / laws.len() as f64
}

/// The change of the time with each figure of the profile, at the medians. Shape: in the order of the file.
///
/// # Errors
/// [`CreateError::NotMeasured`] for a profile without a rate of creates.
pub(crate) fn sensitivities(
    profile: &Profile,
    creates: &Creates,
    state: &DirectoryState,
) -> Result<Vec<FigureSensitivity>, CreateError> {
    CreateParameters::of(profile)?;
    let sensitivity = |CreateInput { key, .. }: CreateInput| {
        FigureSensitivity::of(&key, DerivativeStep::Up(NUDGE), |at| {
            let changed = profile.with(&key, at)?;
            Some(typical(&CreateParameters::of(&changed).ok()?, creates, state))
        })
    };
    Ok(inputs(profile).into_iter().filter_map(sensitivity).collect())
}

/// Samples of a range: p10 and p90 move by less than 1 % beyond.
const SAMPLES: u32 = 1000;
/// Change of a figure for its elasticity.
const NUDGE: f64 = 1.01;
