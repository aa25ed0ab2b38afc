//! Records of nodes, in memory that the holder and all servers share, and what this server has read of them.
//!
//! ```text
//! record: | nid + 1, or 0 | device | inode | O_PATH descriptor + 1, reader + 1 << 32 | lookups | marks | unused |
//! ```

use std::collections::HashMap;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;

use quell_image::Nid;

use super::node::{Node, NodeMarks, OriginalKey};
use crate::sys::process::adopt;
use crate::sys::shared::SharedMemory;
use crate::sys::table::{SharedTable, TableIndex, name_of, named_by};

/// Records in shared memory.
pub(crate) type NodeRecords = SharedTable<7>;

#[derive(Debug)]
pub(crate) struct NodeTable {
    pub(crate) records: NodeRecords,
    pub(crate) nodes: HashMap<Node, NodeEntry>,
    /// Nodes by the identity of their originals, without those that are [`NodeMarks::GONE`].
    pub(crate) by_key: HashMap<OriginalKey, Node>,
    /// The number of open originals.
    pub(crate) originals: usize,
}

#[derive(Debug)]
pub(crate) struct NodeEntry {
    pub(crate) index: TableIndex,
    pub(crate) key: Option<OriginalKey>,
    pub(crate) original: Option<Arc<OwnedFd>>,
    pub(crate) reader: Option<Arc<OwnedFd>>,
    /// Of a found node: lookups that the kernel has not given back.
    pub(crate) lookups: u64,
    pub(crate) marks: NodeMarks,
}

/// Words of a record.
const FROZEN: usize = 0;
const DEVICE: usize = 1;
const INODE: usize = 2;
const DESCRIPTORS: usize = 3;
const LOOKUPS: usize = 4;
const MARKS: usize = 5;

impl NodeEntry {
    /// An entry without an original.
    pub(crate) fn new(marks: NodeMarks) -> Self {
        Self { index: TableIndex(0), key: None, original: None, reader: None, lookups: 0, marks }
    }

    fn words(&self, frozen: Option<Nid>) -> [u64; 7] {
        let (device, inode) = self.key.unwrap_or_default();
        let descriptors = name_of(self.original.as_deref()) | name_of(self.reader.as_deref()) << 32;
        let frozen = frozen.map_or(0, |nid| nid.value() + 1);
        [frozen, device, inode, descriptors, self.lookups, self.marks.bits(), 0]
    }
}

impl NodeTable {
    /// The table of the records that an earlier server left in `memory`.
    pub(crate) fn attach(memory: Arc<SharedMemory>) -> Self {
        let records = NodeRecords::attach(memory);
        let indexes: Vec<TableIndex> = records.used().collect();
        let mut table = Self { records, nodes: HashMap::new(), by_key: HashMap::new(), originals: 0 };
        indexes.into_iter().for_each(|index| table.restore(index));
        table
    }

    /// Makes a record. `None` if there is no room; a frozen node is then known to this server alone.
    pub(crate) fn insert(&mut self, frozen: Option<Nid>, mut entry: NodeEntry) -> Option<Node> {
        let index = self.records.insert(entry.words(frozen));
        let node = match (frozen, index) {
            (Some(nid), _) => Node::Frozen(nid),
            (None, Some(index)) => Node::found(index, self.records.generation(index)?),
            (None, None) => return None,
        };
        entry.index = index.unwrap_or(TableIndex(u32::MAX));
        if let Some(key) = entry.key.filter(|_| !entry.marks.contains(NodeMarks::GONE)) {
            self.by_key.insert(key, node);
        }
        self.originals += usize::from(entry.original.is_some());
        self.nodes.insert(node, entry);
        Some(node)
    }

    /// Changes an entry, here and in its record. A descriptor is closed only after the record has stopped to name it.
    pub(crate) fn change<T>(&mut self, node: Node, change: impl FnOnce(&mut NodeEntry) -> T) -> Option<T> {
        let entry = self.nodes.get_mut(&node)?;
        let before = (entry.original.clone(), entry.reader.clone());
        let outcome = change(entry);
        self.originals =
            self.originals + usize::from(entry.original.is_some()) - usize::from(before.0.is_some());
        let words = entry.words(frozen_of(node));
        if self.records.generation(entry.index).is_some() {
            for number in [DEVICE, INODE, DESCRIPTORS, LOOKUPS, MARKS] {
                self.records.set(entry.index, number, words[number]);
            }
        }
        drop(before);
        Some(outcome)
    }

