//! The page of a prediction of any kind: curves over nodes, their spread, the effect of changes.

use super::{Bounds, CreateView, InputFigure, Range};
use schemars::JsonSchema;
use serde::Serialize;

/// A page. Its script draws from this object.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictionPage {
    /// The answer in a sentence.
    pub title: String,
    /// The subject: a command, or the files that are created.
    pub subject: String,
    /// The scope of the bounds of every point.
    pub bounds: String,
    /// One curve a file system.
    pub curves: Vec<Curve>,
    /// Measured points.
    pub measured: Vec<MeasuredPoint>,
    /// The figures that spread the range: one entry a file system.
    pub tornadoes: Vec<Tornado>,
    /// The effect of changes: one entry a file system.
    pub what_ifs: Vec<PredictedChanges>,
    /// The settings to change.
    pub advice: Vec<PageAdvice>,
    /// The figures that went in: one entry a file system.
    pub inputs: Vec<PageInputs>,
    /// Notes beside the numbers.
    pub notes: Vec<String>,
}

/// Seconds over nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    /// The file system's name.
    pub name: String,
    /// `measured`, `prior` or `fitted`.
    pub kind: String,
    /// The origin of its figures.
    pub note: Option<String>,
    /// The number of nodes at which a shared server, or the shared cores, are fully used; absent where only a lower limit is known.
    pub knee: Option<f64>,
    /// Ascending in nodes.
    pub points: Vec<CurvePoint>,
}

/// One number of nodes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CurvePoint {
    /// Nodes.
    pub nodes: u64,
    /// Ranks.
    pub ranks: u64,
    /// Until the last is done.
    pub seconds: Range,
    /// Bounds for every value within the spreads.
    pub bounds: Bounds,
    /// The bottleneck.
    pub bottleneck: String,
    /// More is asked than the server can do: what really happens may be failures.
    pub saturated: bool,
}

/// A measured point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredPoint {
    /// Nodes.
    pub nodes: u64,
    /// Ranks of a node.
    pub ppn: u64,
    /// Measured.
    pub seconds: f64,
}

/// The effect of each figure alone on the median.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tornado {
    /// The file system's name.
    pub name: String,
    /// At so many nodes.
    pub nodes: u64,
    /// The median with every figure at its own.
    pub seconds: f64,
    /// The figure that moves it most first.
    pub figures: Vec<Swing>,
}

/// One figure at its p10 and at its p90.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Swing {
    /// Section and key in the profile.
    pub key: String,
    /// Seconds with the figure at its p10.
    pub at_p10: f64,
    /// Seconds with the figure at its p90.
    pub at_p90: f64,
}

/// Changes on one file system.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictedChanges {
    /// The file system's name.
    pub name: String,
    /// At so many nodes.
    pub nodes: u64,
    /// The first is as asked.
    pub changes: Vec<PredictedChange>,
}

/// A change and what it gives.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PredictedChange {
    /// In a few words.
    pub change: String,
    /// Then.
    pub seconds: Range,
}

/// A piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PageAdvice {
    /// The setting with its value.
    pub title: String,
    /// The reason.
    pub reason: String,
    /// The command.
    pub command: Option<String>,
}

/// Figures of one file system.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PageInputs {
    /// The file system's name.
    pub name: String,
    /// In the order of the profile.
    pub figures: Vec<InputFigure>,
}

/// The page of creates.
pub fn page_of_creates(create: &CreateView, measured: &[MeasuredPoint]) -> PredictionPage {
    let name = create.profile.name.clone();
    let nodes = create.points.last().map_or(0, |point| point.nodes);
    let curve = Curve {
        name: name.clone(),
        kind: create.profile.kind.clone(),
        note: create.profile.note.clone(),
        knee: None,
        points: create.points.iter().map(of_create_point).collect(),
    };
    let change = |what_if: &super::CreateWhatIf| PredictedChange {
        change: what_if.change.clone(),
        seconds: what_if.seconds,
    };
    let swing = |swing: &super::Sensitivity| Swing {
        key: swing.key.clone(),
        at_p10: swing.at_p10,
        at_p90: swing.at_p90,
    };
    let advice = |advice: &super::CreateAdvice| PageAdvice {
        title: format!("{}: {}", advice.setting, advice.value),
        reason: advice.reason.clone(),
        command: advice.command.clone(),
    };
    PredictionPage {
        title: title(create),
        subject: subject(create),
        bounds: "bounds hold for every value within the spreads".to_owned(),
        curves: vec![curve],
        measured: measured.to_vec(),
        tornadoes: vec![Tornado {
            name: name.clone(),
            nodes,
            seconds: create.seconds_at_medians,
            figures: create.sensitivities.iter().map(swing).collect(),
        }],
        what_ifs: vec![PredictedChanges {
            name: name.clone(),
            nodes,
            changes: create.what_ifs.iter().map(change).collect(),
        }],
        advice: create.advice.iter().map(advice).collect(),
        inputs: vec![PageInputs { name, figures: create.inputs.clone() }],
        notes: create.notes.clone(),
    }
}

fn of_create_point(point: &super::CreatePoint) -> CurvePoint {
    CurvePoint {
        nodes: point.nodes,
        ranks: point.ranks,
        seconds: point.seconds,
        bounds: point.bounds,
        bottleneck: point.bottleneck.clone(),
        saturated: false,
    }
}

fn title(create: &CreateView) -> String {
    use crate::number::{counted, seconds};
    let Some(point) = create.points.last() else { return "Nothing is created".to_owned() };
    format!(
        "{} on {} take {} to create; {} to {} with four in five chances",
        counted(point.files, "file"),
        counted(point.nodes, "node"),
        seconds(point.seconds.p50),
        seconds(point.seconds.p10),
        seconds(point.seconds.p90)
    )
}

fn subject(create: &CreateView) -> String {
    let Some(point) = create.points.last() else { return String::new() };
    let directories = match point.directories {
        1 => "one directory".to_owned(),
        several => format!("{} directories", crate::number::grouped(several)),
    };
    format!("quell predict create: {} in {directories}", crate::number::counted(point.files, "file"))
}
