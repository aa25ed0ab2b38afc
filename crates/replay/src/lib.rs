//! Issues a recording's calls again, against a directory: an application's exact mix of operations as a benchmark.
//!
//! ```text
//! trace -> plan (what each process and thread does) -> package (a file in memory)
//!                                                          |
//! conductor -- socket --> process of rank 0 -- socket --> its recorded children ...     tally <- each of them
//!           `- socket --> process of rank 1 ...
//! ```
//! Only calls on files below the recorded root are issued, as the program passed them: same call, same names, same flags, sizes
//! and offsets, and no others, so that a server counts what the program's own start gives. Recorded processes
//! are processes here and threads are threads; they start where they started, and what had ended before a call began has
//! ended. Mapped files are read, in the parts that the recorded process touched. Nothing in the tree is changed: what a
//! recording writes goes to a directory of the replay's own, or is left out and counted.
#![forbid(unsafe_code)]

mod below;
mod child;
mod conductor;
mod confined;
mod error;
mod issue;
mod latency;
mod package;
mod performance;
mod plan;
mod planner;
mod play;
mod root;
mod stage;
mod steps;
mod tables;
mod tally;
mod writes;

pub use child::ARGUMENT;
pub use conductor::{ReplayConductor, ReplayManner};
pub use error::ReplayError;
pub use latency::LatencyHistogram;
pub use performance::{PlayedReplay, ReplayPerformance};
pub use plan::{ReplayPlan, plan};
pub use play::process;
pub use root::{leftovers, root};
pub use tally::{ClassTally, NAMED, OutcomeDifference, ReplayTally, SkippedCalls};
pub use writes::ReplayWrites;
