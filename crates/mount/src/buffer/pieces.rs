//! The buffers of one file: aligned pieces of it in memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::ranges::Ranges;

/// One buffer.
#[derive(Debug)]
struct Piece {
    /// As long as what it holds reaches.
    data: Vec<u8>,
    /// Bytes that are as the file has them, or will have them.
    valid: Ranges,
    /// Bytes that the file does not have yet. All are valid.
    dirty: Ranges,
    /// The first change that the file does not have.
    since: Option<Instant>,
    read: Instant,
    used: u64,
}

/// Bytes that are to be written at an offset.
#[derive(Debug)]
pub(super) struct Unwritten {
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
    pub(super) dirty: Ranges,
}

impl Unwritten {
    /// Bytes that programs wrote.
    pub(super) fn bytes(&self) -> u64 {
        self.dirty.iter().map(|range| range.len() as u64).sum()
    }
}

/// Buffers of `size` bytes, by their place.
#[derive(Debug)]
pub(super) struct Pieces {
    size: usize,
    pieces: BTreeMap<u64, Piece>,
    clock: u64,
    /// The end of the file, where a read found it.
    end: Option<u64>,
}

impl Pieces {
    pub(super) fn new(size: u32) -> Self {
        Self { size: size as usize, pieces: BTreeMap::new(), clock: 0, end: None }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.values().map(|piece| piece.data.capacity() as u64).sum()
    }

