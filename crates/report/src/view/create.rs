//! The object of `quell predict create --json`.

use super::range::{Bounds, InputFigure, Range, Sensitivity};
use quell_predict::create::{self, CreateDetail, CreateForecast};
use quell_predict::{ForecastPoint, Profile};
use schemars::JsonSchema;
use serde::Serialize;

/// Creates of many nodes, predicted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CreateView {
    /// The version of this object.
    pub schema_version: u32,
    /// The file system.
    pub profile: ProfileHead,
    /// One entry a node count.
    pub points: Vec<CreatePoint>,
    /// The largest node count as asked, and with changes; the first is as asked.
    pub what_ifs: Vec<CreateWhatIf>,
    /// Seconds at the largest node count with every figure at its median.
    pub seconds_at_medians: f64,
    /// The figures that spread the range at the largest node count, each alone; the widest first.
    pub sensitivities: Vec<Sensitivity>,
    /// The settings to change.
    pub advice: Vec<CreateAdvice>,
    /// The figures of the profile that went in.
    pub inputs: Vec<InputFigure>,
    /// Notes beside the numbers.
    pub notes: Vec<String>,
    /// The state of the directory that the prediction starts from.
    #[serde(skip)]
    pub state: Option<String>,
}

/// A profile.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProfileHead {
    /// Its name.
    pub name: String,
    /// `measured`, `prior` or `fitted`.
    pub kind: String,
    /// Its origin.
    pub note: Option<String>,
}

/// One node count.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CreatePoint {
    /// Nodes.
    pub nodes: u64,
    /// Ranks that create.
    pub ranks: u64,
    /// Files that are created.
    pub files: u64,
    /// Directories that they are spread over.
    pub directories: u64,
    /// Until the last file is there.
    pub seconds: Range,
    /// Bounds for every value within the spreads.
    pub bounds: Bounds,
    /// The largest term.
    pub bottleneck: String,
    /// Terms of the sum with their medians.
    pub terms: Vec<CreateTerm>,
}

/// A term.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CreateTerm {
    /// Its name.
    pub name: String,
    /// The median.
    pub seconds: f64,
    /// Its meaning, in a sentence.
    #[serde(skip)]
    pub meaning: &'static str,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CreateWhatIf {
    /// The change.
    pub change: String,
    /// Files that are created then.
    pub files: u64,
    /// Directories then.
    pub directories: u64,
    /// Seconds then.
    pub seconds: Range,
}

/// A piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CreateAdvice {
    /// The setting.
    pub setting: String,
    /// To what.
    pub value: String,
    /// The command, where there is one.
    pub command: Option<String>,
    /// The reason.
    pub reason: String,
}

/// The object of `quell predict create --json`.
pub fn create(forecast: &CreateForecast) -> CreateView {
    let summary = &forecast.summary;
    CreateView {
        schema_version: super::SCHEMA_VERSION,
        profile: ProfileHead {
            name: forecast.profile.clone(),
            kind: summary.kind.name().to_owned(),
            note: summary.profile_note.clone(),
        },
        points: forecast.points.iter().map(point).collect(),
        what_ifs: summary.what_ifs.iter().map(what_if).collect(),
        seconds_at_medians: summary.typical,
        sensitivities: forecast.sensitivities.iter().map(Sensitivity::from).collect(),
        advice: summary.advice.iter().map(advice).collect(),
        inputs: summary.inputs.iter().map(|input| InputFigure::of(&input.key, &input.figure)).collect(),
        notes: summary.notes.clone(),
        state: summary.state.clone(),
    }
}

fn point(point: &ForecastPoint<CreateDetail>) -> CreatePoint {
    let term = |(term, seconds): &(create::TimeTerm, f64)| CreateTerm {
        name: term.name().to_owned(),
        seconds: *seconds,
        meaning: meaning(*term),
    };
    let CreateDetail { creates, terms } = &point.detail;
    CreatePoint {
        nodes: point.nodes,
        ranks: point.ranks,
        files: creates.files(),
        directories: creates.directories(),
        seconds: point.seconds.into(),
        bounds: point.bounds.into(),
        bottleneck: point.bottleneck.words(),
        terms: terms.iter().map(term).collect(),
    }
}

fn what_if(what_if: &create::SettingWhatIf) -> CreateWhatIf {
    CreateWhatIf {
        change: what_if.change.clone(),
        files: what_if.creates.files(),
        directories: what_if.creates.directories(),
        seconds: what_if.seconds.into(),
    }
}

fn advice(advice: &create::SettingAdvice) -> CreateAdvice {
    CreateAdvice {
        setting: advice.setting.to_owned(),
        value: advice.value.clone(),
        command: advice.command.clone(),
        reason: advice.reason.clone(),
    }
}

fn meaning(term: create::TimeTerm) -> &'static str {
    match term {
        create::TimeTerm::LeavingInode => "each node takes the inode's token, one after the other",
        create::TimeTerm::Splits => "nodes wait for tokens of directory blocks",
        create::TimeTerm::Connections => "the first revoke connects to every node",
        create::TimeTerm::Revokes => "and takes the token away from every node",
        create::TimeTerm::Creates => "the creates themselves",
        create::TimeTerm::Directories => "one process makes them beforehand",
    }
}

/// The first lines of each profile.
pub fn profiles(profiles: &[Profile]) -> Vec<ProfileHead> {
    let head = |profile: &Profile| ProfileHead {
        name: profile.name.clone(),
        kind: profile.kind.name().to_owned(),
        note: profile.note.clone(),
    };
    profiles.iter().map(head).collect()
}
