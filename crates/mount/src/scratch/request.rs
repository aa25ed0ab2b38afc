//! The request of a rank, and the answer at the end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::stats::ScratchStats;

/// A rank's wish to have directories on the node.
#[derive(Debug, Clone)]
pub struct ScratchRequest {
    /// The directories: absolute, without links, none below another.
    pub directories: Vec<PathBuf>,
    /// Memory that files may take on this node. Unit: bytes.
    pub memory: u64,
    /// A directory of the node for files that memory has no room for.
    pub disk: Option<PathBuf>,
    /// Files that programs left in the directories go to the real ones at the end.
    pub keeps: bool,
    /// Job and step: ranks with the same share the directories.
    pub job: String,
}

/// The fate of the files of one directory. **Shape** one for each of [`ScratchRequest::directories`], in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchEnd {
    /// Files that programs made, removed ones too.
    pub made: u64,
    /// Files that are there at the end, and are not as the real directory has them.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// Those of `files` that the real directory has in another state.
    pub changed: u64,
    /// Names of the real directory that programs removed.
    pub removed: u64,
    /// Directories that took files for which memory had no room, and how many.
    pub spilled: Vec<(String, u64)>,
    /// Directories in which an earlier run left files that were to be kept.
    pub found: Vec<String>,
    /// The outcome of keeping; `None` where all is discarded.
    pub kept: Option<ScratchKept>,
    /// Everything that was counted.
    pub stats: ScratchStats,
}

/// The outcome of keeping files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchKept {
    /// Names but those of directories that were put to their places.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// Names that could not be kept.
    pub failed: u64,
    /// The first of them, below the directory, and the error number.
    pub first: Option<(String, u16)>,
    /// Changed files that have further names which were not seen: those lead to what was there before.
    pub split: u64,
    /// Directories that hold files which could not be put to their places.
    pub left: Vec<ScratchLeft>,
}

/// A directory that holds files which could not be put to their places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchLeft {
    /// Its path, shown.
    pub path: String,
    /// A file `paths` in it tells where they belong. There was no room for one otherwise, and their names tell it.
    pub is_noted: bool,
}
