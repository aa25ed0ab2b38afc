//! Seconds of many creates for a list of node counts, and what changes would give.

use super::advice::advise;
use super::error::CreateError;
use super::parameters::{CompletedProfile, CreateParameters, completed, inputs};
use super::request::CreateRequest;
use super::seconds::{point, sensitivities, typical};
use super::summary::{CreateForecast, CreateSummary};
use super::what_if::what_ifs;
use crate::forecast::{FigureSensitivity, Forecast};
use crate::profile::{Profile, ProfileKind};

/// Predicts the time of creates.
///
/// # Errors
/// [`CreateError::NotMeasured`] for a profile without a rate of creates; [`CreateError::OutOfRange`] for counts of 0 or too many.
pub fn forecast(profile: &Profile, request: &CreateRequest) -> Result<CreateForecast, CreateError> {
    let whole = completed(profile);
    let parameters = CreateParameters::of(&whole.profile)?;
    request.check()?;
    let points =
        request.nodes.iter().map(|&nodes| point(&parameters, request.creates(nodes), &request.state));
    let largest = request.creates(request.nodes.last().copied().unwrap_or(1));
    let summary = CreateSummary {
        kind: profile.kind,
        profile_note: profile.note.clone(),
        request: request.clone(),
        state: parameters.has_tokens().then(|| request.state.to_string()),
        what_ifs: what_ifs(&parameters, &largest, &request.state),
        typical: typical(&parameters, &largest, &request.state),
        advice: advise(&parameters, &largest, &request.state),
        inputs: inputs(&whole.profile),
        notes: notes(&parameters, profile, &whole),
    };
    Ok(Forecast {
        profile: profile.name.clone(),
        points: points.collect(),
        sensitivities: widest(sensitivities(&whole.profile, &largest, &request.state)?),
        summary,
    })
}

/// Those that move the time, the widest first.
fn widest(mut all: Vec<FigureSensitivity>) -> Vec<FigureSensitivity> {
    let swing = |known: &FigureSensitivity| (known.at_p90 / known.at_p10).ln().abs();
    all.retain(|known| swing(known) > SMALL);
    all.sort_by(|a, b| swing(b).total_cmp(&swing(a)).then_with(|| a.figure.cmp(&b.figure)));
    all
}

fn notes(parameters: &CreateParameters, profile: &Profile, whole: &CompletedProfile) -> Vec<String> {
    let is_measured = profile.kind == ProfileKind::Measured;
    let all = [
        (true, "all nodes create at the same moment; skew between them makes it less"),
        (
            parameters.has_tokens(),
            "published times of token traffic are all of 4096 nodes: that they grow linearly is assumed",
        ),
        (
            parameters.laws().len() > 1,
            "two laws of block splits fit the same published times; the range covers both",
        ),
        (
            !parameters.has_tokens() && is_measured,
            "what clients hand each other was not measured: where they pass tokens (IBM Storage Scale), many nodes take longer in \
             a new directory",
        ),
        (
            profile.shared_directory.creates_per_second.is_none(),
            "the profile has no rate of creates in a directory that clients share: that of directories of their own stands in, \
             and may be much higher",
        ),
        (
            profile.rates.create.is_none(),
            "the profile has no rate of creates in directories of one's own: that of a shared one stands in",
        ),
    ];
    let mut notes: Vec<String> =
        all.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note.to_owned()).collect();
    if !whole.assumed.is_empty() {
        notes.push(format!(
            "the profile does not say {}: the prior `{}` does",
            whole.assumed.join(", "),
            whole.prior
        ));
    }
    notes
}

/// A swing of less than half a percent is none.
const SMALL: f64 = 0.005;
