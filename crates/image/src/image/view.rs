//! The EROFS side of an image: inodes, and the data of directories and links.

use crate::bytes::span;
use crate::erofs::inode::{DataLayout, INODE, Inode};
use crate::erofs::superblock::{SUPER_OFFSET, SUPER_SIZE};
use crate::erofs::{BLOCK_BYTES, SLOT, blocks_for};
use crate::error::{Corrupt, Fault};
use crate::model::Nid;

/// Offset of the node's inode in the image; beyond any image if the number is forged.
pub(crate) fn address(nid: Nid) -> u64 {
    nid.value().saturating_mul(SLOT)
}

/// The EROFS side of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErofsView<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> ErofsView<'a> {
    /// The inode of `nid`.
    pub(crate) fn inode(&self, nid: Nid) -> Result<Inode, Corrupt> {
        let behind_superblock = address(nid) >= (SUPER_OFFSET + SUPER_SIZE) as u64;
        let raw = span(self.bytes, address(nid), INODE as u64).filter(|_| behind_superblock);
        raw.and_then(Inode::parse).ok_or(Fault::Inode.at(nid))
    }

    /// The used bytes of block `number` of the data of a node with flat layout.
    pub(crate) fn block(&self, nid: Nid, inode: &Inode, number: u64) -> Option<&'a [u8]> {
        let blocks = blocks_for(inode.size);
        let used = inode.size.checked_sub(number.checked_mul(BLOCK_BYTES)?)?.min(BLOCK_BYTES);
        let at = match inode.layout {
            DataLayout::Chunks => return None,
            DataLayout::Inline if number + 1 == blocks => {
                let tail = address(nid) + INODE as u64 + u64::from(inode.xattr_bytes);
                // The kernel refuses a tail that crosses a block, so it must not work here either.
                (tail % BLOCK_BYTES + used <= BLOCK_BYTES).then_some(tail)?
            }
            DataLayout::Plain | DataLayout::Inline => (u64::from(inode.start) + number) * BLOCK_BYTES,
        };
        span(self.bytes, at, used)
    }
}
