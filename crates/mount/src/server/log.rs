//! A log in shared memory: the next server reads it when it takes over.
//!
//! A record counts from the moment the log's length covers it, so a server that dies while it writes leaves whole
//! records only. There are two halves; when the one in use is full, its owner writes what still holds into the other,
//! and one store makes that the one in use.
//!
//! ```text
//! word 0        1, 2               3
//! | half in use | words in halves | unused | first half ... | second half ... |
//! record: | kind 8, words 8, 16 unused, bytes of text 32 | words ... | text, padded to a word |
//! ```
//!
//! One server writes at a time. Its threads take turns: a thread that appends has the log for itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sys::shared::SharedMemory;

/// The server's side of a log.
#[derive(Debug)]
pub(crate) struct Log {
    memory: Arc<SharedMemory>,
    half: usize,
    /// Words in use of that half.
    length: usize,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRecord<W, T> {
    /// The kind of record; its meaning is up to the log's owner.
    pub(crate) kind: u8,
    /// **Range** at most 255.
    pub(crate) words: W,
    /// **Range** shorter than 4 GiB.
    pub(crate) text: T,
}

/// A record to append.
pub(crate) type NewRecord<'a> = LogRecord<&'a [u64], &'a [u8]>;

/// A record that was read.
pub(crate) type OldRecord = LogRecord<Vec<u64>, Vec<u8>>;

/// The place of a record, valid until the log is rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogPlace(usize);

impl Log {
    /// The log in `memory`, as its last writer left it.
    pub(crate) fn attach(memory: Arc<SharedMemory>) -> Self {
        let half = usize::from(memory.word(0).load(Ordering::Acquire) == 1);
        let length = memory.word(8 * (1 + half)).load(Ordering::Acquire);
        let capacity = capacity(&memory);
        Self { memory, half, length: usize::try_from(length).unwrap_or(0).min(capacity) }
    }

    /// Writes a record down. `None` when there is no room.
    pub(crate) fn append(&mut self, record: &NewRecord<'_>) -> Option<LogPlace> {
        let place = self.put(self.half, self.length, record)?;
        self.length = place.1;
        self.length_of(self.half).store(self.length as u64, Ordering::Release);
        Some(place.0)
    }

    /// Replaces everything by `records`; returns their places, or `None`, with nothing changed, when there is no room.
    pub(crate) fn rewrite<'r>(
        &mut self,
        records: impl Iterator<Item = NewRecord<'r>>,
    ) -> Option<Vec<LogPlace>> {
        let other = 1 - self.half;
        let mut length = 0;
        let mut places = Vec::new();
        for record in records {
            let (place, end) = self.put(other, length, &record)?;
            places.push(place);
            length = end;
        }
        self.length_of(other).store(length as u64, Ordering::Release);
        self.memory.word(0).store(other as u64, Ordering::Release);
        (self.half, self.length) = (other, length);
        Some(places)
    }

    /// Word `number` of the record at `place`, to be changed in place.
    pub(crate) fn word(&self, place: LogPlace, number: usize) -> &AtomicU64 {
        self.memory.word(8 * (place.0 + 1 + number))
    }

    /// All records with their places, oldest first.
    pub(crate) fn records(&self) -> impl Iterator<Item = (LogPlace, OldRecord)> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let (record, end) = self.get(at)?;
            let place = LogPlace(self.start(self.half) + at);
            at = end;
            Some((place, record))
        })
    }

    /// Writes a record to `at` of `half`; returns its place and where the next one goes.
    fn put(&self, half: usize, at: usize, record: &NewRecord<'_>) -> Option<(LogPlace, usize)> {
        let end = at + 1 + record.words.len() + record.text.len().div_ceil(8);
        if end > capacity(&self.memory) {
            return None;
        }
        let head = u64::from(record.kind)
            | u64::from(u8::try_from(record.words.len()).ok()?) << 8
            | u64::from(u32::try_from(record.text.len()).ok()?) << 32;
        let text = record.text.chunks(8).map(|part| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            u64::from_ne_bytes(word)
        });
        let start = self.start(half) + at;
        let words = std::iter::once(head).chain(record.words.iter().copied()).chain(text);
        for (number, word) in words.enumerate() {
            self.memory.word(8 * (start + number)).store(word, Ordering::Relaxed);
        }
        Some((LogPlace(start), end))
    }

    /// The record at `at` of the half in use, and where the next one begins.
    fn get(&self, at: usize) -> Option<(OldRecord, usize)> {
        let load = |at: usize| self.memory.word(8 * (self.start(self.half) + at)).load(Ordering::Relaxed);
        if at >= self.length {
            return None;
        }
        let head = load(at);
        let (words, bytes) = ((head >> 8 & 0xff) as usize, (head >> 32) as usize);
        let text = at + 1 + words;
        let end = text + bytes.div_ceil(8);
        if end > self.length {
            return None;
        }
        let mut read: Vec<u8> = (text..end).flat_map(|at| load(at).to_ne_bytes()).collect();
        read.truncate(bytes);
        let record =
            LogRecord { kind: (head & 0xff) as u8, words: (at + 1..text).map(load).collect(), text: read };
        Some((record, end))
    }

    fn length_of(&self, half: usize) -> &AtomicU64 {
        self.memory.word(8 * (1 + half))
    }

    /// First word of a half.
    fn start(&self, half: usize) -> usize {
        HEAD + half * capacity(&self.memory)
    }
}

/// Words of each half.
fn capacity(memory: &SharedMemory) -> usize {
    (memory.length() / 8 - HEAD) / 2
}

/// Words before the first half.
const HEAD: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn record<'a>(kind: u8, words: &'a [u64], text: &'a [u8]) -> NewRecord<'a> {
        LogRecord { kind, words, text }
    }

    #[test]
    fn what_was_written_down_is_read_by_the_next_server() {
        let memory = Arc::new(SharedMemory::new(4096).unwrap());
        let mut log = Log::attach(Arc::clone(&memory));
        let first = log.append(&record(1, &[7, 8], b"a name of 12")).unwrap();
        log.append(&record(2, &[], b"")).unwrap();
        log.word(first, 1).store(9, Ordering::Relaxed);
        let next = Log::attach(memory);
        let read: Vec<OldRecord> = next.records().map(|(_, record)| record).collect();
        let expected = [
            LogRecord { kind: 1, words: vec![7, 9], text: b"a name of 12".to_vec() },
            LogRecord { kind: 2, words: vec![], text: vec![] },
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_full_log_goes_on_after_it_was_rewritten() {
        let memory = Arc::new(SharedMemory::new(4096).unwrap());
        let mut log = Log::attach(Arc::clone(&memory));
        let mut kept = None;
        while let Some(place) = log.append(&record(1, &[1, 2], b"text")) {
            kept = Some(place);
        }
        assert!(kept.is_some());
        let large = vec![0; 4096];
        assert_eq!(log.rewrite([record(2, &[3], &large)].into_iter()), None);
        assert_eq!(log.records().last().unwrap().0, kept.unwrap());
        let places = log.rewrite([record(2, &[3], b"kept")].into_iter()).unwrap();
        log.append(&record(3, &[], b"")).unwrap();
        let next = Log::attach(memory);
        assert_eq!(next.word(places[0], 0).load(Ordering::Relaxed), 3);
        assert_eq!(next.records().map(|(_, record)| record.kind).collect::<Vec<_>>(), [2, 3]);
    }
}
