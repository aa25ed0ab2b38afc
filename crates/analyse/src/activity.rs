//! Metadata operations over time: one timeline for each class and part, so that a storm can be seen as a rate.

use crate::timeline::Timeline;
use quell_trace::{Class, Nanos};
use std::collections::BTreeMap;

/// The outcome of a metadata operation. Each is in exactly one part: see [`crate::Totals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OperationPart {
    /// First success of an operation on a path in a process tree.
    Needed,
    /// The same again.
    Repeated,
    /// Failed because the name is absent.
    Missed,
    /// Failed for another reason, or did not return.
    Failed,
    /// Succeeded on something without a known path.
    Unnamed,
}

impl OperationPart {
    /// Its name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::Repeated => "repeated",
            Self::Missed => "missed",
            Self::Failed => "failed",
            Self::Unnamed => "unnamed",
        }
    }
}

/// Metadata operations over time. In a summary of several recordings each counts from its own begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    timelines: BTreeMap<(Class, OperationPart), Timeline>,
}

impl Activity {
    /// Counts a metadata operation of `class` that began at `at` and became `part`.
    pub fn add(&mut self, class: Class, part: OperationPart, at: Nanos) {
        self.timelines.entry((class, part)).or_default().add(at);
    }

    /// Adds the counts of other recordings. Exact, and in any order.
    pub fn merge(&mut self, other: Self) {
        for (key, timeline) in other.timelines {
            self.timelines.entry(key).or_default().merge(timeline);
        }
    }

    /// All operations together.
    pub fn all(&self) -> Timeline {
        let mut all = Timeline::default();
        self.timelines.values().for_each(|timeline| all.merge(timeline.clone()));
        all
    }

    /// The timelines at one interval, at most `columns` of it. Shape: sorted by class and part; all of one length.
    pub fn at_most(&self, columns: usize) -> Binned {
        let all = self.all().at_most(columns);
        let interval = all.interval();
        let length = all.counts().len();
        let series = self.timelines.iter().map(|(&(class, part), timeline)| {
            let mut counts = timeline.clone().at_interval(&all).counts().to_vec();
            counts.resize(length, 0);
            Series { class, part, counts }
        });
        Binned { interval, series: series.collect() }
    }
}

/// Timelines of one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binned {
    /// Length of an interval.
    pub interval: Nanos,
    /// Shape: sorted by class and part; all of one length.
    pub series: Vec<Series>,
}

/// Operations of one class that became one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The class of the operations.
    pub class: Class,
    /// The change.
    pub part: OperationPart,
    /// Operations that began in each interval.
    pub counts: Vec<u64>,
}
