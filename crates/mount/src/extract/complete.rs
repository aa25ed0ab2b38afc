//! Makes files whole that the image holds in part: held stretches from the image, the others from the original. Each file is
//! made once a node, several at a time.
//!
//! An original is used only if its size, times and inode are the packed ones, before and after it is read. Files that
//! cannot be made whole are left out; their names come from the originals like others that are not held.

use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use quell_image::{Attributes, FileContent as Content, FilePart as Part, Image};
use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags, fadvise, openat, unlinkat};
use rustix::io::Errno;

use super::files::{create, name_of, write_at};
use super::plan::PartFile;
use crate::memory::{Memory, SharedImage};

/// Makes files whole.
#[derive(Debug)]
pub(crate) struct Completer<'i> {
    pub(crate) image: &'i Image<SharedImage>,
    pub(crate) memory: &'i Memory,
    /// The originals of the roots.
    pub(crate) roots: &'i [(OwnedFd, PathBuf)],
    /// A directory of the tmpfs, in which each file gets its number in the image as name.
    pub(crate) store: &'i OwnedFd,
}

impl Completer<'_> {
    /// Makes each of `files` that it can, and returns when no more can be.
    pub(crate) fn complete(&self, files: &[PartFile]) {
        let next = AtomicUsize::new(0);
        let lane = || {
            let mut buffer = vec![0; STRETCH];
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                // A file that is missing afterwards is bound from the original.
                let _absent = self.file(file, &mut buffer);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..LANES.min(files.len()) {
                scope.spawn(lane);
            }
            lane();
        });
    }

    fn file(&self, file: &PartFile, buffer: &mut [u8]) -> Result<(), Errno> {
        let Ok(Content::Part(part)) = self.image.content(file.nid) else { return Err(Errno::IO) };
        let packed = self.image.attributes(file.nid).map_err(|_| Errno::IO)?;
        let original = open_below(self.roots, &file.path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        verify(&original, &packed)?;
        // A file with several names is made once.
        let made = create(self.store, name_of(file.nid).as_ref())?;
        let outcome = self.fill(&part, &original, &made, buffer).and_then(|()| verify(&original, &packed));
        if outcome.is_err() {
            let _nothing_is_left = unlinkat(self.store, name_of(file.nid), AtFlags::empty());
        }
        outcome
    }

    fn fill(
        &self,
        part: &Part<'_>,
        original: &OwnedFd,
        made: &OwnedFd,
        buffer: &mut [u8],
    ) -> Result<(), Errno> {
        let gaps = gaps(part);
        for gap in &gaps {
            // So that a network file system fetches what follows while we copy.
            let _as_it_likes =
                fadvise(original, gap.start, NonZeroU64::new(gap.end - gap.start), Advice::WillNeed);
        }
        for run in part.runs() {
            write_at(made, &self.memory.hold(run.bytes)?, run.offset)?;
        }
        gaps.into_iter().try_for_each(|gap| copy(original, made, gap, buffer))
    }
}

/// Opens the original of `path`, reached from its root, never as a link.
pub(crate) fn open_below(roots: &[(OwnedFd, PathBuf)], path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let within = roots.iter().find_map(|(root, at)| Some((root, path.strip_prefix(at).ok()?)));
    let (root, below) = within.ok_or(Errno::NOENT)?;
    let name = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    openat(root, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// The stretches between those that are held.
fn gaps(part: &Part<'_>) -> Vec<Range<u64>> {
    let mut at = 0;
    let mut gaps = Vec::new();
    for held in part.runs().map(|run| run.range()).chain(std::iter::once(part.size()..part.size())) {
        if at < held.start {
            gaps.push(at..held.start);
        }
        at = held.end;
    }
    gaps
}

/// **Errors** `ESTALE` if `original` is not the file that was packed, as it was.
fn verify(original: &OwnedFd, packed: &Attributes) -> Result<(), Errno> {
    let now = rustix::fs::fstat(original)?;
    let time = |time: quell_image::Timestamp| (time.seconds, u64::from(time.nanoseconds));
    let same = FileType::from_raw_mode(now.st_mode).is_file()
        && (now.st_size.cast_unsigned(), now.st_ino) == (packed.size, packed.inode)
        && (now.st_mtime, now.st_mtime_nsec) == time(packed.mtime)
        && (now.st_ctime, now.st_ctime_nsec) == time(packed.ctime);
    if same { Ok(()) } else { Err(Errno::STALE) }
}

fn copy(from: &OwnedFd, to: &OwnedFd, range: Range<u64>, buffer: &mut [u8]) -> Result<(), Errno> {
    let mut at = range.start;
    while at < range.end {
        let wanted = buffer.len().min(usize::try_from(range.end - at).unwrap_or(usize::MAX));
        match rustix::io::pread(from, &mut buffer[..wanted], at) {
            Ok(0) => return Err(Errno::IO),
            Ok(bytes) => {
                write_at(to, &buffer[..bytes], at)?;
                at += bytes as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Originals that are read at a time: enough to hide a network's round trips, too few to be a storm.
const LANES: usize = 8;

/// Bytes of an original that are read at once.
const STRETCH: usize = 1 << 20;
