//! The part of EROFS that an image uses: uncompressed, blocks of 4 KiB, extended inodes.
//!
//! ```text
//! block 0   | 1024 bytes of zeros | superblock, 128 bytes | inodes ...
//! inodes    | one after the other, each on a multiple of 32 bytes: header (64), xattrs,
//!           | then a directory's or link's inline tail, or a file's chunk map
//! blocks    | directory blocks and links too long for the inode, in inode order
//! index     | the data of `/.quell/index`
//! data      | regular files, each from a block of its own, in order of first access
//! ```
//!
//! A node number (nid) is the byte offset of its inode divided by 32, because the metadata area starts
//! at block 0. Inodes are laid out breadth first, the root first: the superblock has 16 bits for its nid,
//! the entries of a directory lie side by side, and a parent always comes before its children.
//!
//! Regular data is never inlined: a file is one contiguous slice that starts on a page. A file that is held in part
//! has its held blocks there, one after the other, and a map that says where each lies. Everything else
//! is inlined when its tail is at most half a block and fits the block of its inode.
//!
//! Source: `fs/erofs/erofs_fs.h` of the kernel; `Documentation/filesystems/erofs.rst`.

pub(crate) mod chunk;
pub(crate) mod dirent;
pub(crate) mod inode;
pub(crate) mod superblock;
pub(crate) mod xattr;

/// Size of a block in bytes. Part of the format; 4096 is the one size that every kernel with EROFS mounts.
pub const BLOCK: usize = 4096;

/// `BLOCK` as the type of offsets within a file.
pub const BLOCK_BYTES: u64 = BLOCK as u64;

/// Unit of node numbers in bytes. Part of EROFS (`EROFS_ISLOTBITS`).
pub(crate) const SLOT: u64 = 32;

/// Longest name of a directory entry in bytes. Part of EROFS and of Linux (`NAME_MAX`).
pub(crate) const NAME_MAX: usize = 255;

/// Number of blocks that `bytes` take.
pub(crate) fn blocks_for(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}
