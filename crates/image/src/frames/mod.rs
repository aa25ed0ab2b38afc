//! An image compressed for transport: zstd frames that decompress independently, and a table by which any is found.
//!
//! ```text
//! zstd frame      1 MiB of image       as zstd(1) reads it, with checksum
//! zstd frame      1 MiB of image
//! ..              the last one shorter
//! skippable frame, which other decompressors skip:
//!     0 magic 0x184D2A5E       8 for each frame: compressed bytes u32, bytes u32
//!     4 bytes that follow      then: number of frames u32, 0 u8, magic 0x8F92EAB1
//! ```
//!
//! The whole is a valid zstd file: `zstd -d` gives the plain image back. Nothing in the table is trusted: frames must
//! fill the file exactly and be of one size, so a forged table can neither point elsewhere nor make a reader allocate
//! more than one frame. Source: the seekable format in zstd's `contrib/seekable_format`, RFC 8878.

pub(crate) mod compress;

use crate::bytes::{u32_at, u64_at};
use crate::error::OpenError;

pub use compress::{CompressionLevel, LevelError};

/// Bytes of image in a frame: what a server fetches at once. Larger ones compress a little better and delay the first
/// answer. Written so; read are others within [`SIZES`].
pub(crate) const FRAME: usize = 1 << 20;

/// Sizes of frames that are read: from a block of the image to what may be allocated without a thought.
const SIZES: std::ops::RangeInclusive<u64> = 4096..=16 << 20;

/// Most frames that are read: 16 TiB, the largest image, in frames of 1 MiB.
const FRAMES_MAX: u64 = 1 << 24;

/// First bytes of a zstd frame. Source: RFC 8878, section 3.1.1.
const ZSTD_MAGIC: u32 = 0xFD2F_B528;

/// First bytes of the skippable frame that holds the table.
const TABLE_MAGIC: u32 = 0x184D_2A5E;

/// Last bytes of the table, and so of the file.
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;

/// Bytes of the skippable frame's head.
const HEAD: u64 = 8;

/// Bytes of an entry of the table.
const ENTRY: u64 = 8;

/// Bytes of the table's end.
const FOOT: u64 = 9;

/// Tells whether a file that begins with `first` is compressed.
pub fn is_compressed(first: &[u8]) -> bool {
    u32_at(first, 0) == Some(ZSTD_MAGIC)
}

/// Fills a buffer from an offset of a file.
pub type ReadAt<'r, E> = dyn FnMut(u64, &mut [u8]) -> Result<(), E> + 'r;

/// The table of frames of a compressed image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    /// Offset of each frame in the file, and of the table. Shape: one more than there are frames.
    starts: Box<[u64]>,
    frame_bytes: usize,
    length: u64,
}

impl Frames {
    /// Reads the table of a compressed image of `file_bytes` bytes. `read_at` fills a buffer from an offset.
    ///
    /// **Errors** [`OpenError::NoFrameTable`] for a file that was cut short or made by something else,
    /// [`OpenError::FrameTable`] for a table that contradicts the file; or what `read_at` gave.
    pub fn read<E: From<OpenError>>(file_bytes: u64, read_at: &mut ReadAt<'_, E>) -> Result<Self, E> {
        let foot_at = file_bytes.checked_sub(FOOT).ok_or(OpenError::NoFrameTable)?;
        let mut foot = [0; FOOT as usize];
        read_at(foot_at, &mut foot)?;
        if u32_at(&foot, 5) != Some(SEEKABLE_MAGIC) {
            return Err(OpenError::NoFrameTable.into());
        }
        let count = u64::from(u32_at(&foot, 0).unwrap_or_default());
        let contradiction = |part| E::from(OpenError::FrameTable { part });
        if foot[4] != 0 {
            return Err(contradiction("kind"));
        }
        let table_bytes = HEAD + count * ENTRY + FOOT;
        let table_at = file_bytes.checked_sub(table_bytes).filter(|_| count > 0 && count <= FRAMES_MAX);
        let table_at = table_at.ok_or_else(|| contradiction("number of frames"))?;
        let mut table = vec![0; (table_bytes - FOOT) as usize];
        read_at(table_at, &mut table)?;
        let head = u64::from(TABLE_MAGIC) | (table_bytes - HEAD) << 32;
        if u64_at(&table, 0) != Some(head) {
            return Err(contradiction("head"));
        }
        Self::parse(&table[HEAD as usize..], table_at).ok_or_else(|| contradiction("sizes"))
    }

    /// Takes over `entries`, of which there is at least one. `None` unless they fill the file up to `table_at` and all
    /// frames but the last are of one size.
    fn parse(entries: &[u8], table_at: u64) -> Option<Self> {
        let sizes = |at: usize| Some((u64::from(u32_at(entries, at)?), u64::from(u32_at(entries, at + 4)?)));
        let count = entries.len() / ENTRY as usize;
        let frame_bytes = sizes(0)?.1;
        let mut starts = Vec::with_capacity(count + 1);
        let (mut at, mut length) = (0, 0);
        for number in 0..count {
            let (compressed, bytes) = sizes(number * ENTRY as usize)?;
            let last = number + 1 == count;
            let fits = if last { bytes > 0 && bytes <= frame_bytes } else { bytes == frame_bytes };
            if !fits || compressed == 0 || compressed > bound(frame_bytes) {
                return None;
            }
            starts.push(at);
            at += compressed;
            length += bytes;
        }
        starts.push(at);
        let whole = at == table_at && (count == 1 || frame_bytes % 4096 == 0) && SIZES.contains(&frame_bytes);
        whole.then(|| Self { starts: starts.into(), frame_bytes: frame_bytes as usize, length })
    }

