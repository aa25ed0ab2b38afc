//! The kernel's number of an inode, and the facts that are kept beside its original.

use bitflags::bitflags;
use quell_image::Nid;
use rustix::fs::Stat;

use crate::fuse::abi::NodeId;
use crate::sys::table::TableIndex;

/// A decoded [`NodeId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    /// In the image.
    Frozen(Nid),
    /// Found in the original only: the place of its record, and which record of that place it is.
    Found(u64),
}

/// Top bit of the numbers of found nodes; an image would need 2^68 bytes to have it.
const FOUND: u64 = 1 << 63;

/// Bits of a found node's number that say which record of its place it is.
const GENERATION: u64 = (1 << 31) - 1;

impl Node {
    /// The node that the kernel means by `id`, in an image with this root.
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

    /// The node of the record at `index`, which is the `generation`th of its place.
    pub(crate) fn found(index: TableIndex, generation: u64) -> Self {
        Self::Found((generation & GENERATION) << 32 | u64::from(index.0))
    }
}

bitflags! {
    /// Facts of a node beside its original.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct NodeMarks: u64 {
        /// A directory whose names come from the original.
        const LIVE = 1 << 0;
        /// The kernel was told to forget the names of this live directory.
        const TOLD = 1 << 1;
        /// A frozen node whose attributes and content come from the original.
        const ALTERED = 1 << 2;
        /// The original's last name was removed: its inode number may be given to another file.
        const GONE = 1 << 3;
        /// The user may make and remove names in this directory.
        const WRITE_BELOW = 1 << 4;
        /// The user may make and remove names in the directory that the node lies in.
        const WRITE_BESIDE = 1 << 5;
        /// A found directory.
        const DIRECTORY = 1 << 6;
    }
}
/// The identity of an original: device and inode number.
pub(crate) type OriginalKey = (u64, u64);

/// The identity that `stat` shows.
pub(crate) fn key_of(stat: &Stat) -> OriginalKey {
    (stat.st_dev, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_the_way_through_the_kernel() {
        let root = Nid::new(36);
        let found = Node::found(TableIndex(7), (5 << 31) + 3);
        for node in [Node::Frozen(root), Node::Frozen(Nid::new(38)), Node::Found(1), found] {
            assert_eq!(Node::decode(node.encode(root), root), node);
        }
        assert_eq!(Node::Frozen(root).encode(root), NodeId::ROOT);
    }
}
