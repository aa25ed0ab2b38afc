//! The bytes of a gathered file: pieces that programs have written lie in memory until they are recorded, and then in the container.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_gather::{EXTENTS_MOST, Log, PIECE, Piece, read_extents};
use rustix::io::Errno;

/// Content of a file; the size is the inode's. Holes have no piece.
#[derive(Debug)]
pub(in crate::scratch) struct Gathered {
    pieces: BTreeMap<u64, GatheredPiece>,
    log: Arc<Log>,
    /// Bytes that all files of the directory hold in memory.
    held: Arc<AtomicU64>,
    /// The least size since it was recorded. The container forgets what lies behind it.
    least: u64,
}

#[derive(Debug)]
enum GatheredPiece {
    /// It is not recorded as it is.
    Held(HeldPiece),
    /// It lies in the container: its extents, one behind the other.
    Placed(Vec<Piece>),
}

/// A piece in memory. Its beginning may lie in the container, so that growth alone is recorded.
#[derive(Debug, Default)]
struct HeldPiece {
    bytes: Vec<u8>,
    /// The extents of the beginning in the container.
    extents: Vec<Piece>,
    /// The length of that beginning.
    recorded: usize,
}

impl HeldPiece {
    /// Bytes from `at` on are about to change.
    fn changes_from(&mut self, at: usize) {
        if at < self.recorded {
            (self.extents, self.recorded) = (Vec::new(), 0);
        }
    }
}

/// The part of a piece that is not recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unrecorded<'c> {
    pub(super) number: u64,
    /// The place in the piece; nonzero where it grows one that is recorded.
    pub(super) from: usize,
    pub(super) bytes: &'c [u8],
}

impl Gathered {
    pub(super) fn new(log: &Arc<Log>, held: &Arc<AtomicU64>) -> Self {
        Self { pieces: BTreeMap::new(), log: Arc::clone(log), held: Arc::clone(held), least: u64::MAX }
    }

