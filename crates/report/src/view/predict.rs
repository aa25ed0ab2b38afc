//! The object of `quell predict --json`.

use super::range::{Bounds, InputFigure, Range};
use crate::text::clean;
use quell_predict::profile::ProfileSlot;
use quell_predict::start::{MostReadFile, StartDetail, StartForecast};
use quell_predict::{
    FigureSensitivity, ForecastPoint, ImageDelivery, Profile, ServerOperation, StartQuestion, StartScript,
    all_find_peers,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The predicted time of a program's start.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictView {
    /// The version of this object.
    pub schema_version: u32,
    /// The recorded command with its arguments.
    pub command: Vec<String>,
    /// The first profile that was given: `points` and `knee_nodes` are of it.
    pub profile: String,
    /// One a number of nodes, sorted by it.
    pub points: Vec<PredictPoint>,
    /// The number of nodes at which a shared server, or the shared cores, are fully used;
    /// with more nodes, time grows in proportion to their number; absent when nothing is
    /// shared.
    pub knee_nodes: Option<f64>,
    /// Every profile, as given.
    pub profiles: Vec<PredictProfile>,
    /// The start from an image with `--peers auto` beside that from one that each node reads, with the first profile. One a number
    /// of nodes, sorted by it; empty unless a start from an image was asked for.
    pub peers: Vec<PredictPeers>,
    /// The inputs of the prediction, beside profiles.
    pub inputs: PredictInputs,
    /// Notes beside the numbers.
    pub notes: Vec<String>,
}

/// The prediction for one number of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictPoint {
    /// Nodes.
    pub nodes: u64,
    /// Processes on all of them.
    pub ranks: u64,
    /// Until the slowest rank has started, `launch_seconds` of the inputs included.
    pub seconds: Range,
    /// Of a rank, from its own start, over all.
    pub mean_seconds: Range,
    /// With every figure at its median.
    pub bounds: Bounds,
    /// The bottleneck.
    pub bottleneck: String,
    /// More is asked than the busiest server does in the time of one node.
    pub saturated: bool,
    /// Their number.
    pub load: f64,
    /// So often that real file systems have failed: the seconds are a regime, not a figure.
    pub may_fail: bool,
    /// Requests at the metadata servers.
    pub metadata_operations: f64,
    /// Their mean rate over `seconds.p50`, the launch left out.
    pub metadata_operations_per_second: f64,
    /// The same by operation, and reads of data.
    pub operations: BTreeMap<String, f64>,
    /// Data that the data servers send.
    pub bytes: f64,
}

/// The start from an image on one number of nodes: each reads it, or one does and they pass it on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictPeers {
    /// Nodes.
    pub nodes: u64,
    /// Each node reads the image.
    pub read_seconds: Range,
    /// One node reads it, and the nodes pass it on.
    pub peers_seconds: Range,
    /// Data that the data servers send where each node reads.
    pub read_bytes: f64,
    /// The same where the nodes pass it on.
    pub peers_bytes: f64,
    /// All nodes have found the first one before they read the image by themselves, also where their launcher does not tell them the hosts
    /// of all, as Slurm does; where they have not, `peers_seconds` holds under Slurm alone.
    pub all_find_peers: bool,
}

