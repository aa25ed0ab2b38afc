//! The chunks of an image that are in memory, in memory that the server, its successors and peers' process share.
//!
//! ```text
//! words            fetched bytes, news, ... : a [`Word`] each
//! a word a chunk   absent -> (expected ->) loading -> present, or failed and how often
//!                  present -> loading -> absent where it is dismissed
//! a word a chunk   threads that read it now
//! a word a chunk   bytes of it that the kernel was given, or that it was dismissed
//! a bit a chunk    a program waits for it, and peers are to bring it
//! bytes            a note of the rank that compares, for other nodes
//! ```
//!
//! A thread counts itself among a chunk's readers before it looks at the stage. A thread that dismisses the chunk changes the
//! stage before it looks at the readers. So one of them sees the other.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::thread::futex;

use crate::sys::shared::SharedMemory;

/// A number that the processes of an image share.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Word {
    /// Bytes in memory.
    Fetched,
    /// Of these, bytes from other nodes.
    FromPeers,
    /// Changes with each chunk.
    News,
    /// The place that peers' process gets chunks from.
    Source,
    /// Microseconds for which programs waited for peers longer than for the file.
    Waited,
    /// Microseconds that the file system takes for a chunk; 0 if that is not known.
    FileTakes,
    /// The same on the first node.
    FileTakesElsewhere,
    /// 1 if a program has waited in vain, and no chunk has come from another node since.
    Doubt,
    /// Bytes that other nodes got from this one.
    ToPeers,
    /// Other nodes that were left.
    Left,
    /// Chunks of which the kernel was given all, that are still in memory.
    Given,
    /// The stage of the note.
    Note,
    /// One more than its bytes; 0 before any process writes it.
    NoteLength,
    /// The ranks of this node leave no note any more, and wait for none.
    NoteSettled,
}

/// Words before those of the chunks.
const WORDS: usize = 16;

/// Words of the note.
const WORDS_OF_NOTE: usize = 8192;

/// Longest note. Unit: bytes.
pub(crate) const NOTE_MAX: usize = 8 * WORDS_OF_NOTE;

/// Words of each chunk.
const WORDS_OF_CHUNK: usize = 3;

/// In place of the bytes that the kernel was given.
const DISMISSED: u64 = 1 << 62;

/// The stages of a chunk.
pub(crate) const ABSENT: u64 = 0;
/// A thread fetches it, or frees its memory.
pub(crate) const LOADING: u64 = 1;
pub(crate) const PRESENT: u64 = 2;
pub(crate) const FAILED: u64 = 3;
/// Peers' process is about to bring it.
pub(crate) const EXPECTED: u64 = 4;

/// A failed read, in the state of its chunk.
const ONCE: u64 = 1 << 8;

/// Failed reads after which a chunk is not read again: a server that does not come back must not cost one for each demand.
pub(crate) const FAILURES_MAX: u64 = 100;

/// The chunks of an image.
#[derive(Debug)]
pub(crate) struct Progress {
    memory: SharedMemory,
    pub(crate) length: usize,
    /// Bytes of each chunk but the last.
    pub(crate) chunk: usize,
}

impl Progress {
    /// All of `length` bytes are absent.
    pub(crate) fn new(length: usize, chunk: usize) -> Result<Self, Errno> {
        let chunks = length.div_ceil(chunk);
        let words = WORDS + WORDS_OF_CHUNK * chunks + chunks.div_ceil(64) + WORDS_OF_NOTE;
        let memory = SharedMemory::new(8 * words)?;
        Ok(Self { memory, length, chunk })
    }

    /// The chunks in which `length` bytes from `start` lie.
    pub(crate) fn chunks_of(&self, start: usize, length: usize) -> std::ops::Range<usize> {
        if length == 0 { 0..0 } else { start / self.chunk..(start + length).div_ceil(self.chunk) }
    }

    pub(crate) fn chunks(&self) -> usize {
        self.length.div_ceil(self.chunk)
    }

    /// The bytes of a chunk.
    pub(crate) fn bytes_of(&self, chunk: usize) -> usize {
        self.chunk.min(self.length - chunk * self.chunk)
    }

    fn state(&self, chunk: usize) -> Result<&AtomicU64, Errno> {
        if chunk < self.chunks() { Ok(self.word_of(chunk, 0)) } else { Err(Errno::FAULT) }
    }

    fn readers(&self, chunk: usize) -> &AtomicU64 {
        self.word_of(chunk, 1)
    }

    fn given(&self, chunk: usize) -> &AtomicU64 {
        self.word_of(chunk, 2)
    }

    fn word_of(&self, chunk: usize, kind: usize) -> &AtomicU64 {
        self.memory.word(8 * (WORDS + kind * self.chunks() + chunk))
    }

