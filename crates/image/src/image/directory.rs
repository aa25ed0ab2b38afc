//! The names of a directory: found by binary search, listed in order.

use crate::erofs::dirent::{self, DirBlock, Dirent};
use crate::erofs::inode::Inode;
use crate::erofs::{BLOCK, blocks_for};
use crate::error::{Corrupt, Fault};
use crate::image::view::ErofsView;
use crate::index::row::SLOTS_PER_BLOCK;
use crate::model::{FileKind, Nid};

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    /// Name without slashes; `.` and `..` occur.
    pub name: &'a [u8],
    /// Node that it means.
    pub nid: Nid,
    /// Type of the node.
    pub kind: FileKind,
    /// Position behind this entry, for [`DirectoryEntries::resume`]. Never 0.
    pub cookie: u64,
}

impl DirectoryEntry<'_> {
    /// Tells whether this is `.` or `..`.
    pub fn is_dot(&self) -> bool {
        matches!(self.name, b"." | b"..")
    }
}

/// A directory with its number of blocks, at least 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErofsDirectory<'a> {
    view: ErofsView<'a>,
    nid: Nid,
    pub(crate) inode: Inode,
    blocks: u64,
}

impl<'a> ErofsDirectory<'a> {
    /// Opens the directory `nid`.
    pub(crate) fn open(view: ErofsView<'a>, nid: Nid) -> Result<Self, Corrupt> {
        let inode = view.inode(nid)?;
        if inode.kind != FileKind::Directory {
            return Err(Fault::NotDirectory.at(nid));
        }
        // Bounds the search: no directory is larger than the image.
        if inode.size == 0 || inode.size > view.bytes.len() as u64 {
            return Err(Fault::Data.at(nid));
        }
        Ok(ErofsDirectory { view, nid, inode, blocks: blocks_for(inode.size) })
    }

    fn block(&self, number: u64) -> Result<DirBlock<'a>, Corrupt> {
        let bytes = self.view.block(self.nid, &self.inode, number);
        bytes.and_then(DirBlock::parse).ok_or(Fault::Directory.at(self.nid))
    }

    /// Finds `name`: by the blocks' first names the block, then within it.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<Dirent<'a>>, Corrupt> {
        let malformed = Fault::Directory.at(self.nid);
        let (mut low, mut high) = (0, self.blocks);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.block(middle)?.name(0).ok_or(malformed)? <= name {
                low = middle;
            } else {
                high = middle;
            }
        }
        let block = self.block(low)?;
        match block.find(name).ok_or(malformed)? {
            Ok(i) => block.entry(i).map(Some).ok_or(malformed),
            Err(()) => Ok(None),
        }
    }

    /// The entry at a slot, see the index's rows.
    pub(crate) fn at_slot(&self, slot: u32) -> Result<Dirent<'a>, Corrupt> {
        let block = self.block((slot / SLOTS_PER_BLOCK).into())?;
        block.entry((slot % SLOTS_PER_BLOCK) as usize).ok_or(Fault::Directory.at(self.nid))
    }
}

/// The entries of a directory, in order of names.
#[derive(Debug, Clone)]
pub struct DirectoryEntries<'a> {
    directory: ErofsDirectory<'a>,
    /// Slot of the next entry.
    next: u64,
    /// The block that was read last, with its number.
    block: Option<(u64, DirBlock<'a>)>,
}

impl<'a> DirectoryEntries<'a> {
    pub(crate) fn new(directory: ErofsDirectory<'a>) -> Self {
        Self { directory, next: 0, block: None }
    }

    /// Goes on after the entry that had `cookie`, from the start with 0, and ends at once beyond the end.
    #[must_use]
    pub fn resume(mut self, cookie: u64) -> Self {
        self.next = cookie;
        self
    }

    /// Reports damage once and ends.
    fn end(&mut self, corrupt: Corrupt) -> Result<DirectoryEntry<'a>, Corrupt> {
        self.next = u64::MAX;
        Err(corrupt)
    }
}

impl<'a> Iterator for DirectoryEntries<'a> {
    type Item = Result<DirectoryEntry<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        let slots = u64::from(SLOTS_PER_BLOCK);
        loop {
            let (number, i) = (self.next / slots, (self.next % slots) as usize);
            if number >= self.directory.blocks {
                return None;
            }
            let block = match self.block {
                Some((read, block)) if read == number => block,
                _ => match self.directory.block(number) {
                    Ok(block) => self.block.insert((number, block)).1,
                    Err(corrupt) => return Some(self.end(corrupt)),
                },
            };
            if i >= block.len() {
                self.next = (number + 1) * slots;
                continue;
            }
            let Some(Dirent { name, nid, kind }) = block.entry(i) else {
                return Some(self.end(Fault::Directory.at(self.directory.nid)));
            };
            self.next += 1;
            return Some(Ok(DirectoryEntry { name, nid, kind, cookie: self.next }));
        }
    }
}

/// `BLOCK` bounds the entries of a block, and slots must tell them apart.
const _: () = assert!(BLOCK / (dirent::DIRENT + 1) < SLOTS_PER_BLOCK as usize);