/// The prediction with one profile.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictProfile {
    /// Its name.
    pub name: String,
    /// `measured`, `prior` or `fitted`.
    pub kind: String,
    /// The origin of its figures: method, date and place.
    pub note: Option<String>,
    /// Its place at the largest number of nodes, fastest first, from 1.
    pub rank: usize,
    /// Those with a better place that it cannot be told apart from there: its p10 is below their p90. Ways on one file system are compared
    /// run by run: in more than one run of ten, this one is not 1.25 times as slow. In order of their places.
    pub overlaps: Vec<String>,
    /// One a number of nodes, sorted by it.
    pub points: Vec<PredictPoint>,
    /// The number of nodes at which a shared server, or the shared cores, are fully used;
    /// with more nodes, time grows in proportion to their number; absent when nothing is
    /// shared.
    pub knee_nodes: Option<f64>,
    /// The knee is at least there: it depends on a rate of `open_rates`.
    pub knee_is_lower_limit: bool,
    /// At the largest number of nodes, with every figure at its median: the time from which those of `sensitivities` differ.
    /// `p50` is the median of runs, and may be another.
    pub seconds_at_medians: f64,
    /// The figures that the time depends on at the largest number of nodes, largest swing first.
    pub sensitivities: Vec<PredictSensitivity>,
    /// Keys that it does not name and that were taken from the wide prior.
    pub assumed: Vec<String>,
    /// Rates of which only the least is known, because no measurement fully used the server. Section and key in the profile.
    pub open_rates: Vec<String>,
    /// Its own figures.
    pub figures: Vec<InputFigure>,
    /// Its own switches.
    pub switches: BTreeMap<String, bool>,
    /// The file of which most is read; absent where the file system's data servers send nothing.
    pub most_read_file: Option<PredictMostRead>,
}

/// The file of which a start reads most: its image, or a file of the program. Its servers are full first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictMostRead {
    /// It is the image.
    pub is_image: bool,
    /// Its share of the data that a node reads. Range: above 0, at most 1.
    pub share: f64,
    /// Data servers that it is spread over.
    pub servers: f64,
    /// Data servers that are busy while its own are full.
    pub servers_at_once: f64,
    /// All data servers.
    pub data_servers: f64,
}

/// The change of the time with one figure.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictSensitivity {
    /// The figure.
    pub figure: String,
    /// d ln seconds / d ln figure.
    pub elasticity: f64,
    /// Seconds with this figure at its p10, all others at their medians.
    pub seconds_at_p10: f64,
    /// Seconds with it at its p90.
    pub seconds_at_p90: f64,
}

/// The inputs of a prediction, beside profiles.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictInputs {
    /// Metadata calls of one rank on the tree, as recorded.
    pub calls: f64,
    /// Computing of one rank, the recorder's own cost taken off.
    pub think_seconds: f64,
    /// The cost of the recorder for a call.
    pub recorder_us: f64,
    /// Processes a node.
    pub processes_per_node: u32,
    /// From the first node's start to the last one's.
    pub skew_seconds: f64,
    /// Share of the metadata servers' time that others take.
    pub background: f64,
    /// `cold` or `warm`.
    pub clients: String,
    /// Cores that the processes of a node share. Unit: one that works alone.
    pub cores: Option<f64>,
    /// All nodes and servers share the cores of one machine.
    pub shared_host: bool,
    /// Data servers that one file is spread over; absent is what the profile says.
    pub stripes: Option<u32>,
    /// Launcher, MPI_Init and whatever else is no file system's time.
    pub launch_seconds: f64,
    /// The changes, in words.
    pub what_if: Vec<String>,
    /// Size of the image, where one was asked for.
    pub image_bytes: Option<f64>,
    /// Runs of which the ranges are made.
    pub samples: u32,
    /// Of the runs' choices.
    pub seed: u64,
}

/// The object of `quell predict --json`. Shape: profiles and predictions in the same order, at least one; `notes` a sentence
/// each, without its full stop.
pub fn predict(
    command: &[String],
    scripts: &[StartScript],
    question: &StartQuestion,
    predictions: &[(Profile, StartForecast)],
    notes: Vec<String>,
) -> PredictView {
    let last = |prediction: &StartForecast| prediction.points.last().map_or(0.0, |point| point.seconds.p50);
    let faster = |own: f64| predictions.iter().filter(|(_, other)| last(other) < own).count();
    let profile = |(profile, prediction): &(Profile, StartForecast)| PredictProfile {
        name: profile.name.clone(),
        kind: profile.kind.name().to_owned(),
        note: profile.note.clone(),
        rank: 1 + faster(last(prediction)),
        overlaps: overlaps(predictions, (profile, prediction)),
        points: prediction.points.iter().map(|found| point(found, question.launch)).collect(),
        knee_nodes: finite(prediction.summary.knee),
        knee_is_lower_limit: prediction.summary.is_knee_lower_limit,
        seconds_at_medians: prediction.summary.at_medians,
        sensitivities: prediction.sensitivities.iter().map(sensitivity).collect(),
        assumed: prediction.summary.assumed.iter().map(|key| (*key).to_owned()).collect(),
        open_rates: profile.open_rates(),
        figures: figures(profile),
        switches: switches(profile),
        most_read_file: prediction.summary.most_read.map(most_read),
    };
    let profiles: Vec<PredictProfile> = predictions.iter().map(profile).collect();
    let first = profiles.first();
    PredictView {
        schema_version: super::SCHEMA_VERSION,
        command: command.to_vec(),
        profile: first.map(|first| first.name.clone()).unwrap_or_default(),
        points: first.map(|first| first.points.clone()).unwrap_or_default(),
        knee_nodes: first.and_then(|first| first.knee_nodes),
        peers: Vec::new(),
        inputs: inputs(scripts, question, predictions),
        profiles,
        notes,
    }
}

