//! The data side: requests, file by file.

use super::ROWS;
use quell_analyse::data;
use quell_trace::path::escape;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;

/// What was read and written.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Data {
    /// The files with most bytes moved, at most 1000.
    pub files: Vec<FileData>,
    /// Writes to standard output and standard error.
    pub streams: Streams,
}

/// What was done with the data of a file.
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
    /// Mappings. What was read through them is not known: `reads` is then a lower bound.
    pub mappings: u64,
    /// Reads by calls.
    pub reads: Transfers,
    /// Writes by calls.
    pub writes: Transfers,
    /// The largest offset that a request reached. Unit: bytes.
    pub reach: u64,
    /// Over how many servers it is striped; null where the file system does not tell.
    pub stripe_count: Option<u32>,
    /// Unit: bytes.
    pub stripe_size: Option<u64>,
    /// Ranks that read it, and ranks that wrote it; without a launcher, recordings.
    pub reading_ranks: u64,
    /// Ranks that wrote it.
    pub writing_ranks: u64,
}

/// Requests of one direction.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Transfers {
    /// Calls that moved data.
    pub calls: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Calls that began where the one before on the same descriptor ended.
    pub sequential: u64,
    /// Calls of whole stripes from the begin of one.
    pub stripe_sized: u64,
    /// Calls that left a gap behind the one before.
    pub gaps: u64,
    /// Bytes left out in these gaps.
    pub gap_bytes: u64,
    /// Time in the calls, the recorder's work inside. Unit: seconds.
    pub seconds: f64,
    /// Calls by size: entry N counts calls of 2^(N-1) to 2^N - 1 bytes, entry 0 those of none. Without zeros at the end.
    pub sizes: Vec<u64>,
}

/// Writes to standard output and standard error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Streams {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

impl From<&data::Data> for Data {
    fn from(data: &data::Data) -> Self {
        let mut files: Vec<_> = data.files.iter().collect();
        let moved = |file: &data::FileData| file.reads.bytes.0.saturating_add(file.writes.bytes.0);
        files.sort_by(|(a, x), (b, y)| (Reverse(moved(x)), a).cmp(&(Reverse(moved(y)), b)));
        Self {
            files: files.into_iter().take(ROWS).map(|(path, file)| row(path, file)).collect(),
            streams: Streams { calls: data.streams.calls, bytes: data.streams.bytes.0 },
        }
    }
}

fn row(path: &[u8], file: &data::FileData) -> FileData {
    FileData {
        path: escape(path),
        opens: file.opens,
        open_seconds: file.open_time.as_seconds(),
        creates: file.creates,
        mappings: file.mappings,
        reads: (&file.reads).into(),
        writes: (&file.writes).into(),
        reach: file.reach.0,
        stripe_count: file.stripe.map(|(count, _)| count),
        stripe_size: file.stripe.map(|(_, size)| size.0),
        reading_ranks: file.read_by.len() as u64,
        writing_ranks: file.written_by.len() as u64,
    }
}

impl From<&data::Transfers> for Transfers {
    fn from(transfers: &data::Transfers) -> Self {
        let used = transfers.sizes.iter().rposition(|&calls| calls > 0).map_or(0, |last| last + 1);
        Self {
            calls: transfers.calls,
            bytes: transfers.bytes.0,
            sequential: transfers.sequential,
            stripe_sized: transfers.stripe_sized,
            gaps: transfers.gaps,
            gap_bytes: transfers.gap_bytes.0,
            seconds: transfers.time.as_seconds(),
            sizes: transfers.sizes[..used].to_vec(),
        }
    }
}
