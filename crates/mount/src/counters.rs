//! Counts of a namespace, in memory that every server of it shares: a new server goes on counting where the one before
//! it stopped, and the holder that is left at the end writes them down.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use crate::fuse::request::Operation;
use crate::server::log::{Log, LogPlace, LogRecord};
use crate::stats::{
    ImageStats, MAX_PATHS, Membership, OriginalStats, PathStats, RequestStats, RunMode, RunStats,
};
use crate::sys::shared::SharedMemory;

/// A kind of request, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Lookup,
    GetAttributes,
    ListDirectory,
    Read,
    Write,
    Other,
    Open,
}

impl RequestKind {
    /// The kind of a request; `None` for those that are no questions.
    pub(crate) fn of(operation: &Operation<'_>) -> Option<Self> {
        match operation {
            Operation::Lookup { .. } => Some(Self::Lookup),
            Operation::GetAttributes { .. } => Some(Self::GetAttributes),
            Operation::Open { .. } => Some(Self::Open),
            Operation::ListDirectory { .. } => Some(Self::ListDirectory),
            Operation::Read(_) => Some(Self::Read),
            Operation::Write(_) => Some(Self::Write),
            Operation::ForgetOne { .. }
            | Operation::BatchForget { .. }
            | Operation::Interrupt { .. }
            | Operation::Release { .. } => None,
            _ => Some(Self::Other),
        }
    }
}

/// A kind of operation on the original, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentOn {
    Lookup,
    Stat,
    Open,
    List,
    Read,
    Write,
}

/// Something that a server's death led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeoverEvent {
    /// Another server took over.
    Takeover,
    /// A request was given up.
    Abandoned,
    /// A request came after the image's file was changed.
    Image,
}

/// Counts of one namespace, shared by the threads of its server and by all its processes.
#[derive(Debug)]
pub(crate) struct Counters {
    numbers: Arc<SharedMemory>,
    paths: Mutex<Paths>,
}

/// Operations by path, of the first [`MAX_PATHS`] paths of each list. The counts are in the log, in place.
#[derive(Debug)]
struct Paths {
    log: Log,
    known: [HashMap<Box<[u8]>, LogPlace>; LISTS],
}

/// Memory in which the processes of a namespace count.
#[derive(Debug, Clone)]
pub(crate) struct CountersMemory {
    numbers: Arc<SharedMemory>,
    paths: Arc<SharedMemory>,
}

impl CountersMemory {
    /// All zero.
    ///
    /// **Errors** as [`SharedMemory::new`].
    pub(crate) fn new() -> Result<Self, Errno> {
        let new = |bytes| SharedMemory::new(bytes).map(Arc::new);
        Ok(Self { numbers: new(NUMBERS * 8)?, paths: new(PATHS_BYTES)? })
    }
}

impl Counters {
    /// The counts in `memory`. One process counts at a time.
    pub(crate) fn attach(memory: &CountersMemory) -> Self {
        let log = Log::attach(Arc::clone(&memory.paths));
        let mut known: [HashMap<Box<[u8]>, LogPlace>; LISTS] = Default::default();
        for (place, record) in log.records() {
            if let Some(list) = known.get_mut(usize::from(record.kind)) {
                list.insert(record.text.into(), place);
            }
        }
        Self { numbers: Arc::clone(&memory.numbers), paths: Mutex::new(Paths { log, known }) }
    }

    /// The kernel asked.
    pub(crate) fn asked(&self, what: RequestKind) {
        self.number(REQUESTS + what as usize).fetch_add(1, Ordering::Relaxed);
    }

    /// `bytes` of content were answered from the image.
    pub(crate) fn answered(&self, bytes: u64) {
        self.number(IMAGE_BYTES).fetch_add(bytes, Ordering::Relaxed);
    }

    /// `bytes` of content were given to the kernel unasked.
    pub(crate) fn pushed(&self, bytes: u64) {
        self.number(PUSHED_BYTES).fetch_add(bytes, Ordering::Relaxed);
    }

    /// An operation was sent on to the original of `path`.
    pub(crate) fn sent_on(&self, what: SentOn, path: &Path) {
        self.number(ORIGINAL + what as usize).fetch_add(1, Ordering::Relaxed);
        self.count(ORIGINAL_PATHS, path);
        if what == SentOn::Write {
            self.count(WRITES, path);
        }
    }

    /// Content of `path` was asked for that is nowhere.
    pub(crate) fn missed(&self, path: &Path) {
        self.count(MISSING, path);
    }

    /// A server died.
    pub(crate) fn lost(&self, what: TakeoverEvent) {
        self.number(LOSSES + what as usize).fetch_add(1, Ordering::Relaxed);
    }

    /// The number of requests so far: a server that changes it lives.
    pub(crate) fn progress(&self) -> u64 {
        (0..ORIGINAL - REQUESTS).map(|kind| self.load(REQUESTS + kind)).sum()
    }

