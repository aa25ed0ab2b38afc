//! The output of one rank between its pipe and the file, in memory that outlives a killed collector.
//!
//! ```text
//! word   start  end                  bytes since the beginning that the file has, and that came out of the pipe
//!        read   {from, bytes}        a read that has begun; counts while `from == end`
//!        write  {from, bytes, place, collector, skip}    a write that has begun; counts while `from == start`
//!        skip   {from, bytes}        of what stands at `start`, so much is in the file; counts while `from == start`
//!        lines, lost
//! 4096   the bytes start..end, each at its number modulo their room
//! ```
//!
//! SIGKILL lets a process finish the system call that it is in, and nothing after it. So before each read or write a note says what
//! would be done, and the next collector finds out whether it was: the place of a read was filled with a mark before, and
//! of a write the file's size tells, which every collector notes when it begins ([`Generations`]). Each note begins to count, and ends to count, by the store of one word.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::sys::shared::{Exclusive, SharedMemory};

/// A rank's memory, as the process that fills and empties it sees it.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: Exclusive,
    label: Vec<u8>,
}

/// The same memory, as the rank that made it sees it.
#[derive(Debug)]
pub(crate) struct RingCounts(Arc<SharedMemory>);

/// Words at the beginning.
#[derive(Debug, Clone, Copy)]
enum Word {
    Start,
    End,
    ReadFrom,
    ReadBytes,
    WriteFrom,
    WriteBytes,
    WritePlace,
    WriteCollector,
    WriteSkip,
    SkipFrom,
    Skip,
    Lines,
    Lost,
}

/// The sizes that the file had when each collector of a node began, in memory that their ranks' parents keep.
#[derive(Debug)]
pub(crate) struct Generations {
    memory: SharedMemory,
    /// The number of this collector.
    pub(crate) own: u64,
}

impl Generations {
    /// Makes the memory, for the first collector.
    pub(crate) fn new_memory() -> Result<OwnedFd, Errno> {
        new_memory_of(HEADER)
    }

    /// Notes a collector that finds a file of `size` bytes.
    pub(crate) fn begin(memory: &OwnedFd, size: u64) -> Result<Self, Errno> {
        let memory = SharedMemory::of_file(memory, HEADER)?;
        let own = memory.word(0).load(Ordering::SeqCst);
        memory.word(Self::place(own)).store(size, Ordering::SeqCst);
        memory.word(0).store(own + 1, Ordering::SeqCst);
        Ok(Self { memory, own })
    }

    /// Notes that all pieces up to `size` were written whole.
    pub(crate) fn note_whole(&self, size: u64) {
        self.memory.word(WHOLE).store(size, Ordering::SeqCst);
    }

    /// Tells whether the last write of the collector before this one, which left a file of `size` bytes, may have been cut short.
    pub(crate) fn may_be_cut(&self, size: u64) -> bool {
        self.own > 0 && self.memory.word(WHOLE).load(Ordering::SeqCst) != size
    }

    /// The size of the file when collector `number` had written its last byte; `None` for one that may still write, and for one so
    /// long ago that it is not known.
    fn size_after(&self, number: u64) -> Option<u64> {
        let is_known = number < self.own && self.own - number < KEPT;
        is_known.then(|| self.memory.word(Self::place(number + 1)).load(Ordering::SeqCst))
    }

    fn place(number: u64) -> usize {
        (number % KEPT + 1) as usize * 8
    }
}

/// Collectors whose sizes are kept.
const KEPT: u64 = HEADER as u64 / 8 - 2;

/// The place of the last size that was reached by a whole write.
const WHOLE: usize = HEADER - 8;

/// Makes the memory of one rank.
pub(crate) fn new_memory() -> Result<OwnedFd, Errno> {
    new_memory_of(HEADER + ROOM)
}

fn new_memory_of(bytes: usize) -> Result<OwnedFd, Errno> {
    let memory = rustix::fs::memfd_create(c"quell-output", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&memory, bytes as u64)?;
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(memory)
}

impl RingCounts {
    pub(crate) fn of(memory: &OwnedFd) -> Result<Self, Errno> {
        Ok(Self(Arc::new(SharedMemory::of_file(memory, HEADER + ROOM)?)))
    }

    /// Bytes that the file did not take.
    pub(crate) fn lost(&self) -> u64 {
        self.0.word(Word::Lost as usize * 8).load(Ordering::SeqCst)
    }

    /// Bytes that no collector has written yet.
    pub(crate) fn waiting(&self) -> u64 {
        let word = |word: Word| self.0.word(word as usize * 8).load(Ordering::SeqCst);
        word(Word::End).saturating_sub(word(Word::Start))
    }
}

