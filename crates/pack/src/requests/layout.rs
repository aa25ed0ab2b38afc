//! The layout of `/.quell/asked`.
//!
//! ```text
//!  0 magic "QUELLASK"    12 checksum u32, CRC-32C of what follows
//!  8 version u32         16 audience u8, hold u8, count of roots, for each: origin u8, path; then the node of `/`
//!
//! node = flags, [first read, [version of the file: size, nanoseconds], [blocks: runs, for each: gap, length]],
//!        [number of unlisted paths], [reason for being live], [type of the mounted file system],
//!        count of children, for each child, sorted by name: name, node
//! ```
//!
//! Numbers are LEB128, strings have their length before them. A first read is the place in the order of first
//! reads, equal for files that one event read.

pub(crate) const MAGIC: &[u8; 8] = b"QUELLASK";

/// Version of the layout. Readers refuse newer ones. Version 1 has no parts of files.
pub(crate) const VERSION: u32 = 2;

/// Offset of the checksum.
pub(crate) const CHECKSUM_AT: usize = 12;

/// Offset of the bytes that it covers.
pub(crate) const BODY_AT: usize = 16;

pub(crate) const TOUCHED: u64 = 1;
pub(crate) const MISSED: u64 = 2;
pub(crate) const ENTERED: u64 = 4;
pub(crate) const UNLISTED: u64 = 8;
pub(crate) const READ: u64 = 16;
pub(crate) const LIVE: u64 = 32;
pub(crate) const MOUNTED: u64 = 64;
pub(crate) const PART: u64 = 128;
pub(crate) const VERSIONED: u64 = 256;

/// Puts the checksum of the body in its place.
pub(crate) fn seal(bytes: &mut [u8]) {
    let sum = crc32c::crc32c(&bytes[BODY_AT..]);
    bytes[CHECKSUM_AT..BODY_AT].copy_from_slice(&sum.to_le_bytes());
}
