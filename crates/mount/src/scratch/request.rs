//! The request of a rank, and the answer at the end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::stats::{GatherStats, ScratchStats};

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
    /// Directories whose new files go to containers: absolute, without links, none in another one or in one of `directories`.
    pub gathered: Vec<PathBuf>,
    /// The facts that containers tell of this node.
    pub gather: GatherRequest,
}

/// The facts that a container tells of its node.
#[derive(Debug, Clone, Default)]
pub struct GatherRequest {
    /// The node.
    pub host: String,
    /// Job and step; empty where no launcher and no batch system tells them.
    pub job: String,
    /// The beginning of a container's name.
    pub label: String,
}

/// The fate of the directories of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEnd {
    /// **Shape** one for each of [`ScratchRequest::directories`], in their order.
    pub scratch: Vec<ScratchEnd>,
    /// **Shape** one for each of [`ScratchRequest::gathered`], in their order.
    pub gathered: Vec<GatherEnd>,
}

/// The fate of the files of one directory whose files are gathered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatherEnd {
    /// Files that programs made, removed ones too.
    pub made: u64,
    /// Names that the container has, but those of directories.
    pub files: u64,
    /// The size of its files.
    pub bytes: u64,
    /// The path of the container.
    pub container: String,
    /// Its length. Unit: bytes.
    pub length: u64,
    /// It has its index.
    pub is_sealed: bool,
    /// The number of the error by which what came last is lost.
    pub lost: Option<u16>,
    /// Sockets and devices, which no container holds.
    pub refused: u64,
    /// Earlier containers that programs did not see.
    pub unread: Vec<GatherUnread>,
    /// Paths below the directory that programs asked for, and that this node does not have. **Shape** a hundred at most, sorted.
    pub absent: Vec<Vec<u8>>,
    /// Writes to the container.
    pub writes: u64,
    /// Everything that was counted.
    pub stats: GatherStats,
}

/// An earlier container that programs did not see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatherUnread {
    /// Its name.
    pub name: String,
    /// Another user owns it. Otherwise it is damaged.
    pub is_anothers: bool,
}

/// The fate of the files of one scratch directory.
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
