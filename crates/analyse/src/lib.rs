//! Trace in, facts out: what a program asked of its file systems, and what changed between two runs.
//!
//! ```text
//! Header, PathTable, Context, Events -> Tally -> Summary -.-> views: calls, file systems, rankings, start-up
//!                                        merge: any order |-> doubts: what a reader must know beside the numbers
//!                                          two summaries -'-> Comparison
//! ```
//!
//! Pure: no input or output, no clock, no environment. Events are fed in; the only function that reads is
//! [`summarise`], through [`quell_trace::Trace`]. Every number here is a count of what was recorded; predictions
//! have types of their own and live elsewhere.

pub mod activity;
pub mod command;
pub mod comparison;
pub mod counts;
pub mod data;
pub mod doubt;
pub mod durations;
pub mod facts;
pub mod findings;
pub mod folding;
pub mod habits;
pub mod live;
mod local_roots;
pub mod packages;
pub mod phases;
mod polling;
pub mod ranking;
pub mod scale;
pub mod searches;
mod span;
mod suggested;
pub mod summary;
pub mod tally;
pub mod timeline;
pub mod wrappers;

pub use activity::{Activity, OperationPart};
pub use comparison::{ComparedRun, Comparison, compare};
pub use counts::{CallCounts, CommandCounts, FileSystemCounts, PathCounts, Served, Totals};
pub use data::Data;
pub use doubt::Doubt;
pub use durations::{Durations, Latency};
pub use facts::RecordingFacts;
pub use findings::{Diagnosis, Finding, LimitsInForce, diagnose, findings};
pub use folding::Fold;
pub use habits::Habits;
pub use local_roots::{local_roots, root_flags};
pub use packages::Packages;
pub use phases::{Phase, Phases};
pub use ranking::RankingScope;
pub use scale::{OpsPerSecond, Scaled, StartUp};
pub use searches::{SearchKind, Searches};
pub use summary::{FileSystem, Summary};
pub use tally::Tally;
pub use wrappers::Wrappers;

use quell_trace::{Trace, TraceError};

/// Counts every event of every recording of a trace.
///
/// # Errors
/// Those of [`quell_trace::Recording::for_each_event`]: a file of the trace that is damaged or cannot be read.
pub fn summarise(trace: &Trace) -> Result<Summary, TraceError> {
    let mut summary = Summary::default();
    for recording in &trace.recordings {
        let name = quell_base::shown(&recording.directory);
        let mut tally = Tally::new(&name, &recording.header, &recording.paths, &recording.context);
        recording.for_each_event(|event| tally.add(event))?;
        summary.merge(tally.finish());
    }
    Ok(summary)
}
