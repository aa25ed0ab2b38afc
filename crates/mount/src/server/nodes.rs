//! What each inode number of the mount means: a node of the image, or something that only the original has.
//!
//! A node of the image needs no table: its number is the image's own plus one, and it is never forgotten. What the
//! image does not know gets a number with the top bit set in a table ([`super::found`]), kept as long as the kernel's
//! lookups and FORGETs say. Numbers are never used twice. Unforeseen writes to frozen nodes: [`super::alterations`].

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use quell_image::Nid;
use serde::{Deserialize, Serialize};

use crate::fuse::abi::NodeId;
use crate::lock;

/// A decoded [`NodeId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// In the image.
    Frozen(Nid),
    /// Found in the original only.
    Found(u64),
}

/// Top bit of the numbers of found nodes; an image would need 2^68 bytes to have it.
const FOUND: u64 = 1 << 63;

impl Node {
    /// What the kernel means by `id`, in an image with this root.
    pub(crate) fn decode(id: NodeId, root: Nid) -> Self {
        match id {
            NodeId::ROOT => Self::Frozen(root),
            NodeId(number) if number & FOUND != 0 => Self::Found(number & !FOUND),
            NodeId(number) => Self::Frozen(Nid::new(number.saturating_sub(1))),
        }
    }

    /// The number for the kernel.
    pub(crate) fn encode(self, root: Nid) -> NodeId {
        match self {
            Self::Frozen(nid) if nid == root => NodeId::ROOT,
            Self::Frozen(nid) => NodeId(nid.value() + 1),
            Self::Found(number) => NodeId(number | FOUND),
        }
    }
}

/// An open original that belongs to a node, because its path may not lead to it any more.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) descriptor: OwnedFd,
    pub(crate) access: Access,
}

/// What a descriptor allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Access {
    Read,
    Write,
    Both,
    /// Only what `O_PATH` allows: to ask for attributes.
    Neither,
}

impl Access {
    /// Whether `self` allows what `needed` asks for.
    pub(crate) fn allows(self, needed: Self) -> bool {
        self == Self::Both || self == needed
    }
}

/// The nodes that hold a descriptor, the one that began first in front.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<VecDeque<Node>>);

/// Most descriptors that are held for nodes with a name. Nothing tells when a program closes a file, so a program that
/// makes many would use up all the server may have open; a descriptor that was given up is opened again by path.
const MAX_HELD: usize = 256;

impl Holders {
    /// Notes that `node` holds a descriptor. Returns nodes that should give theirs up.
    pub(crate) fn add(&self, node: Node) -> Vec<Node> {
        let mut holders = lock(&self.0);
        holders.push_back(node);
        let surplus = holders.len().saturating_sub(MAX_HELD);
        holders.drain(..surplus).collect()
    }
}

/// `directory` and `name`, joined.
pub(crate) fn below(directory: &Path, name: &[u8]) -> PathBuf {
    directory.join(std::ffi::OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_way_through_the_kernel() {
        let root = Nid::new(36);
        for node in [Node::Frozen(root), Node::Frozen(Nid::new(38)), Node::Found(1), Node::Found(1 << 40)] {
            assert_eq!(Node::decode(node.encode(root), root), node);
        }
        assert_eq!(Node::Frozen(root).encode(root), NodeId::ROOT);
    }
}
