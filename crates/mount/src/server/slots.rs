//! The requests that are being answered, in memory that outlives the server.
//!
//! Each thread reads its requests into a slot of its own. A slot whose first bytes, the request's length, are not zero
//! holds a request that may not have been answered: the next server answers it, again or for the first time. The
//! kernel does not mind an answer that it has already (`ENOENT`), and whether a change was carried out stands in the
//! slot's [`Attempt`].
//!
//! ```text
//! word 0       1       2       3, 4     5, 6    7 to 9  |  byte 4096 ...
//! | deaths    | stage | errno | moment | nodes | notes  |  the request, as the kernel wrote it
//! ```
//!
//! All pages are present before the first request is read: the kernel would answer a request with `EIO` itself if we
//! were killed while it waits for a page to copy it to. A thread that never has the turn brings none in: that would take
//! longer than all else that a server does before it answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quell_image::Nid;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::node::Node;
use crate::fuse::abi::{self, NodeId};
use crate::fuse::request::Unique;
use crate::sys::shared::{Exclusive, SharedMemory, SharedWords};

/// The buffer into which a thread reads its requests.
#[derive(Debug)]
pub(crate) struct Slot {
    memory: Exclusive,
    /// All pages are present and writable.
    is_present: bool,
}

/// Memory for a slot.
///
/// **Errors** as [`SharedMemory::new`].
pub(crate) fn slot_memory() -> Result<Arc<SharedMemory>, Errno> {
    SharedMemory::new(MARKS_BYTES + abi::REQUEST_BUFFER).map(Arc::new)
}

/// Takes the request away from a slot that no thread has taken yet.
pub(crate) fn clear_left(memory: &SharedMemory) {
    memory.word(MARKS_BYTES).store(0, Ordering::Release);
}

/// The request in a slot that no thread has taken yet, if its length is that of a RELEASE or a SETLKW or less.
pub(crate) fn short_request_left_in(memory: &SharedMemory) -> Option<Vec<u8>> {
    let word = |number: usize| memory.word(MARKS_BYTES + 8 * number).load(Ordering::Acquire);
    let length = usize::try_from(u32::from_ne_bytes(*word(0).to_ne_bytes().first_chunk()?)).ok()?;
    let words = (1..=LONGEST_SHORT).contains(&length).then(|| length.div_ceil(8))?;
    let mut bytes: Vec<u8> = (0..words).flat_map(|number| word(number).to_ne_bytes()).collect();
    bytes.truncate(length);
    Some(bytes)
}

/// Bytes of a SETLKW: `struct fuse_in_header` and `struct fuse_lk_in`.
const LONGEST_SHORT: usize = 40 + 48;

impl Slot {
    /// The slot in `memory`, with what another server left in it; `None` if another thread has it.
    pub(crate) fn take(memory: &Arc<SharedMemory>) -> Option<Self> {
        Some(Self { memory: memory.claim()?, is_present: false })
    }

    /// Makes the slot ready for a request from the kernel.
    pub(crate) fn bring_in(&mut self) {
        if !self.is_present {
            self.memory.memory().bring_in();
            self.is_present = true;
        }
    }

    /// Tells whether a request lies in it that may not have been answered.
    pub(crate) fn is_occupied(&self) -> bool {
        self.memory.memory().word(MARKS_BYTES).load(Ordering::Acquire) & LENGTH != 0
    }

    /// Its request is answered.
    pub(crate) fn clear(&self) {
        clear_left(self.memory.memory());
    }

    /// The notes about requests, and the bytes of the present one.
    pub(crate) fn parts(&mut self) -> (SlotNotes<'_>, &mut [u8]) {
        let (words, bytes) = self.memory.split(MARKS_BYTES);
        (SlotNotes(words), bytes)
    }
}

/// A slot's notes. Each names the request that it is about, so none has to be taken back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotNotes<'s>(SharedWords<'s>);

impl<'s> SlotNotes<'s> {
    /// The notes about request `unique`.
    pub(crate) fn of(self, unique: Unique) -> Attempt<'s> {
        Attempt { words: self.0, unique: unique.0 }
    }
}

/// The progress of servers with one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'s> {
    words: SharedWords<'s>,
    unique: u64,
}

