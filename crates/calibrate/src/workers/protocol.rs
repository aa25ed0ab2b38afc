//! The messages between a worker and its leader, over the worker's standard streams, so that any prefix that passes them on
//! (`ssh HOST`, `srun`, `nsenter`) can stand before a worker.
//!
//! ```text
//! worker                      leader
//!               <-            directory   (to work in: no word of a command, which a shell may read again)
//! hello         ->
//!               <-            task        (each worker gets its own)
//! ready         ->                        all is prepared: names made, directories open
//!               <-            go          the barrier: sent when every worker is ready
//! done, failed  ->
//! ```
//!
//! The end of the worker's standard input is the end of the worker.

use crate::operation::LoadOperation;
use serde::{Deserialize, Serialize};

/// Version of these messages. Both ends run the same path, which may be another version on another client. It stays the first field of
/// [`WorkerHello`], so that another version is told from other programs.
pub(crate) const VERSION: u32 = 6;

/// A message of the leader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum LeaderOrder {
    /// Work here: the first order, once. Shape: the bytes of an absolute path.
    Directory(Vec<u8>),
    /// Prepare this.
    Task(PhaseTask),
    /// Begin now.
    Go,
}

/// One phase of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum PhaseTask {
    /// Operations on names, each once.
    Names(NameOperations),
    /// Reads of a file's data.
    Data(DataTransfer),
    /// A look at one entry.
    Look(EntryLook),
    /// A change that the other client is to notice.
    Change(EntryChange),
    /// Single calls on files or directories.
    Steps(CallSteps),
}

/// Operations on names such as `PREFIX000007SUFFIX`. The thread `t` has the numbers `first + t + k * stride`, for `k` below
/// `count`, in its own directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NameOperations {
    pub(crate) operation: LoadOperation,
    /// Below the working directory. Shape: one for all threads, or one a thread.
    pub(crate) directories: Vec<String>,
    pub(crate) prefix: String,
    pub(crate) suffix: String,
    pub(crate) first: u64,
    pub(crate) stride: u64,
    /// Names of each thread.
    pub(crate) count: u64,
    /// Times that each thread goes through its names.
    pub(crate) passes: u16,
    pub(crate) threads: u16,
    /// No operation begins later than this after the start. Unit: milliseconds.
    pub(crate) limit_ms: u64,
    /// Processor time that each thread computes for before each operation. Unit: microseconds.
    pub(crate) computing_us: u64,
}

/// A kind of access to a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DataAccess {
    /// Writes it, from begin to end. Preparation only.
    Write,
    /// `pread(2)` from begin to end.
    Sequential,
    /// `pread(2)` of scattered pages.
    Random,
    /// Touches scattered pages of a shared mapping, as `mmap(2)` with `MAP_SHARED` gives it.
    Mapped,
}

impl DataAccess {
    /// The size of one access. Unit: bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            // IOR's usual transfer size.
            Self::Write | Self::Sequential => 1 << 20,
            // A page of most machines.
            Self::Random | Self::Mapped => 4096,
        }
    }
}

/// Reads or writes of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DataTransfer {
    pub(crate) access: DataAccess,
    /// Below the working directory.
    pub(crate) file: String,
    pub(crate) bytes: u64,
    /// The process has this one of so many equal parts of the file; its threads have equal parts of that.
    pub(crate) part: u64,
    pub(crate) parts: u64,
    /// True if this client's pages of the file are dropped before.
    pub(crate) drop_pages: bool,
    /// At most so many accesses by each thread.
    pub(crate) count: u64,
    pub(crate) threads: u16,
    pub(crate) limit_ms: u64,
}

/// Looks at an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryLook {
    /// Below the working directory.
    pub(crate) entry: String,
    /// The aspect that is looked at.
    pub(crate) at: CacheAspect,
}

/// An aspect of an entry that a client may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CacheAspect {
    /// The file that a name stands for.
    Name,
    /// The directory that a name stands for.
    DirectoryName,
    /// That a name is not there.
    Absence,
    /// Size and times of a file that is held open.
    Attributes,
    /// The names in a directory.
    Listing,
}

/// A change by which another client can tell what it kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryChange {
    pub(crate) entry: String,
    pub(crate) of: CacheAspect,
}

/// The objects of single calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallSubject {
    /// Nothing yet: both kinds are made. Preparation only.
    New,
    /// Files of a page.
    Files,
    /// Directories with one directory in each.
    Directories,
}

/// Single calls, one after the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CallSteps {
    pub(crate) of: CallSubject,
    /// Below the working directory.
    pub(crate) directory: String,
    /// Their number.
    pub(crate) count: u64,
    /// Between the lookup of the last and the start. Unit: milliseconds.
    pub(crate) rest_ms: u64,
    /// Processor time that is computed for before each call. Unit: microseconds.
    pub(crate) computing_us: u64,
}

/// A timed call on a file. Shape: variants in the order of the calls; latencies come in this order, file by file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileStep {
    Open,
    Look,
    Read,
    LookAgain,
    Close,
}

impl FileStep {
    /// Latencies of one file.
    pub(crate) const COUNT: usize = Self::Close as usize + 1;
}

/// A timed call on a directory. Shape: as [`FileStep`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum DirectoryStep {
    Open,
    List,
    LookWithin,
    LookAtAbsent,
}

impl DirectoryStep {
    /// Latencies of one directory.
    pub(crate) const COUNT: usize = Self::LookAtAbsent as usize + 1;
}

/// A message of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum WorkerReply {
    /// The first line.
    Hello(WorkerHello),
    /// Everything is prepared.
    Ready,
    /// The phase is over.
    Done(PhaseResult),
    /// The phase ended by an error.
    Failed {
        /// On what, below the working directory.
        name: String,
        /// The system's error.
        errno: i32,
    },
}

/// The identity of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerHello {
    pub(crate) version: u32,
    /// `/proc/sys/kernel/random/boot_id`: which kernel.
    pub(crate) kernel: String,
    /// Device number of the working directory: which mount of that kernel.
    pub(crate) device: u64,
}

/// The result of a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PhaseResult {
    /// Operations that were done.
    pub(crate) count: u64,
    /// The begin of the first and the end of the last, by the node's monotonic clock. Unit: nanoseconds.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    /// Of each operation, in the order of the names within a thread. Unit: nanoseconds.
    pub(crate) latencies: Vec<u64>,
    /// Of the closes behind opens.
    pub(crate) closes: Vec<u64>,
    /// Processor time that it computed for between operations. Unit: nanoseconds.
    pub(crate) computed: u64,
    /// A number that tells one state of a looked-at entry from another.
    pub(crate) seen: u64,
}
