//! Chunk maps: how a file is expressed of which the image holds nothing, or a part.
//!
//! ```text
//! inode.i_u   format u16: bits 0..5 = log2(chunk size / 4096), bit 5 = 8-byte entries; reserved u16
//! map         after the xattrs: one u32 block address for each chunk
//! ```
//!
//! The address [`UNHELD`] lies past the end of every image. `fsck.erofs` accepts it and a plain mount reads
//! EIO there; the null address would be a hole and read as zeros, which no reader could tell from content.

use crate::erofs::BLOCK_BYTES;

/// Block address of what the image does not hold. Part of the format: the last address but the null
/// address (all ones), so that no image can grow to reach it.
pub(crate) const UNHELD: u32 = 0xFFFF_FFFE;

/// Size of an entry of the map in bytes (`EROFS_BLOCK_MAP_ENTRY_SIZE`).
pub(crate) const ENTRY: u64 = 4;

/// Largest value of the five bits of the chunk size: chunks of 8 TiB.
pub(crate) const BITS_MAX: u32 = 31;

/// Number of bits by which a chunk exceeds a block: the fewest that express `size` bytes in one chunk.
/// **Range** 0 to 31.
pub(crate) fn bits_for(size: u64) -> u32 {
    let blocks = size.div_ceil(BLOCK_BYTES).max(1);
    blocks.next_power_of_two().trailing_zeros().min(BITS_MAX)
}

/// The same for a file that is held in part: chunks of one block, so that nothing is held that is not needed, unless
/// the map would have more than [`PART_ENTRIES_MAX`] entries.
pub(crate) fn bits_for_part(size: u64) -> u32 {
    bits_for(size.div_ceil(PART_ENTRIES_MAX))
}

/// Most entries of the map of a file that is held in part: 4 MiB, for a file of 4 GiB. A larger one has larger chunks,
/// so that a sparse file of terabytes does not take gigabytes of map. No part of the format.
const PART_ENTRIES_MAX: u64 = 1 << 20;

/// Number of chunks of `bits` that `size` bytes take.
pub(crate) fn count(size: u64, bits: u32) -> u64 {
    size.div_ceil(BLOCK_BYTES << bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_chunk_expresses_all_but_the_largest() {
        let tib = 1 << 40;
        let cases =
            [(1, 0, 1), (4096, 0, 1), (4097, 1, 1), (5 * tib, 31, 1), (8 * tib, 31, 1), (8 * tib + 1, 31, 2)];
        for (size, bits, chunks) in cases {
            assert_eq!(bits_for(size), bits, "{size}");
            assert_eq!(count(size, bits), chunks, "{size}");
        }
    }

    #[test]
    fn the_map_of_a_part_is_exact_or_small() {
        for (size, bits) in [(1, 0), (4 << 30, 0), ((4 << 30) + 1, 1), (1 << 40, 8)] {
            assert_eq!(bits_for_part(size), bits, "{size}");
            assert!(count(size, bits) <= PART_ENTRIES_MAX);
        }
    }
}
