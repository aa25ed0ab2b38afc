//! The forecast of a start: a point of the curve, and what holds of all points.

use crate::PerOperation;
use crate::forecast::{Forecast, ForecastPoint, Spread};

/// How long a program takes to start.
pub type StartForecast = Forecast<StartDetail, StartSummary>;

/// What a point of a start says beside its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StartDetail {
    /// Of a rank, from its own start, over all, the launch included. Unit: seconds.
    pub mean: Spread,
    /// How much is asked of the busiest server while nodes do not slow each other down, against what it can do.
    pub load: f64,
    /// Requests at the servers, of all nodes.
    pub operations: PerOperation,
    /// Data that the data servers send. Unit: bytes.
    pub bytes: f64,
}

/// What holds of all points of a start.
#[derive(Clone, Debug, PartialEq)]
pub struct StartSummary {
    /// Nodes from which on the busiest station decides, when as many as in the last point start; infinite when nothing is shared.
    pub knee: f64,
    /// Keys that were taken from the wide prior.
    pub assumed: Vec<&'static str>,
    /// Computing of one rank. Unit: seconds.
    pub think: f64,
    /// Size of the image, where one was asked for. Unit: bytes.
    pub image_bytes: Option<f64>,
}

impl ForecastPoint<StartDetail> {
    /// Whether more is asked than the servers can do while one node starts.
    pub fn is_saturated(&self) -> bool {
        self.detail.load > 1.0
    }

    /// Whether the backlog is one under which real file systems have failed. Source: on Hopper, starts of Pynamic hung
    /// beyond 2048 cores, some ten times the knee of source 003's curve.
    pub fn may_fail(&self) -> bool {
        self.detail.load > 10.0
    }
}