impl Ring {
    /// The ring in `memory`, whose lines begin with `label`.
    ///
    /// **Errors** `EINVAL` for memory that [`new_memory`] has not made.
    pub(crate) fn of(memory: &OwnedFd, label: Vec<u8>) -> Result<Self, Errno> {
        let sealed = rustix::fs::fcntl_get_seals(memory)?.contains(SealFlags::SHRINK);
        if !sealed || rustix::fs::fstat(memory)?.st_size != (HEADER + ROOM) as i64 {
            return Err(Errno::INVAL);
        }
        let memory = Arc::new(SharedMemory::of_file(memory, HEADER + ROOM)?);
        let ring = Self { memory: memory.claim().ok_or(Errno::BUSY)?, label };
        match ring.get(Word::End).checked_sub(ring.get(Word::Start)) {
            Some(0..=CAPACITY) => Ok(ring),
            _ => Err(Errno::INVAL),
        }
    }

    /// Finds out how far the last collector came that had this ring. Tells whether the file has a part of a piece.
    pub(crate) fn settle(&mut self, generations: &Generations) -> bool {
        self.settle_read();
        self.settle_write(generations);
        self.is_cut()
    }

    /// The file has a part of what comes next, so that nothing else may be written before it.
    pub(crate) fn is_cut(&self) -> bool {
        self.skip() > 0
    }

    fn settle_read(&mut self) {
        let (end, bytes) = (self.get(Word::End), self.get(Word::ReadBytes));
        if self.get(Word::ReadFrom) == end
            && bytes > 0
            && bytes <= self.room()
            && !self.is_marked(end + bytes)
        {
            self.set(Word::End, end + bytes);
        }
    }

    fn settle_write(&mut self, generations: &Generations) {
        let (place, piece) = (self.get(Word::WritePlace), self.begun());
        if piece == 0 || place == NOWHERE {
            return;
        }
        let Some(size) = generations.size_after(self.get(Word::WriteCollector)) else { return };
        let skip = self.get(Word::WriteSkip);
        let whole = self.formatted_length(piece) - skip.min(self.formatted_length(piece));
        match size.saturating_sub(place).min(whole) {
            written if written == whole => self.finish(),
            written => self.set_skip(skip + written),
        }
        self.set(Word::WritePlace, NOWHERE);
    }

    /// Reads what `pipe` has, as far as there is room. Returns the number of bytes.
    pub(crate) fn fill(&mut self, pipe: impl AsFd) -> Result<u64, Errno> {
        let end = self.get(Word::End);
        let bytes = rustix::io::ioctl_fionread(&pipe)?.min(self.room());
        if bytes == 0 {
            return Ok(0);
        }
        self.mark(end, bytes);
        self.set(Word::ReadBytes, bytes);
        self.set(Word::ReadFrom, end);
        let (_, all) = self.memory.split(HEADER);
        let (first, second) = parts(end, bytes);
        let (wrapped, rest) = all.split_at_mut(first.start);
        let mut into =
            [IoSliceMut::new(&mut rest[..first.len()]), IoSliceMut::new(&mut wrapped[..second.len()])];
        let read = rustix::io::readv(pipe, &mut into)? as u64;
        self.set(Word::End, end + read);
        Ok(read)
    }

    /// Bytes that can be read.
    pub(crate) fn room(&self) -> u64 {
        CAPACITY - self.held()
    }

    /// Bytes that the file does not have.
    pub(crate) fn held(&self) -> u64 {
        self.get(Word::End) - self.get(Word::Start)
    }

    /// The number of bytes since the beginning that came out of the pipe.
    pub(crate) fn end(&self) -> u64 {
        self.get(Word::End)
    }

    /// The number of bytes since the beginning that the file has, or never will.
    pub(crate) fn start(&self) -> u64 {
        self.get(Word::Start)
    }

    /// Lines that the file has.
    pub(crate) fn lines(&self) -> u64 {
        self.get(Word::Lines)
    }

    /// Bytes that the file did not take.
    pub(crate) fn lost(&self) -> u64 {
        self.get(Word::Lost)
    }

    /// The bytes to be written now: whole lines, or all where a line is longer than the room, or is not to be waited for.
    pub(crate) fn piece(&mut self, awaited: Awaited) -> u64 {
        let lines = self.lines_held();
        let piece = match awaited {
            Awaited::End => lines,
            Awaited::Nothing => self.held(),
        };
        // A piece that the file has in part is never made shorter.
        let piece = piece.max(self.begun());
        if piece == 0 && self.room() == 0 { self.held() } else { piece }
    }

