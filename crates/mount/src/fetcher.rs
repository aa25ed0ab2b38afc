//! Copies an image from its file into memory, chunk by chunk.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use quell_image::frames::{self, Decompressor, Frames};
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{ImageError, OsError};
use crate::notes::NoteBoard;
use crate::peers::Peers;
use crate::progress::{ABSENT, Ended, FAILED, PRESENT, Progress, Word};
use crate::sys::process::has_own_descriptors;

/// The content of the image's file.
#[derive(Debug)]
pub(crate) enum FileForm {
    /// The image.
    Plain,
    /// The image compressed, a frame for each chunk.
    Frames(Frames),
}

/// The image's file.
#[derive(Debug)]
pub(crate) enum ImageFile {
    /// Open for reading.
    Open(OwnedFd),
    /// It was found. It is opened when it must be read, and stays open: peers may bring all of it.
    Found { found: OwnedFd, opened: OnceLock<OwnedFd> },
    /// In memory, as far as it has arrived.
    Copied(Box<Fetcher>),
}

/// Copies an image from its file into memory, chunk by chunk, in any order.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) file: ImageFile,
    pub(crate) form: FileForm,
    pub(crate) memory: OwnedFd,
    pub(crate) progress: Progress,
    /// The first chunk that no prefetching thread has taken.
    pub(crate) next: AtomicUsize,
    /// They bring chunks of a plain form too.
    pub(crate) peers: Option<Peers>,
    /// Size and time of the image's file, if it is open.
    pub(crate) version: Option<FileVersion>,
}

pub(crate) type FileVersion = (i64, (i64, u64));

/// Memory that a thread reuses from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct FetchBuffers {
    plain: Vec<u8>,
    compressed: Vec<u8>,
    decompressor: Option<Decompressor>,
}

impl Fetcher {
    /// Nothing of the file is in `memory` yet.
    pub(crate) fn new(file: ImageFile, form: FileForm, memory: OwnedFd, progress: Progress) -> Self {
        let version = version_of(&file).ok().flatten();
        Self { file, form, memory, progress, next: AtomicUsize::new(0), peers: None, version }
    }

    /// Gives up the chunks that a dead server was fetching: they have to be fetched again.
    pub(crate) fn give_up_loading(&self) {
        self.progress.give_up_loading();
        if let ImageFile::Copied(file) = &self.file {
            file.give_up_loading();
        }
    }

    /// A number about the exchange of parts with other nodes so far.
    pub(crate) fn peers_number(&self, word: Word) -> u64 {
        match &self.file {
            ImageFile::Copied(file) => file.peers_number(word),
            ImageFile::Open(_) | ImageFile::Found { .. } => self.progress.number(word),
        }
    }