    /// The parts of a range by piece: its place, the range in it, and the range in the whole.
    fn parts(
        &self,
        offset: u64,
        length: usize,
    ) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> + use<> {
        let size = self.size;
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let within = usize::try_from(at % size as u64).unwrap_or(0);
            let step = (size - within).min(length - done);
            let part = (at / size as u64, within..within + step, done..done + step);
            done += step;
            (step > 0).then_some(part)
        })
    }

    fn piece(&mut self, index: u64, reach: usize) -> &mut Piece {
        self.clock += 1;
        let (clock, now) = (self.clock, Instant::now());
        let piece = self.pieces.entry(index).or_insert_with(|| Piece {
            data: Vec::new(),
            valid: Ranges::default(),
            dirty: Ranges::default(),
            since: None,
            read: now,
            used: clock,
        });
        piece.used = clock;
        if piece.data.len() < reach {
            piece.data.resize(reach, 0);
        }
        piece
    }

    /// True for a range of whole buffers of which none has anything to write.
    pub(super) fn is_whole(&self, offset: u64, length: usize) -> bool {
        let size = self.size as u64;
        offset.is_multiple_of(size)
            && (length as u64).is_multiple_of(size)
            && self.pieces.values().all(|piece| piece.since.is_none())
    }

    /// Takes what a program wrote. Returns the places of buffers that are to be written because they are full.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Vec<u64> {
        let end = offset + data.len() as u64;
        self.end = self.end.map(|known| known.max(end));
        let size = self.size;
        let mut full = Vec::new();
        for (index, within, part) in self.parts(offset, data.len()) {
            let piece = self.piece(index, within.end);
            piece.data[within.clone()].copy_from_slice(&data[part]);
            piece.valid.insert(within.clone());
            piece.dirty.insert(within);
            piece.since.get_or_insert_with(Instant::now);
            if piece.dirty.covers(&(0..size)) {
                full.push(index);
            }
        }
        full
    }

    /// Takes what was read from the file. `is_end`: no byte follows.
    pub(super) fn fill(&mut self, offset: u64, data: &[u8], is_end: bool) {
        for (index, within, part) in self.parts(offset, data.len()) {
            let piece = self.piece(index, within.end);
            for gap in piece.dirty.gaps(within.clone()) {
                let from = part.start + gap.start - within.start;
                piece.data[gap.clone()].copy_from_slice(&data[from..from + gap.len()]);
            }
            piece.valid.insert(within);
            piece.read = Instant::now();
        }
        if is_end {
            let end = offset + data.len() as u64;
            self.end = Some(end.max(self.dirty_end().unwrap_or(0)));
        }
    }

    /// Copies to `out` what is there, if all of it is up to the end of the file. Returns the number of bytes.
    pub(super) fn read(&mut self, offset: u64, out: &mut [u8]) -> Option<usize> {
        let length = match self.end {
            Some(end) => usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len()),
            None => out.len(),
        };
        let parts: Vec<_> = self.parts(offset, length).collect();
        let has = |(index, within, _): &(u64, Range<usize>, Range<usize>)| {
            self.pieces.get(index).is_some_and(|piece| piece.valid.covers(within))
        };
        if !parts.iter().all(has) {
            return None;
        }
        for (index, within, part) in parts {
            let piece = self.piece(index, within.end);
            out[part].copy_from_slice(&piece.data[within]);
        }
        Some(length)
    }

    /// Puts what the file does not have yet over bytes that were read from it.
    pub(super) fn overlay(&self, offset: u64, out: &mut [u8]) {
        for (index, within, part) in self.parts(offset, out.len()) {
            let Some(piece) = self.pieces.get(&index) else { continue };
            for dirty in piece.dirty.iter() {
                let common = dirty.start.max(within.start)..dirty.end.min(within.end);
                if !common.is_empty() {
                    let to = part.start + common.start - within.start;
                    out[to..to + common.len()].copy_from_slice(&piece.data[common]);
                }
            }
        }
    }

    /// The end of what the file does not have yet.
    pub(super) fn dirty_end(&self) -> Option<u64> {
        let end = |(index, piece): (&u64, &Piece)| {
            (!piece.dirty.is_empty()).then(|| index * self.size as u64 + piece.dirty.hull().end as u64)
        };
        self.pieces.iter().rev().find_map(end)
    }

    /// The bytes of one buffer that the file does not have yet.
    pub(super) fn unwritten(&self, index: u64) -> Option<Unwritten> {
        let piece = self.pieces.get(&index).filter(|piece| !piece.dirty.is_empty())?;
        let hull = piece.dirty.hull();
        let offset = index * self.size as u64 + hull.start as u64;
        Some(Unwritten { offset, data: piece.data[hull].to_vec(), dirty: piece.dirty.clone() })
    }

    /// Places of buffers with bytes that the file does not have, in order: all, or those older than that.
    pub(super) fn dirty(&self, older: Duration) -> Vec<u64> {
        let is_old = |piece: &Piece| piece.since.is_some_and(|since| since.elapsed() >= older);
        self.pieces.iter().filter(|(_, piece)| is_old(piece)).map(|(index, _)| *index).collect()
    }

    /// The file has the bytes of a buffer, or will never have them.
    pub(super) fn written(&mut self, index: u64) {
        if let Some(piece) = self.pieces.get_mut(&index) {
            (piece.dirty, piece.since) = (Ranges::default(), None);
        }
    }

    /// The buffer that was not used for the longest time.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.pieces.iter().min_by_key(|(_, piece)| piece.used).map(|(index, _)| *index)
    }

    pub(super) fn drop_piece(&mut self, index: u64) {
        self.pieces.remove(&index);
    }

    /// Forgets everything that was read longer ago. All bytes were written before.
    pub(super) fn drop_clean(&mut self, older: Duration) {
        let before = self.pieces.len();
        self.pieces.retain(|_, piece| piece.since.is_some() || piece.read.elapsed() < older);
        if self.pieces.len() < before || older.is_zero() {
            self.end = None;
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.end = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes what the file does not have, and drops some pieces.
    fn write_all(pieces: &mut Pieces, file: &mut [u8], drops: &mut dyn FnMut() -> bool) {
        for index in pieces.dirty(Duration::ZERO) {
            let unwritten = pieces.unwritten(index).unwrap();
            let start = unwritten.dirty.hull().start;
            for part in unwritten.dirty.iter() {
                let at = unwritten.offset as usize + part.start - start;
                let data = &unwritten.data[part.start - start..part.end - start];
                file[at..at + data.len()].copy_from_slice(data);
            }
            pieces.written(index);
            if drops() {
                pieces.drop_piece(index);
            }
        }
    }

    /// Reads a range, of which the file has other bytes.
    fn read_all(pieces: &mut Pieces, file: &[u8], offset: u64, out: &mut [u8]) {
        match pieces.read(offset, out) {
            Some(bytes) => assert_eq!(bytes, out.len()),
            None => {
                out.copy_from_slice(file);
                pieces.overlay(offset, out);
            }
        }
    }

    /// Random writes, fills and reads against a plain array.
    #[test]
    fn pieces_read_as_a_file_would() {
        let mut seed = 11_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..100 {
            let mut pieces = Pieces::new(16);
            let (mut file, mut seen) = (vec![1_u8; 100], vec![1_u8; 100]);
            for step in 0..60_u8 {
                let offset = next(90);
                let length = (1 + next(40)).min(100 - offset);
                let range = offset..offset + length;
                match next(4) {
                    0 => {
                        let data = vec![step + 2; length];
                        pieces.write(offset as u64, &data);
                        seen[range].copy_from_slice(&data);
                    }
                    1 => pieces.fill(offset as u64, &file[range.clone()], range.end == 100),
                    2 => {
                        let mut out = vec![0; length];
                        read_all(&mut pieces, &file[range.clone()], offset as u64, &mut out);
                        assert_eq!(out, seen[range]);
                    }
                    _ => {
                        write_all(&mut pieces, &mut file, &mut || next(2) == 0);
                        assert_eq!(file, seen);
                    }
                }
            }
        }
    }
}
