//! Seconds of many creates with their range, for a list of node counts, and what changes would give.

use super::advice::{Advice, advise};
use super::error::CreateError;
use super::parameters::{Completed, Input, Law, Parameters, completed, inputs};
use super::terms::{Connections, Creates, Directory, InodeToken, Seconds, State, Term};
use crate::chance::percentiles;
use crate::profile::{Figure, Kind, Profile};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Node counts. Shape: ascending, each once, not empty.
    pub nodes: Vec<u64>,
    /// Ranks of a node that create files.
    pub ranks_per_node: u64,
    /// Files of each rank.
    pub files_per_rank: u64,
    /// Directories that nodes are spread over.
    pub directories: u64,
    /// How the directory is found.
    pub state: State,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The profile's name.
    pub profile: String,
    /// Where its figures come from.
    pub kind: Kind,
    /// How they were got.
    pub profile_note: Option<String>,
    /// The request.
    pub request: Request,
    /// How the directory is found, in words, where tokens make that count.
    pub state: Option<String>,
    /// Shape: one a node count.
    pub points: Vec<Point>,
    /// The largest node count as asked, and with one change after the other. Shape: the first is as asked.
    pub what_ifs: Vec<WhatIf>,
    /// The largest node count with every figure at its median. Unit: seconds.
    pub typical: f64,
    /// How far each figure alone moves that of the largest node count. Shape: the widest first, without those that
    /// move nothing.
    pub sensitivities: Vec<Sensitivity>,
    /// What to set, with numbers, for the largest node count.
    pub advice: Vec<Advice>,
    /// What it was made from.
    pub inputs: Vec<Input>,
    /// What a reader must know beside the numbers.
    pub notes: Vec<String>,
}

/// One node count.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What is created.
    pub creates: Creates,
    /// Until the last file is there. Unit: seconds.
    pub seconds: Spread,
    /// No figure within its spread gives less, even if all terms overlapped. Unit: seconds.
    pub lower: f64,
    /// None gives more. Unit: seconds.
    pub upper: f64,
    /// The median of each term. Unit: seconds.
    pub terms: Vec<(Term, f64)>,
    /// The largest of them.
    pub bottleneck: Term,
}

/// A range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// One in ten is less.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// One in ten is more.
    pub p90: f64,
}

/// The same creates under another condition.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// What is changed.
    pub change: String,
    /// What is created then.
    pub creates: Creates,
    /// How the directory is found then.
    pub state: State,
    /// Unit: seconds.
    pub seconds: Spread,
}

/// Predicts the time of creates.
///
/// # Errors
/// [`CreateError::NotMeasured`] for a profile without a rate of creates; [`CreateError::OutOfRange`] for counts of 0 or too many.
pub fn predict(profile: &Profile, request: &Request) -> Result<Prediction, CreateError> {
    let whole = completed(profile);
    let parameters = Parameters::of(&whole.profile)?;
    check(request)?;
    let points =
        request.nodes.iter().map(|&nodes| point(&parameters, request.creates(nodes), &request.state));
    let largest = request.creates(request.nodes.last().copied().unwrap_or(1));
    Ok(Prediction {
        profile: profile.name.clone(),
        kind: profile.kind,
        profile_note: profile.note.clone(),
        request: request.clone(),
        state: parameters.has_tokens().then(|| request.state.to_string()),
        points: points.collect(),
        what_ifs: super::what_if::what_ifs(&parameters, &largest, &request.state),
        typical: typical(&parameters, &largest, &request.state),
        sensitivities: sensitivities(&whole.profile, &largest, &request.state),
        advice: advise(&parameters, &largest, &request.state),
        inputs: inputs(&whole.profile),
        notes: notes(&parameters, profile, &whole),
    })
}

impl Request {
    /// What is created on so many nodes.
    pub fn creates(&self, nodes: u64) -> Creates {
        Creates {
            nodes,
            ranks_per_node: self.ranks_per_node,
            files_per_rank: self.files_per_rank,
            directories: self.directories,
        }
    }
}

impl State {
    /// How a profile's file system finds a new directory, by its own settings.
    pub fn of(profile: &Profile) -> Self {
        let settings = &profile.shared_directory;
        let number = |figure: &Option<Figure>| figure.as_ref().map(|figure| figure.p50 as u64);
        Self {
            directory: Directory::New,
            blocks: number(&settings.blocks).unwrap_or(1).max(1),
            inode_token: match settings.shares_inode_token {
                Some(false) => InodeToken::Serial,
                _ => InodeToken::Shared,
            },
            connections: match settings.connects_all {
                Some(true) => Connections::AllToAll,
                _ => Connections::OnDemand,
            },
        }
    }
}

/// One point of the prediction.
pub(crate) fn point(parameters: &Parameters, creates: Creates, state: &State) -> Point {
    let samples: Vec<Seconds> =
        (0..SAMPLES).map(|k| Seconds::of(&creates, state, &parameters.sample(k))).collect();
    let median = |term: Term| Spread::of(samples.iter().map(|seconds| seconds[term]).collect()).p50;
    let terms: Vec<_> = Term::ALL.into_iter().map(|term| (term, median(term))).collect();
    let larger = |best: (Term, f64), next: &(Term, f64)| if next.1 > best.1 { *next } else { best };
    let at = |u: f64| {
        parameters.laws().iter().map(move |law| Seconds::of(&creates, state, &parameters.at(u, *law)))
    };
    let overlapped = |seconds: Seconds| seconds[seconds.largest()];
    Point {
        creates,
        seconds: Spread::of(samples.iter().map(Seconds::total).collect()),
        lower: at(0.0).map(overlapped).fold(f64::INFINITY, f64::min),
        upper: at(1.0).map(|seconds| seconds.total()).fold(0.0, f64::max),
        bottleneck: terms.iter().fold((Term::Creates, 0.0), larger).0,
        terms,
    }
}