    /// The stage of a chunk.
    pub(crate) fn stage(&self, chunk: usize) -> Result<u64, Errno> {
        self.state(chunk).map(|state| stage(state.load(Ordering::Acquire)))
    }

    /// Tells whether a chunk has arrived.
    pub(crate) fn is_present(&self, chunk: usize) -> bool {
        self.stage(chunk) == Ok(PRESENT)
    }

    /// The first chunk that could not be fetched.
    pub(crate) fn first_failed(&self) -> Option<usize> {
        (0..self.chunks()).find(|chunk| self.stage(*chunk) == Ok(FAILED))
    }

    /// Gives up the chunks that a dead server was fetching: they have to be fetched again. It reads none any more.
    pub(crate) fn give_up_loading(&self) {
        (0..self.chunks()).for_each(|chunk| self.readers(chunk).store(0, Ordering::Release));
        for state in (0..self.chunks()).filter_map(|chunk| self.state(chunk).ok()) {
            let _in_any_other_state_it_stays =
                advance(state, |now| (stage(now) == LOADING).then(|| now - LOADING + ABSENT));
        }
    }

    /// The chunk stays where it is until [`Self::let_go`], once it is present.
    pub(crate) fn hold(&self, chunk: usize) {
        self.readers(chunk).fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    pub(crate) fn let_go(&self, chunk: usize) {
        self.readers(chunk).fetch_sub(1, Ordering::AcqRel);
    }

    /// The kernel was given `bytes` of a chunk.
    pub(crate) fn give(&self, chunk: usize, bytes: usize) {
        let (all, bytes) = (self.bytes_of(chunk) as u64, bytes as u64);
        let before = self.given(chunk).fetch_add(bytes, Ordering::Relaxed);
        if (all.saturating_sub(bytes)..all).contains(&before) {
            self.count(Word::Given, 1);
            self.tell();
        }
    }

    /// Tells whether a chunk was dismissed before. It is not dismissed again: a kernel that needs room would ask for the same
    /// chunk again and again.
    pub(crate) fn was_dismissed(&self, chunk: usize) -> bool {
        self.given(chunk).load(Ordering::Acquire) >= DISMISSED
    }

    /// Takes a chunk away if the kernel was given all of it and no thread reads it. This thread is to free its memory then, and
    /// to call [`Self::end_dismissal`].
    pub(crate) fn begin_dismissal(&self, chunk: usize) -> bool {
        let given = self.given(chunk).load(Ordering::Acquire);
        let Ok(state) = self.state(chunk) else { return false };
        if !(self.bytes_of(chunk) as u64..DISMISSED).contains(&given)
            || advance(state, |now| (now == PRESENT).then_some(LOADING)).is_err()
        {
            return false;
        }
        fence(Ordering::SeqCst);
        let is_free = self.readers(chunk).load(Ordering::Acquire) == 0;
        if is_free {
            self.given(chunk).store(DISMISSED, Ordering::Release);
            self.memory.word(8 * Word::Given as usize).fetch_sub(1, Ordering::Relaxed);
        } else {
            state.store(PRESENT, Ordering::Release);
            self.tell();
        }
        is_free
    }

    pub(crate) fn end_dismissal(&self, chunk: usize) {
        if let Ok(state) = self.state(chunk) {
            state.store(ABSENT, Ordering::Release);
        }
        self.tell();
    }

    /// A read of this chunk that failed may succeed the next time.
    pub(crate) fn forget_failure(&self, chunk: usize) -> Result<(), Errno> {
        let may_be_read_again = |now| stage(now) == FAILED && now / ONCE < FAILURES_MAX;
        let _in_any_other_state_it_stays =
            advance(self.state(chunk)?, |now| may_be_read_again(now).then(|| now - FAILED + ABSENT));
        Ok(())
    }

    /// This thread is to read the chunk, unless it has arrived or another thread reads it.
    pub(crate) fn begin(&self, chunk: usize) -> Result<bool, Errno> {
        let begin = |now| matches!(stage(now), ABSENT | EXPECTED).then(|| now - stage(now) + LOADING);
        Ok(advance(self.state(chunk)?, begin).is_ok())
    }

    /// The thread that was to read the chunk has done so. Peers may have been faster.
    pub(crate) fn end(&self, chunk: usize, outcome: Ended) {
        let Ok(state) = self.state(chunk) else { return };
        let reached = |now| match outcome {
            Ended::Present => PRESENT,
            Ended::FailedOnce => FAILED + now - stage(now) + ONCE,
            Ended::FailedForEver => FAILED + FAILURES_MAX * ONCE,
        };
        let was_absent = advance(state, |now| (stage(now) != PRESENT).then(|| reached(now))).is_ok();
        if was_absent && matches!(outcome, Ended::Present) {
            self.count(Word::Fetched, self.bytes_of(chunk));
        }
        self.tell();
    }

    /// Peers' process is about to get a chunk. Returns the stage before.
    pub(crate) fn expect(&self, chunk: usize) -> u64 {
        let Ok(state) = self.state(chunk) else { return ABSENT };
        let expect = |now| (stage(now) == ABSENT).then(|| now - ABSENT + EXPECTED);
        stage(advance(state, expect).unwrap_or_else(|now| now))
    }

    /// Peers' process has brought a chunk into the memory.
    pub(crate) fn receive(&self, chunk: usize, is_from_peer: bool) {
        let Ok(state) = self.state(chunk) else { return };
        if advance(state, |now| (stage(now) != PRESENT).then_some(PRESENT)).is_ok() {
            self.count(Word::Fetched, self.bytes_of(chunk));
            if is_from_peer {
                self.count(Word::FromPeers, self.bytes_of(chunk));
            }
        }
        if is_from_peer {
            self.set(Word::Doubt, 0);
        }
        self.tell();
    }

    /// A program waits for this chunk.
    pub(crate) fn want(&self, chunk: usize) {
        if let Some(bits) = self.wanted().nth(chunk / 64) {
            bits.fetch_or(1 << (chunk % 64), Ordering::AcqRel);
        }
    }

    /// Takes the first chunk that a program waits for.
    pub(crate) fn take_wanted(&self) -> Option<usize> {
        self.wanted().enumerate().find_map(|(word, bits)| {
            let last = bits.load(Ordering::Acquire).trailing_zeros();
            let bit = 1_u64.checked_shl(last)?;
            bits.fetch_and(!bit, Ordering::AcqRel);
            Some(64 * word + last as usize)
        })
    }

    fn wanted(&self) -> impl Iterator<Item = &AtomicU64> {
        let chunks = self.chunks();
        let first = WORDS + WORDS_OF_CHUNK * chunks;
        (0..chunks.div_ceil(64)).map(move |word| self.memory.word(8 * (first + word)))
    }

    /// Writes the note, which a stage is to follow. False if another process writes one, or it is too long.
    pub(crate) fn leave_note(&self, note: &[u8]) -> bool {
        let length = self.memory.word(8 * Word::NoteLength as usize);
        let is_mine = note.len() <= NOTE_MAX
            && length.compare_exchange(0, note.len() as u64 + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_mine {
            for (word, bytes) in self.note_words().zip(note.chunks(8)) {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
            }
        }
        is_mine
    }

    /// The note that was written.
    pub(crate) fn note_left(&self) -> Vec<u8> {
        let length = self.number(Word::NoteLength).saturating_sub(1) as usize;
        let words = self.note_words().take(length.div_ceil(8));
        let mut note: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
        note.truncate(length);
        note
    }

    fn note_words(&self) -> impl Iterator<Item = &AtomicU64> {
        let chunks = self.chunks();
        let first = WORDS + WORDS_OF_CHUNK * chunks + chunks.div_ceil(64);
        (0..WORDS_OF_NOTE).map(move |word| self.memory.word(8 * (first + word)))
    }

    /// Sets a number, unless it is greater already.
    pub(crate) fn raise(&self, word: Word, number: u64) {
        self.memory.word(8 * word as usize).fetch_max(number, Ordering::AcqRel);
        self.tell();
    }

    pub(crate) fn number(&self, word: Word) -> u64 {
        self.memory.word(8 * word as usize).load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, word: Word, number: u64) {
        self.memory.word(8 * word as usize).store(number, Ordering::Release);
        self.tell();
    }

    pub(crate) fn count(&self, word: Word, more: usize) {
        self.memory.word(8 * word as usize).fetch_add(more as u64, Ordering::Relaxed);
    }

    /// The present news, for [`Self::wait`].
    pub(crate) fn news(&self) -> u32 {
        self.memory.half_word(8 * Word::News as usize).load(Ordering::Acquire)
    }

    /// Wakes all that wait, in any process.
    fn tell(&self) {
        let news = self.memory.half_word(8 * Word::News as usize);
        news.fetch_add(1, Ordering::AcqRel);
        let _none_waits = futex::wake(news, futex::Flags::empty(), i32::MAX as u32);
    }

    /// Waits until there are other news than `news`, and no longer than `longest`.
    pub(crate) fn wait(&self, news: u32, longest: Option<Duration>) {
        let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
        let word = self.memory.half_word(8 * Word::News as usize);
        // The caller looks again, whatever ended the wait.
        let _woken_or_late = futex::wait(word, futex::Flags::empty(), news, longest.as_ref());
    }
}

/// The end of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended {
    Present,
    /// It may succeed the next time.
    FailedOnce,
    FailedForEver,
}

/// The state of a chunk without the number of its failures.
fn stage(state: u64) -> u64 {
    state % ONCE
}

/// Moves a chunk to the state that `next` names. Returns the state before, or as an error the state in which it stays.
fn advance(state: &AtomicU64, next: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
    state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
}
