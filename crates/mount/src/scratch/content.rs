//! The bytes of a file: in memory as long as there is room, then in a file of a store.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;

use super::gather::{EarlierFile, Gathered};
use super::originals::OriginalState;
use super::stored::Stored;
use crate::fuse::original;

/// Bytes of one piece of a file in memory.
const PIECE: u64 = 64 << 10;

/// Memory that all scratch directories of a node may take.
#[derive(Debug)]
pub(super) struct Budget {
    /// Content beyond it goes to a store.
    limit: u64,
    /// Nothing goes beyond it: the process would be killed.
    ceiling: u64,
    used: AtomicU64,
}

impl Budget {
    /// **Parameters** `room`: the memory that the process can get, if there is a limit. Most of it is left to what is not
    /// counted: buffers, tables that double, and the gaps between pieces.
    pub(super) fn new(limit: u64, room: Option<u64>) -> Self {
        let ceiling = room.map_or(u64::MAX, |room| room / 3);
        Self { limit: limit.min(ceiling / 2), ceiling, used: AtomicU64::new(0) }
    }

    /// Takes memory, if there is so much left.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit);
        bytes == 0 || self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// The memory that the process can still take for what can lie nowhere else.
    pub(super) fn room(&self) -> u64 {
        self.ceiling.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Takes memory, whatever the limit: for what can lie nowhere else.
    pub(super) fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Content of a file; the size is the inode's.
#[derive(Debug)]
pub(super) enum Content {
    /// Still that of the original, which must be in the state in which a program first changed the file's attributes or names.
    Original(OriginalState),
    Memory(Pieces),
    Stored(Stored),
    /// New content in a directory that is gathered.
    Gathered(Gathered),
    /// A file of a container that lay there before.
    Earlier(EarlierFile),
}

/// Content in memory. Holes take none.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: BTreeMap<u64, Vec<u8>>,
    held: u64,
    budget: Arc<Budget>,
}

impl Pieces {
    pub(super) fn new(budget: &Arc<Budget>) -> Self {
        Self { pieces: BTreeMap::new(), held: 0, budget: Arc::clone(budget) }
    }

    /// Writes within the budget. False: there is no room, and the content is as before.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> bool {
        self.put(offset, data, Budget::take)
    }

    /// Writes past the budget, where no store takes the file.
    ///
    /// **Errors** `ENOMEM` where the process gets no more.
    pub(super) fn write_anyhow(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let take = |budget: &Budget, bytes| {
            let has_room = bytes <= budget.room();
            if has_room {
                budget.charge(bytes);
            }
            has_room
        };
        if self.put(offset, data, take) { Ok(()) } else { Err(Errno::NOMEM) }
    }

    fn put(&mut self, offset: u64, data: &[u8], take: impl Fn(&Budget, u64) -> bool) -> bool {
        if !parts(offset, data.len()).all(|part| self.grow(&part, &take)) {
            return false;
        }
        for part in parts(offset, data.len()) {
            let piece = self.pieces.entry(part.piece).or_default();
            if piece.len() < part.end {
                piece.resize(part.end, 0);
            }
            piece[part.start..part.end].copy_from_slice(&data[part.from..part.from + part.end - part.start]);
        }
        true
    }

    /// Takes the memory that a write of `part` needs.
    fn grow(&mut self, part: &Part, take: impl Fn(&Budget, u64) -> bool) -> bool {
        let piece = self.pieces.entry(part.piece).or_default();
        let capacity = capacity_for(piece.capacity(), part.end);
        let more = (capacity - piece.capacity()) as u64;
        if more == 0 {
            return true;
        }
        if !take(&self.budget, more) {
            return false;
        }
        if piece.try_reserve_exact(capacity - piece.len()).is_err() {
            self.budget.give_back(more);
            return false;
        }
        self.held += more;
        true
    }

