//! Directory blocks: fixed records, then the names, sorted by byte across and within blocks.
//!
//! ```text
//! | nid u64, nameoff u16, type u8, 0 | ... n records of 12 bytes | name 0 | name 1 | ... | zeros |
//! ```
//!
//! The first record's `nameoff` divided by 12 is n. A name ends where the next begins; the last one ends at
//! the block's end or at its first zero byte. `.` and `..` are entries like any other.

use std::cmp::Ordering;

use crate::bytes::{u16_at, u64_at};
use crate::erofs::{BLOCK, NAME_MAX};
use crate::model::{FileKind, Nid};

/// Size of a record in bytes.
pub(crate) const DIRENT: usize = 12;

/// One entry as it lies in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dirent<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) nid: Nid,
    pub(crate) kind: FileKind,
}

/// A directory block, bounds known: at least one record, all records within the block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirBlock<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> DirBlock<'a> {
    /// Takes `bytes`, the used part of a block; `None` if the records do not fit.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let first = usize::from(u16_at(bytes, 8)?);
        let whole = first >= DIRENT && first.is_multiple_of(DIRENT) && first <= bytes.len();
        whole.then_some(Self { bytes, count: first / DIRENT })
    }

    /// Number of entries, at least 1.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The name of entry `i`; `None` if its bounds are not those of a name.
    pub(crate) fn name(&self, i: usize) -> Option<&'a [u8]> {
        let start = self.name_offset(i)?;
        let name = if i + 1 < self.count {
            self.bytes.get(start..self.name_offset(i + 1)?)?
        } else {
            let rest = self.bytes.get(start..)?;
            let end = rest.iter().take(NAME_MAX + 1).position(|&byte| byte == 0);
            &rest[..end.unwrap_or(rest.len())]
        };
        (!name.is_empty() && name.len() <= NAME_MAX).then_some(name)
    }

    /// Entry `i`; `None` if it is not well formed.
    pub(crate) fn entry(&self, i: usize) -> Option<Dirent<'a>> {
        let at = i.checked_mul(DIRENT)?;
        let kind = FileKind::from_dirent_type(*self.bytes.get(at + 10)?)?;
        Some(Dirent { name: self.name(i)?, nid: Nid::new(u64_at(self.bytes, at)?), kind })
    }

    /// Finds `name` by binary search: `Some(Ok(i))`, or `Some(Err(()))` if there is none; `None` if a name
    /// on the way is not well formed.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Result<usize, ()>> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name(middle)?.cmp(name) {
                Ordering::Equal => return Some(Ok(middle)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Some(Err(()))
    }

    fn name_offset(&self, i: usize) -> Option<usize> {
        if i >= self.count {
            return None;
        }
        let offset = usize::from(u16_at(self.bytes, i * DIRENT + 8)?);
        (offset >= self.count * DIRENT).then_some(offset)
    }
}

/// Cuts sorted names into blocks: each takes as many as fit.
///
/// **Shape** yields for each block its number of entries and its used bytes, in order.
pub(crate) fn cut<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> impl Iterator<Item = (usize, usize)> {
    let mut lengths = names.into_iter().map(|name| name.len() + DIRENT).peekable();
    std::iter::from_fn(move || {
        let (mut count, mut used) = (0, 0);
        while let Some(length) = lengths.next_if(|&length| used + length <= BLOCK) {
            used += length;
            count += 1;
        }
        (count > 0).then_some((count, used))
    })
}

/// Appends to `out` the used bytes of the block that holds `entries`, as cut by [`cut`].
pub(crate) fn encode(entries: &[Dirent<'_>], out: &mut Vec<u8>) {
    let mut offset = entries.len() * DIRENT;
    for entry in entries {
        out.extend_from_slice(&entry.nid.value().to_le_bytes());
        // A block has 4096 bytes, so an offset into it fits 16 bits.
        out.extend_from_slice(&(offset as u16).to_le_bytes());
        out.extend_from_slice(&[entry.kind.dirent_type(), 0]);
        offset += entry.name.len();
    }
    for entry in entries {
        out.extend_from_slice(entry.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(names: &[&'static str]) -> Vec<u8> {
        let entries: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(i, name)| Dirent {
                name: name.as_bytes(),
                nid: Nid::new(i as u64),
                kind: FileKind::Regular,
            })
            .collect();
        let mut out = Vec::new();
        encode(&entries, &mut out);
        out
    }

    #[test]
    fn finds_what_is_there_and_not_what_is_not() {
        let names = ["!", ".", "..", "a", "ab", "b"];
        for padding in [0, 100] {
            let mut bytes = block(&names);
            bytes.resize(bytes.len() + padding, 0);
            let block = DirBlock::parse(&bytes).unwrap();
            assert_eq!(block.len(), names.len());
            for (i, name) in names.iter().enumerate() {
                assert_eq!(block.find(name.as_bytes()), Some(Ok(i)));
                assert_eq!(block.entry(i).unwrap().name, name.as_bytes());
            }
            for name in ["", "aa", "abc", "c", " "] {
                assert_eq!(block.find(name.as_bytes()), Some(Err(())));
            }
        }
    }

    #[test]
    fn hostile_offsets_are_refused() {
        for (at, value) in [(8, 0_u16), (8, 13), (8, 4096), (20, 1), (20, 4095)] {
            let mut bytes = block(&["a", "b"]);
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
            let entry = DirBlock::parse(&bytes).and_then(|block| block.entry(1));
            assert_eq!(entry, None, "{value} at {at}");
        }
        assert!(DirBlock::parse(&[]).is_none());
    }

    #[test]
    fn blocks_are_filled_to_the_last_byte() {
        let long = [b'x'; 244];
        let names = vec![&long[..]; 33];
        assert_eq!(cut(names.clone()).collect::<Vec<_>>(), [(16, 4096), (16, 4096), (1, 256)]);
        assert_eq!(cut(Vec::new()).count(), 0);
    }
}