    pub(in crate::scratch) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut from = 0;
        while from < data.len() {
            let at = offset + from as u64;
            let start = (at % PIECE) as usize;
            let length = (PIECE as usize - start).min(data.len() - from);
            let end = start + length;
            let piece = self.held_piece(at / PIECE)?;
            piece.changes_from(start);
            let bytes = &mut piece.bytes;
            let before = bytes.len();
            if before < end {
                bytes.resize(end, 0);
            }
            let more = bytes.len() - before;
            bytes[start..end].copy_from_slice(&data[from..from + length]);
            self.held.fetch_add(more as u64, Ordering::Relaxed);
            from += length;
        }
        Ok(())
    }

    /// Takes a piece into memory, where it can be changed.
    fn held_piece(&mut self, number: u64) -> Result<&mut HeldPiece, Errno> {
        let piece = self.pieces.entry(number).or_insert_with(|| GatheredPiece::Held(HeldPiece::default()));
        if let GatheredPiece::Placed(extents) = piece {
            let bytes = read_extents(&*self.log, extents).map_err(|_| Errno::IO)?;
            self.held.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            let (recorded, extents) = (bytes.len(), std::mem::take(extents));
            *piece = GatheredPiece::Held(HeldPiece { bytes, extents, recorded });
        }
        match piece {
            GatheredPiece::Held(held) => Ok(held),
            GatheredPiece::Placed(_) => Err(Errno::IO),
        }
    }

    /// Fills `buffer`, with zeros where nothing was written.
    pub(in crate::scratch) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        buffer.fill(0);
        let end = offset.saturating_add(buffer.len() as u64);
        for (number, piece) in self.pieces.range(offset / PIECE..end.div_ceil(PIECE)) {
            let base = number * PIECE;
            let length = match piece {
                GatheredPiece::Held(held) => held.bytes.len() as u64,
                GatheredPiece::Placed(extents) => extents.iter().map(|extent| u64::from(extent.length)).sum(),
            };
            let (from, to) = (offset.max(base), end.min(base + length));
            if from >= to {
                continue;
            }
            let into = &mut buffer[(from - offset) as usize..(to - offset) as usize];
            let start = from - base;
            match piece {
                GatheredPiece::Held(held) => {
                    into.copy_from_slice(&held.bytes[start as usize..][..into.len()])
                }
                GatheredPiece::Placed(extents) => self.read_within(extents, start, into)?,
            }
        }
        Ok(())
    }

    /// Fills `into` from the byte `start` of a piece on.
    fn read_within(&self, extents: &[Piece], mut start: u64, mut into: &mut [u8]) -> Result<(), Errno> {
        for extent in extents {
            let length = u64::from(extent.length);
            if start < length && !into.is_empty() {
                let here = into.len().min((length - start) as usize);
                let (now, rest) = into.split_at_mut(here);
                self.log.read(now, extent.place + start)?;
                into = rest;
            }
            start = start.saturating_sub(length);
        }
        Ok(())
    }

    /// Forgets what lies behind `size`.
    pub(in crate::scratch) fn truncate(&mut self, size: u64) -> Result<(), Errno> {
        let (last, rest) = (size / PIECE, (size % PIECE) as usize);
        if rest > 0 && self.pieces.contains_key(&last) {
            let piece = self.held_piece(last)?;
            let before = piece.bytes.len();
            piece.changes_from(rest);
            piece.bytes.truncate(rest);
            let less = before - piece.bytes.len();
            self.held.fetch_sub(less as u64, Ordering::Relaxed);
        }
        let behind = self.pieces.split_off(&size.div_ceil(PIECE));
        self.forget(behind.values());
        self.least = self.least.min(size);
        Ok(())
    }

    /// The least size since this was asked last.
    pub(super) fn least_size(&mut self) -> u64 {
        std::mem::replace(&mut self.least, u64::MAX)
    }

    /// Makes a range read as zeros.
    pub(in crate::scratch) fn zero(&mut self, offset: u64, length: u64) -> Result<(), Errno> {
        let end = offset.saturating_add(length);
        let numbers: Vec<u64> =
            self.pieces.range(offset / PIECE..end.div_ceil(PIECE)).map(|(number, _)| *number).collect();
        for number in numbers {
            let piece = self.held_piece(number)?;
            let length = piece.bytes.len();
            let within = |at: u64| (at.saturating_sub(number * PIECE).min(PIECE) as usize).min(length);
            let (from, to) = (within(offset), within(end));
            piece.changes_from(from);
            piece.bytes[from..to].fill(0);
        }
        Ok(())
    }

    /// Bytes that are not recorded.
    pub(super) fn unrecorded(&self) -> u64 {
        self.unrecorded_parts().map(|part| part.bytes.len() as u64).sum()
    }

    /// The parts that are not recorded. **Shape** sorted by number; none is empty.
    pub(super) fn unrecorded_parts(&self) -> impl Iterator<Item = Unrecorded<'_>> {
        self.pieces.iter().filter_map(|(number, piece)| match piece {
            GatheredPiece::Held(held) => {
                let from = if held.extents.len() < EXTENTS_MOST { held.recorded } else { 0 };
                let is_recorded = held.recorded == held.bytes.len();
                let bytes = &held.bytes[from..];
                (!is_recorded).then_some(Unrecorded { number: *number, from, bytes })
            }
            GatheredPiece::Placed(_) => None,
        })
    }

    /// Takes all pieces into memory, so that they are recorded again.
    pub(super) fn hold_all(&mut self) -> Result<(), Errno> {
        let numbers: Vec<u64> = self.pieces.keys().copied().collect();
        numbers.into_iter().try_for_each(|number| self.held_piece(number).map(drop))
    }

    /// The pieces in memory. **Shape** sorted by number; none is empty.
    pub(super) fn held_pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pieces.iter().filter_map(|(number, piece)| match piece {
            GatheredPiece::Held(held) if !held.bytes.is_empty() => Some((*number, &*held.bytes)),
            _ => None,
        })
    }

    /// Pieces were recorded whole: their bytes leave memory.
    pub(super) fn place(&mut self, pieces: &[(u64, Piece)]) {
        for (number, piece) in pieces {
            self.set_placed(*number, vec![*piece]);
        }
    }

    /// A piece has grown by what was recorded, and its bytes leave memory.
    pub(super) fn place_growth(&mut self, pieces: &[(u64, Piece)]) {
        for (number, piece) in pieces {
            let Some(GatheredPiece::Held(held)) = self.pieces.get_mut(number) else { continue };
            let extents = std::mem::take(&mut held.extents).into_iter().chain([*piece]).collect();
            self.set_placed(*number, extents);
        }
    }

    /// Pieces that are in memory and recorded leave it.
    pub(super) fn release(&mut self) {
        let is_recorded = |held: &HeldPiece| held.recorded > 0 && held.recorded == held.bytes.len();
        let recorded = self.pieces.iter().filter_map(|(number, piece)| match piece {
            GatheredPiece::Held(held) if is_recorded(held) => Some((*number, held.extents.clone())),
            _ => None,
        });
        for (number, extents) in recorded.collect::<Vec<_>>() {
            self.set_placed(number, extents);
        }
    }

    fn set_placed(&mut self, number: u64, extents: Vec<Piece>) {
        let before = self.pieces.insert(number, GatheredPiece::Placed(extents));
        self.forget(before.iter());
    }

    fn forget<'p>(&self, pieces: impl Iterator<Item = &'p GatheredPiece>) {
        let held = pieces.filter_map(|piece| match piece {
            GatheredPiece::Held(held) => Some(held.bytes.len()),
            GatheredPiece::Placed(_) => None,
        });
        self.held.fetch_sub(held.sum::<usize>() as u64, Ordering::Relaxed);
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        self.forget(self.pieces.values());
    }
}