/// The starts of one image at the same numbers of nodes: each node reads it, and peers pass it on. Unit of `skew`: seconds.
pub fn peers_beside_reading(read: &StartForecast, peers: &StartForecast, skew: f64) -> Vec<PredictPeers> {
    let pairs = read.points.iter().zip(&peers.points);
    let beside = |(read, peers): (&ForecastPoint<StartDetail>, &ForecastPoint<StartDetail>)| PredictPeers {
        nodes: read.nodes,
        read_seconds: read.seconds.into(),
        peers_seconds: peers.seconds.into(),
        read_bytes: read.detail.bytes,
        peers_bytes: peers.detail.bytes,
        all_find_peers: all_find_peers(read.nodes as f64, skew),
    };
    pairs.map(beside).collect()
}

/// Names of the faster profiles that `own` cannot be told apart from, fastest first.
fn overlaps(
    predictions: &[(Profile, StartForecast)],
    (profile, forecast): (&Profile, &StartForecast),
) -> Vec<String> {
    let Some(own) = forecast.points.last().map(|point| point.seconds) else { return Vec::new() };
    let at = |(other_profile, other): &(Profile, StartForecast)| {
        let seconds = other.points.last()?.seconds;
        let overlap = match figures(profile) == figures(other_profile) {
            true => overlap_by_runs(&forecast.summary.runs, &other.summary.runs),
            false => own.p10 < seconds.p90,
        };
        (seconds.p50 < own.p50 && overlap).then(|| (seconds, other_profile.name.clone()))
    };
    let mut better: Vec<_> = predictions.iter().filter_map(at).collect();
    better.sort_by(|(one, _), (other, _)| one.p50.total_cmp(&other.p50));
    better.into_iter().map(|(_, name)| name).collect()
}

/// True if runs of a slower way and of a faster one are too often the same. What is uncertain of a file system is the same for both.
fn overlap_by_runs(slower: &[f64], faster: &[f64]) -> bool {
    let same = slower.iter().zip(faster).filter(|(slower, faster)| **slower < OWN_ERROR * **faster).count();
    10 * same > slower.len()
}

/// The model's own error, by which two times may differ and be the same. 95 of 100 starts on the rig were predicted within it.
const OWN_ERROR: f64 = 1.25;

fn most_read(file: MostReadFile) -> PredictMostRead {
    let MostReadFile { is_image, share, servers, servers_at_once, data_servers } = file;
    PredictMostRead { is_image, share, servers, servers_at_once, data_servers }
}

fn inputs(
    scripts: &[StartScript],
    question: &StartQuestion,
    predictions: &[(Profile, StartForecast)],
) -> PredictInputs {
    let mean =
        |of: &dyn Fn(&StartScript) -> f64| scripts.iter().map(of).sum::<f64>() / scripts.len().max(1) as f64;
    PredictInputs {
        calls: mean(&|script| script.calls as f64),
        think_seconds: mean(&StartScript::think),
        recorder_us: mean(&|script| script.overhead * 1e6),
        processes_per_node: question.processes,
        skew_seconds: question.skew,
        background: question.background,
        clients: if question.is_warm { "warm" } else { "cold" }.to_owned(),
        cores: question.cores,
        shared_host: question.is_shared_host,
        stripes: question.stripes,
        launch_seconds: question.launch,
        what_if: what_if(question),
        image_bytes: predictions.iter().find_map(|(_, prediction)| prediction.summary.image_bytes),
        samples: question.samples,
        seed: question.seed,
    }
}

