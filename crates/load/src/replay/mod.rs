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

mod confined;
mod issue;
mod latency;
mod meeting;
mod package;
mod place;
mod plan;
mod play;
mod ranks;
mod steps;
mod tables;
mod tally;
mod wire;
mod writes;

pub use latency::Latency;
pub use meeting::{Key, Meeting, Place};
pub use place::{leftovers, root};
pub use play::process;
pub use ranks::{ARGUMENT, Conductor, Manner, Performance};
pub use tally::{ClassTally, Difference, NAMED, Tally};

use quell_trace::{Recording, TraceError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use steps::Programme;
use writes::Prepared;

/// What becomes of calls that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They are left out and counted.
    Skip,
    /// They are issued in a directory of each rank's own, which is removed afterwards.
    Private,
}

/// Calls on the tree that are not issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// They would change something.
    pub writes: u64,
    /// They are about something that the recording itself made.
    pub made: u64,
    /// The trace does not say enough of them, or they would wait for others: locks, watches, device controls.
    pub unable: u64,
}

/// What is replayed.
#[derive(Debug)]
pub struct Plan {
    /// The recorded directory that is mapped.
    pub from: Vec<u8>,
    /// Calls that will be issued, by each rank.
    pub operations: u64,
    /// Recorded processes that issue any.
    pub processes: u64,
    /// Calls that will not.
    pub skipped: Skipped,
    /// Shape: one entry a recorded process; idle ones are empty.
    programmes: Vec<Programme>,
    /// What a rank's private directory must hold; `None` where nothing is written.
    prepared: Option<Vec<(Vec<u8>, Prepared)>>,
    /// Where the program was started, below the root; `None` for elsewhere.
    directory: Option<Vec<u8>>,
}

/// A replay that has been played, for who shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// The recordings' command, for people.
    pub command: Vec<String>,
    /// The recorded directory, escaped.
    pub from: String,
    /// The directory in its place, escaped.
    pub root: String,
    /// How many ranks there were.
    pub ranks: u32,
    /// Recorded processes of each rank.
    pub processes: u64,
    /// Times between calls were multiplied by this; `None` for full speed.
    pub think: Option<f64>,
    /// Calls of each rank that were not issued.
    pub skipped: Skipped,
    /// What the ranks did.
    pub performance: Performance,
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// No call of the recording is on the root.
    #[error("no call of the recording is on `{from}`")]
    Nothing {
        /// The recorded root.
        from: String,
    },
    /// The recording was on no network file system, so that nothing says which directory is meant.
    #[error("the recording used no network file system")]
    NoRoot,
    /// The recording has no calls on files.
    #[error("the recording has no file-system calls")]
    Empty,
    /// The directory to replay against, or the one in it where the program was started, is missing or is none.
    #[error("cannot use `{}`", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A process could not be started, or did not answer.
    #[error("cannot {attempt}")]
    Process {
        /// What was attempted.
        attempt: &'static str,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Not all ranks met.
    #[error("{came} of {ranks} ranks met within {seconds} s at {place}")]
    Meeting {
        /// How many came.
        came: u32,
        /// How many were expected.
        ranks: u32,
        /// How long was waited.
        seconds: u64,
        /// Where.
        place: String,
    },
    /// What ranks write to could not be made.
    #[error("cannot write below `{}`", path.display())]
    Private {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// What ranks write cannot be kept in their directories: the kernel is older than Linux 5.6, or a container forbids it.
    #[error("cannot keep what is written in its own directory: `openat2` of Linux 5.6 does not answer")]
    Unconfined {
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
}

/// Plans the replay of a recording's calls below `from`. `moves` says whether the tree now lies elsewhere.
///
/// # Errors
/// [`ReplayError::Trace`] for a damaged trace, [`ReplayError::Nothing`] when no call is on the root.
pub fn plan(recording: &Recording, from: &[u8], moves: bool, writes: Writes) -> Result<Plan, ReplayError> {
    let changes = writes::Changes::find(recording, from)?;
    let mut planner = plan::Planner::new(recording, from, moves, writes, &changes)?;
    recording.for_each_event(|event| planner.take(event))?;
    let skipped = planner.skipped;
    let programmes = planner.finish();
    let steps = programmes.iter().flat_map(|programme| programme.threads.iter().flatten());
    let operations = steps.filter(|step| matches!(step, steps::Step::Issue(_))).count() as u64;
    if operations == 0 {
        return Err(ReplayError::Nothing { from: quell_base::escape(from) });
    }
    let start = recording.context.working_directory.map(|path| recording.paths.bytes(path));
    let prepared = match writes {
        Writes::Private => Some(changes.prepared.into_iter().collect()),
        Writes::Skip => None,
    };
    Ok(Plan {
        from: from.to_vec(),
        operations,
        processes: programmes.iter().filter(|programme| !programme.is_empty()).count() as u64,
        skipped,
        programmes,
        prepared,
        directory: start.and_then(|path| below(path, from)).map(<[u8]>::to_vec),
    })
}

impl Plan {
    /// Whether no call in it changes a name or a file of the tree: true of every plan.
    pub fn spares_tree(&self) -> bool {
        let spares = |programme: &Programme| {
            programme.threads.iter().flatten().all(|step| match step {
                steps::Step::Issue(issue) => programme.spares_tree(&issue.operation),
                _ => true,
            })
        };
        self.programmes.iter().all(spares)
    }
}

/// What of a path lies below a directory; empty for the directory itself, `None` for what lies elsewhere.
fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(directory)?;
    match rest {
        [] => Some(rest),
        [b'/', name @ ..] => Some(name),
        _ if directory == b"/" => Some(rest),
        _ => None,
    }
}
