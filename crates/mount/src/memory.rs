//! The image's bytes, in the memory of this node.
//!
//! An image on a local file system is mapped as it is. One on a network file system is copied, and a compressed one
//! is decompressed, in the order of the file, into an anonymous memory file: metadata and index first, then content in
//! the order of first access. A request for a part that has not arrived reads that part at once, before everything
//! else. So a cold start is bound by bandwidth, not by one round trip for each page.
//!
//! ```text
//! 0            index end                                    length
//! | metadata ..|..| content in the order of first access ....|
//! | read by open  | fetched by chunks of 1 MiB, each absent, loading, present or failed
//! ```
//!
//! A copy takes memory; the budget bounds it before anything is copied.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use quell_image::OpenError;
use quell_image::frames::Frames;
use rustix::fs::{MemfdFlags, Stat};
use rustix::io::Errno;

use crate::budget::MemoryBudget;
use crate::error::{ImageError, OsError};
use crate::fetcher::{DAMAGED, Fetcher, FileForm, ImageFile, Scratch, frames_in, opened_again};
use crate::progress::{Progress, Word};
use crate::sharing::{PeersTask, start};
use crate::sys::mapping::Mapping;
use crate::sys::process::SingleThreaded;
use crate::witness::{KnownTime, Witness};

/// The bytes of an image, shared by its reader and by the threads that fetch them.
#[derive(Debug, Clone)]
pub(crate) struct SharedImage(pub(crate) Arc<Memory>);

impl AsRef<[u8]> for SharedImage {
    fn as_ref(&self) -> &[u8] {
        self.0.mapping.as_ref()
    }
}

/// Keeps other threads out of a [`Memory`]'s locks.
#[derive(Debug)]
pub(crate) struct Paused<'m> {
    _looking: Option<MutexGuard<'m, KnownTime>>,
}

/// Memory that holds an image, or will.
#[derive(Debug)]
pub(crate) struct Memory {
    mapping: Mapping,
    fetcher: Option<Fetcher>,
    /// Of a file that is mapped.
    witness: Option<Witness>,
}

impl Memory {
    /// The bytes of an image's file on this node, as they are.
    pub(crate) fn mapped(file: OwnedFd, stat: &Stat) -> Result<Self, Errno> {
        let length = usize::try_from(stat.st_size).map_err(|_| Errno::FBIG)?;
        let mapping = Mapping::of(file.as_fd(), length)?;
        Ok(Self { mapping, fetcher: None, witness: Some(Witness::new(file, stat)) })
    }

    /// Memory for an image whose file is copied.
    pub(crate) fn to_be_fetched(
        file: OwnedFd,
        length: u64,
        budget: MemoryBudget,
    ) -> Result<Self, ImageError> {
        Self::to_be_copied(ImageFile::Open(file), FileForm::Plain, (length, CHUNK), (0, budget))
    }

    /// Memory for an image whose file comes from other nodes of the job too: `file` need not be open for reading.
    ///
    /// **Errors** [`ImageError::Memory`], and what makes it impossible to have peers.
    pub(crate) fn to_be_shared(
        file: OwnedFd,
        stat: &Stat,
        budget: MemoryBudget,
        (peers, alone): (&PeersTask, &SingleThreaded),
    ) -> Result<Self, ImageError> {
        let unreadable = |errno| ImageError::Unreadable(OsError(errno));
        let length = stat.st_size.cast_unsigned();
        budget.verify(length)?;
        let (memory, progress) = new_memory(length, CHUNK).map_err(unreadable)?;
        let peers = start((file.as_fd(), stat), (&memory, &progress), peers, alone).map_err(unreadable)?;
        peers.await_chunk(&progress, 0);
        // A node that peers do not help reads the file from here on, and opens it once.
        let file = match progress.number(Word::FromPeers) {
            0 => ImageFile::Open(opened_again(&file).map_err(unreadable)?),
            _ => ImageFile::Found(file),
        };
        let fetcher = Fetcher { peers: Some(peers), ..Fetcher::new(file, FileForm::Plain, memory, progress) };
        let read = &mut |at, into: &mut [u8]| fetcher.read_memory(at, into);
        match frames_in(length, read)? {
            Some(frames) => {
                let memory = (frames.length(), frames.frame_bytes());
                let file = ImageFile::Copied(Box::new(fetcher));
                Self::to_be_copied(file, FileForm::Frames(frames), memory, (length, budget))
            }
            None => Self::of(fetcher),
        }
    }

