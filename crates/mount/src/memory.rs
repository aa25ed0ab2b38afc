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
//! A copy takes memory; the budget bounds it before anything is copied. A chunk of which the kernel has every byte in its own
//! cache is dismissed: its memory is freed. If the kernel drops its cache and asks again, the chunk is fetched again, and stays.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::Duration;

use quell_image::OpenError;
use quell_image::frames::Frames;
use rustix::fs::{MemfdFlags, Stat};
use rustix::io::Errno;

use crate::ahead::RegionUse;
use crate::budget::MemoryBudget;
use crate::error::{ImageError, OsError};
use crate::fetcher::{
    DAMAGED, FetchBuffers, Fetcher, FileForm, ImageFile, frames_in, opened_again, version_in,
};
use crate::notes::NoteBoard;
use crate::progress::{Progress, Word};
use crate::sharing::{PeersTask, start};
use crate::stats::ImageStats;
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
    regions: RegionUse,
    /// Bytes from the start, with metadata and index among them, that are never dismissed.
    front: AtomicUsize,
}

/// A part of an image that has arrived, and stays as long as this value.
#[derive(Debug)]
pub(crate) struct HeldPart<'m> {
    bytes: &'m [u8],
    memory: &'m Memory,
}

impl std::ops::Deref for HeldPart<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl HeldPart<'_> {
    /// The kernel has these bytes in its cache now.
    pub(crate) fn give_to_kernel(self) {
        self.memory.note_given(self.bytes);
    }
}

impl Drop for HeldPart<'_> {
    fn drop(&mut self) {
        if let Some(fetcher) = &self.memory.fetcher {
            let chunks = fetcher.progress.chunks_of(self.memory.offset_of(self.bytes), self.bytes.len());
            chunks.for_each(|chunk| fetcher.progress.let_go(chunk));
        }
    }
}

impl Memory {
    /// The bytes of an image's file on this node, as they are.
    pub(crate) fn mapped(file: OwnedFd, stat: &Stat) -> Result<Self, Errno> {
        let length = usize::try_from(stat.st_size).map_err(|_| Errno::FBIG)?;
        let mapping = Mapping::of(file.as_fd(), length)?;
        Ok(Self {
            mapping,
            fetcher: None,
            witness: Some(Witness::new(file, stat)),
            regions: RegionUse::new(length, stat.st_dev),
            front: AtomicUsize::new(0),
        })
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
            _ => ImageFile::Found { found: file, opened: OnceLock::new() },
        };
        let version = Some(version_in(stat));
        let fetcher =
            Fetcher { peers: Some(peers), version, ..Fetcher::new(file, FileForm::Plain, memory, progress) };
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
        let (witness, regions, front) = (None, RegionUse::new(0, 0), AtomicUsize::new(usize::MAX));
        Ok(Self { mapping, fetcher: Some(fetcher), witness, regions, front })
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

    /// Bytes from `start` on are content, which is read through [`HeldPart`] alone.
    pub(crate) fn content_begins(&self, start: usize) {
        self.front.store(start, Ordering::Release);
    }

    /// Waits until `part`, a slice of this memory, has arrived.
    ///
    /// **Errors** The error of reading the image's file: the part is then not available from the image.
    pub(crate) fn hold<'m>(&'m self, part: &'m [u8]) -> Result<HeldPart<'m>, Errno> {
        let held = self.reserve(part);
        self.ensure_range(self.offset_of(part), part.len())?;
        Ok(held)
    }

    /// The same if `part` has arrived.
    pub(crate) fn hold_present<'m>(&'m self, part: &'m [u8]) -> Option<HeldPart<'m>> {
        let held = self.reserve(part);
        self.is_present(part).then_some(held)
    }

    /// Keeps the chunks of a part from being dismissed from here on.
    fn reserve<'m>(&'m self, part: &'m [u8]) -> HeldPart<'m> {
        if let Some(witness) = &self.witness {
            self.regions.about_to_use(witness.file(), self.offset_of(part), part.len());
        }
        if let Some(fetcher) = &self.fetcher {
            let chunks = fetcher.progress.chunks_of(self.offset_of(part), part.len());
            chunks.for_each(|chunk| fetcher.progress.hold(chunk));
        }
        HeldPart { bytes: part, memory: self }
    }

