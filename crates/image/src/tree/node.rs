//! A node of a tree, and the content that is promised for it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use crate::blocks::BlockSet;
use crate::erofs::BLOCK_BYTES;
use crate::model::{Attributes, Coverage, NamedValues, NodeUse};

/// A node of an [`ImageTree`](crate::ImageTree).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeNodeId(pub(crate) u32);

/// The source of a held file's content when the image is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentSource {
    /// These bytes, as many as the file's size says, also if only a part is held.
    Bytes(Vec<u8>),
    /// The file at this path, which must still be what the node's attributes say.
    File(PathBuf),
    /// The held stretches, one after the other, from `offset` of the file at this path: usually another image.
    Part {
        /// The file.
        path: PathBuf,
        /// Offset of the first stretch.
        offset: u64,
    },
}

#[derive(Debug)]
pub(crate) struct TreeNode {
    pub(crate) attributes: Attributes,
    pub(crate) usage: NodeUse,
    /// Pairs of name and value, sorted by name.
    pub(crate) xattrs: NamedValues,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Directory(TreeDirectory),
    /// A regular file, and what the image holds of it.
    File(Option<HeldContent>),
    Symlink(Vec<u8>),
    /// A device, pipe or socket.
    Special,
}

/// The content that is promised for a file.
#[derive(Debug)]
pub(crate) struct HeldContent {
    pub(crate) source: ContentSource,
    /// The blocks that are held; `None` for all of them. Shape: neither empty nor all.
    pub(crate) part: Option<BlockSet>,
}

impl HeldContent {
    /// Bytes that are held of a file of `size` bytes.
    pub(crate) fn bytes(&self, size: u64) -> u64 {
        self.part.as_ref().map_or(size, |part| part.bytes_of(size))
    }

    /// The stretches that are held of a file of `size` bytes, in its order.
    pub(crate) fn ranges(&self, size: u64) -> Vec<Range<u64>> {
        match &self.part {
            None => std::iter::once(0..size).collect(),
            Some(part) => {
                part.runs().map(|run| run.start * BLOCK_BYTES..(run.end * BLOCK_BYTES).min(size)).collect()
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct TreeDirectory {
    pub(crate) entries: BTreeMap<Box<[u8]>, TreeNodeId>,
    pub(crate) coverage: Coverage,
    pub(crate) absences: BTreeSet<Box<[u8]>>,
    /// The recording looked names up in it and did not list it.
    pub(crate) searched: bool,
}

/// A root or a live directory.
#[derive(Debug, Clone)]
pub(crate) struct MarkedDirectory {
    pub(crate) path: Vec<u8>,
    pub(crate) node: TreeNodeId,
    pub(crate) reason: String,
    pub(crate) file_system: String,
}

impl Body {
    pub(crate) fn directory() -> Self {
        Self::Directory(TreeDirectory {
            entries: BTreeMap::new(),
            coverage: Coverage::Uncovered,
            absences: BTreeSet::new(),
            searched: false,
        })
    }
}
