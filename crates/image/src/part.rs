//! A file that an image holds in part: which of its bytes are there, each stretch one slice of the image.
//!
//! ```text
//! map    after the inode: for each chunk of the file the block that it lies in, or UNHELD
//! data   the held chunks, one after the other in the order of the file, from the row's `first` block on
//! ```
//!
//! The data of a file is contiguous, so neighbours in the file are neighbours in the image. Nothing is trusted: a
//! block outside the data counts as not held.

use std::ops::Range;

use crate::blocks::BlockSet;
use crate::bytes::{span, u32_at};
use crate::erofs::{BLOCK_BYTES, chunk};

/// The content of a file that is held in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePart<'a> {
    /// Entries of the chunks. Shape: whole entries, one for each chunk.
    pub(crate) map: &'a [u8],
    /// The held chunks. Shape: whole blocks.
    pub(crate) data: &'a [u8],
    /// Block of the image in which `data` begins.
    pub(crate) first: u32,
    /// Bytes of a chunk.
    pub(crate) chunk: u64,
    /// Bytes of the file.
    pub(crate) size: u64,
}

/// A stretch of a file that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartRun<'a> {
    /// Offset in the file: on a block.
    pub offset: u64,
    /// Its bytes, which start on a page of the image.
    pub bytes: &'a [u8],
}

impl PartRun<'_> {
    /// Range of the file.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes.len() as u64
    }
}

impl<'a> FilePart<'a> {
    /// The bytes of `range`, cut at the end of the file, if all of them are held.
    pub fn bytes(&self, range: Range<u64>) -> Option<&'a [u8]> {
        let end = range.end.min(self.size);
        if range.start >= end {
            return Some(&[]);
        }
        let run = self.run_at(range.start, end)?;
        let from = usize::try_from(range.start - run.offset).ok()?;
        let length = usize::try_from(end - range.start).ok()?;
        run.bytes.get(from..from.checked_add(length)?)
    }

    /// The held stretches, in the order of the file.
    pub fn runs(&self) -> PartRuns<'a> {
        self.runs_in(0..self.size)
    }

    /// The held stretches that touch `range`, of whole chunks, in the order of the file.
    pub fn runs_in(&self, range: Range<u64>) -> PartRuns<'a> {
        PartRuns { part: *self, at: range.start / self.chunk * self.chunk, end: range.end.min(self.size) }
    }

    /// All held chunks, one after the other, as [`ContentSource::Part`](crate::ContentSource::Part) takes them from another image.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// The blocks that are held.
    pub fn blocks(&self) -> BlockSet {
        let mut blocks = BlockSet::default();
        self.runs().for_each(|run| blocks.insert_bytes(run.range()));
        blocks
    }

    /// Bytes of the file that are held.
    pub fn held_bytes(&self) -> u64 {
        self.runs().map(|run| run.bytes.len() as u64).sum()
    }

    /// Bytes of the whole file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The run from the chunk that holds `offset`, to `end` at least where so much is held; `None` if it is not.
    fn run_at(&self, offset: u64, end: u64) -> Option<PartRun<'a>> {
        let first = offset / self.chunk;
        let start = self.place(first)?;
        let mut next = first + 1;
        while next * self.chunk < end && self.place(next) == Some(start + (next - first) * self.chunk) {
            next += 1;
        }
        let offset = first * self.chunk;
        let bytes = span(self.data, start, (next * self.chunk).min(self.size) - offset)?;
        Some(PartRun { offset, bytes })
    }

    /// Offset of chunk `number` in the data, if it is held and lies there whole.
    fn place(&self, number: u64) -> Option<u64> {
        let at = usize::try_from(number.checked_mul(chunk::ENTRY)?).ok()?;
        let block = u32_at(self.map, at).filter(|&block| block != chunk::UNHELD)?;
        let start = u64::from(block.checked_sub(self.first)?) * BLOCK_BYTES;
        let length = self.chunk.min(self.size.checked_sub(number.checked_mul(self.chunk)?)?);
        (start + length <= self.data.len() as u64).then_some(start)
    }
}

/// The held stretches of a file.
#[derive(Debug, Clone)]
pub struct PartRuns<'a> {
    part: FilePart<'a>,
    at: u64,
    end: u64,
}

impl<'a> Iterator for PartRuns<'a> {
    type Item = PartRun<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.end {
            if let Some(run) = self.part.run_at(self.at, self.end) {
                self.at = run.range().end;
                return Some(run);
            }
            self.at = self.at.saturating_add(self.part.chunk);
        }
        None
    }
}