    fn note_given(&self, part: &[u8]) {
        let Some(fetcher) = &self.fetcher else { return };
        let (progress, start) = (&fetcher.progress, self.offset_of(part));
        // The kernel never asks for the rest of a file's last block.
        let end = (start + part.len()).next_multiple_of(SMALLEST_PAGE);
        for chunk in progress.chunks_of(start, part.len()) {
            let first = chunk * progress.chunk;
            if first >= self.front.load(Ordering::Acquire) {
                progress.give(chunk, end.min(first + progress.bytes_of(chunk)) - start.max(first));
            }
        }
    }

    /// Frees memory of which the kernel has the content, as long as the process lives.
    ///
    /// The thread must have a tenure: a hole that a killed thread makes after the next server has fetched the chunk would stay.
    /// Other nodes may need the chunks until the process that talks with them is gone. A node that peers gave all of them keeps them: they
    /// take the place of the file in the kernel's cache, and an operation of the file system would be needed to have them again.
    pub(crate) fn dismiss_given(&self) {
        let Some(fetcher) = self.fetcher.as_ref() else { return };
        while fetcher.peers.as_ref().is_some_and(|peers| !peers.are_gone()) {
            std::thread::sleep(PEERS_PAUSE);
        }
        if !fetcher.can_read_again() {
            return;
        }
        loop {
            let news = fetcher.progress.news();
            fetcher.dismiss_given();
            // Those that a thread reads are tried again.
            let pause = (fetcher.progress.number(Word::Given) > 0).then_some(HELD_PAUSE);
            fetcher.progress.wait(news, pause);
        }
    }

    /// Tells whether `part`, a slice of this memory, has arrived.
    fn is_present(&self, part: &[u8]) -> bool {
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
        let mut buffers = FetchBuffers::default();
        let mut chunks = fetcher.progress.chunks_of(start, length);
        chunks.try_for_each(|chunk| fetcher.ensure(chunk, &mut buffers))
    }