impl Spread {
    /// The percentiles of values, by nearest rank. Shape: `values` is not empty.
    pub(crate) fn of(values: Vec<f64>) -> Self {
        let [p10, p50, p90] = percentiles(values).unwrap_or([f64::NAN; 3]);
        Self { p10, p50, p90 }
    }
}

/// One figure at its p10 and at its p90, the others at their medians.
#[derive(Clone, Debug, PartialEq)]
pub struct Sensitivity {
    /// Section and key in the profile.
    pub key: String,
    /// Unit: seconds.
    pub at_p10: f64,
    /// Unit: seconds.
    pub at_p90: f64,
}

/// With every figure at its median; where there are two laws of splits, their mean.
fn typical(parameters: &Parameters, creates: &Creates, state: &State) -> f64 {
    let laws = parameters.laws();
    let total = |law: &Law| Seconds::of(creates, state, &parameters.at(0.5, *law)).total();
    laws.iter().map(total).sum::<f64>() / laws.len() as f64
}

fn sensitivities(profile: &Profile, creates: &Creates, state: &State) -> Vec<Sensitivity> {
    let total = |key: &str, choice: fn(&Figure) -> f64| {
        let mut changed = profile.clone();
        let figure = changed.figure(key)?;
        *figure = Figure::exact(choice(figure));
        Some(typical(&Parameters::of(&changed).ok()?, creates, state))
    };
    let sensitivity = |input: &Input| {
        let (at_p10, at_p90) =
            (total(&input.key, |figure| figure.p10)?, total(&input.key, |figure| figure.p90)?);
        Some(Sensitivity { key: input.key.clone(), at_p10, at_p90 })
    };
    let swing = |known: &Sensitivity| (known.at_p90 / known.at_p10).ln().abs();
    let mut all: Vec<_> =
        inputs(profile).iter().filter_map(sensitivity).filter(|known| swing(known) > SMALL).collect();
    all.sort_by(|a, b| swing(b).total_cmp(&swing(a)).then_with(|| a.key.cmp(&b.key)));
    all
}

/// How much the time changes with a parameter: d ln T / d ln p, at the medians. 1 where the parameter is all that counts.
/// Shape: one a parameter that the profile has.
pub fn elasticities(
    profile: &Profile,
    creates: &Creates,
    state: &State,
) -> Result<Vec<(String, f64)>, CreateError> {
    let parameters = Parameters::of(profile)?;
    let base = typical(&parameters, creates, state);
    let change = |input: &Input| {
        let mut nudged = profile.clone();
        nudged.nudge(&input.key, NUDGE)?;
        let nudged = Parameters::of(&nudged).ok()?;
        Some((input.key.clone(), (typical(&nudged, creates, state) / base).ln() / NUDGE.ln()))
    };
    Ok(inputs(profile).iter().filter_map(change).collect())
}

impl Profile {
    /// A figure by `section.key`.
    fn figure(&mut self, key: &str) -> Option<&mut Figure> {
        let named = |title: &str, name: &str| format!("{title}.{name}") == key;
        let slot = self.slots().into_iter().find(|(title, name, _)| named(title, name))?;
        match slot.2 {
            crate::profile::Slot::Figure(figure, _) => figure.as_mut(),
            crate::profile::Slot::Switch(_) => None,
        }
    }

    /// Multiplies one figure, named `section.key`. `None` where there is no such figure.
    pub(crate) fn nudge(&mut self, key: &str, by: f64) -> Option<()> {
        let figure = self.figure(key)?;
        (figure.p10, figure.p50, figure.p90) = (figure.p10 * by, figure.p50 * by, figure.p90 * by);
        Some(())
    }
}

fn check(request: &Request) -> Result<(), CreateError> {
    let largest = request.nodes.iter().copied().max().unwrap_or(0);
    let least = request.nodes.iter().copied().min().unwrap_or(0);
    let files = request.ranks_per_node.saturating_mul(request.files_per_rank);
    for (what, given, most) in [
        ("nodes", least.min(largest), MOST_NODES),
        ("nodes", largest, MOST_NODES),
        ("ranks a node", request.ranks_per_node, MOST_RANKS),
        ("files a rank", request.files_per_rank, MOST_FILES),
        ("files a node", files, MOST_FILES),
        ("directories", request.directories, MOST_FILES),
        ("directory blocks", request.state.blocks, MOST_FILES),
    ] {
        if !(1..=most).contains(&given) {
            return Err(CreateError::OutOfRange { what, given, most });
        }
    }
    Ok(())
}

fn notes(parameters: &Parameters, profile: &Profile, whole: &Completed) -> Vec<String> {
    let is_measured = profile.kind == Kind::Measured;
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

/// Samples of a range: p10 and p90 move by less than 1 % beyond.
const SAMPLES: u32 = 1000;
/// A swing of less than half a percent is none.
const SMALL: f64 = 0.005;
/// Change of a figure for its elasticity.
const NUDGE: f64 = 1.01;
/// The largest machine that is meant.
const MOST_NODES: u64 = 10_000_000;
/// Ranks of one node.
const MOST_RANKS: u64 = 65_536;
/// Files of one node; beyond, it is a slip of the pen.
const MOST_FILES: u64 = 1_000_000_000;
