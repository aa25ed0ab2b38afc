//! A caller's request for a run.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::budget::MemoryBudget;
use crate::difference::OriginalChange;
use crate::loaded::ImageTrust;
use crate::mode::ImageMode;
use crate::sharing::PeersTask;

/// The comparison of the image with its originals before this rank's command starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginalsCheck {
    /// This rank compares if `by` names it, unless a [`stamp`](crate::stamp) that may count vouches for the image.
    Compare {
        /// The rank of the node that compares.
        by: CheckingRank,
        /// Most operations in flight. **Range** 0 counts as 1; see
        /// [`DEFAULT_PARALLELISM`](quell_base::parallel::DEFAULT_PARALLELISM).
        parallelism: usize,
        /// The present time, for the stamp. **Unit** seconds since 1970.
        now: u64,
        /// False if the originals are to be compared whatever a stamp says.
        trusts_stamp: bool,
        /// True if the first ranks of other nodes wait for the outcome.
        shared: bool,
    },
    /// This rank does not compare.
    Skip,
}

/// The rank that compares for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckingRank {
    /// This one.
    ThisRank,
    /// The rank that starts the node's server: the other ranks see the same files.
    FirstOfNode,
    /// This process, which no launcher started: it shares a namespace only with processes that found the same.
    Alone,
    /// A rank of another node: the rank that starts this node's server waits for the outcome, for a while.
    AnotherNode,
}

/// The effect of originals that have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StalePolicy {
    /// The originals answer for themselves, the image for all others. The ranks of a node wait for the outcome of the check. An
    /// image that cannot be used in part is not used.
    Serve,
    /// The image is not used: [`SetupStep::Stale`](crate::SetupStep::Stale).
    Plain,
    /// The rank that compares does not start its command: [`RunError::Stale`](crate::RunError::Stale). Others do not wait.
    Refuse,
}

/// A finding before the command starts.
#[derive(Debug, Clone, Copy)]
pub enum OriginalsFinding<'a> {
    /// Originals have changed.
    Changed(StaleOriginals<'a>),
    /// A stamp vouches for them, so they were not compared.
    Stamped,
}

/// Originals that have changed, and answer for themselves.
#[derive(Debug, Clone, Copy)]
pub struct StaleOriginals<'a> {
    /// Shape: sorted by path, not empty.
    pub changes: &'a [OriginalChange],
    /// True if the image is refreshed when the last process of the namespace is gone.
    pub is_refreshed: bool,
}

/// Asks for lessons of a run. All ranks must ask, or the questions of a node's first rank are not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LessonsRequest {
    /// The file for questions of this node that reached the originals, written like the statistics; `None` if another rank
    /// writes it.
    pub file: Option<PathBuf>,
    /// The time at which the file must be there.
    pub due: LessonsDue,
}

/// The time at which the lessons of a run must be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LessonsDue {
    /// At the end of the rank's command: a process stays as its parent.
    WithCommand,
    /// The same, and the image is refreshed when the last process of the namespace is gone, with [`RunRequest::refresh`].
    WithCommandForARefresh,
    /// At the end of the namespace's last process, if there are so many. An older file stays otherwise, and no error is told.
    AtTheEnd {
        /// A run with fewer writes none.
        least: usize,
    },
}

/// A command to run from an image, with its options.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The image.
    pub image: PathBuf,
    /// The command, the program's name first.
    pub command: Vec<OsString>,
    /// Job and step: ranks with the same share a namespace and end together.
    pub job: String,
    /// The check for changed originals. One rank of a job should make it.
    pub check: OriginalsCheck,
    /// The effect of its outcome.
    pub on_stale: StalePolicy,
    /// Arguments with which this program refreshes the image, the program's name first; empty if it is not to.
    pub refresh: Vec<OsString>,
    /// Age that the image must have to be refreshed where no more changed than listings.
    pub listings_kept_for: Duration,
    /// The file for [`RunStats`](crate::RunStats). The file is removed now, appears before this process ends, and is written again when
    /// the namespace's last process is gone.
    pub stats: Option<PathBuf>,
    /// Writes down questions that reach the originals, to pack a better image from them.
    pub learn: Option<LessonsRequest>,
    /// The owners whose images are accepted.
    pub trust: ImageTrust,
    /// The modes in which the command may run from the image.
    pub mode: ImageMode,
    /// The bound on the node's memory that the image may take.
    pub memory: MemoryBudget,
    /// Brings parts of an image on a network file system from other nodes of the job.
    pub peers: Option<PeersTask>,
    /// The start of this rank, for `seconds_to_exec`.
    pub began: Instant,
}

/// Of this process, which has one thread.
pub(crate) fn umask() -> rustix::fs::Mode {
    let umask = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    rustix::process::umask(umask);
    umask
}

pub(crate) fn bytes(path: PathBuf) -> Vec<u8> {
    path.into_os_string().into_vec()
}

pub(crate) fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}
