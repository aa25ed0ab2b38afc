//! The superblock: 128 bytes at offset 1024 of block 0.
//!
//! ```text
//!  0 magic u32            24 build_time u64       44 xattr_blkaddr u32    86 extra_devices u16
//!  4 checksum u32         32 build_time_nsec u32  48 uuid [16]            88 devt_slotoff u16
//!  8 feature_compat u32   36 blocks u32           64 volume_name [16]     90 dirblkbits u8 ...
//! 12 blkszbits u8         40 meta_blkaddr u32     80 feature_incompat u32
//! 13 sb_extslots u8
//! 14 root_nid u16
//! 16 inos u64
//! ```
//!
//! The checksum is CRC-32C of the bytes from 1024 to the end of block 0 with the checksum's own field zero,
//! seeded with all ones and, unlike the usual CRC-32C, not inverted at the end.

use crate::bytes::{array, put, u16_at, u32_at, u64_at};
use crate::erofs::{BLOCK, BLOCK_BYTES};
use crate::error::OpenError;

/// Offset of the superblock in the image. Part of EROFS; leaves room for a boot sector.
pub(crate) const SUPER_OFFSET: usize = 1024;

/// Size of the superblock without extension slots, which an image has none of.
pub(crate) const SUPER_SIZE: usize = 128;

/// First byte of `struct erofs_super_block`, `EROFS_SUPER_MAGIC_V1`.
const MAGIC: u32 = 0xE0F5_E1E2;

/// The superblock carries a checksum (`EROFS_FEATURE_COMPAT_SB_CHKSUM`).
const COMPAT_CHECKSUM: u32 = 0x1;

/// The one timestamp is the modification time (`EROFS_FEATURE_COMPAT_MTIME`).
const COMPAT_MTIME: u32 = 0x2;

/// Files of chunks occur (`EROFS_FEATURE_INCOMPAT_CHUNKED_FILE`). No other incompatible feature is used,
/// so that every kernel from 5.15 mounts an image.
const INCOMPAT_CHUNKED: u32 = 0x4;

/// Binary logarithm of [`BLOCK`].
const BLOCK_BITS: u8 = 12;

/// The volume's name in other tools.
const VOLUME_NAME: &[u8; 16] = b"quell\0\0\0\0\0\0\0\0\0\0\0";

/// The fields of the superblock that differ between images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Node number of the root directory.
    pub(crate) root: u16,
    /// Number of inodes.
    pub(crate) inodes: u64,
    /// Length of the image in blocks.
    pub(crate) blocks: u32,
    /// The first half of the image's identity, so that foreign tools can tell images apart.
    pub(crate) uuid: [u8; 16],
}

impl Superblock {
    /// Parses and verifies the superblock of `image`, and the image's length against it.
    pub(crate) fn parse(image: &[u8]) -> Result<Self, OpenError> {
        let short = OpenError::TooShort { bytes: image.len() as u64 };
        let Some(first) = image.get(..BLOCK) else { return Err(short) };
        let raw = &first[SUPER_OFFSET..SUPER_OFFSET + SUPER_SIZE];
        let word = |at| u32_at(raw, at).unwrap_or_default();
        if word(0) != MAGIC {
            return Err(OpenError::NotErofs { found: word(0) });
        }
        if word(80) & !INCOMPAT_CHUNKED != 0 {
            return Err(OpenError::UnknownFeatures { bits: word(80) & !INCOMPAT_CHUNKED });
        }
        if raw[12] != BLOCK_BITS || raw[13] != 0 || word(40) != 0 || word(8) & COMPAT_CHECKSUM == 0 {
            return Err(OpenError::NotQuell);
        }
        let expected = checksum(first);
        if word(4) != expected {
            return Err(OpenError::SuperblockChecksum { expected, found: word(4) });
        }
        let blocks = word(36);
        let length = u64::from(blocks) * BLOCK_BYTES;
        if image.len() as u64 != length {
            return Err(OpenError::Length { expected: length, found: image.len() as u64 });
        }
        Ok(Self {
            root: u16_at(raw, 14).unwrap_or_default(),
            inodes: u64_at(raw, 16).unwrap_or_default(),
            blocks,
            uuid: array(raw, 48).unwrap_or_default(),
        })
    }

    /// Writes the superblock with its checksum into `first`, the otherwise complete block 0.
    pub(crate) fn store(&self, first: &mut [u8; BLOCK]) {
        let mut raw = [0; SUPER_SIZE];
        put(&mut raw, 0, &MAGIC.to_le_bytes());
        put(&mut raw, 8, &(COMPAT_CHECKSUM | COMPAT_MTIME).to_le_bytes());
        raw[12] = BLOCK_BITS;
        put(&mut raw, 14, &self.root.to_le_bytes());
        put(&mut raw, 16, &self.inodes.to_le_bytes());
        put(&mut raw, 36, &self.blocks.to_le_bytes());
        put(&mut raw, 48, &self.uuid);
        put(&mut raw, 64, VOLUME_NAME);
        put(&mut raw, 80, &INCOMPAT_CHUNKED.to_le_bytes());
        put(first, SUPER_OFFSET, &raw);
        let sum = checksum(first);
        put(first, SUPER_OFFSET + 4, &sum.to_le_bytes());
    }
}

/// The checksum of block 0, whatever its checksum field holds.
fn checksum(first: &[u8]) -> u32 {
    let head = crc32c::crc32c(&first[SUPER_OFFSET..SUPER_OFFSET + 4]);
    let field = crc32c::crc32c_append(head, &[0; 4]);
    !crc32c::crc32c_append(field, &first[SUPER_OFFSET + 8..BLOCK])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Vec<u8> {
        let mut first = [0; BLOCK];
        Superblock { root: 36, inodes: 3, blocks: 1, uuid: [7; 16] }.store(&mut first);
        first.to_vec()
    }

    #[test]
    fn reads_back_what_was_stored() {
        let parsed = Superblock::parse(&stored()).unwrap();
        assert_eq!(parsed, Superblock { root: 36, inodes: 3, blocks: 1, uuid: [7; 16] });
    }

    #[test]
    fn refuses_what_is_not_ours() {
        let broken = |at: usize, byte: u8| {
            let mut image = stored();
            image[at] = byte;
            Superblock::parse(&image).unwrap_err()
        };
        assert!(matches!(broken(1024, 0), OpenError::NotErofs { .. }));
        assert!(matches!(broken(1024 + 80, 0x44), OpenError::UnknownFeatures { bits: 0x40 }));
        assert!(matches!(broken(1024 + 12, 9), OpenError::NotQuell));
        assert!(matches!(broken(4095, 1), OpenError::SuperblockChecksum { .. }));
        assert!(matches!(Superblock::parse(&stored()[..4095]), Err(OpenError::TooShort { bytes: 4095 })));
        let mut longer = stored();
        longer.push(0);
        assert!(matches!(Superblock::parse(&longer), Err(OpenError::Length { expected: 4096, found: 4097 })));
    }
}