/// The change, in words. Shape: empty when nothing is.
fn what_if(question: &StartQuestion) -> Vec<String> {
    let changes = &question.changes;
    let share = |share: f64, what: &str| (share > 0.0).then(|| format!("{:.0} % of {what}", share * 100.0));
    let image = changes.image.map(|image| match image {
        ImageDelivery::Read => "an image that each node reads".to_owned(),
        ImageDelivery::Broadcast => "an image that is broadcast".to_owned(),
        ImageDelivery::Mounted => "an image that each node mounts".to_owned(),
        ImageDelivery::Local => "an image on the nodes".to_owned(),
        ImageDelivery::Compared => "an image that one node compares, and that is broadcast".to_owned(),
    });
    let said = [
        image,
        changes.keeps_absences.then(|| "clients that keep absent names".to_owned()),
        share(changes.fewer_misses, "absent names not asked for"),
        share(changes.fewer_files, "files gathered into others"),
        changes.atomic_open.then(|| "lookup and open in one request".to_owned()),
    ];
    said.into_iter().flatten().collect()
}

/// Unit of `launch`: seconds.
fn point(point: &ForecastPoint<StartDetail>, launch: f64) -> PredictPoint {
    let StartDetail { mean, load, operations, bytes, .. } = point.detail;
    let counts = ServerOperation::ALL
        .iter()
        .map(|operation| (operation.name().to_owned(), operations.get(*operation)));
    let took = point.seconds.p50 - launch;
    PredictPoint {
        nodes: point.nodes,
        ranks: point.ranks,
        seconds: point.seconds.into(),
        mean_seconds: mean.into(),
        bounds: point.bounds.into(),
        bottleneck: point.bottleneck.words(),
        saturated: point.is_saturated(),
        load,
        may_fail: point.may_fail(),
        metadata_operations: operations.metadata(),
        metadata_operations_per_second: if took > 0.0 { operations.metadata() / took } else { 0.0 },
        operations: counts.filter(|(_, count)| *count > 0.0).collect(),
        bytes,
    }
}

fn sensitivity(found: &FigureSensitivity) -> PredictSensitivity {
    PredictSensitivity {
        figure: found.figure.clone(),
        elasticity: found.elasticity,
        seconds_at_p10: found.at_p10,
        seconds_at_p90: found.at_p90,
    }
}

fn figures(profile: &Profile) -> Vec<InputFigure> {
    let mut copy = profile.clone();
    let figure = |(section, key, slot): (&str, &str, ProfileSlot<'_>)| match slot {
        ProfileSlot::Figure(Some(figure), _) => Some(InputFigure::of(&format!("{section}.{key}"), figure)),
        _ => None,
    };
    copy.slots().into_iter().filter_map(figure).collect()
}

fn switches(profile: &Profile) -> BTreeMap<String, bool> {
    let mut copy = profile.clone();
    let switch = |(section, key, slot): (&str, &str, ProfileSlot<'_>)| match slot {
        ProfileSlot::Switch(Some(on)) => Some((format!("{section}.{key}"), *on)),
        _ => None,
    };
    copy.slots().into_iter().filter_map(switch).collect()
}

/// JSON has no infinity.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// File systems whose places say nothing, because their ranges overlap. Shape: a line for each that has overlaps.
pub(crate) fn not_told_apart(profiles: &[PredictProfile]) -> Vec<String> {
    let mut ranked: Vec<&PredictProfile> =
        profiles.iter().filter(|profile| !profile.overlaps.is_empty()).collect();
    ranked.sort_by_key(|profile| profile.rank);
    let line = |profile: &&PredictProfile| {
        let names: Vec<String> = profile.overlaps.iter().map(|name| clean(name)).collect();
        format!("ranges overlap: {} cannot be told apart from {}", clean(&profile.name), names.join(" or "))
    };
    ranked.iter().map(line).collect()
}