    /// The place of notes for other nodes, if there is a process that talks with them.
    pub(crate) fn note_board(&self) -> Option<NoteBoard<'_>> {
        match &self.file {
            ImageFile::Copied(file) => file.note_board(),
            ImageFile::Open(_) | ImageFile::Found { .. } => {
                self.peers.as_ref().map(|peers| NoteBoard::new(&self.progress, peers))
            }
        }
    }

    /// The descriptors that are still needed.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let mut descriptors = match &self.file {
            ImageFile::Open(file) => vec![file.as_raw_fd()],
            ImageFile::Found { found, opened } => {
                std::iter::once(found).chain(opened.get()).map(AsRawFd::as_raw_fd).collect()
            }
            ImageFile::Copied(file) => file.descriptors(),
        };
        descriptors.push(self.memory.as_raw_fd());
        descriptors.extend(self.peers.iter().map(Peers::descriptor));
        descriptors
    }

    /// Makes sure that a chunk is in memory, for a program that waits for it.
    pub(crate) fn ensure(&self, chunk: usize, buffers: &mut FetchBuffers) -> Result<(), Errno> {
        if self.progress.stage(chunk)? == PRESENT {
            return Ok(());
        }
        self.progress.forget_failure(chunk)?;
        if let Some(peers) = &self.peers {
            peers.await_chunk(&self.progress, chunk);
        }
        let mut fetched = self.fetch_if_absent(chunk, buffers);
        loop {
            let news = self.progress.news();
            match self.progress.stage(chunk)? {
                PRESENT => return Ok(()),
                FAILED => break,
                // It was dismissed meanwhile.
                ABSENT => fetched = self.fetch_if_absent(chunk, buffers),
                _ => self.progress.wait(news, None),
            }
        }
        // A file that was replaced can no longer be opened on some file systems. Then peers alone have its content.
        match &self.peers {
            Some(peers) if peers.await_as_last(&self.progress, chunk) => Ok(()),
            _ => Err(fetched.err().unwrap_or(Errno::IO)),
        }
    }

    /// Fetches the chunk unless another thread has, or is about to.
    pub(crate) fn fetch_if_absent(&self, chunk: usize, buffers: &mut FetchBuffers) -> Result<(), Errno> {
        if !self.progress.begin(chunk)? {
            return Ok(());
        }
        let outcome = self.copy(chunk, buffers);
        self.progress.end(
            chunk,
            match outcome {
                Ok(()) => Ended::Present,
                Err(DAMAGED) => Ended::FailedForEver,
                Err(_) => Ended::FailedOnce,
            },
        );
        outcome
    }

    /// True if the file is open: a chunk that is dismissed can be had again.
    pub(crate) fn can_read_again(&self) -> bool {
        match &self.file {
            ImageFile::Open(_) | ImageFile::Copied(_) => true,
            ImageFile::Found { opened, .. } => opened.get().is_some(),
        }
    }

    /// Frees the memory of all chunks that the kernel was given, except those that a thread reads.
    pub(crate) fn dismiss_given(&self) {
        if self.progress.number(Word::Given) > 0 {
            (0..self.progress.chunks()).for_each(|chunk| self.dismiss(chunk));
        }
    }

    /// Frees the memory of a chunk that the kernel has in its cache: if it drops it there, the chunk is fetched again.
    fn dismiss(&self, chunk: usize) {
        if !self.progress.begin_dismissal(chunk) {
            return;
        }
        let (start, bytes) = (chunk * self.progress.chunk, self.progress.bytes_of(chunk));
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If it cannot be done, the memory stays in use.
        _ = rustix::fs::fallocate(&self.memory, hole, start as u64, bytes as u64);
        self.progress.end_dismissal(chunk);
    }

    fn copy(&self, chunk: usize, buffers: &mut FetchBuffers) -> Result<(), Errno> {
        let start = chunk * self.progress.chunk;
        buffers.plain.resize(self.progress.bytes_of(chunk), 0);
        match &self.form {
            FileForm::Plain => {
                let began = Instant::now();
                self.read_file(start as u64, &mut buffers.plain)?;
                if self.peers.is_some() {
                    self.progress.set(Word::FileTakes, began.elapsed().as_micros() as u64);
                }
            }
            FileForm::Frames(frames) => self.decompress(frames, chunk, buffers)?,
        }
        // The kernel has parts of the file as it was.
        if self.progress.was_dismissed(chunk) && version_of(&self.file)? != self.version {
            return Err(DAMAGED);
        }
        // Parts that peers brought meanwhile have been verified.
        if self.progress.is_present(chunk) {
            return Ok(());
        }
        let mut written = 0;
        while written < buffers.plain.len() {
            let rest = &buffers.plain[written..];
            written += rustix::io::pwrite(&self.memory, rest, (start + written) as u64)?;
        }
        Ok(())
    }

    fn decompress(&self, frames: &Frames, chunk: usize, buffers: &mut FetchBuffers) -> Result<(), Errno> {
        let (at, bytes) = frames.place(chunk).ok_or(Errno::FAULT)?;
        let FetchBuffers { plain, compressed, decompressor } = buffers;
        compressed.resize(bytes, 0);
        self.read_file(at, compressed)?;
        let decompressor = match decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new().map_err(|_| Errno::NOMEM)?),
        };
        decompressor.frame(chunk, compressed, plain).map_err(|_| DAMAGED)
    }

    /// Fills `into` from the file.
    fn read_file(&self, at: u64, into: &mut [u8]) -> Result<(), Errno> {
        match &self.file {
            ImageFile::Copied(file) => file.read_memory(at, into),
            ImageFile::Open(file) => read_exact_at(file, at, into),
            ImageFile::Found { found, .. } if has_own_descriptors() => {
                read_exact_at(&opened_again(found)?, at, into)
            }
            ImageFile::Found { found, opened } => {
                if opened.get().is_none() {
                    // Another thread may have opened it meanwhile.
                    _ = opened.set(opened_again(found)?);
                }
                read_exact_at(opened.get().ok_or(Errno::BADF)?, at, into)
            }
        }
    }

    /// Leaves a chunk to peers, before a thread that is ahead of programs takes it. A chunk that is taken keeps programs waiting.
    pub(crate) fn leave_to_peers(&self, chunk: usize) {
        match (&self.file, &self.form) {
            (ImageFile::Copied(file), FileForm::Frames(frames)) => {
                let Some((at, bytes)) = frames.place(chunk) else { return };
                let Ok(start) = usize::try_from(at) else { return };
                file.progress.chunks_of(start, bytes).for_each(|chunk| file.leave_to_peers(chunk));
            }
            _ => {
                if let Some(peers) = &self.peers {
                    peers.leave(&self.progress, || self.progress.is_present(chunk));
                }
            }
        }
    }

    /// Fills `into` from the memory, as soon as that much of it has arrived.
    pub(crate) fn read_memory(&self, at: u64, into: &mut [u8]) -> Result<(), Errno> {
        let start = usize::try_from(at).map_err(|_| Errno::FBIG)?;
        let mut buffers = FetchBuffers::default();
        for chunk in self.progress.chunks_of(start, into.len()) {
            self.ensure(chunk, &mut buffers)?;
        }
        read_exact_at(&self.memory, at, into)
    }
}

