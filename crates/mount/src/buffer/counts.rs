//! Counts of buffered files: what programs and the kernel asked, and what of it reached the file system.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::stats::{BufferedFileStats, TransferStats, sums};

/// Counts of one file, or of all.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TransferCounts {
    /// Requests of the kernel.
    pub(super) asked: TransferStats,
    /// Calls on the original.
    pub(super) original: TransferStats,
    /// Reads that buffers answered.
    pub(super) hits: u64,
    /// The time in which calls waited for the original.
    pub(super) busy: Duration,
}

impl TransferCounts {
    pub(super) fn is_empty(&self) -> bool {
        self.asked == TransferStats::default() && self.original == TransferStats::default()
    }
}

sums!(TransferCounts { asked, original, hits, busy });

/// The reason why a file is not buffered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// A program locked it, or a part of it.
    Locked,
    /// It is open for appending.
    Appending,
    /// It is open with `O_SYNC` or `O_DSYNC`.
    Synchronous,
    /// It is open with `O_DIRECT`.
    Direct,
}

/// Counts of one directory.
#[derive(Debug, Default)]
pub(super) struct DirectoryCounts {
    passed: [AtomicU64; 4],
    pub(super) lost: AtomicU64,
    finished: Mutex<Finished>,
}

#[derive(Debug, Default)]
struct Finished {
    total: TransferCounts,
    files: HashMap<Vec<u8>, TransferCounts>,
    failed: Option<(Vec<u8>, u16)>,
}

impl DirectoryCounts {
    pub(super) fn passed_on(&self, why: Passed) {
        self.passed[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// In the order of [`Passed`].
    pub(super) fn passed(&self) -> [u64; 4] {
        std::array::from_fn(|why| self.passed[why].load(Ordering::Relaxed))
    }

    /// Adds to the counts of a file.
    pub(super) fn add(&self, path: &[u8], counts: TransferCounts) {
        let mut finished = crate::lock(&self.finished);
        finished.total = finished.total + counts;
        if finished.files.len() < MOST_PATHS || finished.files.contains_key(path) {
            let file = finished.files.entry(path.to_vec()).or_default();
            *file = *file + counts;
        }
    }

    /// Bytes could not be written.
    pub(super) fn lost(&self, path: &[u8], bytes: u64, errno: rustix::io::Errno) {
        self.lost.fetch_add(bytes, Ordering::Relaxed);
        let errno = u16::try_from(errno.raw_os_error()).unwrap_or(0);
        crate::lock(&self.finished).failed.get_or_insert_with(|| (path.to_vec(), errno));
    }

    /// The first file of which bytes could not be written, and the error number.
    pub(super) fn failed(&self) -> Option<(String, u16)> {
        let failed = crate::lock(&self.finished).failed.clone();
        failed.map(|(path, errno)| (quell_base::escape(&path), errno))
    }

    pub(super) fn total(&self) -> TransferCounts {
        crate::lock(&self.finished).total
    }

    /// The files with most requests, most first, then by name.
    pub(super) fn top(&self) -> Vec<BufferedFileStats> {
        let finished = crate::lock(&self.finished);
        let mut files: Vec<_> = finished.files.iter().collect();
        files.sort_by_key(|(path, counts)| {
            (std::cmp::Reverse(counts.asked.reads + counts.asked.writes), path.as_slice())
        });
        let stats = files.into_iter().take(TOP_FILES).map(|(path, counts)| BufferedFileStats {
            path: quell_base::escape(path),
            asked: counts.asked,
            file_system: counts.original,
            hits: counts.hits,
        });
        stats.collect()
    }
}

/// Files whose counts are kept apart. The totals have all.
const MOST_PATHS: usize = 10_000;

/// Files that the statistics name. A message has room for so many long paths.
const TOP_FILES: usize = 10;
