//! The data side: what was read and written in which requests, file by file and rank by rank, and how many files were
//! open at a time.
//!
//! ```text
//! events -> DataTally: Descriptors (where in a file a request lies) -> Data { files, streams, open_files }
//!                                                      merge over ranks -> Data::patterns: who moves the data
//! ```
//!
//! Counted are calls on files that hold data: no pipes, sockets, devices, directories, and no file systems that the kernel
//! makes up (`proc`, `sysfs`). Reads through a mapping are no calls: a file that was mapped has "bytes unknown", and says
//! so; nothing is guessed. What goes through io_uring or `io_submit` is not seen.

mod descriptors;
mod pattern;
mod peaks;
mod tally;
mod transfers;

pub use pattern::{Family, Pattern};
pub use peaks::Peaks;
pub use tally::DataTally;
pub use transfers::{Direction, SIZES, Sizes, Transfers};

use crate::counts::{add_bytes, add_time};
use quell_trace::{Bytes, Nanos, RankId};
use std::collections::{BTreeSet, HashMap};

/// The requests on the data of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileData {
    /// Successful opens.
    pub opens: u64,
    /// Time in them, the recorder's work inside.
    pub open_time: Nanos,
    /// Successful opens that created it, or that may have: `O_CREAT` on a file that was new or empty.
    pub creates: u64,
    /// Closes that freed a descriptor, and time in them; ends of processes are none.
    pub closes: u64,
    /// Time in closes, the recorder's work inside.
    pub close_time: Nanos,
    /// Reads.
    pub reads: Transfers,
    /// Writes.
    pub writes: Transfers,
    /// Mappings: what was read or written through them is not known.
    pub mappings: u64,
    /// The largest offset that a request reached, of those whose place is known.
    pub reach: Bytes,
    /// Over how many servers it is striped, and the size of a stripe; `None` where the file system does not tell.
    pub stripe: Option<(u32, Bytes)>,
    /// Bytes written by each rank that wrote to it.
    pub written_by: ByRank,
    /// Bytes read by each rank that read from it or mapped it.
    pub read_by: ByRank,
}

/// Bytes by rank; without a launcher all recordings are `None`. Most files meet one rank, and a trace many files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByRank {
    /// Shape: sorted by rank, distinct.
    bytes: Vec<(Option<RankId>, Bytes)>,
}

impl ByRank {
    /// Adds bytes of a rank.
    pub fn add(&mut self, rank: Option<RankId>, bytes: Bytes) {
        match self.bytes.binary_search_by_key(&rank, |(known, _)| *known) {
            Ok(index) => add_bytes(&mut self.bytes[index].1, bytes),
            Err(index) => {
                // The common case is one rank: no room for more.
                self.bytes.reserve_exact(1);
                self.bytes.insert(index, (rank, bytes));
            }
        }
    }

    /// Shape: sorted by rank.
    pub fn iter(&self) -> impl Iterator<Item = (Option<RankId>, Bytes)> {
        self.bytes.iter().copied()
    }

    /// The number of ranks.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True without any rank.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn merge(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else {
            other.iter().for_each(|(rank, bytes)| self.add(rank, bytes));
        }
    }
}

/// The data side of one recording, or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    /// Every file that was opened, mapped, or moved data.
    pub files: HashMap<Box<[u8]>, FileData>,
    /// Standard output and standard error of the ranks.
    pub streams: Streams,
    /// The most files that were open in each interval.
    pub open_files: Peaks,
    /// The ranks whose recordings are in it; without a launcher `None`.
    pub ranks: BTreeSet<Option<RankId>>,
}

/// Writes to the standard output and standard error that the commands were started with, whatever they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Calls that wrote to them.
    pub calls: u64,
    /// Bytes that these wrote.
    pub bytes: Bytes,
}

impl Data {
    /// Adds the data of other recordings. Exact, and in any order.
    pub fn merge(&mut self, other: Self) {
        for (path, file) in other.files {
            self.files.entry(path).or_default().merge(file);
        }
        self.streams.calls += other.streams.calls;
        add_bytes(&mut self.streams.bytes, other.streams.bytes);
        self.open_files.merge(other.open_files);
        self.ranks.extend(other.ranks);
    }

    /// Files by bytes moved, most first, then by calls and path. Shape: at most `count`.
    pub fn top_files(&self, count: usize) -> Vec<(&[u8], &FileData)> {
        let mut files: Vec<_> = self.files.iter().map(|(path, file)| (&**path, file)).collect();
        let order = |(a, x): &(&[u8], &FileData), (b, y): &(&[u8], &FileData)| {
            y.weight().cmp(&x.weight()).then_with(|| a.cmp(b))
        };
        if count < files.len() {
            files.select_nth_unstable_by(count, order);
            files.truncate(count);
        }
        files.sort_unstable_by(order);
        files
    }
}

impl FileData {
    /// Bytes read and written by calls.
    pub fn moved(&self) -> Bytes {
        Bytes(self.reads.bytes.0.saturating_add(self.writes.bytes.0))
    }

    /// Adds what was done in other recordings.
    fn merge(&mut self, other: Self) {
        self.opens += other.opens;
        add_time(&mut self.open_time, other.open_time);
        self.creates += other.creates;
        self.closes += other.closes;
        add_time(&mut self.close_time, other.close_time);
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.mappings += other.mappings;
        self.reach = self.reach.max(other.reach);
        self.stripe = self.stripe.max(other.stripe);
        self.written_by.merge(other.written_by);
        self.read_by.merge(other.read_by);
    }

    fn weight(&self) -> (Bytes, u64, u64) {
        (self.moved(), self.reads.calls + self.writes.calls, self.opens + self.mappings)
    }
}
