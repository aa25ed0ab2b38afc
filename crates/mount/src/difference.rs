//! Differences between an image and the originals that it was packed from.

use std::path::PathBuf;

/// Something that is not as it was packed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OriginalChange {
    /// The original's path.
    pub path: PathBuf,
    /// The first difference.
    pub difference: OriginalDifference,
}

impl OriginalChange {
    /// Tells whether no more than names of a directory came or went.
    pub fn is_of_a_listing(&self) -> bool {
        self.difference == OriginalDifference::Modified && self.path.is_dir()
    }
}

/// In what an original differs from the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OriginalDifference {
    /// It is gone.
    Gone,
    /// It cannot be looked at.
    Unreadable,
    /// It is a file where a directory was, or the like.
    Kind,
    /// It is there, and the recording did not find it.
    Appeared,
    /// Its size.
    Size,
    /// The time of its last modification: of a directory, names came or went.
    Modified,
    /// Its owner, group or permissions.
    Permissions,
    /// The time of its last change of the inode, while all else is equal: it may have been replaced by an equal one.
    Changed,
}

impl OriginalDifference {
    /// Its stable name, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Unreadable => "unreadable",
            Self::Kind => "kind",
            Self::Appeared => "appeared",
            Self::Size => "size",
            Self::Modified => "modified",
            Self::Permissions => "permissions",
            Self::Changed => "changed",
        }
    }
}

impl std::fmt::Display for OriginalDifference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Gone => "is gone",
            Self::Unreadable => "cannot be looked at",
            Self::Kind => "is something else",
            Self::Appeared => "was absent and is there",
            Self::Size => "has another size",
            Self::Modified => "was modified",
            Self::Permissions => "has another owner, group or mode",
            Self::Changed => "was replaced or touched",
        })
    }
}
