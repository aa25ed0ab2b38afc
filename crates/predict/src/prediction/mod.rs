//! Workload, profile and question in; points of a curve, with their spread, out.
//!
//! `replays` finds what a node asks, `engine` the time of one run, `spread` the runs of which ranges are made.

mod engine;
mod replays;
mod spread;

use crate::model::{Bounds, Own, Station};
use crate::profile::Profile;
use crate::question::Question;
use crate::workload::Script;
use crate::{Operation, Parameters, PerOperation};
use engine::Engine;

/// A number that is predicted: a range, and what is in its middle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// One run in ten is below.
    pub p10: f64,
    /// The median of the runs.
    pub p50: f64,
    /// One run in ten is above.
    pub p90: f64,
}

/// The prediction for one number of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Nodes.
    pub nodes: u64,
    /// Processes on all of them.
    pub ranks: u64,
    /// Until the slowest rank has started, the launch included. Unit: seconds.
    pub slowest: Range,
    /// Of a rank, from its own start, over all, the launch included. Unit: seconds.
    pub mean: Range,
    /// With every figure at its median, the launch included.
    pub bounds: Bounds,
    /// What decides the largest part of the time.
    pub bottleneck: Bottleneck,
    /// How much is asked of the busiest server while nobody slows the nodes down, against what it can do.
    pub load: f64,
    /// Requests at the servers, of all nodes.
    pub operations: PerOperation,
    /// Data that the data servers send. Unit: bytes.
    pub bytes: f64,
}

/// What decides a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// A station that nodes share; of the metadata servers, the operation that takes most of their time.
    Station(Station, Option<Operation>),
    /// Something of each node's own.
    Own(Own),
}

/// How the time changes with one figure. At one number of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensitivity {
    /// The figure.
    pub figure: &'static str,
    /// d ln T / d ln figure at the medians.
    pub elasticity: f64,
    /// With this figure at its p10 and all others at their medians. Unit: seconds.
    pub low: f64,
    /// With it at its p90. Unit: seconds.
    pub high: f64,
}

/// What a profile is predicted to do with a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The profile's name.
    pub profile: String,
    /// Shape: one a number of nodes, sorted by it.
    pub points: Vec<Point>,
    /// Nodes from which on the busiest station decides, when as many as in the last point start; infinite when nothing is shared.
    pub knee: f64,
    /// At the largest number of nodes. Shape: sorted by the swing, largest first.
    pub sensitivities: Vec<Sensitivity>,
    /// Keys that were taken from the wide prior.
    pub assumed: Vec<&'static str>,
    /// Computing of one rank. Unit: seconds.
    pub think: f64,
    /// Size of the image, where one was asked for. Unit: bytes.
    pub image_bytes: Option<f64>,
}

impl Point {
    /// Whether more is asked than the servers can do while one node starts.
    pub fn is_saturated(&self) -> bool {
        self.load > 1.0
    }

    /// Whether the backlog is one under which real file systems have failed. Source: on Hopper, starts of Pynamic hung
    /// beyond 2048 cores, some ten times the knee of source 003's curve.
    pub fn may_fail(&self) -> bool {
        self.load > 10.0
    }
}

/// Predicts. Shape of `scripts`: at least one; ranks run them in turn, and what is said is their mean.
pub fn predict(scripts: &[Script], profile: &Profile, question: &Question) -> Prediction {
    let mut engine = Engine::new(scripts, profile, question);
    let median = Parameters::median(profile);
    let runs = spread::runs(profile, question);
    let points: Vec<Point> =
        question.nodes.iter().map(|nodes| engine.point(*nodes, &median, &runs)).collect();
    let largest = points.last();
    Prediction {
        profile: profile.name.clone(),
        knee: largest.map_or(f64::INFINITY, |point| engine.knee(point.nodes, &median)),
        sensitivities: largest
            .map_or_else(Vec::new, |point| spread::sensitivities(&mut engine, &median, point)),
        assumed: median.assumed.clone(),
        think: engine.think(),
        image_bytes: question.changes.image.map(|_| engine.image_bytes()),
        points,
    }
}

#[cfg(test)]
mod tests;
