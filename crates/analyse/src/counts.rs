//! The numbers of a summary. All of them add up exactly, so that summaries can be merged in any order.

use crate::{Habits, OperationPart};
use quell_trace::{Bytes, Call, Errno, Nanos, ServedBy};
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// The counts of one system call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls, those that did not return included.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Time between begin and end of the calls, the recorder's work inside: an upper bound.
    pub time: Nanos,
}

/// The operations on one file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystemCounts {
    /// Calls of every class.
    pub calls: u64,
    /// Calls on names or attributes.
    pub metadata_operations: u64,
    /// Metadata operations that failed because the name is absent.
    pub missed: u64,
    /// Bytes that read calls returned. Pages of mapped files are not seen by any call and not in it.
    pub bytes_read: Bytes,
    /// Bytes that write calls took.
    pub bytes_written: Bytes,
}

/// The operations on one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Calls on the name or its attributes.
    pub metadata_operations: u64,
    /// Those of them that failed because the name is absent.
    pub missed: u64,
    /// Those of them that had succeeded before: see [`Totals::repeated`].
    pub repeated: u64,
    /// The kind of file system that served it; the network when any of the network ever did. `None`: on no known file system.
    pub served_by: Option<ServedBy>,
    /// The kinds of these operations.
    pub habits: Habits,
}

/// The operations of the processes that ran one command while they ran it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// Processes that ran it, those included that were forked from one and executed nothing else.
    pub processes: u64,
    /// Calls of every class.
    pub calls: u64,
    /// Calls on names or attributes.
    pub metadata_operations: u64,
    /// Metadata operations that failed because the name is absent.
    pub missed: u64,
}

/// The whole run in a few numbers.
///
/// A metadata operation is in exactly one of five parts, so that
/// `metadata_operations == needed + repeated + missed + failed + unnamed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Calls of every class.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls on names or attributes: a metadata server may have to answer each.
    pub metadata_operations: u64,
    /// First successes for a (process tree, operation, path). Opens of a path are one operation whatever the call,
    /// so are stats and so on; each call that changes names or attributes is an operation of its own.
    pub needed: u64,
    /// Successes of an operation that had succeeded on that path before in the same process tree. The second and
    /// later calls of one directory listing are in it.
    pub repeated: u64,
    /// Failures because the name is absent (`ENOENT`, `ENOTDIR`).
    pub missed: u64,
    /// Failures for another reason, and calls that did not return.
    pub failed: u64,
    /// Successes on something without a known path: pipes, sockets, descriptors that came from elsewhere.
    pub unnamed: u64,
    /// Different paths that metadata operations were about.
    pub distinct_paths: u64,
    /// Bytes that read calls returned, pipes and sockets included, mapped files not. What is copied in the kernel
    /// counts once: `copy_file_range`, `splice` and `tee` read here, `sendfile` writes.
    pub bytes_read: Bytes,
    /// Bytes that write calls took.
    pub bytes_written: Bytes,
}

/// Metadata operations by who answers for the file system. They add up to [`Totals::metadata_operations`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// File systems that other nodes share.
    pub network: u64,
    /// Images mounted by quell.
    pub quell: u64,
    /// File systems of this node alone.
    pub local: u64,
    /// On no known file system: pipes, sockets, and paths that could not be resolved.
    pub unknown: u64,
}

/// Metadata operations that failed for another reason than absence. Shape: sorted by call and errno.
pub type Failures = BTreeMap<(Call, Errno), u64>;

impl Totals {
    /// Counts a metadata operation in its part.
    pub(crate) fn count(&mut self, part: OperationPart) {
        *match part {
            OperationPart::Needed => &mut self.needed,
            OperationPart::Repeated => &mut self.repeated,
            OperationPart::Missed => &mut self.missed,
            OperationPart::Failed => &mut self.failed,
            OperationPart::Unnamed => &mut self.unnamed,
        } += 1;
    }
}

impl Served {
    /// Counts metadata operations under who served them.
    pub fn add(&mut self, by: Option<ServedBy>, operations: u64) {
        match by {
            Some(ServedBy::Network) => self.network += operations,
            Some(ServedBy::Quell) => self.quell += operations,
            Some(ServedBy::Local) => self.local += operations,
            None => self.unknown += operations,
        }
    }
}

impl AddAssign for CallCounts {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.errors += other.errors;
        add_time(&mut self.time, other.time);
    }
}

impl AddAssign for FileSystemCounts {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.metadata_operations += other.metadata_operations;
        self.missed += other.missed;
        add_bytes(&mut self.bytes_read, other.bytes_read);
        add_bytes(&mut self.bytes_written, other.bytes_written);
    }
}

impl AddAssign for PathCounts {
    fn add_assign(&mut self, other: Self) {
        self.metadata_operations += other.metadata_operations;
        self.missed += other.missed;
        self.repeated += other.repeated;
        self.served_by = nearest_to_network(self.served_by, other.served_by);
        self.habits += other.habits;
    }
}

impl AddAssign for CommandCounts {
    fn add_assign(&mut self, other: Self) {
        self.processes += other.processes;
        self.calls += other.calls;
        self.metadata_operations += other.metadata_operations;
        self.missed += other.missed;
    }
}

/// Times and amounts come from a file that may be damaged: they stop at the largest number instead of wrapping.
pub(crate) fn add_time(sum: &mut Nanos, time: Nanos) {
    sum.0 = sum.0.saturating_add(time.0);
}

pub(crate) fn add_bytes(sum: &mut Bytes, bytes: Bytes) {
    sum.0 = sum.0.saturating_add(bytes.0);
}

/// `ServedBy` is ordered from the network to this node.
pub(crate) fn nearest_to_network(a: Option<ServedBy>, b: Option<ServedBy>) -> Option<ServedBy> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (known, None) | (None, known) => known,
    }
}