    /// Bytes of the image in each frame but the last. **Range** 4 KiB to 16 MiB.
    pub fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Length of the image, as the table says.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Offset and length of frame `number` in the file. `None` beyond the last.
    pub fn place(&self, number: usize) -> Option<(u64, usize)> {
        let (start, end) = (*self.starts.get(number)?, *self.starts.get(number + 1)?);
        Some((start, (end - start) as usize))
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        let frames = self.starts.last().copied().unwrap_or_default();
        frames + HEAD + self.count() as u64 * ENTRY + FOOT
    }

    /// Number of frames.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Bytes of the image in frame `number`; 0 beyond the last.
    pub fn bytes_of(&self, number: usize) -> usize {
        let start = (number as u64).saturating_mul(self.frame_bytes as u64);
        self.length.saturating_sub(start).min(self.frame_bytes as u64) as usize
    }
}

/// Most bytes that a frame of `bytes` bytes of image has: more than zstd ever makes of them. Source: `ZSTD_compressBound`.
fn bound(bytes: u64) -> u64 {
    bytes + bytes / 128 + 4096
}

/// Decompresses one frame after the other with one context, which is worth keeping.
pub struct Decompressor(zstd::bulk::Decompressor<'static>);

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Decompressor")
    }
}

impl Decompressor {
    /// A new context of about 100 KiB.
    ///
    /// **Errors** No memory.
    pub fn new() -> std::io::Result<Self> {
        zstd::bulk::Decompressor::new().map(Self)
    }

    /// Decompresses frame `number` into `into`, which has exactly [`Frames::bytes_of`] bytes.
    ///
    /// **Errors** [`OpenError::Frame`] for bytes that are no frame, one of another size, or one whose checksum differs.
    pub fn frame(&mut self, number: usize, compressed: &[u8], into: &mut [u8]) -> Result<(), OpenError> {
        match self.0.decompress_to_buffer(compressed, into) {
            Ok(bytes) if bytes == into.len() => Ok(()),
            Ok(_) | Err(_) => Err(OpenError::Frame { number }),
        }
    }
}

/// The table for frames of these compressed and plain sizes.
fn encode(sizes: &[(u32, u32)]) -> Vec<u8> {
    let body = sizes.len() as u64 * ENTRY + FOOT;
    let mut table = Vec::with_capacity((HEAD + body) as usize);
    table.extend_from_slice(&TABLE_MAGIC.to_le_bytes());
    // At most 2^24 frames.
    table.extend_from_slice(&(body as u32).to_le_bytes());
    for (compressed, bytes) in sizes {
        table.extend_from_slice(&compressed.to_le_bytes());
        table.extend_from_slice(&bytes.to_le_bytes());
    }
    table.extend_from_slice(&(sizes.len() as u32).to_le_bytes());
    table.push(0);
    table.extend_from_slice(&SEEKABLE_MAGIC.to_le_bytes());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &[u8]) -> Result<Frames, OpenError> {
        Frames::read(file.len() as u64, &mut |at, into| {
            into.copy_from_slice(&file[at as usize..at as usize + into.len()]);
            Ok(())
        })
    }

    /// A file whose frames are `sizes`, with nothing in them.
    fn file(sizes: &[(u32, u32)]) -> Vec<u8> {
        let frames: u32 = sizes.iter().map(|(compressed, _)| compressed).sum();
        let mut file = vec![0; frames as usize];
        file.extend(encode(sizes));
        file
    }

    #[test]
    fn frames_are_found_by_the_table() {
        let frames = read(&file(&[(10, 8192), (20, 8192), (5, 4097)])).unwrap();
        assert_eq!((frames.length(), frames.frame_bytes(), frames.count()), (20481, 8192, 3));
        assert_eq!(frames.place(1), Some((10, 20)));
        assert_eq!([frames.bytes_of(0), frames.bytes_of(2), frames.bytes_of(3)], [8192, 4097, 0]);
        assert_eq!(frames.place(3), None);
    }

    #[test]
    fn a_table_that_contradicts_the_file_is_refused() {
        let cases: [&[(u32, u32)]; 8] = [
            &[],
            &[(0, 8192)],
            &[(10, 0)],
            &[(10, 100)],
            &[(10, 8192), (10, 4096), (10, 8192)],
            &[(10, 8192), (10, 8193)],
            &[(10, 8000), (10, 8000)],
            &[(10, 1 << 30)],
        ];
        for sizes in cases {
            assert!(matches!(read(&file(sizes)), Err(OpenError::FrameTable { .. })), "{sizes:?}");
        }
        let mut longer = vec![0];
        longer.extend(file(&[(10, 8192)]));
        assert_eq!(read(&longer), Err(OpenError::FrameTable { part: "sizes" }));
        let whole = file(&[(10, 8192), (10, 8192)]);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Err(OpenError::NoFrameTable), "{length}");
        }
        let mut many = whole;
        let at = many.len() - FOOT as usize;
        many[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(read(&many), Err(OpenError::FrameTable { part: "number of frames" }));
    }
}