    /// Memory for an image whose file is decompressed.
    pub(crate) fn to_be_decompressed(
        file: OwnedFd,
        frames: Frames,
        budget: MemoryBudget,
    ) -> Result<Self, ImageError> {
        let (length, chunk) = (frames.length(), frames.frame_bytes());
        Self::to_be_copied(ImageFile::Open(file), FileForm::Frames(frames), (length, chunk), (0, budget))
    }

    /// `taken` bytes of the budget are in use already.
    fn to_be_copied(
        file: ImageFile,
        form: FileForm,
        (length, chunk): (u64, usize),
        (taken, budget): (u64, MemoryBudget),
    ) -> Result<Self, ImageError> {
        budget.verify(length.saturating_add(taken))?;
        let (memory, progress) =
            new_memory(length, chunk).map_err(|errno| ImageError::Unreadable(OsError(errno)))?;
        Self::of(Fetcher::new(file, form, memory, progress))
    }

    fn of(fetcher: Fetcher) -> Result<Self, ImageError> {
        let mapping = Mapping::of(fetcher.memory.as_fd(), fetcher.progress.length)
            .map_err(|errno| ImageError::Unreadable(OsError(errno)))?;
        Ok(Self { mapping, fetcher: Some(fetcher), witness: None })
    }

    /// All of the image's bytes, which have arrived if [`Self::copy_all`] said so.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.mapping.as_ref()
    }

    /// Copies everything, with as many threads as the process may use.
    ///
    /// **Errors** What the first chunk that failed gave.
    pub(crate) fn copy_all(&self) -> Result<(), ImageError> {
        std::thread::scope(|scope| {
            for _ in 1..self.fetchers() {
                scope.spawn(|| self.fetch_all());
            }
            self.fetch_all();
        });
        self.ensure_range(0, self.bytes().len()).map_err(|errno| self.failure(errno))
    }

    /// The number of threads for [`Self::fetch_all`]: enough for a network's round trips to overlap, or the processors that may
    /// decompress. 0 if there is nothing to fetch.
    pub(crate) fn fetchers(&self) -> usize {
        match self.fetcher.as_ref().map(|fetcher| &fetcher.form) {
            None => 0,
            Some(FileForm::Plain) => FETCHERS,
            Some(FileForm::Frames(_)) => {
                std::thread::available_parallelism().map_or(1, usize::from).min(DECOMPRESSORS_MAX)
            }
        }
    }

    /// Bytes that are copied before the index is looked for.
    pub(crate) fn first_fetch(&self) -> usize {
        match self.fetcher.as_ref().map(|fetcher| &fetcher.form) {
            Some(FileForm::Frames(_)) => CHUNK,
            _ => FIRST_FETCH,
        }
    }

    /// The error that `errno` of [`Self::ensure_range`] means.
    pub(crate) fn failure(&self, errno: Errno) -> ImageError {
        let failed = |fetcher: &Fetcher| {
            let compressed = matches!(fetcher.form, FileForm::Frames(_)) && errno == DAMAGED;
            fetcher.progress.first_failed().filter(|_| compressed)
        };
        match self.fetcher.as_ref().and_then(failed) {
            Some(number) => OpenError::Frame { number }.into(),
            None => ImageError::Unreadable(OsError(errno)),
        }
    }

    /// Tells whether the image can be answered from. `is_intact` looks at all of it.
    pub(crate) fn is_sound(&self, is_intact: impl FnOnce() -> bool) -> bool {
        self.witness.as_ref().is_none_or(|witness| witness.is_sound(is_intact))
    }

    /// Makes sure that `part`, a slice of this memory, can be read. Returns at once when it has arrived.
    ///
    /// **Errors** The error of reading the image's file: the part is then not available from the image.
    pub(crate) fn ensure(&self, part: &[u8]) -> Result<(), Errno> {
        self.ensure_range(self.offset_of(part), part.len())
    }

    /// Tells whether `part`, a slice of this memory, has arrived.
    pub(crate) fn is_present(&self, part: &[u8]) -> bool {
        let Some(fetcher) = &self.fetcher else {
            return true;
        };
        let progress = &fetcher.progress;
        progress.chunks_of(self.offset_of(part), part.len()).all(|chunk| progress.is_present(chunk))
    }

    /// Brings `part`, a slice of this memory that has arrived, into this process before the kernel copies it for an
    /// answer. If the kernel had to fetch a page meanwhile, and we were killed then, it would answer with `EIO`.
    ///
    /// **Errors** `EFAULT` when the image's file is shorter than it was: the original is still there.
    pub(crate) fn bring_in(&self, part: &[u8]) -> Result<(), Errno> {
        match self.mapping.bring_in(self.offset_of(part), part.len()) {
            Err(Errno::FAULT) => Err(Errno::FAULT),
            // A kernel that cannot be asked for it.
            Err(_) => {
                part.chunks(SMALLEST_PAGE).for_each(|page| _ = std::hint::black_box(page.first().copied()));
                std::hint::black_box(part.last().copied());
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn offset_of(&self, part: &[u8]) -> usize {
        part.as_ptr().addr().wrapping_sub(self.mapping.as_ref().as_ptr().addr())
    }

    pub(crate) fn ensure_range(&self, start: usize, length: usize) -> Result<(), Errno> {
        let Some(fetcher) = &self.fetcher else {
            return Ok(());
        };
        let mut scratch = Scratch::default();
        let mut chunks = fetcher.progress.chunks_of(start, length);
        chunks.try_for_each(|chunk| fetcher.ensure(chunk, &mut scratch))
    }

    /// Fetches everything that has not arrived; several threads may do so together. Returns when all chunks are
    /// taken.
    pub(crate) fn fetch_all(&self) {
        let Some(fetcher) = &self.fetcher else {
            return;
        };
        let mut scratch = Scratch::default();
        loop {
            let chunk = fetcher.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= fetcher.progress.chunks() {
                return;
            }
            fetcher.leave_to_peers(chunk);
            // A chunk that fails is noted as failed; a request that needs it turns to the original.
            let _noted = fetcher.fetch_if_absent(chunk, &mut scratch);
        }
    }

    /// Length of the image's file.
    pub(crate) fn file_bytes(&self) -> u64 {
        match self.fetcher.as_ref().map(|fetcher| &fetcher.form) {
            Some(FileForm::Frames(frames)) => frames.file_bytes(),
            Some(FileForm::Plain) | None => self.bytes().len() as u64,
        }
    }

    /// Bytes of memory that the image takes once all of it is copied; 0 for one that is mapped.
    pub(crate) fn bytes_to_copy(&self) -> u64 {
        self.fetcher.as_ref().map_or(0, |fetcher| fetcher.progress.length as u64)
    }

    /// Bytes that were copied so far.
    pub(crate) fn bytes_fetched(&self) -> u64 {
        self.fetcher.as_ref().map_or(0, |fetcher| fetcher.progress.number(Word::Fetched))
    }

    /// Bytes of the image's file that came from other nodes so far.
    pub(crate) fn bytes_from_peers(&self) -> u64 {
        self.fetcher.as_ref().map_or(0, Fetcher::bytes_from_peers)
    }

    /// Before a new server's threads begin: chunks that a dead server was fetching have to be fetched again.
    pub(crate) fn take_over(&self) {
        self.fetcher.iter().for_each(Fetcher::give_up_loading);
    }

    /// Holds all locks of the shared state, so that a process that is forked meanwhile can use it.
    pub(crate) fn pause(&self) -> Paused<'_> {
        Paused { _looking: self.witness.as_ref().map(Witness::pause) }
    }

    /// The descriptors that are still needed, for a process that closes all others.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.fetcher
            .iter()
            .flat_map(Fetcher::descriptors)
            .chain(self.witness.iter().map(Witness::descriptor))
            .collect()
    }
}

