//! A predicted number: its range, its bounds, and the figures that it was made from.

use quell_predict::model;
use quell_predict::profile::Figure;
use quell_predict::{FigureSensitivity, Spread};
use schemars::JsonSchema;
use serde::Serialize;

/// A range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Range {
    /// One in ten is less.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// One in ten is more.
    pub p90: f64,
}

/// Bounds for every value within the spreads of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bounds {
    /// No less.
    pub lower: f64,
    /// No more.
    pub upper: f64,
}

/// A figure that went in.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InputFigure {
    /// Section and key in the profile, such as `network.round_trip_us`.
    pub key: String,
    /// One in ten is less.
    pub p10: f64,
    /// The median.
    pub p50: f64,
    /// One in ten is more.
    pub p90: f64,
    /// Measurements behind it, where their number is known.
    pub count: Option<u64>,
    /// Its origin.
    pub source: Option<String>,
}

/// The effect of one figure alone on the median.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Sensitivity {
    /// Section and key in the profile.
    pub key: String,
    /// Seconds with the figure at its p10 and all others at their medians.
    pub at_p10: f64,
    /// Seconds with the figure at its p90.
    pub at_p90: f64,
}

impl From<&FigureSensitivity> for Sensitivity {
    fn from(sensitivity: &FigureSensitivity) -> Self {
        let FigureSensitivity { figure, at_p10, at_p90, .. } = sensitivity.clone();
        Self { key: figure, at_p10, at_p90 }
    }
}

impl InputFigure {
    /// A figure of a profile under its key.
    pub fn of(key: &str, figure: &Figure) -> Self {
        let Figure { p10, p50, p90, count, source } = figure.clone();
        Self { key: key.to_owned(), p10, p50, p90, count, source }
    }
}

impl From<Spread> for Range {
    fn from(spread: Spread) -> Self {
        Self { p10: spread.p10, p50: spread.p50, p90: spread.p90 }
    }
}

impl From<model::Bounds> for Bounds {
    fn from(bounds: model::Bounds) -> Self {
        Self { lower: bounds.lower, upper: bounds.upper }
    }
}