/// `None` for a file that is not open.
fn version_of(file: &ImageFile) -> Result<Option<FileVersion>, Errno> {
    let open = match file {
        ImageFile::Open(file) => Some(file),
        ImageFile::Found { opened, .. } => opened.get(),
        ImageFile::Copied(_) => None,
    };
    open.map(|file| Ok(version_in(&rustix::fs::fstat(file)?))).transpose()
}

/// Another name of the file, and changes of its permissions, leave its version as it is.
pub(crate) fn version_in(stat: &Stat) -> FileVersion {
    (stat.st_size, (stat.st_mtime, stat.st_mtime_nsec))
}

/// The file that `found` leads to, open for reading.
pub(crate) fn opened_again(found: &OwnedFd) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/thread-self/fd/{}", found.as_raw_fd());
    rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// The table of frames of a file that `read` reads, if it is compressed.
///
/// **Errors** What reading gave, or a table that contradicts the file.
pub(crate) fn frames_in(
    file_bytes: u64,
    read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), Errno>,
) -> Result<Option<Frames>, ImageError> {
    let mut first = [0; 4];
    match read(0, &mut first) {
        Ok(()) if frames::is_compressed(&first) => {}
        // A file that is shorter is refused with its length in the message.
        Ok(()) | Err(Errno::IO) => return Ok(None),
        Err(errno) => return Err(ImageError::Unreadable(OsError(errno))),
    }
    Frames::read(file_bytes, &mut |at, into| Ok(read(at, into).map_err(OsError)?)).map(Some)
}

/// Fills `into` from `at`.
///
/// **Errors** `EIO` where the file ends before: it was cut short after it was opened.
pub(crate) fn read_exact_at(file: &OwnedFd, at: u64, into: &mut [u8]) -> Result<(), Errno> {
    let mut filled = 0;
    while filled < into.len() {
        match rustix::io::pread(file, &mut into[filled..], at + filled as u64) {
            Ok(0) => return Err(Errno::IO),
            Ok(bytes) => filled += bytes,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The error of a frame that cannot be decompressed.
pub(crate) const DAMAGED: Errno = Errno::BADMSG;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;
    use std::io::Write;

    const CHUNK: usize = 4096;

    fn fetcher() -> Fetcher {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 2 * CHUNK]).unwrap();
        let memory = tempfile::tempfile().unwrap();
        memory.set_len(2 * CHUNK as u64).unwrap();
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let found = rustix::fs::openat(CWD, path, OFlags::PATH, Mode::empty()).unwrap();
        let file = ImageFile::Found { found, opened: OnceLock::new() };
        Fetcher::new(file, FileForm::Plain, memory.into(), Progress::new(2 * CHUNK, CHUNK).unwrap())
    }

    #[test]
    fn bytes_that_came_twice_are_counted_once() {
        let fetcher = fetcher();
        assert!(fetcher.progress.begin(0).unwrap());
        fetcher.progress.receive(0, true);
        fetcher.copy(0, &mut FetchBuffers::default()).unwrap();
        fetcher.progress.end(0, Ended::Present);
        assert_eq!(fetcher.progress.number(Word::Fetched), CHUNK as u64);
        fetcher.fetch_if_absent(1, &mut FetchBuffers::default()).unwrap();
        assert_eq!(fetcher.progress.number(Word::Fetched), 2 * CHUNK as u64);
    }

    #[test]
    fn a_file_that_was_found_is_opened_once() {
        let fetcher = fetcher();
        let found = fetcher.descriptors();
        assert!(!fetcher.can_read_again(), "without another operation of the file system");
        let opened = [0, 1].map(|chunk| {
            fetcher.ensure(chunk, &mut FetchBuffers::default()).unwrap();
            fetcher.descriptors()
        });
        assert_eq!((opened[0].len(), &opened[0]), (found.len() + 1, &opened[1]));
        let ImageFile::Found { found, opened } = &fetcher.file else { unreachable!() };
        let file = |descriptor| fstat(descriptor).map(|stat| (stat.st_dev, stat.st_ino)).unwrap();
        assert_eq!(file(opened.get().unwrap()), file(found));
    }
}
