//! Copies an image from its file into memory, chunk by chunk.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicUsize;

use quell_image::frames::{self, Decompressor, Frames};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{ImageError, OsError};
use crate::peers::Peers;
use crate::progress::{Ended, FAILED, PRESENT, Progress, Word};

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
    /// It was found, and is opened only to be read: peers may bring all of it.
    Found(OwnedFd),
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
}

/// Memory that a thread reuses from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    plain: Vec<u8>,
    compressed: Vec<u8>,
    decompressor: Option<Decompressor>,
    /// The file, where this thread has opened it.
    opened: Option<OwnedFd>,
}

impl Fetcher {
    /// Nothing of the file is in `memory` yet.
    pub(crate) fn new(file: ImageFile, form: FileForm, memory: OwnedFd, progress: Progress) -> Self {
        Self { file, form, memory, progress, next: AtomicUsize::new(0), peers: None }
    }

    /// Gives up the chunks that a dead server was fetching: they have to be fetched again.
    pub(crate) fn give_up_loading(&self) {
        self.progress.give_up_loading();
        if let ImageFile::Copied(file) = &self.file {
            file.give_up_loading();
        }
    }

    /// Bytes of the file that came from other nodes so far.
    pub(crate) fn bytes_from_peers(&self) -> u64 {
        match &self.file {
            ImageFile::Copied(file) => file.bytes_from_peers(),
            ImageFile::Open(_) | ImageFile::Found(_) => self.progress.number(Word::FromPeers),
        }
    }

    /// The descriptors that are still needed.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let mut descriptors = match &self.file {
            ImageFile::Open(file) | ImageFile::Found(file) => vec![file.as_raw_fd()],
            ImageFile::Copied(file) => file.descriptors(),
        };
        descriptors.push(self.memory.as_raw_fd());
        descriptors.extend(self.peers.iter().map(Peers::descriptor));
        descriptors
    }

    /// Makes sure that a chunk is in memory, for a program that waits for it.
    pub(crate) fn ensure(&self, chunk: usize, scratch: &mut Scratch) -> Result<(), Errno> {
        if self.progress.stage(chunk)? == PRESENT {
            return Ok(());
        }
        self.progress.forget_failure(chunk)?;
        if let Some(peers) = &self.peers {
            peers.await_chunk(&self.progress, chunk);
        }
        let fetched = self.fetch_if_absent(chunk, scratch);
        // Peers may have been faster.
        fetched.or_else(|errno| self.progress.is_present(chunk).then_some(()).ok_or(errno))?;
        loop {
            let news = self.progress.news();
            match self.progress.stage(chunk)? {
                PRESENT => return Ok(()),
                FAILED => return Err(Errno::IO),
                _ => self.progress.wait(news, None),
            }
        }
    }

    /// Fetches the chunk unless another thread has, or is about to.
    pub(crate) fn fetch_if_absent(&self, chunk: usize, scratch: &mut Scratch) -> Result<(), Errno> {
        if !self.progress.begin(chunk)? {
            return Ok(());
        }
        let outcome = self.copy(chunk, scratch);
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

    fn copy(&self, chunk: usize, scratch: &mut Scratch) -> Result<(), Errno> {
        let start = chunk * self.progress.chunk;
        scratch.plain.resize(self.progress.bytes_of(chunk), 0);
        match &self.form {
            FileForm::Plain => {
                let Scratch { plain, opened, .. } = scratch;
                self.read_file(start as u64, plain, opened)?;
            }
            FileForm::Frames(frames) => self.decompress(frames, chunk, scratch)?,
        }
        let mut written = 0;
        while written < scratch.plain.len() {
            let rest = &scratch.plain[written..];
            written += rustix::io::pwrite(&self.memory, rest, (start + written) as u64)?;
        }
        self.progress.count(Word::Fetched, written);
        Ok(())
    }

    fn decompress(&self, frames: &Frames, chunk: usize, scratch: &mut Scratch) -> Result<(), Errno> {
        let (at, bytes) = frames.place(chunk).ok_or(Errno::FAULT)?;
        let Scratch { plain, compressed, decompressor, opened } = scratch;
        compressed.resize(bytes, 0);
        self.read_file(at, compressed, opened)?;
        let decompressor = match decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new().map_err(|_| Errno::NOMEM)?),
        };
        decompressor.frame(chunk, compressed, plain).map_err(|_| DAMAGED)
    }

    /// Fills `into` from the file, which is kept in `opened`.
    fn read_file(&self, at: u64, into: &mut [u8], opened: &mut Option<OwnedFd>) -> Result<(), Errno> {
        match &self.file {
            ImageFile::Copied(file) => file.read_memory(at, into),
            ImageFile::Open(file) => read_exact_at(file, at, into),
            ImageFile::Found(file) => {
                let file = match opened {
                    Some(opened) => opened,
                    none => none.insert(opened_again(file)?),
                };
                read_exact_at(file, at, into)
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
        let mut scratch = Scratch::default();
        for chunk in self.progress.chunks_of(start, into.len()) {
            self.ensure(chunk, &mut scratch)?;
        }
        read_exact_at(&self.memory, at, into)
    }
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
