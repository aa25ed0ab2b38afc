//! The index at the end of a container.

use crate::contents::Contents;
use crate::ops::Op;
use crate::tar::{BLOCK, Shown, encode};

/// The name of the index, for tar.
const NAME: &[u8] = b".quell.index";

const MAGIC: &[u8; 16] = b"quell gathered\0\n";

/// Part of the format. Records name it too.
pub(crate) const VERSION: u32 = 2;

/// Bytes of the footer that are not zero.
const FOOTER: usize = 44;

/// Bytes at the end of a container from which its index is found: the footer, and the two blocks of zeros that end a tar.
pub(crate) const TAIL: usize = 3 * BLOCK;

/// The end of a container: its index, and the end of the tar.
///
/// **Parameters** `at`: the place at which it will lie.
pub fn encode_index(contents: &Contents, at: u64) -> Vec<u8> {
    let ops = postcard::to_stdvec(&contents.ops()).unwrap_or_default();
    let data = |start: u64| {
        let mut data = ops.clone();
        data.resize(data.len().next_multiple_of(BLOCK), 0);
        let mut footer = [0; BLOCK];
        footer[..16].copy_from_slice(MAGIC);
        footer[16..20].copy_from_slice(&VERSION.to_le_bytes());
        footer[20..28].copy_from_slice(&start.to_le_bytes());
        footer[28..36].copy_from_slice(&(ops.len() as u64).to_le_bytes());
        footer[36..40].copy_from_slice(&crc32c::crc32c(&ops).to_le_bytes());
        let sum = crc32c::crc32c(&footer[..40]);
        footer[40..FOOTER].copy_from_slice(&sum.to_le_bytes());
        data.extend(footer);
        data
    };
    let around = |data: &[u8]| encode(Shown::Part(NAME), Vec::new(), &[data]);
    // The headers are as long for any place.
    let start = around(&data(0)).data as u64;
    let mut bytes = around(&data(at + start)).bytes;
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

/// The place of the index: beginning, length and checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexPlace {
    pub(crate) start: u64,
    pub(crate) length: usize,
    sum: u32,
}

/// True for the end of a container that has an index, whatever became of it.
pub(crate) fn has_footer(tail: &[u8; TAIL]) -> bool {
    tail[..16] == *MAGIC
}

/// Finds the index from the last [`TAIL`] bytes of a container of `length` bytes.
///
/// **Errors** `Err(version)` for one of another version.
pub(crate) fn find(tail: &[u8; TAIL], length: u64) -> Result<Option<IndexPlace>, u32> {
    let number = |at: usize| u32::from_le_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]);
    let long = |at: usize| u64::from(number(at)) | u64::from(number(at + 4)) << 32;
    if !has_footer(tail) || number(40) != crc32c::crc32c(&tail[..40]) {
        return Ok(None);
    }
    if number(16) != VERSION {
        return Err(number(16));
    }
    let (start, bytes) = (long(20), long(28));
    let fits = start.checked_add(bytes).is_some_and(|end| end <= length - TAIL as u64);
    let bytes = usize::try_from(bytes).ok().filter(|_| fits);
    Ok(bytes.map(|bytes| IndexPlace { start, length: bytes, sum: number(36) }))
}

/// The state that an index tells; `None` for a damaged one.
pub(crate) fn decode(bytes: &[u8], place: IndexPlace) -> Option<Contents> {
    if crc32c::crc32c(bytes) != place.sum {
        return None;
    }
    let lies_before = |op: &Op| {
        op.pieces().iter().all(|(_, piece)| {
            piece.place.checked_add(piece.length.into()).is_some_and(|end| end <= place.start)
        })
    };
    let mut contents = Contents::default();
    // A list of ops takes a hundred times its bytes: one is in memory at a time.
    let (count, mut rest): (u64, &[u8]) = postcard::take_from_bytes(bytes).ok()?;
    for _ in 0..count {
        let (op, behind) = postcard::take_from_bytes(rest).ok()?;
        if !lies_before(&op) || !contents.apply(op) {
            return None;
        }
        rest = behind;
    }
    Some(contents)
}