/// Empty memory of this length.
fn new_memory(length: u64, chunk: usize) -> Result<(OwnedFd, Progress), Errno> {
    let memory = rustix::fs::memfd_create("quell-image", MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&memory, length)?;
    let length = usize::try_from(length).map_err(|_| Errno::FBIG)?;
    Ok((memory, Progress::new(length, chunk)?))
}

/// Unit of fetching. Larger ones delay the first answer, smaller ones cost round trips; 1 MiB is what network file
/// systems like to be asked for.
const CHUNK: usize = 1 << 20;

/// Threads that fetch an image from a network file system: enough for its round trips to overlap.
const FETCHERS: usize = 4;

/// Most threads that decompress. Each makes several hundred MB a second; more would take cores from the program that
/// starts.
const DECOMPRESSORS_MAX: usize = 8;

/// No machine that quell is built for has smaller pages.
const SMALLEST_PAGE: usize = 4096;

/// Bytes that are read before the index is looked for: the metadata of about 20 000 nodes.
const FIRST_FETCH: usize = 4 * CHUNK;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::FAILURES_MAX;
    use std::io::Write;

    fn fetched(content: &[u8]) -> Memory {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        Memory::to_be_fetched(file.into(), content.len() as u64, MemoryBudget::Available).unwrap()
    }

    fn file_of(memory: &Memory) -> &OwnedFd {
        let Some(Fetcher { file: ImageFile::Open(file), .. }) = &memory.fetcher else { unreachable!() };
        file
    }

    #[test]
    fn a_part_is_there_after_it_was_asked_for() {
        let content: Vec<u8> = (0..3 * CHUNK + 17).map(|byte| (byte / 4099) as u8).collect();
        let memory = fetched(&content);
        let part = &memory.mapping.as_ref()[2 * CHUNK - 5..2 * CHUNK + 5];
        memory.ensure(part).unwrap();
        assert_eq!(part, &content[2 * CHUNK - 5..2 * CHUNK + 5]);
        assert_eq!(memory.bytes_fetched(), 2 * CHUNK as u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| memory.fetch_all());
            }
            memory.ensure(memory.mapping.as_ref()).unwrap();
        });
        assert_eq!(memory.mapping.as_ref(), content);
        assert_eq!(memory.bytes_fetched(), content.len() as u64);
    }

    #[test]
    fn a_file_that_was_cut_short_is_an_error_not_zeros() {
        let memory = fetched(&[1; CHUNK]);
        rustix::fs::ftruncate(file_of(&memory), 10).unwrap();
        assert_eq!(memory.ensure(memory.mapping.as_ref()), Err(Errno::IO));
        assert_eq!(memory.ensure(memory.mapping.as_ref()), Err(Errno::IO));
    }

    #[test]
    fn what_could_not_be_read_is_read_at_the_next_demand() {
        for (failures, then) in [(FAILURES_MAX - 1, Ok(())), (FAILURES_MAX, Err(Errno::IO))] {
            let memory = fetched(&[1; CHUNK]);
            let all = memory.mapping.as_ref();
            let file = file_of(&memory);
            rustix::fs::ftruncate(file, 10).unwrap();
            for _ in 0..failures {
                assert_eq!(memory.ensure(all), Err(Errno::IO));
                assert!(!memory.is_present(all));
            }
            rustix::io::pwrite(file, &[1; CHUNK], 0).unwrap();
            assert_eq!(memory.ensure(all), then, "{failures}");
            assert_eq!(memory.is_present(all), then.is_ok());
        }
    }
}
