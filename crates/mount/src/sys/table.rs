//! Records of fixed size in memory that outlives the process that writes them.
//!
//! ```text
//! word 0: records that were ever used | words 1 ...: unused | record 0 | record 1 | ...
//! record: | generation and use | WORDS words of the owner |
//! ```
//!
//! A record exists from the moment its first word says so, which is written last, and is gone from the moment that word
//! says otherwise. So a process that is killed leaves each record whole or not at all.
//!
//! One process at a time allocates and frees: which indexes are free is known to that process only, and is found anew
//! by the next one.
//!
//! A record may name a descriptor ([`name_of`]), which is open before the record is published and until it is freed. Then
//! a process that is forked while none comes or goes, and so copies the descriptors that are open, has all that records
//! name.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;

use super::shared::SharedMemory;
use crate::lock;

/// A table of records of `WORDS` words each. With seven of them a record fills a line of the processor's cache.
#[derive(Debug)]
pub(crate) struct SharedTable<const WORDS: usize> {
    memory: Arc<SharedMemory>,
    capacity: u32,
    /// Indexes below the mark that no record has, the next one last.
    free: Mutex<Vec<TableIndex>>,
}

/// The place of a record in its table. After the record is freed, another one has it, of another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TableIndex(pub(crate) u32);

impl<const WORDS: usize> SharedTable<WORDS> {
    /// Memory for a table of `capacity` records. Its pages come into being as records are used.
    ///
    /// **Errors** as [`SharedMemory::new`].
    pub(crate) fn memory(capacity: u32) -> Result<Arc<SharedMemory>, Errno> {
        SharedMemory::new(HEADER_BYTES + capacity as usize * Self::RECORD_BYTES).map(Arc::new)
    }

    /// The table in `memory`, with the records that an earlier process left in it.
    pub(crate) fn attach(memory: Arc<SharedMemory>) -> Self {
        let capacity = (memory.length() - HEADER_BYTES) / Self::RECORD_BYTES;
        let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
        let table = Self { memory, capacity, free: Mutex::default() };
        let free =
            (0..table.ever_used()).rev().map(TableIndex).filter(|index| table.generation(*index).is_none());
        *lock(&table.free) = free.collect();
        table
    }

    /// Makes a record. It is there, whole, when this returns. `None` if the table is full.
    pub(crate) fn insert(&self, words: [u64; WORDS]) -> Option<TableIndex> {
        let index = self.allocate()?;
        for (number, value) in words.into_iter().enumerate() {
            self.set(index, number, value);
        }
        self.publish(index);
        Some(index)
    }

    /// A place for a record, whose words are those of the record that was there before. It is not given again, and there
    /// is no record before [`Self::publish`]. `None` if the table is full.
    fn allocate(&self) -> Option<TableIndex> {
        let mut free = lock(&self.free);
        if let Some(index) = free.pop() {
            return Some(index);
        }
        let next = self.ever_used();
        if next >= self.capacity {
            return None;
        }
        // Before the record can be there: a scan of the table must come as far.
        self.memory.word(0).store(u64::from(next) + 1, Ordering::Release);
        Some(TableIndex(next))
    }

    /// Publishes an allocated record with its words. Until then its place belongs to the caller alone.
    fn publish(&self, index: TableIndex) {
        let word = self.first_word(index);
        word.store(word.load(Ordering::Relaxed) | USED, Ordering::Release);
    }

    /// Removes a record. One that is not there stays absent.
    pub(crate) fn free(&self, index: TableIndex) {
        if index.0 >= self.capacity {
            return;
        }
        let mut free = lock(&self.free);
        let word = self.first_word(index);
        let used = word.load(Ordering::Relaxed);
        if used & USED != 0 {
            // The generation is the part above the use, so this is the next one, unused.
            word.store(used + 1, Ordering::Release);
            free.push(index);
        }
    }

    /// The generation of the record at `index`, which no other record at that place ever had; `None` if there is none.
    pub(crate) fn generation(&self, index: TableIndex) -> Option<u64> {
        if index.0 >= self.capacity {
            return None;
        }
        let word = self.first_word(index).load(Ordering::Acquire);
        (word & USED != 0).then_some(word >> 1)
    }

    /// Word `number` of a record.
    ///
    /// **Panics** if the table or the record is not that long.
    pub(crate) fn get(&self, index: TableIndex, number: usize) -> u64 {
        self.word(index, number).load(Ordering::Acquire)
    }

    /// Sets word `number` of a record.
    ///
    /// **Panics** as [`Self::get`].
    pub(crate) fn set(&self, index: TableIndex, number: usize, value: u64) {
        self.word(index, number).store(value, Ordering::Release);
    }

    fn word(&self, index: TableIndex, number: usize) -> &AtomicU64 {
        assert!(number < WORDS, "a word lies in its record");
        self.memory.word(Self::start_of(index) + 8 * (1 + number))
    }