    /// Fetches everything that has not arrived; several threads may do so together. Returns when all chunks are
    /// taken.
    pub(crate) fn fetch_all(&self) {
        let Some(fetcher) = &self.fetcher else {
            return;
        };
        let mut buffers = FetchBuffers::default();
        loop {
            let chunk = fetcher.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= fetcher.progress.chunks() {
                return;
            }
            if fetcher.progress.was_dismissed(chunk) {
                continue;
            }
            fetcher.leave_to_peers(chunk);
            // A chunk that fails is noted as failed; a request that needs it turns to the original.
            let _noted = fetcher.fetch_if_absent(chunk, &mut buffers);
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

    /// The statistics of the image's bytes so far.
    pub(crate) fn stats(&self) -> ImageStats {
        let peers = |word| self.fetcher.as_ref().map_or(0, |fetcher| fetcher.peers_number(word));
        ImageStats {
            bytes_fetched: self.bytes_fetched(),
            bytes_from_peers: peers(Word::FromPeers),
            bytes_to_peers: peers(Word::ToPeers),
            peers_left: peers(Word::Left),
            peers_waited_ms: peers(Word::Waited) / 1000,
            file_bytes: self.file_bytes(),
            ..ImageStats::default()
        }
    }

    /// The place of notes for other nodes, if a process of this node talks with them.
    pub(crate) fn note_board(&self) -> Option<NoteBoard<'_>> {
        self.fetcher.as_ref()?.note_board()
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

/// From one look at the process that talks with other nodes to the next.
const PEERS_PAUSE: Duration = Duration::from_secs(1);

/// The pause after which a chunk that a thread read is tried again.
const HELD_PAUSE: Duration = Duration::from_millis(10);

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
        _ = memory.hold(part).unwrap();
        assert_eq!(part, &content[2 * CHUNK - 5..2 * CHUNK + 5]);
        assert_eq!(memory.bytes_fetched(), 2 * CHUNK as u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| memory.fetch_all());
            }
            _ = memory.hold(memory.mapping.as_ref()).unwrap();
        });
        assert_eq!(memory.mapping.as_ref(), content);
        assert_eq!(memory.bytes_fetched(), content.len() as u64);
    }

    fn memory_of(memory: &Memory) -> u64 {
        let Some(fetcher) = &memory.fetcher else { unreachable!() };
        rustix::fs::fstat(&fetcher.memory).unwrap().st_blocks.cast_unsigned() * 512
    }

    fn dismiss(memory: &Memory) {
        memory.fetcher.iter().for_each(Fetcher::dismiss_given);
    }

    #[test]
    fn chunks_that_the_kernel_has_are_dismissed_once_and_read_again() {
        let content: Vec<u8> = (0..3 * CHUNK + 17).map(|byte| (byte / 4099) as u8).collect();
        let memory = fetched(&content);
        memory.content_begins(CHUNK);
        memory.fetch_all();
        let all = memory.mapping.as_ref();
        let kept = memory.hold(&all[2 * CHUNK..2 * CHUNK + 1]).unwrap();
        for _ in 0..2 {
            for part in [0..CHUNK + 9 * 4096, CHUNK + 9 * 4096..2 * CHUNK + 4096, 2 * CHUNK + 4096..all.len()]
            {
                let held = memory.hold(&all[part.clone()]).unwrap();
                assert!(*held == content[part]);
                held.give_to_kernel();
            }
            dismiss(&memory);
            // The second time they stay. The chunk that is held stays as well, and metadata.
            assert!(memory_of(&memory) >= 2 * CHUNK as u64);
        }
        assert_eq!(memory.bytes_fetched(), (content.len() + CHUNK + 17) as u64);
        drop(kept);
        dismiss(&memory);
        assert_eq!(memory_of(&memory), 2 * CHUNK as u64 + 4096);
        assert!(memory.hold_present(&all[2 * CHUNK..3 * CHUNK]).is_none());
        // Its bytes would not fit those that the kernel has.
        std::thread::sleep(std::time::Duration::from_millis(20));
        rustix::io::pwrite(file_of(&memory), b"new", 0).unwrap();
        assert_eq!(memory.hold(&all[2 * CHUNK..3 * CHUNK]).err(), Some(DAMAGED));
    }

    #[test]
    fn threads_that_read_while_others_dismiss_see_the_content() {
        let content: Vec<u8> = (0..64 * 4096_usize).map(|byte| (byte / 4099 + 1) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        for _ in 0..200 {
            let file = ImageFile::Open(file.try_clone().unwrap().into());
            let (copy, progress) = new_memory(content.len() as u64, 4096).unwrap();
            let memory = Memory::of(Fetcher::new(file, FileForm::Plain, copy, progress)).unwrap();
            memory.content_begins(0);
            let read_all = &|first: usize| {
                for page in (0..64).map(|page| (page + first) % 64 * 4096) {
                    let held = memory.hold(&memory.mapping.as_ref()[page..page + 4096]).unwrap();
                    assert!(*held == content[page..page + 4096], "{page}");
                    held.give_to_kernel();
                    dismiss(&memory);
                }
            };
            std::thread::scope(|scope| (0..4).for_each(|first| _ = scope.spawn(move || read_all(first))));
        }
    }

    #[test]
    fn a_file_that_was_cut_short_is_an_error_not_zeros() {
        let memory = fetched(&[1; CHUNK]);
        rustix::fs::ftruncate(file_of(&memory), 10).unwrap();
        assert_eq!(memory.hold(memory.mapping.as_ref()).err(), Some(Errno::IO));
        assert_eq!(memory.hold(memory.mapping.as_ref()).err(), Some(Errno::IO));
    }

    #[test]
    fn what_could_not_be_read_is_read_at_the_next_demand() {
        for (failures, then) in [(FAILURES_MAX - 1, None), (FAILURES_MAX, Some(Errno::IO))] {
            let memory = fetched(&[1; CHUNK]);
            let all = memory.mapping.as_ref();
            let file = file_of(&memory);
            rustix::fs::ftruncate(file, 10).unwrap();
            for _ in 0..failures {
                assert_eq!(memory.hold(all).err(), Some(Errno::IO));
                assert!(!memory.is_present(all));
            }
            rustix::io::pwrite(file, &[1; CHUNK], 0).unwrap();
            assert_eq!(memory.hold(all).err(), then, "{failures}");
            assert_eq!(memory.is_present(all), then.is_none());
        }
    }
}
