//! Copies an image from its file into memory, chunk by chunk.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use quell_image::frames::{Decompressor, Frames};
use rustix::io::Errno;

use crate::sys::shared::SharedMemory;

/// The content of the image's file.
#[derive(Debug)]
pub(crate) enum FileForm {
    /// The image.
    Plain,
    /// The image compressed, a frame for each chunk.
    Frames(Frames),
}

/// Copies an image from its file into memory, chunk by chunk, in any order.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) file: OwnedFd,
    pub(crate) form: FileForm,
    pub(crate) memory: OwnedFd,
    pub(crate) length: usize,
    /// Bytes of each chunk but the last.
    pub(crate) chunk: usize,
    /// Shared with the server's successors: bytes fetched so far, then the state of each chunk: [`ABSENT`],
    /// [`LOADING`], [`PRESENT`] or [`FAILED`], and how often it could not be read in units of [`ONCE`].
    pub(crate) progress: SharedMemory,
    /// The first chunk that no prefetching thread has taken.
    pub(crate) next: AtomicUsize,
    pub(crate) waiting: Mutex<()>,
    pub(crate) arrived: Condvar,
}

/// Memory that a thread reuses from chunk to chunk.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    plain: Vec<u8>,
    compressed: Vec<u8>,
    decompressor: Option<Decompressor>,
}

impl Fetcher {
    /// The chunks in which `length` bytes from `start` lie.
    pub(crate) fn chunks_of(&self, start: usize, length: usize) -> std::ops::Range<usize> {
        if length == 0 { 0..0 } else { start / self.chunk..(start + length).div_ceil(self.chunk) }
    }

    pub(crate) fn chunks(&self) -> usize {
        self.length.div_ceil(self.chunk)
    }

    pub(crate) fn state(&self, chunk: usize) -> Result<&AtomicU64, Errno> {
        if chunk < self.chunks() { Ok(self.progress.word(8 * (1 + chunk))) } else { Err(Errno::FAULT) }
    }

    /// Tells whether a chunk has arrived.
    pub(crate) fn is_present(&self, chunk: usize) -> bool {
        self.state(chunk).is_ok_and(|state| stage(state.load(Ordering::Acquire)) == PRESENT)
    }

    /// The first chunk that could not be fetched.
    pub(crate) fn first_failed(&self) -> Option<usize> {
        let failed = |state: &AtomicU64| stage(state.load(Ordering::Acquire)) == FAILED;
        (0..self.chunks()).find(|chunk| self.state(*chunk).is_ok_and(failed))
    }

    /// Gives up the chunks that a dead server was fetching: they have to be fetched again.
    pub(crate) fn give_up_loading(&self) {
        for state in (0..self.chunks()).filter_map(|chunk| self.state(chunk).ok()) {
            let _in_any_other_state_it_stays =
                advance(state, |now| (stage(now) == LOADING).then(|| now - LOADING + ABSENT));
        }
    }

    pub(crate) fn fetched(&self) -> &AtomicU64 {
        self.progress.word(0)
    }

    pub(crate) fn ensure(&self, chunk: usize) -> Result<(), Errno> {
        let state = self.state(chunk)?;
        if stage(state.load(Ordering::Acquire)) == PRESENT {
            return Ok(());
        }
        // A read that failed may succeed the next time.
        let _in_any_other_state_it_stays =
            advance(state, |now| may_be_read_again(now).then(|| now - FAILED + ABSENT));
        self.fetch_if_absent(chunk, &mut Scratch::default())?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match stage(state.load(Ordering::Acquire)) {
                PRESENT => return Ok(()),
                FAILED => return Err(Errno::IO),
                _ => waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Fetches the chunk unless another thread has, or is about to.
    pub(crate) fn fetch_if_absent(&self, chunk: usize, scratch: &mut Scratch) -> Result<(), Errno> {
        let state = self.state(chunk)?;
        let begin = |now| (stage(now) == ABSENT).then(|| now - ABSENT + LOADING);
        let Ok(before) = advance(state, begin) else {
            return Ok(());
        };
        let outcome = self.copy(chunk, scratch);
        let reached = match outcome {
            Ok(()) => PRESENT,
            Err(DAMAGED) => FAILED + FAILURES_MAX * ONCE,
            Err(_) => FAILED + before - ABSENT + ONCE,
        };
        {
            let _waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            state.store(reached, Ordering::Release);
        }
        self.arrived.notify_all();
        outcome
    }

    fn copy(&self, chunk: usize, scratch: &mut Scratch) -> Result<(), Errno> {
        let start = chunk * self.chunk;
        scratch.plain.resize(self.chunk.min(self.length - start), 0);
        match &self.form {
            FileForm::Plain => read_exact_at(&self.file, start as u64, &mut scratch.plain)?,
            FileForm::Frames(frames) => self.decompress(frames, chunk, scratch)?,
        }
        let mut written = 0;
        while written < scratch.plain.len() {
            let rest = &scratch.plain[written..];
            written += rustix::io::pwrite(&self.memory, rest, (start + written) as u64)?;
        }
        self.fetched().fetch_add(written as u64, Ordering::Relaxed);
        Ok(())
    }

    fn decompress(&self, frames: &Frames, chunk: usize, scratch: &mut Scratch) -> Result<(), Errno> {
        let (at, bytes) = frames.place(chunk).ok_or(Errno::FAULT)?;
        scratch.compressed.resize(bytes, 0);
        read_exact_at(&self.file, at, &mut scratch.compressed)?;
        let decompressor = match &mut scratch.decompressor {
            Some(decompressor) => decompressor,
            none => none.insert(Decompressor::new().map_err(|_| Errno::NOMEM)?),
        };
        decompressor.frame(chunk, &scratch.compressed, &mut scratch.plain).map_err(|_| DAMAGED)
    }
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

const ABSENT: u64 = 0;
const LOADING: u64 = 1;
const PRESENT: u64 = 2;
const FAILED: u64 = 3;

/// A failed read, in the state of its chunk.
const ONCE: u64 = 1 << 8;

/// Failed reads after which a chunk is not read again: a server that does not come back must not cost one for each demand.
pub(crate) const FAILURES_MAX: u64 = 100;

/// The state of a chunk without the number of its failures.
fn stage(state: u64) -> u64 {
    state % ONCE
}

fn may_be_read_again(state: u64) -> bool {
    stage(state) == FAILED && state / ONCE < FAILURES_MAX
}

/// Moves a chunk to the state that `next` names. Returns the state before, or as an error the state in which it stays.
fn advance(state: &AtomicU64, next: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
    state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
}