    /// The places of all records, in ascending order.
    pub(crate) fn used(&self) -> impl Iterator<Item = TableIndex> + '_ {
        (0..self.ever_used()).map(TableIndex).filter(|index| self.generation(*index).is_some())
    }

    /// The end of the places that a record ever had.
    fn ever_used(&self) -> u32 {
        let mark = self.memory.word(0).load(Ordering::Acquire);
        u32::try_from(mark).unwrap_or(u32::MAX).min(self.capacity)
    }

    fn first_word(&self, index: TableIndex) -> &AtomicU64 {
        self.memory.word(Self::start_of(index))
    }

    const fn start_of(index: TableIndex) -> usize {
        HEADER_BYTES + index.0 as usize * Self::RECORD_BYTES
    }

    const RECORD_BYTES: usize = 8 * (1 + WORDS);
}

/// A descriptor, as a word of a record names it; 0 for none. It takes the lower half of the word.
pub(crate) fn name_of(descriptor: Option<&impl AsRawFd>) -> u64 {
    descriptor.map_or(0, |descriptor| u64::from(descriptor.as_raw_fd().unsigned_abs()) + 1)
}

/// The descriptor that the lower half of a word names, if it names one.
pub(crate) fn named_by(word: u64) -> Option<RawFd> {
    RawFd::try_from(word & 0xffff_ffff).ok()?.checked_sub(1).filter(|number| *number >= 0)
}

/// Bytes before the first record: a line of the processor's cache, so that records of eight words do not straddle two.
const HEADER_BYTES: usize = 64;

/// The bit of a record's first word that says that it is used. The generation is above it.
const USED: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    type Table = SharedTable<3>;

    #[test]
    fn a_word_names_one_descriptor_or_none() {
        assert_eq!((name_of(Some(&0)), named_by(name_of(Some(&0)))), (1, Some(0)));
        assert_eq!((name_of(None::<&RawFd>), named_by(0)), (0, None));
        assert_eq!(named_by(name_of(Some(&7)) | name_of(Some(&9)) << 32), Some(7));
        assert_eq!(named_by(u64::from(u32::MAX)), None);
    }

    #[test]
    fn a_record_is_there_once_it_is_published_and_gone_once_it_is_freed() {
        let table = Table::attach(Table::memory(1000).unwrap());
        let first = table.insert([1, 2, 3]).unwrap();
        let second = table.allocate().unwrap();
        table.set(second, 0, 7);
        assert_eq!(table.used().collect::<Vec<_>>(), [first]);
        assert_eq!((table.generation(first), table.generation(second)), (Some(0), None));
        table.publish(second);
        assert_eq!(table.used().collect::<Vec<_>>(), [first, second]);
        assert_eq!([0, 1, 2].map(|number| table.get(first, number)), [1, 2, 3]);
        table.free(first);
        table.free(first);
        assert_eq!(table.used().collect::<Vec<_>>(), [second]);
        assert_eq!(table.insert([4, 5, 6]), Some(first));
        assert_eq!(table.generation(first), Some(1), "another record of that place");
        assert_ne!(table.allocate(), Some(first), "what is freed twice is given once");
    }

    #[test]
    fn the_next_process_finds_what_was_published_and_uses_what_was_free() {
        let memory = Table::memory(1000).unwrap();
        let before = Table::attach(Arc::clone(&memory));
        let records = [10, 20, 30, 40].map(|value| before.insert([value, 0, 0]).unwrap());
        before.free(records[1]);
        // The process ends between the two halves of an insertion.
        let unfinished = before.allocate().unwrap();
        let beyond = before.allocate().unwrap();
        before.set(beyond, 0, 99);
        drop(before);
        let after = Table::attach(memory);
        let found: Vec<_> = after.used().map(|index| after.get(index, 0)).collect();
        assert_eq!(found, [10, 30, 40]);
        let mut reused = [after.insert([1; 3]), after.insert([2; 3])].map(Option::unwrap);
        reused.sort_unstable();
        assert_eq!(reused, [unfinished, beyond]);
        assert_eq!(after.generation(unfinished), Some(1));
        assert_eq!(after.generation(beyond), Some(0));
        assert_eq!(after.insert([3; 3]), Some(TableIndex(5)), "one that was never used");
    }

    #[test]
    fn a_full_table_and_a_foreign_index_are_refused() {
        let table = SharedTable::<511>::attach(SharedTable::<511>::memory(2).unwrap());
        // Memory is made in whole pages, so that there may be room for more than was asked for.
        let records: Vec<_> = std::iter::from_fn(|| table.insert([0; 511])).collect();
        assert!((2..=3).contains(&records.len()));
        assert_eq!(table.generation(TableIndex(u32::MAX)), None);
        table.free(TableIndex(u32::MAX));
        assert_eq!(table.allocate(), None);
        table.free(records[0]);
        assert_eq!(table.allocate(), Some(records[0]));
    }
}
