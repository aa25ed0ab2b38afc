//! Progress and result of packing.

use quell_image::ImageTotals;
use quell_image::write::{WriteProgress, WrittenImage};

use crate::agreement::Agreement;
use crate::outside::OutsideOperations;

/// Progress of packing.
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

/// The result of packing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The roots. Shape: sorted by path, at least one.
    pub roots: Vec<ChosenDirectory>,
    /// Directories below the roots that stay the original. Shape: sorted by path.
    pub live: Vec<ChosenDirectory>,
    /// Files and directories that were asked for and are not held, but for secrets. Shape: sorted by path.
    pub left_out: Vec<LeftOutPath>,
    /// Files that look like secrets and are not held. Shape: sorted by path.
    pub secrets: Vec<LeftOutPath>,
    /// Operations outside the roots. Shape: most operations first.
    pub outside: Vec<OutsideOperations>,
    /// Files held, nodes, bytes of content.
    pub totals: ImageTotals,
    /// Paths in the image: entries of directories, and `/`.
    pub names: u64,
    /// Bytes of the files held, of some of which the image has only a part.
    pub file_bytes: u64,
    /// Comparison of the recordings; `None` for a single one, and for a refresh.
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
    /// The reason, a sentence.
    pub reason: String,
    /// Type of its file system; empty if it is not known.
    pub file_system: String,
}

/// Something that was asked for and is not held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutPath {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// The reason.
    pub reason: &'static str,
}
