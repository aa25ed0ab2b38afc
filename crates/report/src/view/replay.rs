//! The object of `quell replay --json`.

use quell_replay::{ClassTally, PlayedReplay};
use quell_trace::Errno;
use schemars::JsonSchema;
use serde::Serialize;

/// A replay that was played.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReplayView {
    /// The version of this object.
    pub schema_version: u32,
    /// The recorded command.
    pub command: Vec<String>,
    /// The recorded directory that was mapped; escaped.
    pub from: String,
    /// The directory in its place; escaped.
    pub root: String,
    /// Ranks.
    pub ranks: u32,
    /// Recorded processes that each rank has.
    pub processes: u64,
    /// Recorded times between calls were multiplied by this; nothing for full speed.
    pub think: Option<f64>,
    /// Time between calls that a rank waited, all its threads together.
    pub think_seconds: f64,
    /// From the start until the last rank's end.
    pub seconds: f64,
    /// Of each rank, sorted by rank.
    pub rank_seconds: Vec<f64>,
    /// Calls that were issued, by all ranks.
    pub operations: u64,
    /// Those a second.
    pub operations_per_second: f64,
    /// Bytes that calls read.
    pub bytes_read: u64,
    /// Bytes that calls wrote.
    pub bytes_written: u64,
    /// By class of calls, sorted by name.
    pub classes: Vec<ReplayClass>,
    /// Calls on the tree that each rank left out.
    pub skipped: ReplaySkipped,
    /// Results that differ from the recording.
    pub differences: ReplayDifferences,
    /// All calls together.
    #[serde(skip)]
    pub all: ReplayClass,
}

/// Calls of a class.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReplayClass {
    /// Its name, such as `open`, `stat`, `list`, `read`.
    pub class: String,
    /// Calls that were issued.
    pub operations: u64,
    /// Those that failed.
    pub errors: u64,
    /// Their durations. Unit: microseconds.
    pub microseconds: ReplayTimes,
    /// Its place in the order of classes.
    #[serde(skip)]
    pub order: usize,
}

/// A distribution.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReplayTimes {
    /// One in ten was at most so long.
    pub p10: f64,
    /// Half were at most so long.
    pub p50: f64,
    /// Nine in ten were at most so long.
    pub p90: f64,
    /// 99 in a hundred were at most so long.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Calls that were left out.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReplaySkipped {
    /// Calls that would change something.
    pub writes: u64,
    /// Calls about what the recording itself made.
    pub made: u64,
    /// Calls that cannot be issued again.
    pub unable: u64,
}

/// Results that differ.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReplayDifferences {
    /// Calls that succeeded in the recording and fail now.
    pub failing: u64,
    /// The first of them.
    pub first: Vec<ReplayDifference>,
    /// Calls that failed in the recording and succeed now.
    pub succeeding: u64,
    /// Calls that were not issued, because their file could not be opened.
    pub orphaned: u64,
    /// Processes that ended before they told what they did.
    pub lost: u64,
    /// The error by which the first of them was lost; `null` where the system gave none.
    pub lost_error: Option<String>,
}

/// A call that succeeded in the recording and fails now.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReplayDifference {
    /// The call.
    pub call: String,
    /// The file; escaped.
    pub path: String,
    /// The error's name and meaning.
    pub error: String,
}

/// The object of a replay.
pub fn replay(played: &PlayedReplay) -> ReplayView {
    let (performance, tally) = (&played.performance, &played.performance.tally);
    let mut classes: Vec<ReplayClass> = tally
        .classes
        .iter()
        .enumerate()
        .map(|(order, (class, counts))| row(class.name(), counts, order))
        .collect();
    let mut all = ClassTally::default();
    for counts in tally.classes.values() {
        all.errors += counts.errors;
        all.latency.merge(&counts.latency);
    }
    classes.sort_by(|a, b| a.class.cmp(&b.class));
    let difference = |difference: &quell_replay::OutcomeDifference| ReplayDifference {
        call: difference.call.clone(),
        path: difference.path.clone(),
        error: Errno(difference.errno).to_string(),
    };
    ReplayView {
        schema_version: super::SCHEMA_VERSION,
        command: played.command.clone(),
        from: played.from.clone(),
        root: played.root.clone(),
        ranks: played.ranks,
        processes: played.processes,
        think: played.think,
        think_seconds: tally.think_nanos as f64 / 1e9 / f64::from(played.ranks.max(1)),
        seconds: performance.seconds,
        rank_seconds: performance.rank_seconds.clone(),
        operations: tally.operations(),
        operations_per_second: tally.operations() as f64 / performance.seconds.max(1e-9),
        bytes_read: tally.bytes_read,
        bytes_written: tally.bytes_written,
        all: row("all", &all, classes.len()),
        classes,
        skipped: ReplaySkipped {
            writes: played.skipped.writes,
            made: played.skipped.made,
            unable: played.skipped.unable,
        },
        differences: ReplayDifferences {
            failing: tally.failing,
            first: tally.first.iter().map(difference).collect(),
            succeeding: tally.succeeding,
            orphaned: tally.orphaned,
            lost: tally.lost,
            lost_error: tally.lost_errno.map(|errno| Errno(errno).to_string()),
        },
    }
}

fn row(name: &str, counts: &ClassTally, order: usize) -> ReplayClass {
    let time = |share| counts.latency.quantile(share);
    ReplayClass {
        class: name.to_owned(),
        operations: counts.latency.count(),
        errors: counts.errors,
        microseconds: ReplayTimes {
            p10: time(0.1),
            p50: time(0.5),
            p90: time(0.9),
            p99: time(0.99),
            max: counts.latency.longest(),
        },
        order,
    }
}
