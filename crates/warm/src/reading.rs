//! Files that are read by several threads, piece by piece, through one descriptor.

use quell_base::lock;
use std::borrow::Cow;
use std::cell::RefCell;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::{Advice, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::in_memory::InMemory;
use crate::tally::{Tally, count};

/// A file that is to be read.
#[derive(Debug)]
struct Source<'a> {
    path: Cow<'a, Path>,
    /// Size and time of modification that it must have.
    version: Option<(u64, i128)>,
    /// The first piece opens the file, the last one closes it.
    opened: Mutex<Opened>,
    /// Pieces that are not done.
    pending: AtomicUsize,
    /// Data came.
    came: AtomicBool,
    /// It was counted as skipped.
    skipped: AtomicBool,
}

#[derive(Debug)]
enum Opened {
    NotYet,
    File(Arc<OpenFile>),
    /// It is not read, which was counted.
    Refused,
}

/// A regular file, open for reading.
#[derive(Debug)]
struct OpenFile {
    descriptor: OwnedFd,
    size: u64,
}

/// A part of a source.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    source: Arc<Source<'a>>,
    range: Range<u64>,
}

/// The reason why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    Missing,
    /// It is not the file that was recorded.
    Changed,
    /// It cannot be read, or its file system is in memory.
    Skipped,
}

/// State that all readers share.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) in_memory: &'a InMemory,
    pub(crate) tally: &'a Tally,
    pub(crate) budget: ReadBudget,
    /// A file's name has not been looked up and counted before.
    pub(crate) counts_names: bool,
}

/// The pieces of a file in these ranges. A range may reach beyond the end of the file.
pub(crate) fn pieces<'a>(
    path: Cow<'a, Path>,
    version: Option<(u64, i128)>,
    ranges: &[Range<u64>],
) -> Vec<Piece<'a>> {
    let cut = |range: &Range<u64>| {
        let (start, end) = (range.start, range.end);
        // The end of a file of unknown length is found by one reader.
        let step = if end == u64::MAX { end } else { PIECE };
        let starts = (start..end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        starts.map(move |start| start..end.min(start.saturating_add(step)))
    };
    let ranges: Vec<Range<u64>> = ranges.iter().flat_map(cut).collect();
    let source = Arc::new(Source {
        path,
        version,
        opened: Mutex::new(Opened::NotYet),
        pending: AtomicUsize::new(ranges.len()),
        came: AtomicBool::new(false),
        skipped: AtomicBool::new(false),
    });
    ranges.into_iter().map(|range| Piece { source: Arc::clone(&source), range }).collect()
}

/// Bytes that are asked for at once, and that one thread reads: many enough to be worth a request, few enough to leave other threads
/// some of a large file.
const PIECE: u64 = 4 << 20;

/// Bytes of one call.
const CALL: usize = 512 << 10;

thread_local! {
    /// Takes what is read.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Piece<'_> {
    /// The file that it is of.
    pub(crate) fn path(&self) -> &Path {
        &self.source.path
    }

    /// Reads the piece, so that its pages are in the client's memory. `goes_on` is asked before each call.
    pub(crate) fn read(&self, reading: &Reading<'_>, goes_on: &dyn Fn() -> bool) {
        if let Some(file) = self.source.open(reading) {
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.resize(CALL, 0);
                self.read_file(&file, reading, scratch, goes_on);
            });
        }
        self.source.done();
    }

    fn read_file(
        &self,
        file: &OpenFile,
        reading: &Reading<'_>,
        scratch: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) {
        let (mut at, end) = (self.range.start, self.range.end.min(file.size));
        while at < end {
            let wanted = (end - at).min(PIECE);
            let allowed = reading.budget.take(wanted);
            // Asks for all of it at once, where the file system knows to read ahead.
            if let Some(length) = NonZeroU64::new(allowed) {
                _ = rustix::fs::fadvise(&file.descriptor, at, Some(length), Advice::WillNeed);
            }
            let read = read_some(&file.descriptor, at..at + allowed, scratch, goes_on);
            reading.budget.give_back(allowed - read);
            reading.tally.bytes.fetch_add(read, Ordering::Relaxed);
            if read > 0 && !self.source.came.swap(true, Ordering::Relaxed) {
                count(&reading.tally.files);
            }
            if read < wanted {
                return self.source.skip(reading.tally);
            }
            at += read;
        }
    }
}