    /// Notes that `collector` is about to write the next `piece` bytes at `place` of the file, and adds them to `out`. Returns the number
    /// of bytes that were added.
    pub(crate) fn begin(&mut self, piece: u64, (collector, place): (u64, u64), out: &mut Vec<u8>) -> u64 {
        let (start, skip) = (self.get(Word::Start), self.skip());
        self.set(Word::WritePlace, NOWHERE);
        self.set(Word::WriteSkip, skip);
        self.set(Word::WriteBytes, piece);
        self.set(Word::WriteCollector, collector);
        self.set(Word::WriteFrom, start);
        self.set(Word::WritePlace, place);
        let before = out.len();
        self.format(piece, out);
        let skipped = usize::try_from(skip).unwrap_or(usize::MAX).min(out.len() - before);
        out.drain(before..before + skipped);
        (out.len() - before) as u64
    }

    /// The file has taken `written` bytes of what [`begin`](Self::begin) added, `whole` bytes in all.
    pub(crate) fn commit(&mut self, written: u64, whole: u64) {
        if written < whole {
            return self.set_skip(self.get(Word::WriteSkip) + written);
        }
        self.finish();
    }

    /// The file has the whole piece.
    fn finish(&mut self) {
        let (start, piece) = (self.get(Word::Start), self.get(Word::WriteBytes));
        let lines = self.contiguous(start, piece).iter().filter(|byte| **byte == b'\n').count();
        self.set(Word::Lines, self.get(Word::Lines) + lines as u64);
        self.set(Word::Start, start + piece);
    }

    /// Gives up what the file does not take.
    pub(crate) fn lose(&mut self) {
        let lost = self.held() - self.skip().min(self.held());
        self.set(Word::Lost, self.get(Word::Lost) + lost);
        self.set(Word::Start, self.get(Word::End));
    }

    /// The bytes of a piece of which the file may have a part.
    fn begun(&self) -> u64 {
        match self.get(Word::WriteFrom) == self.get(Word::Start) {
            true => self.get(Word::WriteBytes).min(self.held()),
            false => 0,
        }
    }

    fn skip(&self) -> u64 {
        if self.get(Word::SkipFrom) == self.get(Word::Start) { self.get(Word::Skip) } else { 0 }
    }

    fn set_skip(&mut self, bytes: u64) {
        let start = self.get(Word::Start);
        if self.get(Word::SkipFrom) != start {
            self.set(Word::Skip, 0);
            self.set(Word::SkipFrom, start);
        }
        self.set(Word::Skip, bytes);
    }

    fn lines_held(&mut self) -> u64 {
        let (start, held) = (self.get(Word::Start), self.held());
        let (first, second) = parts(start, held);
        let before_second = first.len();
        let (_, all) = self.memory.split(HEADER);
        let newline = |part: &[u8]| part.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let lines = match newline(&all[second]) {
            Some(end) => before_second + end,
            None => newline(&all[first]).unwrap_or(0),
        };
        lines as u64
    }

    fn format(&mut self, piece: u64, out: &mut Vec<u8>) {
        let start = self.get(Word::Start);
        let bytes = self.contiguous(start, piece);
        if self.label.is_empty() {
            return out.extend(bytes);
        }
        let continues = start > 0 && self.contiguous(start - 1, 1) != b"\n";
        for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            if number > 0 || !continues {
                out.extend(&self.label);
            }
            out.extend(line);
        }
    }

    fn formatted_length(&mut self, piece: u64) -> u64 {
        let mut out = Vec::new();
        self.format(piece, &mut out);
        out.len() as u64
    }

    fn contiguous(&mut self, from: u64, bytes: u64) -> Vec<u8> {
        let (first, second) = parts(from, bytes);
        let (_, all) = self.memory.split(HEADER);
        [&all[first], &all[second]].concat()
    }

    fn mark(&mut self, from: u64, bytes: u64) {
        let (first, second) = parts(from, bytes);
        let (_, all) = self.memory.split(HEADER);
        // All of it, so that no page is missing when the kernel writes to it.
        all[first].fill(MARK);
        all[second].fill(MARK);
    }

    /// Tells whether the bytes before number `end` are those that [`mark`](Self::mark) put there.
    fn is_marked(&mut self, end: u64) -> bool {
        let bytes = (end - self.get(Word::End)).min(MARKED);
        self.contiguous(end - bytes, bytes).iter().all(|byte| *byte == MARK)
    }

    fn get(&self, word: Word) -> u64 {
        self.memory.memory().word(word as usize * 8).load(Ordering::SeqCst)
    }

    fn set(&mut self, word: Word, value: u64) {
        self.memory.memory().word(word as usize * 8).store(value, Ordering::SeqCst);
    }
}

/// The rest of a line that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Its end is waited for.
    End,
    /// It is written as it is.
    Nothing,
}

/// The places of `bytes` bytes from number `from` on: up to the end of the room, and from its beginning.
fn parts(from: u64, bytes: u64) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let (at, bytes) = ((from % ROOM as u64) as usize, bytes as usize);
    let first = bytes.min(ROOM - at);
    (at..at + first, 0..bytes - first)
}

/// Bytes before the ring.
const HEADER: usize = 4096;

