//! A forecast, of starts as of creates: seconds with their range at each number of nodes, and how far each figure moves them.
//!
//! The start of a program and creates in a directory have models of their own. Both say it in these types, find ranges by
//! [`Spread::of_samples`] and derivatives by [`FigureSensitivity::of`].

use crate::chance::percentiles;
use crate::create::TimeTerm;
use crate::model::{Bounds, OwnCause, Station};
use crate::operation::ServerOperation;
use crate::profile::Figure;

/// A number that is predicted: its range, and its median.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// One run in ten is below.
    pub p10: f64,
    /// The median of the runs.
    pub p50: f64,
    /// One run in ten is above.
    pub p90: f64,
}

impl Spread {
    /// A number that is known exactly.
    pub fn exact(value: f64) -> Self {
        Self { p10: value, p50: value, p90: value }
    }

    /// The percentiles of values, by nearest rank. Shape: `values` is not empty.
    pub(crate) fn of(values: Vec<f64>) -> Self {
        let [p10, p50, p90] = percentiles(values).unwrap_or([f64::NAN; 3]);
        Self { p10, p50, p90 }
    }

    /// The percentiles of so many samples, by their numbers.
    pub(crate) fn of_samples(samples: u32, value: impl Fn(u32) -> f64) -> Self {
        Self::of((0..samples).map(value).collect())
    }

    /// The percentiles of runs; without any, the run with every figure at its median.
    pub(crate) fn of_runs(median: f64, runs: Vec<f64>) -> Self {
        percentiles(runs).map_or(Self::exact(median), |[p10, p50, p90]| Self { p10, p50, p90 })
    }

    /// Each number changed in the same way.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { p10: change(self.p10), p50: change(self.p50), p90: change(self.p90) }
    }
}

/// A forecast. `Detail` belongs to each point, `Summary` to all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Forecast<Detail, Summary> {
    /// The profile's name.
    pub profile: String,
    /// Shape: one a number of nodes, sorted by it.
    pub points: Vec<ForecastPoint<Detail>>,
    /// At the largest number of nodes. Shape: sorted by the swing, largest first, without figures that move nothing.
    pub sensitivities: Vec<FigureSensitivity>,
    /// The rest of a start or of creates.
    pub summary: Summary,
}

/// The forecast for one number of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForecastPoint<Detail> {
    /// Nodes.
    pub nodes: u64,
    /// Processes on all of them.
    pub ranks: u64,
    /// Until the last rank has started, or the last file is there. Unit: seconds.
    pub seconds: Spread,
    /// No less and no more. Unit: seconds.
    pub bounds: Bounds,
    /// The cause of the largest part of the time.
    pub bottleneck: Bottleneck,
    /// The rest of a start or of creates.
    pub detail: Detail,
}

/// The cause of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// A station that nodes share; of the metadata servers, the operation that takes most of their time.
    Station(Station, Option<ServerOperation>),
    /// Something of each node's own.
    Own(OwnCause),
    /// A term of the time of creates.
    Term(TimeTerm),
}

impl Bottleneck {
    /// A few words for tables.
    pub fn words(self) -> String {
        match self {
            Self::Station(station, Some(operation)) => {
                format!("{}, {}", station.name(), operation.name().replace('_', " "))
            }
            Self::Station(station, None) => station.name().to_owned(),
            Self::Own(own) => own.name().to_owned(),
            Self::Term(term) => term.name().to_owned(),
        }
    }
}

/// The change of the time with one figure, all others at their medians. At one number of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureSensitivity {
    /// The figure's key.
    pub figure: String,
    /// d ln T / d ln figure: 1 where the time is proportional to it, -1 inversely, 0 where it does not matter.
    pub elasticity: f64,
    /// With the figure at its p10. Unit: seconds.
    pub at_p10: f64,
    /// With the figure at its p90. Unit: seconds.
    pub at_p90: f64,
}

/// The step of a derivative.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DerivativeStep {
    /// To `p50` times this.
    Up(f64),
    /// From `p50` over this to `p50` times this.
    Both(f64),
}

impl FigureSensitivity {
    /// Asks for the time with the figure at other values. `None` where there is no such time.
    pub(crate) fn of(
        figure: &str,
        step: DerivativeStep,
        mut seconds: impl FnMut(&dyn Fn(&Figure) -> f64) -> Option<f64>,
    ) -> Option<Self> {
        let (at_p10, at_p90) = (seconds(&|figure| figure.p10)?, seconds(&|figure| figure.p90)?);
        let (by, less, steps) = match step {
            DerivativeStep::Up(by) => (by, seconds(&|figure| figure.p50)?, 1.0),
            DerivativeStep::Both(by) => (by, seconds(&|figure| figure.p50 / by)?, 2.0),
        };
        let more = seconds(&|figure| figure.p50 * by)?;
        let elasticity = (more / less).ln() / (steps * by.ln());
        Some(Self { figure: figure.to_owned(), elasticity, at_p10, at_p90 })
    }
}
