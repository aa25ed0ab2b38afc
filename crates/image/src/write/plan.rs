//! The layout of an image, decided before a byte is written. Takes memory for each inode only.

use std::collections::VecDeque;

use crate::erofs::inode::{DataLayout, INODE, encode_device};
use crate::erofs::superblock::{SUPER_OFFSET, SUPER_SIZE};
use crate::erofs::{BLOCK_BYTES, SLOT, blocks_for, chunk, dirent, xattr};
use crate::index::row::SLOTS_PER_BLOCK;
use crate::tree::{Body, HeldContent, INDEX_NODE, ImageTree, TreeDirectory, TreeNodeId};
use crate::write::error::WriteError;

/// Largest tail of a directory or link that is kept beside its inode: larger ones would waste more of the
/// inodes' blocks than they save. No part of the format.
const INLINE_MAX: u64 = BLOCK_BYTES / 2;

/// The layout of an image.
#[derive(Debug)]
pub(crate) struct ImageLayout {
    /// Nodes in order of rows and nids: breadth first, siblings by name.
    pub(crate) order: Vec<TreeNodeId>,
    /// Place of each row's node.
    pub(crate) places: Vec<NodeLayout>,
    /// Row of each node of the tree.
    rows: Vec<u32>,
    pub(crate) index_start: u64,
    pub(crate) index_length: u64,
    /// Length of the image.
    pub(crate) blocks: u32,
}

/// Place of one node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeLayout {
    /// Offset of the inode divided by 32.
    pub(crate) nid: u64,
    pub(crate) layout: DataLayout,
    /// First block, device number, or chunk format.
    pub(crate) start: u32,
    /// Of a file held in part: the first block of its data, and their number.
    pub(crate) part: (u32, u64),
    /// Bytes of data as EROFS counts them.
    pub(crate) size: u64,
    pub(crate) xattr_bytes: u32,
    /// Row of the directory with the node's first name.
    pub(crate) parent: u32,
    /// Place of that name, see the index's rows.
    pub(crate) slot: u32,
}

impl NodeLayout {
    /// Bytes after the inode and its attributes: tail or chunk map.
    fn trailer(&self) -> u64 {
        match self.layout {
            DataLayout::Plain => 0,
            DataLayout::Inline => self.tail(),
            DataLayout::Chunks => chunk::ENTRY * chunk::count(self.size, self.start),
        }
    }

    /// Bytes in the last block.
    pub(crate) fn tail(&self) -> u64 {
        self.size - blocks_for(self.size).saturating_sub(1) * BLOCK_BYTES
    }

    /// Blocks outside the inode.
    pub(crate) fn data_blocks(&self) -> u64 {
        match self.layout {
            DataLayout::Plain => blocks_for(self.size),
            DataLayout::Inline => blocks_for(self.size) - 1,
            DataLayout::Chunks => self.part.1,
        }
    }
}

/// A node that has not been met.
const NO_ROW: u32 = u32::MAX;

/// A name that has not been met; remains the root's.
const NO_SLOT: u32 = u32::MAX;

impl ImageLayout {
    /// Lays `tree` out, with an index of `index_length` bytes.
    ///
    /// **Errors** [`WriteError::TooLarge`] beyond 16 TiB of image.
    pub(crate) fn new(tree: &ImageTree, index_length: u64) -> Result<Self, WriteError> {
        let mut plan = Self {
            order: Vec::with_capacity(tree.len()),
            places: Vec::with_capacity(tree.len()),
            rows: vec![NO_ROW; tree.len()],
            index_start: 0,
            index_length,
            blocks: 0,
        };
        plan.order_nodes(tree);
        plan.place_names(tree);
        let inodes_end = plan.place_inodes();
        plan.place_blocks(tree, blocks_for(inodes_end))?;
        Ok(plan)
    }

    /// Row of `node`.
    pub(crate) fn row(&self, node: TreeNodeId) -> u32 {
        self.rows[node.0 as usize]
    }

    /// Place of `node`.
    pub(crate) fn placed(&self, node: TreeNodeId) -> &NodeLayout {
        &self.places[self.row(node) as usize]
    }

    /// Puts the nodes into breadth-first order, and decides each node's layout and sizes.
    fn order_nodes(&mut self, tree: &ImageTree) {
        let mut queue = VecDeque::from([(tree.root(), 0)]);
        self.rows[0] = 0;
        let mut rows = 1;
        while let Some((node, parent)) = queue.pop_front() {
            let row = self.rows[node.0 as usize];
            self.order.push(node);
            self.places.push(self.shape(tree, node, parent));
            let Body::Directory(directory) = &tree.node(node).body else { continue };
            for &child in directory.entries.values() {
                let known = &mut self.rows[child.0 as usize];
                if *known == NO_ROW {
                    *known = rows;
                    rows += 1;
                    queue.push_back((child, row));
                }
            }
        }
    }

