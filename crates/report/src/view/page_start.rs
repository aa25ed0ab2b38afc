//! The page of a program's start, from the object of `quell predict --json`.

use super::page::{
    Curve, CurvePoint, MeasuredPoint, PageInputs, PredictedChanges, PredictionPage, Swing, Tornado,
};
use super::{PredictInputs, PredictPoint, PredictProfile, PredictView};
use crate::number::{self, bytes, counted, grouped, rough, seconds};
use crate::text::clean;
use quell_trace::Bytes;

/// The page of a start. Shape of `what_ifs`: one entry a profile, the first change as asked.
pub fn page_of_start(
    predict: &PredictView,
    what_ifs: Vec<PredictedChanges>,
    measured: &[MeasuredPoint],
) -> PredictionPage {
    PredictionPage {
        title: title(predict),
        subject: format!("quell predict: {}", crate::text::command(&predict.command)),
        bounds: "bounds are medians over the runs".to_owned(),
        curves: predict.profiles.iter().map(curve).collect(),
        measured: measured.to_vec(),
        tornadoes: predict.profiles.iter().filter_map(tornado).collect(),
        what_ifs,
        advice: Vec::new(),
        inputs: predict.profiles.iter().map(inputs).collect(),
        notes: notes(predict),
    }
}

fn title(predict: &PredictView) -> String {
    let Some(point) = predict.points.last() else { return "Nothing starts".to_owned() };
    let on = format!("{} of {}", counted(point.nodes, "node"), clean(&predict.profile));
    if point.may_fail {
        return format!("About {} to start on {on}, if its servers survive it", rough(point.seconds.p50));
    }
    format!(
        "{} to start on {on}; {} to {} with four in five chances",
        seconds(point.seconds.p50),
        seconds(point.seconds.p10),
        seconds(point.seconds.p90)
    )
}

fn curve(profile: &PredictProfile) -> Curve {
    Curve {
        name: clean(&profile.name),
        kind: profile.kind.clone(),
        note: profile.note.clone(),
        knee: profile.knee_nodes.filter(|_| !profile.knee_is_lower_limit),
        points: profile.points.iter().map(point).collect(),
    }
}

fn point(point: &PredictPoint) -> CurvePoint {
    CurvePoint {
        nodes: point.nodes,
        ranks: point.ranks,
        seconds: point.seconds,
        bounds: point.bounds,
        bottleneck: point.bottleneck.clone(),
        saturated: point.may_fail,
    }
}

fn tornado(profile: &PredictProfile) -> Option<Tornado> {
    let last = profile.points.last()?;
    let swing = |found: &super::PredictSensitivity| Swing {
        key: found.figure.clone(),
        at_p10: found.seconds_at_p10,
        at_p90: found.seconds_at_p90,
    };
    let moves = |swing: &Swing| (swing.at_p90 / swing.at_p10).ln().abs() > SMALL;
    Some(Tornado {
        name: clean(&profile.name),
        nodes: last.nodes,
        seconds: profile.seconds_at_medians,
        figures: profile.sensitivities.iter().map(swing).filter(moves).collect(),
    })
}

fn inputs(profile: &PredictProfile) -> PageInputs {
    PageInputs { name: clean(&profile.name), figures: profile.figures.clone() }
}

fn notes(predict: &PredictView) -> Vec<String> {
    let PredictInputs { calls, think_seconds, processes_per_node, clients, .. } = &predict.inputs;
    let inputs = &predict.inputs;
    let mut notes = vec![format!(
        "a rank makes {} metadata calls on the tree and computes for {}; {processes_per_node} a node, {clients} clients",
        grouped(calls.round() as u64),
        seconds(*think_seconds),
    )];
    if let Some(size) = inputs.image_bytes {
        notes.push(format!("the image has {}", bytes(Bytes(size as u64))));
    }
    if let Some(cores) = inputs.cores {
        let whose =
            if inputs.shared_host { "all nodes and servers share" } else { "the processes of a node share" };
        notes.push(format!("{whose} {}", number::cores(cores)));
    }
    if inputs.skew_seconds > 0.0 {
        notes.push(format!("nodes start within {}", seconds(inputs.skew_seconds)));
    }
    if inputs.background > 0.0 {
        notes.push(format!("others take {:.0} % of the metadata servers", inputs.background * 100.0));
    }
    if inputs.launch_seconds > 0.0 {
        notes.push(format!(
            "{} of launch are in every time, which is no file system's",
            seconds(inputs.launch_seconds)
        ));
    }
    let assumed = super::of_each(&predict.profiles, |profile| vec![super::assumptions(inputs, profile)]);
    notes.extend(assumed.iter().map(|said| format!("assumed: {said}")));
    notes.extend(predict.profiles.iter().filter_map(narrowing_note));
    notes.extend(predict.notes.iter().cloned());
    notes.extend(super::not_told_apart(&predict.profiles));
    notes.extend(inputs.what_if.iter().map(|change| format!("with {change}")));
    notes.extend(super::of_each(&predict.profiles, super::doubts));
    notes
}

fn narrowing_note(profile: &PredictProfile) -> Option<String> {
    Some(format!("the range of {} is wide; {}", clean(&profile.name), super::narrowing_measurement(profile)?))
}

/// A swing of less than half a percent is none.
const SMALL: f64 = 0.005;