/// Bytes of the ring: what a rank can print before the collector must write. More makes the pieces of a single rank larger.
const ROOM: usize = 256 << 10;

/// The byte before `start` stays: it tells whether a line begins there.
const CAPACITY: u64 = ROOM as u64 - 1;

/// A byte that no UTF-8 text has.
const MARK: u8 = 0xfe;

/// Bytes at the end of a read that tell whether it was carried out. Data that ends in so many bytes with this value would be lost, if
/// the collector is killed in that very read.
const MARKED: u64 = 64;

/// The place of a write that has not begun, or whose outcome is known.
const NOWHERE: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::pipe;

    fn ring(memory: &OwnedFd, label: &str) -> Ring {
        Ring::of(memory, label.into()).unwrap()
    }

    fn feed(ring: &mut Ring, text: &[u8]) {
        let (read, write) = pipe().unwrap();
        rustix::io::write(write, text).unwrap();
        assert_eq!(ring.fill(read), Ok(text.len() as u64));
    }

    #[test]
    fn lines_come_whole_and_in_order_whatever_the_file_takes() {
        let memory = new_memory().unwrap();
        let mut ring = ring(&memory, "3: ");
        let (mut file, mut expected) = (Vec::new(), Vec::new());
        for round in 0..200_u32 {
            let text = format!("{}\npart of {round}", "x".repeat(round as usize * 37 % 9001));
            feed(&mut ring, text.as_bytes());
            expected.extend(text.bytes());
            let mut out = Vec::new();
            let piece = ring.piece(Awaited::End);
            let whole = ring.begin(piece, (0, file.len() as u64), &mut out);
            // The file takes all, nothing, or something; the rest comes with the next piece.
            let taken = out.len() * (round as usize % 3) / 2;
            file.extend(&out[..taken]);
            ring.commit(taken as u64, whole);
        }
        let mut out = Vec::new();
        let piece = ring.piece(Awaited::Nothing);
        let whole = ring.begin(piece, (0, file.len() as u64), &mut out);
        ring.commit(whole, whole);
        file.extend(out);
        let text = String::from_utf8(expected).unwrap();
        let labelled: String = text.split_inclusive('\n').map(|line| format!("3: {line}")).collect();
        assert_eq!(String::from_utf8(file).unwrap(), labelled);
        assert_eq!((ring.held(), ring.lines()), (0, 200));
    }

    #[test]
    fn a_successor_knows_what_was_read_and_what_was_written() {
        for written in 0..=12 {
            let memory = new_memory().unwrap();
            let mut first = ring(&memory, "0: ");
            feed(&mut first, b"one\ntwo\nthree");
            let mut out = Vec::new();
            let piece = first.piece(Awaited::End);
            first.begin(piece, (0, 1000), &mut out);
            assert_eq!(out, b"0: one\n0: two\n");
            // The end comes in the read of more.
            let (read, write) = pipe().unwrap();
            rustix::io::write(write, b" four\n").unwrap();
            let end = first.end();
            assert_eq!(first.fill(read), Ok(6));
            first.set(Word::End, end);
            drop(first);
            let sizes = Generations::new_memory().unwrap();
            Generations::begin(&sizes, 900).unwrap();
            // One collector after the other dies before it writes; others of the node's ranks have written meanwhile.
            for size in [1000 + written, 5000] {
                let generations = Generations::begin(&sizes, size).unwrap();
                let mut next = ring(&memory, "0: ");
                next.settle(&generations);
                let (mut rest, piece) = (Vec::new(), next.piece(Awaited::End));
                next.begin(piece, (generations.own, 6000), &mut rest);
                let all = [&out[..written as usize], &rest].concat();
                assert_eq!(String::from_utf8(all).unwrap(), "0: one\n0: two\n0: three four\n");
            }
        }
    }

    #[test]
    fn a_read_that_was_not_carried_out_is_none() {
        let memory = new_memory().unwrap();
        let mut first = ring(&memory, "");
        feed(&mut first, b"abc");
        first.mark(3, 5);
        first.set(Word::ReadBytes, 5);
        first.set(Word::ReadFrom, 3);
        drop(first);
        let mut next = ring(&memory, "");
        next.settle(&Generations::begin(&Generations::new_memory().unwrap(), 0).unwrap());
        assert_eq!(next.end(), 3);
    }

    #[test]
    fn a_line_longer_than_the_room_goes_in_pieces() {
        let memory = new_memory().unwrap();
        let mut ring = ring(&memory, "");
        while ring.room() > 0 {
            let bytes = vec![b'x'; ring.room().min(60_000) as usize];
            feed(&mut ring, &bytes);
        }
        assert_eq!(ring.piece(Awaited::End), CAPACITY);
        ring.lose();
        assert_eq!((ring.held(), RingCounts::of(&memory).unwrap().lost()), (0, CAPACITY));
    }
}
