//! The data side: requests, file by file.

use super::Rows;
use quell_analyse::data;
use quell_base::escape;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;

/// Data that was read and written.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Data {
    /// The files with most bytes moved, at most 1000.
    pub files: Vec<FileData>,
    /// The ranks that move the data, when several recorded: files whose paths differ in numbers only are one family. By
    /// bytes, most first, at most 1000 of each direction.
    pub patterns: Vec<Family>,
    /// Writes to standard output and standard error.
    pub streams: Streams,
    /// Ranks that recorded.
    #[serde(skip)]
    pub ranks: u64,
    /// Requests of all files by size, reads and writes: entry N as in [`Transfers::sizes`].
    #[serde(skip)]
    pub sizes: Vec<(u64, u64)>,
    /// The run moved more data than libraries and modules.
    #[serde(skip)]
    pub is_worth_tables: bool,
}

/// The requests on the data of a file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FileData {
    /// The file.
    pub path: String,
    /// Successful opens.
    pub opens: u64,
    /// Time in them, the recorder's work inside. Unit: seconds.
    pub open_seconds: f64,
    /// Opens that created it.
    pub creates: u64,
    /// Closes.
    pub closes: u64,
    /// Time in them, the recorder's work inside. Unit: seconds.
    pub close_seconds: f64,
    /// Mappings.
    pub mappings: u64,
    /// It was mapped: what was read or written through a mapping is not known, and the bytes are lower bounds.
    pub bytes_unknown: bool,
    /// Reads by calls.
    pub reads: Transfers,
    /// Writes by calls.
    pub writes: Transfers,
    /// The largest offset that a request reached, of those whose place is known. Unit: bytes.
    pub reach: u64,
    /// Over how many servers it is striped; null where the file system does not tell.
    pub stripe_count: Option<u32>,
    /// Unit: bytes.
    pub stripe_size: Option<u64>,
    /// Ranks that read it or mapped it; without a launcher 1.
    pub reading_ranks: u64,
    /// Ranks that wrote it; without a launcher 1.
    pub writing_ranks: u64,
    /// It is more than a module or a library beside the others.
    #[serde(skip)]
    pub matters: bool,
}

/// Requests of one direction.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Transfers {
    /// Calls that succeeded, those included that moved nothing, as at the end of a file.
    pub calls: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Calls that moved data and began where the one before on the same open file ended.
    pub sequential: u64,
    /// Calls of whole stripes from the start of one.
    pub stripe_sized: u64,
    /// Bytes of a call that moved data, on average.
    pub average_bytes: u64,
    /// Calls that left a gap behind the one before.
    pub gaps: u64,
    /// Bytes left out in these gaps.
    pub gap_bytes: u64,
    /// Bytes of a gap, on average.
    pub average_gap_bytes: u64,
    /// Time in the calls, the recorder's work inside. Unit: seconds.
    pub seconds: f64,
    /// Bytes by that time. Unit: bytes a second; null when there was none.
    pub bytes_per_second: Option<f64>,
    /// Calls by size: entry N counts calls of 2^(N-1) to 2^N - 1 bytes, entry 0 those of none. Without zeros at the end.
    pub sizes: Vec<u64>,
}

/// Files whose paths differ in numbers only, with who moves their data in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Family {
    /// The path, with `#` for a number that differs.
    pub name: String,
    /// `read` or `write`.
    pub direction: String,
    /// `spokesperson` (one rank for all), `file-per-process`, `shared-file` (most ranks) or `aggregated` (some ranks for
    /// all).
    pub pattern: String,
    /// Files with data in this direction.
    pub files: u64,
    /// Ranks that moved it.
    pub ranks: u64,
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Writes to standard output and standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Streams {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A run that moves less than this has no data worth a table: the rest is libraries and modules.
const MANY_BYTES: u64 = 1 << 20;
/// So many calls are worth a table whatever they move.
const MANY_CALLS: u64 = 1000;
/// A file with less of the bytes than one in so many is a module or a library beside the others.
const ONE_IN: u64 = 100;

pub(super) fn data(data: &data::Data, rows: Rows) -> Data {
    let directions = [data::Direction::Read, data::Direction::Write];
    let families = directions.into_iter().flat_map(|way| data.patterns(way).into_iter().take(rows.most()));
    let mut patterns: Vec<Family> = families.map(Family::from).collect();
    patterns.sort_by_key(|family| Reverse(family.bytes));
    let (mut writes, mut bytes, mut calls) = (0, 0u64, 0);
    let mut sizes = vec![(0, 0); data::SIZES];
    for file in data.files.values() {
        writes += file.writes.moving();
        bytes = bytes.saturating_add(file.moved().0);
        calls += file.reads.calls + file.writes.calls;
        file.reads.sizes.iter().for_each(|(entry, calls)| sizes[entry].0 += calls);
        file.writes.sizes.iter().for_each(|(entry, calls)| sizes[entry].1 += calls);
    }
    Data {
        files: data.top_files(rows.most()).into_iter().map(|(path, file)| row(path, file, bytes)).collect(),
        patterns,
        streams: Streams { calls: data.streams.calls, bytes: data.streams.bytes.0 },
        ranks: data.ranks.len() as u64,
        sizes,
        is_worth_tables: writes > 0 || bytes >= MANY_BYTES || calls >= MANY_CALLS,
    }
}

impl From<data::Family> for Family {
    fn from(family: data::Family) -> Self {
        Self {
            name: escape(&family.name),
            direction: family.direction.name().into(),
            pattern: family.pattern.name().into(),
            files: family.files,
            ranks: family.ranks,
            calls: family.calls,
            bytes: family.bytes.0,
        }
    }
}

fn row(path: &[u8], file: &data::FileData, all_bytes: u64) -> FileData {
    FileData {
        path: escape(path),
        opens: file.opens,
        open_seconds: file.open_time.as_seconds(),
        creates: file.creates,
        closes: file.closes,
        close_seconds: file.close_time.as_seconds(),
        mappings: file.mappings,
        bytes_unknown: file.mappings > 0,
        reads: (&file.reads).into(),
        writes: (&file.writes).into(),
        reach: file.reach.0,
        stripe_count: file.stripe.map(|(count, _)| count),
        stripe_size: file.stripe.map(|(_, size)| size.0),
        reading_ranks: file.read_by.len() as u64,
        writing_ranks: file.written_by.len() as u64,
        matters: file.moved().0 >= all_bytes / ONE_IN
            || file.reads.calls + file.writes.calls >= MANY_CALLS / 10,
    }
}

impl From<&data::Transfers> for Transfers {
    fn from(transfers: &data::Transfers) -> Self {
        let used = transfers.sizes.iter().last().map_or(0, |(last, _)| last + 1);
        Self {
            calls: transfers.calls,
            bytes: transfers.bytes.0,
            sequential: transfers.sequential,
            stripe_sized: transfers.stripe_sized,
            average_bytes: transfers.average().0,
            gaps: transfers.gaps,
            gap_bytes: transfers.gap_bytes.0,
            average_gap_bytes: transfers.average_gap().0,
            seconds: transfers.time.as_seconds(),
            bytes_per_second: transfers.bytes_per_second(),
            sizes: (0..used).map(|entry| transfers.sizes.get(entry)).collect(),
        }
    }
}