/// Reads until the end of `range`, an error, or the end of the program's patience. Returns the bytes that came.
fn read_some(file: &OwnedFd, range: Range<u64>, scratch: &mut [u8], goes_on: &dyn Fn() -> bool) -> u64 {
    let mut at = range.start;
    while at < range.end && goes_on() {
        let length = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(scratch.len());
        match rustix::io::pread(file, &mut scratch[..length], at) {
            Ok(0) => break,
            Ok(read) => at += read as u64,
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    at - range.start
}

impl Source<'_> {
    /// The open file; `None` where it is refused, which the first call counts.
    fn open(&self, reading: &Reading<'_>) -> Option<Arc<OpenFile>> {
        let mut opened = lock(&self.opened);
        if let Opened::NotYet = &*opened {
            *opened = match open_regular(&self.path, self.version, reading) {
                Ok(file) => Opened::File(Arc::new(file)),
                Err(refusal) => {
                    match refusal {
                        Refusal::Missing => count(&reading.tally.missing),
                        Refusal::Changed => count(&reading.tally.changed),
                        Refusal::Skipped => self.skip(reading.tally),
                    }
                    Opened::Refused
                }
            };
        }
        match &*opened {
            Opened::File(file) => Some(Arc::clone(file)),
            _ => None,
        }
    }

    fn skip(&self, tally: &Tally) {
        if !self.skipped.swap(true, Ordering::Relaxed) {
            count(&tally.skipped);
        }
    }

    /// A piece is done. After the last one the attributes are asked for again, and the file is closed: a client that keeps access
    /// times forgot the attributes when data came.
    fn done(&self) {
        if self.pending.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut opened = lock(&self.opened);
        if let Opened::File(file) = std::mem::replace(&mut *opened, Opened::Refused) {
            // Attributes that cannot be had are none.
            _ = rustix::fs::fstat(&file.descriptor);
        }
    }
}

/// Opens a regular file for reading. `version` is the size and the time of modification that it must have.
///
/// The type is looked at before anything is opened: to open a pipe or a device may wait, or have an effect.
fn open_regular(
    path: &Path,
    version: Option<(u64, i128)>,
    reading: &Reading<'_>,
) -> Result<OpenFile, Refusal> {
    let place = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat(CWD, path, place, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT | Errno::NOTDIR => Refusal::Missing,
        _ => Refusal::Skipped,
    })?;
    let stat = rustix::fs::fstat(&place).map_err(|_| Refusal::Skipped)?;
    if reading.in_memory.has_device(stat.st_dev) {
        return Err(Refusal::Skipped);
    }
    if reading.counts_names {
        reading.tally.named();
    }
    let is_same = version.is_none_or(|version| version == version_of(&stat));
    if !is_same || !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(Refusal::Changed);
    }
    if reading.budget.is_spent() {
        return Err(Refusal::Skipped);
    }
    // The file that was looked at, whatever has its name by now.
    let name = format!("/proc/self/fd/{}", place.as_raw_fd());
    let open = |flags| rustix::fs::openat(CWD, name.as_str(), flags, Mode::empty());
    let descriptor = with_time_kept(OFlags::empty(), open).map_err(|_| Refusal::Skipped)?;
    Ok(OpenFile { descriptor, size: stat.st_size.cast_unsigned() })
}

/// Opens the directory at `path` to be listed.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    with_time_kept(flags, |flags| rustix::fs::openat(CWD, path, flags, Mode::empty()))
}

/// Opens for reading so that the access time stays, where that is allowed: to the file's owner.
fn with_time_kept(flags: OFlags, open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    match open(flags | OFlags::NOATIME) {
        Err(Errno::PERM) => open(flags),
        outcome => outcome,
    }
}

/// Size and time of modification.
fn version_of(stat: &Stat) -> (u64, i128) {
    let modified = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
    (stat.st_size.cast_unsigned(), modified)
}

/// `lstat`. Nothing is mounted for it.
pub(crate) fn attributes(path: &Path) -> Result<Stat, Errno> {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

/// The bytes that may still be read.
#[derive(Debug)]
pub(crate) struct ReadBudget(AtomicU64);

impl ReadBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes at most `wanted` bytes.
    fn take(&self, wanted: u64) -> u64 {
        let left =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left - left.min(wanted)));
        left.unwrap_or(0).min(wanted)
    }

    fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}
