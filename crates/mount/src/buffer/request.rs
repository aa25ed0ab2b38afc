//! The request of a rank, and the answer at the end.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::picked::PickedNames;
use super::rules::BufferRule;
use crate::stats::BufferStats;

/// A rank's wish to have the files of directories buffered.
#[derive(Debug)]
pub struct BufferRequest {
    /// **Shape** no directory lies below another.
    pub directories: Vec<BufferDirectory>,
    /// Memory that buffers may take on this node. Unit: bytes.
    pub memory: u64,
    /// Job and step: ranks with the same share the buffers.
    pub job: String,
    /// The real directories of those that have picked names, which the node covers. **Shape** in the order of `directories`.
    pub real: Vec<OwnedFd>,
}

/// A directory whose files are buffered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferDirectory {
    /// Absolute, without links.
    pub path: PathBuf,
    /// The first that matches counts. Other files are passed through.
    pub rules: Vec<BufferRule>,
    /// The nodes that write its files.
    pub sharing: BufferSharing,
    /// The names in it that lie in the directory which is at `path` now. All others lie in the one of [`BufferRequest::real`].
    pub picked: Option<PickedNames>,
}

/// The nodes that write the files of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BufferSharing {
    /// Several nodes may write bytes of one page of a file: exactly the bytes that programs wrote go to the file system.
    Nodes,
    /// No other node writes to a file while this one has it open: the kernel gathers whole pages.
    Private,
}

/// The end of one directory. **Shape** one for each of [`BufferRequest::directories`], in their order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BufferEnd {
    /// The first file of which bytes could not be written, and the error number.
    pub failed: Option<(String, u16)>,
    /// Everything that was counted.
    pub stats: BufferStats,
}
