//! The plan of a replay: what each process will do, before any of them starts.

use super::below::below;
use super::error::ReplayError;
use super::planner::Planner;
use super::steps::{Programme, ReplayStep};
use super::tally::SkippedCalls;
use super::writes::{Changes, PreparedEntry, ReplayWrites};
use quell_trace::Recording;

/// A replay, planned.
#[derive(Debug)]
pub struct ReplayPlan {
    /// The recorded directory that is mapped.
    pub from: Vec<u8>,
    /// Calls that will be issued, by each rank.
    pub operations: u64,
    /// Recorded processes that issue any.
    pub processes: u64,
    /// Calls that will not be issued.
    pub skipped: SkippedCalls,
    /// Shape: one entry a recorded process; idle ones are empty.
    pub(super) programmes: Vec<Programme>,
    /// The entries of a rank's private directory; `None` where nothing is written.
    pub(super) prepared: Option<Vec<(Vec<u8>, PreparedEntry)>>,
    /// The directory in which the program was started, below the root; `None` for elsewhere.
    pub(super) directory: Option<Vec<u8>>,
}

/// Plans the replay of a recording's calls below `from`. `moves` says whether the tree now lies elsewhere.
///
/// # Errors
/// [`ReplayError::Trace`] for a damaged trace, [`ReplayError::Nothing`] when no call is on the root.
pub fn plan(
    recording: &Recording,
    from: &[u8],
    moves: bool,
    writes: ReplayWrites,
) -> Result<ReplayPlan, ReplayError> {
    let changes = Changes::find(recording, from)?;
    let mut planner = Planner::new(recording, from, moves, writes, &changes)?;
    recording.for_each_event(|event| planner.take(event))?;
    let skipped = planner.skipped;
    let programmes = planner.finish();
    let steps = programmes.iter().flat_map(|programme| programme.threads.iter().flatten());
    let operations = steps.filter(|step| matches!(step, ReplayStep::Issue(_))).count() as u64;
    if operations == 0 {
        return Err(ReplayError::Nothing { from: quell_base::escape(from) });
    }
    let start = recording.context.working_directory.map(|path| recording.paths.bytes(path));
    let prepared = match writes {
        ReplayWrites::Private => Some(changes.prepared.into_iter().collect()),
        ReplayWrites::Skip => None,
    };
    Ok(ReplayPlan {
        from: from.to_vec(),
        operations,
        processes: programmes.iter().filter(|programme| !programme.is_empty()).count() as u64,
        skipped,
        programmes,
        prepared,
        directory: start.and_then(|path| below(path, from)).map(<[u8]>::to_vec),
    })
}

impl ReplayPlan {
    /// True if no call in it changes a name or a file of the tree: true of every plan.
    pub fn spares_tree(&self) -> bool {
        let spares = |programme: &Programme| {
            programme.threads.iter().flatten().all(|step| match step {
                ReplayStep::Issue(issue) => programme.spares_tree(&issue.operation),
                _ => true,
            })
        };
        self.programmes.iter().all(spares)
    }
}