    /// Gives a node that has a record its original, unless it has one.
    pub(crate) fn rebind(&mut self, node: Node, key: OriginalKey, original: &Arc<OwnedFd>) -> Arc<OwnedFd> {
        let bound = self.change(node, |entry| {
            if let Some(kept) = &entry.original {
                return (Arc::clone(kept), false);
            }
            (entry.original, entry.key) = (Some(Arc::clone(original)), Some(key));
            (Arc::clone(original), !entry.marks.contains(NodeMarks::GONE))
        });
        let (kept, named) = bound.unwrap_or((Arc::clone(original), false));
        if named {
            self.by_key.insert(key, node);
        }
        kept
    }

    /// The node is not found by its original's identity any more.
    pub(crate) fn detach(&mut self, node: Node) {
        if let Some(key) = self.nodes.get(&node).and_then(|entry| entry.key)
            && self.by_key.get(&key) == Some(&node)
        {
            self.by_key.remove(&key);
        }
    }

    pub(crate) fn take_back(&mut self, node: Node, lookups: u64) -> bool {
        let left = self.change(node, |entry| {
            entry.lookups = entry.lookups.saturating_sub(lookups);
            entry.lookups
        });
        if left != Some(0) {
            return false;
        }
        self.remove(node);
        true
    }

    /// Closes the descriptors of a frozen node that the kernel does not know any more.
    pub(crate) fn close(&mut self, node: Node) {
        let Some(entry) = self.nodes.get(&node) else { return };
        if entry.marks.is_empty() {
            return self.remove(node);
        }
        self.detach(node);
        self.change(node, |entry| (entry.original, entry.reader, entry.key) = (None, None, None));
    }

    pub(crate) fn remove(&mut self, node: Node) {
        self.detach(node);
        let Some(entry) = self.nodes.remove(&node) else { return };
        self.originals -= usize::from(entry.original.is_some());
        self.records.free(entry.index);
    }

    /// Takes over a record. Nothing is asked of an original: its file system may not answer now, and the image can.
    fn restore(&mut self, index: TableIndex) {
        let word = |number| self.records.get(index, number);
        let open = |word| named_by(word).and_then(adopt).map(Arc::new);
        let key = (word(DEVICE), word(INODE));
        let descriptors = word(DESCRIPTORS);
        let original = open(descriptors);
        let entry = NodeEntry {
            index,
            key: original.is_some().then_some(key),
            reader: open(descriptors >> 32),
            lookups: word(LOOKUPS),
            marks: NodeMarks::from_bits_truncate(word(MARKS)),
            original,
        };
        let node = match (word(FROZEN).checked_sub(1), self.records.generation(index)) {
            (Some(nid), _) => Node::Frozen(Nid::new(nid)),
            (None, Some(generation)) => Node::found(index, generation),
            (None, None) => return,
        };
        if let Some(key) = entry.key.filter(|_| !entry.marks.contains(NodeMarks::GONE)) {
            self.by_key.insert(key, node);
        }
        self.originals += usize::from(entry.original.is_some());
        self.nodes.insert(node, entry);
    }
}

/// The numbers of all descriptors that the records in `memory` name.
pub(crate) fn descriptors(memory: &Arc<SharedMemory>) -> Vec<RawFd> {
    let records = NodeRecords::attach(Arc::clone(memory));
    let both = |index| {
        let word = records.get(index, DESCRIPTORS);
        [named_by(word), named_by(word >> 32)]
    };
    records.used().flat_map(both).flatten().collect()
}

pub(crate) fn frozen_of(node: Node) -> Option<Nid> {
    match node {
        Node::Frozen(nid) => Some(nid),
        Node::Found(_) => None,
    }
}
