//! The data side: what was read and written in which requests, file by file, and how many files were open at a time.
//!
//! Reads through a mapping are no calls: a file that was mapped has "bytes unknown", and says so.

use crate::counts::add_bytes;
use crate::timeline::Timeline;
use quell_trace::{Bytes, Context, Event, Nanos, PathTable, RankId};
use std::collections::{BTreeMap, HashMap};

/// Requests of one direction on a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Calls that moved data.
    pub calls: u64,
    /// Bytes that they moved.
    pub bytes: Bytes,
    /// Calls that began where the one before on the same descriptor ended.
    pub sequential: u64,
    /// Calls that moved a whole stripe, or several, from the begin of one; zero where the layout is not known.
    pub stripe_sized: u64,
    /// Calls that left a gap behind the one before.
    pub gaps: u64,
    /// Bytes left out in these gaps.
    pub gap_bytes: Bytes,
    /// Time in the calls, the recorder's work inside.
    pub time: Nanos,
    /// Calls by bytes moved. Shape: entry N counts calls of 2^(N-1) to 2^N - 1 bytes, entry 0 those of none.
    pub sizes: [u64; SIZES],
}

/// Powers of two that a request is counted by, and 0: a call moves less than 2^31 bytes. Source: `read(2)`, notes.
pub const SIZES: usize = 32;

/// What was done with the data of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileData {
    /// Successful opens.
    pub opens: u64,
    /// Time in them.
    pub open_time: Nanos,
    /// Successful opens that created it.
    pub creates: u64,
    /// Reads.
    pub reads: Transfers,
    /// Writes.
    pub writes: Transfers,
    /// Mappings: what was read through them is not known.
    pub mappings: u64,
    /// The largest offset that a request reached.
    pub reach: Bytes,
    /// Over how many servers it is striped, and the size of a stripe; `None` where the file system does not tell.
    pub stripe: Option<(u32, Bytes)>,
    /// Bytes written by each rank; without a launcher all recordings are `None`.
    pub written_by: BTreeMap<Option<RankId>, Bytes>,
    /// Bytes read by each rank, and whether it was opened by it at all.
    pub read_by: BTreeMap<Option<RankId>, Bytes>,
}

/// The data side of one recording, or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    /// Every file that was opened or moved data. Not for pipes and sockets.
    pub files: HashMap<Box<[u8]>, FileData>,
    /// Standard output and standard error of the ranks.
    pub streams: Streams,
    /// The most files that were open in each interval.
    pub open_files: Peaks,
}

/// What went to standard output and standard error, whatever they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    /// Calls that wrote to them.
    pub calls: u64,
    /// Bytes that these wrote.
    pub bytes: Bytes,
}

/// A count over time: the most at any moment of each interval. Several recordings add up as if all had begun together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    timeline: Timeline,
}

impl Peaks {
    /// Shape: at most `columns`; the length of an interval, and the most that were open in each.
    pub fn at_most(&self, columns: usize) -> (Nanos, Vec<u64>) {
        let timeline = self.timeline.clone().at_most(columns);
        (timeline.interval(), timeline.counts().to_vec())
    }
}

impl Data {
    /// Adds the data of other recordings. Exact, and in any order.
    pub fn merge(&mut self, other: Self) {
        for (path, file) in other.files {
            self.files.entry(path).or_default().add(file);
        }
        self.streams.calls += other.streams.calls;
        add_bytes(&mut self.streams.bytes, other.streams.bytes);
        self.open_files.timeline.merge(other.open_files.timeline);
    }
}

impl FileData {
    fn add(&mut self, other: Self) {
        self.opens += other.opens;
        self.open_time.0 = self.open_time.0.saturating_add(other.open_time.0);
        self.creates += other.creates;
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.mappings += other.mappings;
        self.reach = self.reach.max(other.reach);
        self.stripe = self.stripe.max(other.stripe);
        for (mine, others) in [(&mut self.written_by, other.written_by), (&mut self.read_by, other.read_by)] {
            others.into_iter().for_each(|(rank, bytes)| add_bytes(mine.entry(rank).or_default(), bytes));
        }
    }
}

impl Transfers {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        add_bytes(&mut self.bytes, other.bytes);
        self.sequential += other.sequential;
        self.stripe_sized += other.stripe_sized;
        self.gaps += other.gaps;
        add_bytes(&mut self.gap_bytes, other.gap_bytes);
        self.time.0 = self.time.0.saturating_add(other.time.0);
        self.sizes.iter_mut().zip(other.sizes).for_each(|(mine, more)| *mine += more);
    }
}

/// The data side of one recording being found.
#[derive(Debug, Default)]
pub struct DataTally {
    data: Data,
}

impl DataTally {
    /// A tally of the recording of `rank` that has these paths and this context.
    pub fn new(_rank: Option<RankId>, _paths: &PathTable, _context: &Context) -> Self {
        Self::default()
    }

    /// Looks at an event. Events come in the order of the recording.
    pub fn add(&mut self, _event: &Event) {}

    /// What was found.
    pub fn finish(self) -> Data {
        self.data
    }
}
