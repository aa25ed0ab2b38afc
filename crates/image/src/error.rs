//! Failures of opening and reading an image.

use thiserror::Error;

use crate::model::Nid;

/// Bytes that are no image, or a damaged one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Less than one block: an empty file, or one cut short.
    #[error("the file has {bytes} bytes, less than one block of an image")]
    TooShort {
        /// Length that was found.
        bytes: u64,
    },
    /// Not an image at all.
    #[error("not an image: magic number {found:#010x} instead of EROFS")]
    NotErofs {
        /// The number at the place of the magic number.
        found: u32,
    },
    /// An EROFS file system with features that images do not use: another program made it.
    #[error("not an image of quell: EROFS features {bits:#x}")]
    UnknownFeatures {
        /// The incompatible features beyond ours.
        bits: u32,
    },
    /// An EROFS file system without quell's index: another program made it.
    #[error("an EROFS file system, but without quell's index")]
    NotQuell,
    /// The first block is damaged.
    #[error("damaged image: checksum of the first block is {found:#010x}, expected {expected:#010x}")]
    SuperblockChecksum {
        /// Checksum of the bytes.
        expected: u32,
        /// Checksum in the superblock.
        found: u32,
    },
    /// The file is longer or shorter than it says: usually an interrupted copy.
    #[error("damaged image: {found} bytes, expected {expected}; was it copied completely?")]
    Length {
        /// Bytes according to the superblock.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// The image was written by a newer quell.
    #[error("the image has index version {found}, this quell reads up to {supported}")]
    Newer {
        /// Version in the image.
        found: u32,
        /// Newest version that is understood.
        supported: u32,
    },
    /// The index is damaged.
    #[error("damaged image: index checksum is {found:#010x}, expected {expected:#010x}")]
    IndexChecksum {
        /// Checksum of the bytes.
        expected: u32,
        /// Checksum in the index.
        found: u32,
    },
    /// The index contradicts itself.
    #[error("damaged image: the index's {part} does not fit it")]
    IndexBounds {
        /// The part that points beyond its bounds.
        part: &'static str,
    },
    /// A zstd file that does not end as a compressed image does.
    #[error("a zstd file without quell's table of frames at its end; was it copied completely?")]
    NoFrameTable,
    /// The table of frames of a compressed image contradicts the file.
    #[error("damaged image: the {part} in the table of frames does not fit the file")]
    FrameTable {
        /// The contradicting part.
        part: &'static str,
    },
    /// A frame of a compressed image cannot be decompressed.
    #[error("damaged image: frame {number} cannot be decompressed")]
    Frame {
        /// Its number, from 0.
        number: usize,
    },
    /// The way to the index is damaged.
    #[error("damaged image")]
    Corrupt(#[from] Corrupt),
}

/// An image contradicts itself at a node: it was damaged after it was written, or forged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("node {nid}: {fault}")]
pub struct Corrupt {
    /// The node that was asked for.
    pub nid: Nid,
    /// The fault.
    pub fault: Fault,
}

/// A fault of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// No inode of ours is at this place.
    #[error("no valid inode")]
    Inode,
    /// The inode and the row of the index that it names do not belong together.
    #[error("the index has another node in its place")]
    Row,
    /// An operation of directories on something else.
    #[error("not a directory")]
    NotDirectory,
    /// An operation of links on something else.
    #[error("not a symbolic link")]
    NotSymlink,
    /// An operation of regular files on something else.
    #[error("not a regular file")]
    NotRegular,
    /// The data reaches beyond the image or has a layout that its kind never has.
    #[error("data out of bounds")]
    Data,
    /// A directory block whose records or names are out of bounds.
    #[error("malformed directory block")]
    Directory,
    /// Absences out of the index's bounds.
    #[error("absences out of bounds")]
    Absences,
    /// Extended attributes out of bounds.
    #[error("malformed extended attributes")]
    Xattrs,
    /// A parent that does not lead to the root.
    #[error("no way to the root")]
    Parent,
}

impl Fault {
    /// This fault at `nid`.
    pub(crate) fn at(self, nid: Nid) -> Corrupt {
        Corrupt { nid, fault: self }
    }
}