/// The progress of an earlier server with a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EarlierProgress {
    /// It did nothing.
    Nothing,
    /// It was about to ask the original for it, or had just done so.
    Begun,
    /// It had the outcome from the original, and had not answered.
    Done(Result<(), Errno>),
    /// It had noted all that follows from it, and may have answered: the program may have gone on.
    Complete(Result<(), Errno>),
}

impl Attempt<'_> {
    /// The progress of an earlier server.
    pub(crate) fn before(&self) -> EarlierProgress {
        let outcome = || match i32::try_from(self.words.at(ERRNO).load(Ordering::Relaxed)) {
            Ok(errno @ 1..) => Err(Errno::from_raw_os_error(errno)),
            _ => Ok(()),
        };
        match self.noted(STAGE, STAGE_BITS) {
            Some(BEGUN) => EarlierProgress::Begun,
            Some(DONE) => EarlierProgress::Done(outcome()),
            Some(COMPLETE) => EarlierProgress::Complete(outcome()),
            _ => EarlierProgress::Nothing,
        }
    }

    /// The original is asked now.
    pub(crate) fn begin(&self) {
        let (seconds, nanoseconds) = now();
        self.words.at(MOMENT).store(seconds.cast_unsigned(), Ordering::Relaxed);
        self.words.at(MOMENT + 1).store(nanoseconds, Ordering::Relaxed);
        self.note(STAGE, STAGE_BITS, BEGUN);
    }

    /// The original has answered.
    pub(crate) fn finish(&self, outcome: Result<(), Errno>) {
        self.note_outcome(DONE, outcome);
    }

    /// The program is answered now.
    pub(crate) fn complete(&self, outcome: Result<(), Errno>) {
        self.note_outcome(COMPLETE, outcome);
    }

    fn note_outcome(&self, stage: u64, outcome: Result<(), Errno>) {
        let errno = outcome.err().map_or(0, |errno| errno.raw_os_error().unsigned_abs().into());
        self.words.at(ERRNO).store(errno, Ordering::Relaxed);
        self.note(STAGE, STAGE_BITS, stage);
    }

    /// Notes a number for the next server.
    pub(crate) fn remember(&self, note: SlotNote, number: u64) {
        self.words.at(note as usize).store(number, Ordering::Release);
    }

    /// The number that this server or an earlier one noted.
    pub(crate) fn remembered(&self, note: SlotNote) -> u64 {
        self.words.at(note as usize).load(Ordering::Acquire)
    }

    /// The time at which the original was asked first, in seconds since the epoch and nanoseconds.
    pub(crate) fn begun_at(&self) -> (i64, u64) {
        let word = |number| self.words.at(number).load(Ordering::Relaxed);
        (word(MOMENT).cast_signed(), word(MOMENT + 1))
    }

    /// Node `number` that the change is about, looked for before it is begun and remembered from then on: afterwards
    /// its name may lead elsewhere.
    pub(crate) fn node(&self, number: usize, root: Nid, look: impl FnOnce() -> Option<Node>) -> Option<Node> {
        let word = self.words.at(NODES + number);
        if self.before() != EarlierProgress::Nothing {
            let id = word.load(Ordering::Relaxed);
            return (id != 0).then(|| Node::decode(NodeId(id), root));
        }
        let node = look();
        word.store(node.map_or(0, |node| node.encode(root).0), Ordering::Relaxed);
        node
    }

    /// Counts one more server that died with this request in its hands. Returns whether to give the request up.
    pub(crate) fn note_death(&self, weight: Death) -> bool {
        let deaths = self.noted(DEATHS, DEATHS_BITS).unwrap_or(0) + weight as u64;
        self.note(DEATHS, DEATHS_BITS, deaths.min(MOST_DEATHS));
        deaths >= MOST_DEATHS
    }

    /// Tells whether it may have been the cause of a server's death.
    pub(crate) fn is_suspect(&self) -> bool {
        self.noted(DEATHS, DEATHS_BITS).is_some_and(|deaths| deaths >= Death::Crashed as u64)
    }

    fn note(&self, word: usize, bits: u32, value: u64) {
        self.words.at(word).store(self.unique << bits | value, Ordering::Release);
    }

    fn noted(&self, word: usize, bits: u32) -> Option<u64> {
        let noted = self.words.at(word).load(Ordering::Acquire);
        (noted >> bits == self.unique << bits >> bits).then_some(noted & ((1 << bits) - 1))
    }
}