    /// A node's layout and sizes, without its place.
    fn shape(&self, tree: &ImageTree, id: TreeNodeId, parent: u32) -> NodeLayout {
        let node = tree.node(id);
        // The tree takes no attributes that cannot be encoded.
        let xattrs = xattr::encode(&node.xattrs).unwrap_or_default().len() as u32;
        let mut placed = NodeLayout {
            nid: 0,
            layout: DataLayout::Plain,
            start: 0,
            part: (0, 0),
            size: 0,
            xattr_bytes: xattrs,
            parent,
            slot: NO_SLOT,
        };
        match &node.body {
            Body::Directory(directory) => placed.size = directory_size(directory),
            Body::Symlink(target) => placed.size = target.len() as u64,
            Body::File(_) if id == INDEX_NODE => placed.size = self.index_length,
            Body::File(held) => {
                placed.size = node.attributes.size;
                match held {
                    None if placed.size > 0 => {
                        placed.layout = DataLayout::Chunks;
                        placed.start = chunk::bits_for(placed.size);
                    }
                    Some(HeldContent { part: Some(part), .. }) => {
                        placed.layout = DataLayout::Chunks;
                        placed.start = chunk::bits_for_part(placed.size);
                        placed.part.1 = part.len();
                    }
                    _ => {}
                }
            }
            // The tree takes no device number that cannot be encoded.
            Body::Special => placed.start = encode_device(node.attributes.rdev).unwrap_or_default(),
        }
        if matches!(node.body, Body::Directory(_) | Body::Symlink(_)) {
            let together = INODE as u64 + u64::from(xattrs) + placed.tail();
            if placed.tail() <= INLINE_MAX && together <= BLOCK_BYTES {
                placed.layout = DataLayout::Inline;
            }
        }
        placed
    }

    /// Finds the slot of each node's first name.
    fn place_names(&mut self, tree: &ImageTree) {
        for (row, &node) in self.order.iter().enumerate() {
            let Body::Directory(directory) = &tree.node(node).body else { continue };
            let names = listing(directory);
            for (&(_, child), slot) in names.iter().zip(slots(&names)) {
                let Some(child) = child else { continue };
                let placed = &mut self.places[self.rows[child.0 as usize] as usize];
                if placed.parent as usize == row && placed.slot == NO_SLOT {
                    placed.slot = slot;
                }
            }
        }
    }

    /// Gives each inode its offset; returns where the last one ends.
    fn place_inodes(&mut self) -> u64 {
        let mut at = (SUPER_OFFSET + SUPER_SIZE) as u64;
        for placed in &mut self.places {
            let head = INODE as u64 + u64::from(placed.xattr_bytes);
            let inline_end = (at + head) % BLOCK_BYTES + placed.trailer();
            let tail_crosses = placed.layout == DataLayout::Inline && inline_end > BLOCK_BYTES;
            if tail_crosses || at % BLOCK_BYTES + INODE as u64 > BLOCK_BYTES {
                at = at.next_multiple_of(BLOCK_BYTES);
            }
            placed.nid = at / SLOT;
            at = (at + head + placed.trailer()).next_multiple_of(SLOT);
        }
        at
    }

    /// Gives everything outside the inodes its blocks: directories and links, the index, then held files.
    fn place_blocks(&mut self, tree: &ImageTree, first: u64) -> Result<(), WriteError> {
        let mut next = first;
        let mut take = |placed: &mut NodeLayout| {
            let blocks = placed.data_blocks();
            if blocks > 0 {
                let first = u32::try_from(next).unwrap_or(u32::MAX);
                match placed.layout {
                    DataLayout::Chunks => placed.part.0 = first,
                    DataLayout::Plain | DataLayout::Inline => placed.start = first,
                }
                next = next.saturating_add(blocks);
            }
        };
        for (placed, &node) in self.places.iter_mut().zip(&self.order) {
            if matches!(tree.node(node).body, Body::Directory(_) | Body::Symlink(_)) {
                take(placed);
            }
        }
        for node in std::iter::once(INDEX_NODE).chain(tree.held.iter().copied()).chain(tree.asked) {
            take(&mut self.places[self.rows[node.0 as usize] as usize]);
        }
        self.index_start = u64::from(self.placed(INDEX_NODE).start) * BLOCK_BYTES;
        let blocks = u32::try_from(next).ok().filter(|&blocks| blocks < chunk::UNHELD);
        self.blocks = blocks.ok_or(WriteError::TooLarge { bytes: next.saturating_mul(BLOCK_BYTES) })?;
        Ok(())
    }
}

/// The names of a directory in order, with `.` and `..`, which are no node's first name.
pub(crate) fn listing(directory: &TreeDirectory) -> Vec<(&[u8], Option<TreeNodeId>)> {
    let mut names: Vec<_> = directory.entries.iter().map(|(name, &node)| (&name[..], Some(node))).collect();
    for dots in [&b"."[..], b".."] {
        let at = names.partition_point(|&(name, _)| name < dots);
        names.insert(at, (dots, None));
    }
    names
}

/// The slots of a directory's names, in order.
fn slots(names: &[(&[u8], Option<TreeNodeId>)]) -> impl Iterator<Item = u32> {
    let blocks = dirent::cut(names.iter().map(|&(name, _)| name)).enumerate();
    blocks.flat_map(|(block, (count, _))| (0..count).map(move |i| block as u32 * SLOTS_PER_BLOCK + i as u32))
}

/// Bytes of a directory: whole blocks but for the last.
fn directory_size(directory: &TreeDirectory) -> u64 {
    let names = listing(directory);
    let (blocks, last) = dirent::cut(names.iter().map(|&(name, _)| name))
        .fold((0, 0), |(blocks, _), (_, used)| (blocks + 1, used));
    // `.` and `..` make at least one block.
    (blocks - 1) * BLOCK_BYTES + last as u64
}
