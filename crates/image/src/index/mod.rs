//! quell's own index: what EROFS has no place for. It is the data of `/.quell/index`.
//!
//! ```text
//! header, 192 bytes
//!     0 magic "QUELLIDX"        24 identity [32]            80 six sections: offset u64, count u64
//!     8 version u32             56 held files u64              rows, roots, live, command,
//!    12 checksum u32            64 nodes u64                   absences, pool
//!    16 length u64              72 bytes of content u64    176 flags u64: bit 0 complete; 184 directory: a string
//! rows      one of 64 bytes for each inode, in order of nids: see `row`
//! roots     32 bytes each: nid u64, then strings: path, reason, file system type
//! live      32 bytes each: nid u64, then strings: path, reason, empty
//! command   8 bytes for each argument: a string
//! absences  8 bytes for each name: a string; those of one directory lie side by side, sorted by byte
//! pool      the bytes of all strings
//! ```
//!
//! A complete image is all that a run has: nothing is asked of originals. The directory is where the recorded command
//! was started. Images of version 1 have zeros there.
//!
//! A string is an offset into the pool (u32) and a length (u32). The checksum is CRC-32C of everything from
//! offset 16. An inode names its row by number (`ino - 1`), so nothing is searched and nothing is parsed at
//! start-up but the header, the roots, the live directories and the command.
//!
//! The identity is BLAKE3 of the whole image with the first 1152 bytes, the identity and the checksum
//! of the index as zeros.

pub(crate) mod read;
pub(crate) mod row;

use std::fmt;

/// Path of the index in the tree. Part of the format.
pub(crate) const INDEX_PATH: [&[u8]; 2] = [b".quell", b"index"];

/// Path of the packer's record of what the recordings requested, beside the index. Part of the format.
pub const REQUESTS_PATH: [&[u8]; 2] = [INDEX_PATH[0], b"asked"];

/// First bytes of an index.
pub(crate) const MAGIC: &[u8; 8] = b"QUELLIDX";

/// Version of the index. Readers refuse newer ones and read all older ones. 2 has files that are held in part, 3 tells which
/// complete directories were only searched, and has absences of complete directories.
pub(crate) const VERSION: u32 = 3;

/// Size of the header in bytes: a multiple of the rows' size keeps them aligned in memory.
pub(crate) const HEADER: usize = 192;

/// Offset of the checksum in the header.
pub(crate) const CHECKSUM_AT: usize = 12;

/// Offset from which the checksum is computed.
pub(crate) const CHECKED_FROM: usize = 16;

/// Offset of the identity in the header.
pub(crate) const IDENTITY_AT: usize = 24;

/// Offset of the section table in the header.
pub(crate) const SECTIONS_AT: usize = 80;

/// Offset of the flags in the header.
pub(crate) const FLAGS_AT: usize = 176;

/// The flag of a complete image.
pub(crate) const COMPLETE: u64 = 1;

/// Offset of the recorded directory in the header.
pub(crate) const DIRECTORY_AT: usize = 184;

/// Size of a root or live directory in bytes.
pub(crate) const PLACE: usize = 32;

/// Size of a reference to a string in bytes.
pub(crate) const STRING: usize = 8;

/// A digest of an image: equal for equal content, on any node and at any time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageIdentity(pub(crate) [u8; 32]);

impl ImageIdentity {
    /// The 32 bytes of the digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for ImageIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for ImageIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Identity({self})")
    }
}