/// The time with which file systems of this node stamp new files. It decides whether a file that exists already may have
/// been made by an earlier server.
pub(crate) fn now() -> (i64, u64) {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec.try_into().unwrap_or(0))
}

/// Numbers that a server notes for the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SlotNote {
    /// The size of a file before something is appended to it.
    Size = 7,
    /// The progress of an append, see `live::appends`.
    Progress = 8,
    /// Bytes that were written, of a write that is done.
    Written = 9,
}

/// The cause of a server's death, with its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// Another process killed it, or it is not known. Requests that need much memory may be the cause, so this counts too.
    Killed = 1,
    /// It ended by a fault of its own, which the requests in its hands may have caused.
    Crashed = 80,
}

/// Deaths after which a request is answered with `EIO`: three faults, or 240 times SIGKILL.
const MOST_DEATHS: u64 = 240;

/// Words of the notes.
const DEATHS: usize = 0;
const STAGE: usize = 1;
const ERRNO: usize = 2;
const MOMENT: usize = 3;
const NODES: usize = 5;

/// Bits below the request's number. Numbers of requests are counted from zero and do not reach the upper bits.
const DEATHS_BITS: u32 = 8;
const STAGE_BITS: u32 = 2;

const BEGUN: u64 = 1;
const DONE: u64 = 2;
const COMPLETE: u64 = 3;

/// Bytes of the notes: a page, so that the request begins at one.
const MARKS_BYTES: usize = 4096;

/// The bits of a request's first word that are its length, in the machine's byte order.
const LENGTH: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_about_one_request_only() {
        let mut slot = Slot::take(&slot_memory().unwrap()).unwrap();
        assert!(!slot.is_occupied());
        let root = Nid::new(1);
        let (marks, bytes) = slot.parts();
        bytes[0] = 40;
        let attempt = marks.of(Unique(6));
        assert_eq!(attempt.node(1, root, || Some(Node::Found(3))), Some(Node::Found(3)));
        assert_eq!(attempt.before(), EarlierProgress::Nothing);
        attempt.begin();
        assert_eq!(attempt.before(), EarlierProgress::Begun);
        assert_eq!(attempt.node(1, root, || None), Some(Node::Found(3)));
        attempt.finish(Err(Errno::EXIST));
        assert_eq!(attempt.before(), EarlierProgress::Done(Err(Errno::EXIST)));
        attempt.complete(Ok(()));
        assert_eq!(attempt.before(), EarlierProgress::Complete(Ok(())));
        assert_eq!(marks.of(Unique(8)).before(), EarlierProgress::Nothing);
        assert!(slot.is_occupied());
        slot.clear();
        assert!(!slot.is_occupied());
    }

    #[test]
    fn a_short_request_is_found_before_its_slot_is_taken() {
        let memory = slot_memory().unwrap();
        let mut slot = Slot::take(&memory).unwrap();
        let head = [44, abi::opcode::OPEN].map(u32::to_ne_bytes).concat();
        let bytes = slot.parts().1;
        bytes[..44].fill(7);
        bytes[..8].copy_from_slice(&head);
        drop(slot);
        assert_eq!(short_request_left_in(&memory), Some([&head[..], &[7; 36]].concat()));
        clear_left(&memory);
        assert_eq!(short_request_left_in(&memory), None);
    }

    #[test]
    fn a_request_is_given_up_after_three_crashes() {
        let mut slot = Slot::take(&slot_memory().unwrap()).unwrap();
        let (marks, _) = slot.parts();
        let attempt = marks.of(Unique(6));
        let outcomes = [Death::Crashed, Death::Killed, Death::Crashed, Death::Crashed, Death::Killed]
            .map(|death| attempt.note_death(death));
        assert_eq!(outcomes, [false, false, false, true, true]);
        assert!(!marks.of(Unique(8)).note_death(Death::Crashed));
        assert!((1..200).all(|_| !marks.of(Unique(10)).note_death(Death::Killed)));
    }
}
