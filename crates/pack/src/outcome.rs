//! The outcome of packing, for a person to read, and its progress.

use quell_image::ImageTotals;
use quell_image::write::{WriteProgress, WrittenImage};

use crate::agreement::Agreement;
use crate::outside::OutsideOperations;

/// How far packing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackProgress {
    /// The originals are being listed.
    Listing {
        /// Directories listed so far.
        directories: u64,
        /// Nodes known so far.
        entries: u64,
    },
    /// The image is being written.
    Writing(WriteProgress),
}

/// What was packed, for a person to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The roots. Shape: sorted by path, at least one.
    pub roots: Vec<ChosenDirectory>,
    /// Directories below the roots that stay the original. Shape: sorted by path.
    pub live: Vec<ChosenDirectory>,
    /// Files and directories that were asked for and are not held. Shape: sorted by path.
    pub left_out: Vec<LeftOutPath>,
    /// What stays outside the roots. Shape: most operations first.
    pub outside: Vec<OutsideOperations>,
    /// Files held, nodes, bytes of content.
    pub totals: ImageTotals,
    /// Bytes of the files held, of some of which the image has only a part.
    pub file_bytes: u64,
    /// How the recordings compare; `None` of a single one, and of an image that was made anew.
    pub agreement: Option<Agreement>,
    /// Directories whose names are covered.
    pub directories: u64,
    /// Names that the recordings missed and that the image knows to be absent.
    pub absences: u64,
    /// The image.
    pub written: WrittenImage,
}

/// A directory with the reason why it is a root or stays the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenDirectory {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// A sentence for a person.
    pub reason: String,
    /// Type of its file system; empty if it is not known.
    pub file_system: String,
}

/// Something that was asked for and is not held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutPath {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// Why.
    pub reason: &'static str,
}