    /// Everything counted so far, for one rank's file.
    pub(crate) fn snapshot(
        &self,
        image: ImageStats,
        namespace: Membership,
        seconds_to_exec: f64,
    ) -> RunStats {
        let requests = request_stats(|kind| self.load(REQUESTS + kind));
        let [lookup, stat, open, readdir, read, write] =
            std::array::from_fn(|kind| self.load(ORIGINAL + kind));
        RunStats {
            mode: RunMode::Mount,
            namespace: Some(namespace),
            image: ImageStats {
                bytes_read: self.load(IMAGE_BYTES),
                bytes_pushed: self.load(PUSHED_BYTES),
                ..image
            },
            requests,
            original: OriginalStats { lookup, stat, open, readdir, read, write },
            original_paths: self.sorted(ORIGINAL_PATHS),
            unforeseen_writes: self.sorted(WRITES),
            missing_content: self.sorted(MISSING),
            takeovers: self.load(LOSSES + TakeoverEvent::Takeover as usize),
            abandoned_requests: self.load(LOSSES + TakeoverEvent::Abandoned as usize),
            image_lost_requests: self.load(LOSSES + TakeoverEvent::Image as usize),
            ..RunStats::plain(seconds_to_exec)
        }
    }

    fn number(&self, number: usize) -> &AtomicU64 {
        self.numbers.word(8 * number)
    }

    fn load(&self, number: usize) -> u64 {
        self.number(number).load(Ordering::Relaxed)
    }

    fn count(&self, list: usize, path: &Path) {
        let mut paths = crate::lock(&self.paths);
        let path = path.as_os_str().as_bytes();
        if let Some(place) = paths.known[list].get(path) {
            paths.log.word(*place, 0).fetch_add(1, Ordering::Relaxed);
        } else if paths.known[list].len() < MAX_PATHS
            && let Some(place) = paths.log.append(&LogRecord { kind: list as u8, words: &[1], text: path })
        {
            paths.known[list].insert(path.into(), place);
        }
    }

    /// Most operations first, then by path.
    fn sorted(&self, list: usize) -> Vec<PathStats> {
        let paths = crate::lock(&self.paths);
        let mut sorted: Vec<PathStats> = paths.known[list]
            .iter()
            .map(|(path, place)| PathStats {
                path: String::from_utf8_lossy(path).into_owned(),
                operations: paths.log.word(*place, 0).load(Ordering::Relaxed),
            })
            .collect();
        sorted.sort_by(|a, b| b.operations.cmp(&a.operations).then_with(|| a.path.cmp(&b.path)));
        sorted
    }
}

/// The counts of requests, by the number of their [`RequestKind`].
pub(crate) fn request_stats(count: impl FnMut(usize) -> u64) -> RequestStats {
    let [lookup, getattr, readdir, read, write, other, open] = std::array::from_fn(count);
    RequestStats { lookup, getattr, readdir, open, read, write, other }
}

/// Requests by kind, of a server that counts in memory of its own.
#[derive(Debug, Default)]
pub(crate) struct AtomicRequests([AtomicU64; 7]);

impl AtomicRequests {
    pub(crate) fn asked(&self, operation: &Operation<'_>) {
        if let Some(kind) = RequestKind::of(operation) {
            self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn stats(&self) -> RequestStats {
        request_stats(|kind| self.0[kind].load(Ordering::Relaxed))
    }
}

/// Words of the counts.
const REQUESTS: usize = 0;
const ORIGINAL: usize = 7;
const IMAGE_BYTES: usize = 13;
const LOSSES: usize = 14;
const PUSHED_BYTES: usize = 17;
const NUMBERS: usize = 18;

/// The lists of paths.
const ORIGINAL_PATHS: usize = 0;
const WRITES: usize = 1;
const MISSING: usize = 2;
const LISTS: usize = 3;

/// Room for the longest possible paths in all lists. Unused pages take no memory.
const PATHS_BYTES: usize = 2 * LISTS * MAX_PATHS * 4200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_appear_under_the_promised_names() {
        let memory = CountersMemory::new().unwrap();
        let counters = Counters::attach(&memory);
        counters.asked(RequestKind::Lookup);
        counters.sent_on(SentOn::Write, Path::new("/env/log"));
        // The next server counts on.
        let counters = Counters::attach(&memory);
        counters.lost(TakeoverEvent::Takeover);
        counters.sent_on(SentOn::Write, Path::new("/env/log"));
        let stats = counters.snapshot(ImageStats::default(), Membership::Created, 0.5);
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["mode"], "mount");
        assert_eq!(json["namespace"], "created");
        assert_eq!(json["requests"]["lookup"], 1);
        assert_eq!(json["original"]["write"], 2);
        assert_eq!(json["unforeseen_writes"][0]["path"], "/env/log");
        assert_eq!(json["unforeseen_writes"][0]["operations"], 2);
        assert_eq!(json["seconds_to_exec"], 0.5);
        assert_eq!((&json["takeovers"], &json["abandoned_requests"]), (&1.into(), &0.into()));
    }
}