    /// Fills `buffer`, with zeros where nothing was written.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        buffer.fill(0);
        for part in parts(offset, buffer.len()) {
            let Some(piece) = self.pieces.get(&part.piece) else { continue };
            let end = part.end.min(piece.len());
            if part.start < end {
                buffer[part.from..part.from + end - part.start].copy_from_slice(&piece[part.start..end]);
            }
        }
    }

    /// Forgets what lies behind `size`.
    pub(super) fn truncate(&mut self, size: u64) {
        let (first, rest) = (size / PIECE, (size % PIECE) as usize);
        let behind = self.pieces.split_off(&first);
        for (piece, mut bytes) in behind {
            if piece == first && rest > 0 {
                bytes.truncate(rest);
                self.pieces.insert(piece, bytes);
                continue;
            }
            self.held -= bytes.capacity() as u64;
            self.budget.give_back(bytes.capacity() as u64);
        }
    }

    /// Makes a range read as zeros.
    pub(super) fn zero(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        for (number, piece) in self.pieces.range_mut(offset / PIECE..=end / PIECE) {
            let base = number * PIECE;
            let within = |at: u64| (at.saturating_sub(base).min(PIECE) as usize).min(piece.len());
            let (from, to) = (within(offset), within(end));
            piece[from..to].fill(0);
        }
    }

    /// Hands each piece with its offset to `put`.
    pub(super) fn each(&self, mut put: impl FnMut(u64, &[u8]) -> Result<(), Errno>) -> Result<(), Errno> {
        self.pieces.iter().try_for_each(|(piece, bytes)| put(piece * PIECE, bytes))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.budget.give_back(self.held);
    }
}

/// The capacity that a piece gets when it must reach up to `end`: twice its old one, so that small writes do not copy it each
/// time.
fn capacity_for(has: usize, end: usize) -> usize {
    if end <= has { has } else { end.max((2 * has).min(PIECE as usize)) }
}

/// The part of a range of a file that lies in one piece.
struct Part {
    piece: u64,
    /// In the piece.
    start: usize,
    end: usize,
    /// In the range.
    from: usize,
}

fn parts(offset: u64, length: usize) -> impl Iterator<Item = Part> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = offset.saturating_add(from as u64);
        let start = (at % PIECE) as usize;
        let length = (PIECE as usize - start).min(length - from);
        let part = Part { piece: at / PIECE, start, end: start + length, from };
        from += length;
        (length > 0).then_some(part)
    })
}

impl Content {
    /// Reads as many bytes as `buffer` has; the caller knows that the file has so many.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        match self {
            Self::Original(_) => return Err(Errno::BADF),
            Self::Memory(pieces) => pieces.read(offset, buffer),
            Self::Gathered(gathered) => gathered.read(offset, buffer)?,
            Self::Earlier(earlier) => earlier.read(offset, buffer)?,
            Self::Stored(stored) => {
                let read = original::read_at(&*stored.open()?, buffer, offset)?;
                buffer[read..].fill(0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pieces: &Pieces, size: usize) -> Vec<u8> {
        let mut buffer = vec![9; size];
        pieces.read(0, &mut buffer);
        buffer
    }

    #[test]
    fn pieces_hold_what_a_file_would() {
        let budget = Arc::new(Budget::new(1 << 30, None));
        let mut pieces = Pieces::new(&budget);
        let mut model = vec![0_u8; 400_000];
        let mut seed = 7_u64;
        let mut next = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        for round in 0..500_u32 {
            let offset = next(300_000);
            let length = next(100_000) as usize;
            match next(4) {
                0 => {
                    pieces.truncate(offset);
                    model[offset as usize..].fill(0);
                }
                1 => {
                    pieces.zero(offset, length as u64);
                    model[offset as usize..offset as usize + length].fill(0);
                }
                _ => {
                    let data = vec![round as u8; length];
                    assert!(pieces.write(offset, &data));
                    model[offset as usize..offset as usize + length].copy_from_slice(&data);
                }
            }
            assert!(bytes(&pieces, model.len()) == model, "round {round}");
            let held: usize = pieces.pieces.values().map(Vec::capacity).sum();
            assert_eq!(pieces.held, held as u64);
        }
        drop(pieces);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_write_past_the_budget_changes_nothing() {
        let budget = Arc::new(Budget::new(100, None));
        let mut pieces = Pieces::new(&budget);
        assert!(pieces.write(0, &[1; 60]));
        assert!(!pieces.write(60, &[2; 60]));
        assert_eq!(bytes(&pieces, 70)[55..65], [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]);
        pieces.truncate(0);
        assert!(pieces.write(0, &[3; 100]));
    }
}
