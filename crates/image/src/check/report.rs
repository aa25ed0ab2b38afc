//! Findings of a check.

use thiserror::Error;

use crate::error::Corrupt;
use crate::index::ImageIdentity;
use crate::index::read::ImageTotals;
use crate::model::Nid;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Nodes that were looked at.
    pub nodes: u64,
    /// Findings in their order; at most [`FINDINGS_MAX`].
    pub findings: Vec<CheckFinding>,
    /// Number of further findings.
    pub omitted: u64,
}

impl CheckReport {
    /// Tells whether there is no finding.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(crate) fn add(&mut self, finding: CheckFinding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.omitted += 1;
        }
    }

    /// Adds `finding` unless `holds`.
    pub(crate) fn expect(&mut self, holds: bool, finding: CheckFinding) {
        if !holds {
            self.add(finding);
        }
    }
}

/// Findings that a report lists: enough to see the pattern of the damage.
pub const FINDINGS_MAX: usize = 100;

/// A fault of an image.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CheckFinding {
    /// Some byte is not as it was written.
    #[error("the content is that of {found}, not of {expected}")]
    Identity {
        /// The identity in the index.
        expected: ImageIdentity,
        /// The identity of its bytes.
        found: ImageIdentity,
    },
    /// The superblock names another image.
    #[error("the superblock's UUID is not the image's")]
    Uuid,
    /// A node cannot be read.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The rows are not in the order of nids, or an inode does not name its row.
    #[error("row {row} is out of order")]
    Order {
        /// Number of the row.
        row: u32,
    },
    /// An entry is out of order, is of another kind than its node, or cannot be looked up.
    #[error("node {nid}: entry `{}` is wrong", .name.escape_ascii())]
    Entry {
        /// The directory.
        nid: Nid,
        /// The entry's name.
        name: Vec<u8>,
    },
    /// `.` or `..` is missing or leads elsewhere.
    #[error("node {nid}: `.` or `..` is wrong")]
    Dots {
        /// The directory.
        nid: Nid,
    },
    /// A node without a name, a directory with several, or more names than links.
    #[error("node {nid}: {names} names for {links} links")]
    Names {
        /// The node.
        nid: Nid,
        /// Names in the image.
        names: u32,
        /// The original's number of links.
        links: u32,
    },
    /// The way from a node up to the root does not lead down to it again.
    #[error("node {nid}: its path leads elsewhere")]
    Path {
        /// The node.
        nid: Nid,
    },
    /// Absences out of order, or of names that exist.
    #[error("node {nid}: absence {number} is wrong")]
    Absence {
        /// The directory.
        nid: Nid,
        /// Number of the absence.
        number: usize,
    },
    /// A chunk of a file lies elsewhere than the index says: a file that is not held is mapped to something in the
    /// image or to a hole, or the chunks of one that is held in part are not its data, one after the other.
    #[error("node {nid}: wrong map of chunks")]
    Mapped {
        /// The file.
        nid: Nid,
    },
    /// Extended attributes that cannot be read to their end.
    #[error("node {nid}: malformed extended attributes")]
    Xattrs {
        /// The node.
        nid: Nid,
    },
    /// Two nodes claim the same bytes.
    #[error("nodes {first} and {second} overlap")]
    Overlap {
        /// The node that lies before.
        first: Nid,
        /// The node that lies behind.
        second: Nid,
    },
    /// A root or live directory that is not at its path, out of order, or not below a root.
    #[error("`{}` is not where the index says", .path.escape_ascii())]
    Place {
        /// The path.
        path: Vec<u8>,
    },
    /// The totals are not those of the nodes.
    #[error("totals are {expected:?}, found {found:?}")]
    Totals {
        /// Totals in the index.
        expected: ImageTotals,
        /// Totals of the nodes.
        found: ImageTotals,
    },
}
