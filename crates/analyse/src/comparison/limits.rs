//! Totals that must not grow from one run to the next: the gate of a continuous integration.

use super::{ComparedRun, Comparison};
use std::fmt;
use std::str::FromStr;

/// A total that a run can be held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Calls on names or attributes.
    MetadataOperations,
    /// Those that failed because the name is absent.
    Missed,
    /// Those that had succeeded before.
    Repeated,
    /// Calls of every class.
    Calls,
    /// Calls that failed.
    Errors,
    /// Different paths that metadata operations were about.
    DistinctPaths,
    /// Bytes that read calls returned.
    BytesRead,
    /// Bytes that write calls took.
    BytesWritten,
    /// Metadata operations that file systems shared with other nodes served.
    Network,
}

impl Metric {
    /// Every metric, in the order in which they are documented.
    pub const ALL: [Self; 9] = [
        Self::MetadataOperations,
        Self::Missed,
        Self::Repeated,
        Self::Calls,
        Self::Errors,
        Self::DistinctPaths,
        Self::BytesRead,
        Self::BytesWritten,
        Self::Network,
    ];

    /// Its name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MetadataOperations => "metadata_operations",
            Self::Missed => "missed",
            Self::Repeated => "repeated",
            Self::Calls => "calls",
            Self::Errors => "errors",
            Self::DistinctPaths => "distinct_paths",
            Self::BytesRead => "bytes_read",
            Self::BytesWritten => "bytes_written",
            Self::Network => "network",
        }
    }

    fn of(self, side: &ComparedRun) -> u64 {
        let totals = &side.totals;
        match self {
            Self::MetadataOperations => totals.metadata_operations,
            Self::Missed => totals.missed,
            Self::Repeated => totals.repeated,
            Self::Calls => totals.calls,
            Self::Errors => totals.errors,
            Self::DistinctPaths => totals.distinct_paths,
            Self::BytesRead => totals.bytes_read.0,
            Self::BytesWritten => totals.bytes_written.0,
            Self::Network => side.served.network,
        }
    }
}

/// By how much a total may grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// By so many.
    Count(u64),
    /// By this part of what it was. Unit: percent. Range: 0 and more.
    Percent(f64),
}

impl Tolerance {
    /// The most that `from` may become.
    fn most(self, from: u64) -> u64 {
        match self {
            Self::Count(count) => from.saturating_add(count),
            Self::Percent(percent) => from.saturating_add((from as f64 * percent / 100.0) as u64),
        }
    }
}

/// A total, and by how much it may grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IncreaseLimit {
    /// The total.
    pub metric: Metric,
    /// By how much it may grow.
    pub tolerance: Tolerance,
}

impl FromStr for IncreaseLimit {
    type Err = LimitError;

    /// `METRIC`, which may not grow at all, `METRIC=COUNT` or `METRIC=PERCENT%`.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let (name, tolerance) = text.split_once('=').unwrap_or((text, "0"));
        let metric = Metric::ALL.into_iter().find(|metric| metric.name() == name);
        let metric = metric.ok_or_else(|| LimitError::UnknownMetric { name: name.to_owned() })?;
        let percent = |percent: &f64| percent.is_finite() && *percent >= 0.0;
        let parsed = match tolerance.strip_suffix('%') {
            Some(number) => number.parse().ok().filter(percent).map(Tolerance::Percent),
            None => tolerance.parse().ok().map(Tolerance::Count),
        };
        let tolerance = parsed.ok_or_else(|| LimitError::BadTolerance { text: tolerance.to_owned() })?;
        Ok(Self { metric, tolerance })
    }
}

/// The reason for which a text is no [`IncreaseLimit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// There is no total of this name.
    UnknownMetric {
        /// The text.
        name: String,
    },
    /// The text behind the name is neither a count nor a percentage.
    BadTolerance {
        /// The text.
        text: String,
    },
}

impl std::error::Error for LimitError {}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownMetric { name } => {
                let names: Vec<&str> = Metric::ALL.into_iter().map(Metric::name).collect();
                write!(f, "there is no total `{name}`; there are {}", names.join(", "))
            }
            Self::BadTolerance { text } => {
                write!(f, "`{text}` is neither a count such as 20 nor a percentage such as 5%")
            }
        }
    }
}

/// A total that grew by more than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Increase {
    /// The total.
    pub metric: Metric,
    /// Of the first run.
    pub a: u64,
    /// Of the second run.
    pub b: u64,
    /// The most that it may be.
    pub most: u64,
}

impl fmt::Display for Increase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { metric, a, b, most } = self;
        write!(f, "`{}` rose from {a} to {b}; at most {most} allowed", metric.name())
    }
}

/// The limits that the second run is over. Shape: in the order of `limits`.
pub fn increases(comparison: &Comparison, limits: &[IncreaseLimit]) -> Vec<Increase> {
    let increase = |limit: &IncreaseLimit| {
        let (a, b) = (limit.metric.of(&comparison.a), limit.metric.of(&comparison.b));
        let most = limit.tolerance.most(a);
        (b > most).then_some(Increase { metric: limit.metric, a, b, most })
    };
    limits.iter().filter_map(increase).collect()
}
