//! Each inode of the mount, and the original that it stands for.
//!
//! A node of the image is *frozen*: its number is the image's own plus one, and it needs no record as long as the image
//! answers for it. What only the original has is *found*: its number names a record, with the top bit set.
//!
//! An original is reached by the descriptor in its node's record, opened with `O_PATH` when the name was looked up, and by
//! nothing else. So a node stays the same file whatever is renamed, replaced or removed around it. Records lie in memory
//! that outlives the server, and name descriptors of the table that the holder and all servers share.
//!
//! ```text
//! record: | nid + 1, or 0 | device | inode | O_PATH descriptor + 1, reader + 1 << 32 | lookups | marks | unused |
//! ```

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bitflags::bitflags;
use quell_image::Nid;
use rustix::fs::Stat;

use super::references::References;
use crate::fuse::abi::NodeId;
use crate::sys::process::adopt;
use crate::sys::shared::SharedMemory;
use crate::sys::table::{Index, SharedTable};

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

    fn found(index: Index, generation: u64) -> Self {
        Self::Found((generation & GENERATION) << 32 | u64::from(index.0))
    }
}

bitflags! {
    /// What is known of a node beside its original.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct NodeMarks: u64 {
        /// A directory whose names come from the original.
        const LIVE = 1 << 0;
        /// The kernel was told to forget what it knew of a live directory.
        const TOLD = 1 << 1;
        /// A frozen node whose attributes and content come from the original.
        const ALTERED = 1 << 2;
        /// The original's last name was removed: its inode number may be given to another file.
        const GONE = 1 << 3;
        /// The user may make and remove names in this directory.
        const WRITE_BELOW = 1 << 4;
        /// The user may make and remove names in the directory that the node lies in.
        const WRITE_BESIDE = 1 << 5;
    }
}

/// The identity of an original: device and inode number.
pub(crate) type OriginalKey = (u64, u64);

/// The identity that `stat` shows.
pub(crate) fn key_of(stat: &Stat) -> OriginalKey {
    (stat.st_dev, stat.st_ino)
}

/// Records in shared memory.
pub(crate) type NodeRecords = SharedTable<7>;

/// The nodes that have a record: all found ones, and the frozen ones whose original was needed or that were altered.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// Whether any frozen node has a record: as long as none has, the image answers without a look at the table.
    any_frozen: AtomicBool,
    table: RwLock<Table>,
    references: References,
}

#[derive(Debug)]
struct Table {
    records: NodeRecords,
    nodes: HashMap<Node, Entry>,
    /// Nodes by the identity of their originals, without those that are [`NodeMarks::GONE`].
    by_key: HashMap<OriginalKey, Node>,
}

#[derive(Debug)]
struct Entry {
    index: Index,
    key: Option<OriginalKey>,
    original: Option<Arc<OwnedFd>>,
    reader: Option<Arc<OwnedFd>>,
    /// Of a found node: lookups that the kernel has not given back.
    lookups: u64,
    marks: NodeMarks,
}

/// Words of a record.
const FROZEN: usize = 0;
const DEVICE: usize = 1;
const INODE: usize = 2;
const DESCRIPTORS: usize = 3;
const LOOKUPS: usize = 4;
const MARKS: usize = 5;

impl Nodes {
    /// The nodes that an earlier server left in `memory`, with their descriptors.
    pub(crate) fn attach(memory: Arc<SharedMemory>, references: References) -> Self {
        let records = NodeRecords::attach(memory);
        let indexes: Vec<Index> = records.used().collect();
        let mut table = Table { records, nodes: HashMap::new(), by_key: HashMap::new() };
        indexes.into_iter().for_each(|index| table.restore(index));
        let any = table.nodes.keys().any(|node| matches!(node, Node::Frozen(_)));
        Self { any_frozen: AtomicBool::new(any), table: RwLock::new(table), references }
    }

    /// How often the kernel refers to frozen nodes.
    pub(crate) fn references(&self) -> &References {
        &self.references
    }

    /// The node of an original that is not in the image; counts one lookup. `original` is its `O_PATH` descriptor.
    /// `None` if there is no room for another record.
    pub(crate) fn intern(&self, key: OriginalKey, original: OwnedFd, marks: NodeMarks) -> Option<Node> {
        let mut table = self.write();
        if let Some(node @ Node::Found(_)) = table.by_key.get(&key).copied() {
            table.change(node, |entry| {
                entry.lookups += 1;
                entry.marks = entry.marks & !RIGHTS | marks;
                entry.original.get_or_insert_with(|| Arc::new(original));
            });
            return Some(node);
        }
        if table.nodes.len() >= MOST_FOUND {
            return None;
        }
        let entry =
            Entry { key: Some(key), original: Some(Arc::new(original)), lookups: 1, ..Entry::new(marks) };
        table.insert(None, entry)
    }

    /// Ties a frozen node to its original; returns the descriptor that counts, which may be an earlier one.
    pub(crate) fn bind(&self, nid: Nid, key: OriginalKey, original: OwnedFd) -> Arc<OwnedFd> {
        let mut table = self.write();
        self.any_frozen.store(true, Ordering::Release);
        let original = Arc::new(original);
        let node = Node::Frozen(nid);
        if table.nodes.contains_key(&node) {
            return table.rebind(node, key, &original);
        }
        let entry =
            Entry { key: Some(key), original: Some(Arc::clone(&original)), ..Entry::new(NodeMarks::empty()) };
        table.insert(Some(nid), entry);
        original
    }

    /// The node's original, if it is open.
    pub(crate) fn original(&self, node: Node) -> Option<Arc<OwnedFd>> {
        self.look(node, |entry| entry.original.clone()).flatten()
    }

    /// A descriptor by which the node's original can be read although its mode may not allow it any more.
    pub(crate) fn reader(&self, node: Node) -> Option<Arc<OwnedFd>> {
        self.look(node, |entry| entry.reader.clone()).flatten()
    }

    /// Keeps a descriptor to read the node's original by.
    pub(crate) fn keep_reader(&self, node: Node, reader: OwnedFd) {
        self.write().change(node, |entry| entry.reader = Some(Arc::new(reader)));
    }

    /// Gives up the node's descriptors: for file systems that rename an open file instead of removing it.
    pub(crate) fn release_original(&self, node: Node) -> Option<Arc<OwnedFd>> {
        self.write().change(node, |entry| entry.original.take()).flatten()
    }

    /// The node that stands for an original, if any has a record.
    pub(crate) fn node_of(&self, key: OriginalKey) -> Option<Node> {
        self.read().by_key.get(&key).copied()
    }

    /// What is known of a node; nothing if it has no record.
    pub(crate) fn marks(&self, node: Node) -> NodeMarks {
        self.look(node, |entry| entry.marks).unwrap_or_default()
    }

    /// Adds to what is known of a node; returns what was known before. A frozen node gets a record if it has none.
    pub(crate) fn mark(&self, node: Node, added: NodeMarks) -> NodeMarks {
        let mut table = self.write();
        if let Some(entry) = table.nodes.get(&node) {
            let before = entry.marks;
            if !before.contains(added) {
                table.change(node, |entry| entry.marks |= added);
            }
            return before;
        }
        if let Node::Frozen(nid) = node {
            self.any_frozen.store(true, Ordering::Release);
            table.insert(Some(nid), Entry::new(added));
        }
        NodeMarks::empty()
    }

    /// The node is not found by its original's identity any more: that may be given to another file.
    pub(crate) fn detach(&self, node: Node) {
        let mut table = self.write();
        if let Some(key) = table.nodes.get(&node).and_then(|entry| entry.key)
            && table.by_key.get(&key) == Some(&node)
        {
            table.by_key.remove(&key);
        }
    }

    /// The original got a name again.
    pub(crate) fn mark_named(&self, node: Node) {
        let mut table = self.write();
        table.change(node, |entry| entry.marks -= NodeMarks::GONE);
        if let Some(key) = table.nodes.get(&node).and_then(|entry| entry.key) {
            table.by_key.insert(key, node);
        }
    }

    /// The original's last name is gone.
    pub(crate) fn mark_gone(&self, node: Node) {
        self.mark(node, NodeMarks::GONE | NodeMarks::ALTERED);
        self.detach(node);
    }

    /// One more lookup of a node that the kernel knows.
    pub(crate) fn count_lookup(&self, node: Node) {
        match node {
            Node::Frozen(nid) => self.references.look_up(nid),
            Node::Found(_) => {
                self.write().change(node, |entry| entry.lookups += 1);
            }
        }
    }

    /// The kernel gives back lookups. Returns whether that was the last one: the node's descriptors are closed then, and a
    /// found node is gone. What is known of an altered node stays known.
    pub(crate) fn forget(&self, node: Node, lookups: u64) -> bool {
        match node {
            Node::Frozen(nid) => {
                let last = self.references.forget(nid, lookups);
                if last && self.any_frozen.load(Ordering::Acquire) {
                    self.write().close(node);
                }
                last
            }
            Node::Found(_) => self.write().take_back(node, lookups),
        }
    }

    /// Live directories of the image that the kernel may not have been told about. Shape: sorted.
    pub(crate) fn untold(&self) -> Vec<Nid> {
        let table = self.read();
        let untold = table.nodes.iter().filter_map(|(node, entry)| match node {
            Node::Frozen(nid) if entry.marks & (NodeMarks::LIVE | NodeMarks::TOLD) == NodeMarks::LIVE => {
                Some(*nid)
            }
            _ => None,
        });
        let mut untold: Vec<Nid> = untold.collect();
        untold.sort_unstable();
        untold
    }

    /// The frozen nodes that are tied to originals, with the identities of those.
    pub(crate) fn tied(&self) -> Vec<(Nid, OriginalKey)> {
        let table = self.read();
        let tied = table.nodes.iter().filter_map(|(node, entry)| Some((frozen_of(*node)?, entry.key?)));
        tied.collect()
    }

    /// Lets no record, and no descriptor that one names, come or go until the guard is dropped.
    pub(crate) fn pause(&self) -> impl Sized + '_ {
        self.write()
    }

    /// Whether a frozen node has these marks: without a lock as long as no frozen node has any.
    pub(crate) fn is_marked(&self, nid: Nid, marks: NodeMarks) -> bool {
        self.any_frozen.load(Ordering::Acquire) && self.marks(Node::Frozen(nid)).intersects(marks)
    }

    /// Whether any frozen node was bound to its original or altered.
    pub(crate) fn any_frozen(&self) -> bool {
        self.any_frozen.load(Ordering::Acquire)
    }

    fn look<T>(&self, node: Node, look: impl FnOnce(&Entry) -> T) -> Option<T> {
        self.read().nodes.get(&node).map(look)
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nodes beyond which only frozen ones get a record: what is known of those must reach the next server.
const MOST_FOUND: usize = 1 << 20;

/// NodeMarks that each lookup sets anew.
const RIGHTS: NodeMarks = NodeMarks::WRITE_BELOW.union(NodeMarks::WRITE_BESIDE);

impl Entry {
    fn new(marks: NodeMarks) -> Self {
        Self { index: Index(0), key: None, original: None, reader: None, lookups: 0, marks }
    }

    fn words(&self, frozen: Option<Nid>) -> [u64; 7] {
        let number = |descriptor: &Option<Arc<OwnedFd>>| {
            descriptor.as_ref().map_or(0, |descriptor| u64::from(descriptor.as_raw_fd().unsigned_abs()) + 1)
        };
        let (device, inode) = self.key.unwrap_or_default();
        let descriptors = number(&self.original) | number(&self.reader) << 32;
        let frozen = frozen.map_or(0, |nid| nid.value() + 1);
        [frozen, device, inode, descriptors, self.lookups, self.marks.bits(), 0]
    }
}

impl Table {
    /// Makes a record. `None` if there is no room; a frozen node is then known to this server alone.
    fn insert(&mut self, frozen: Option<Nid>, mut entry: Entry) -> Option<Node> {
        let index = self.records.insert(entry.words(frozen));
        let node = match (frozen, index) {
            (Some(nid), _) => Node::Frozen(nid),
            (None, Some(index)) => Node::found(index, self.records.generation(index)?),
            (None, None) => return None,
        };
        entry.index = index.unwrap_or(Index(u32::MAX));
        if let Some(key) = entry.key.filter(|_| !entry.marks.contains(NodeMarks::GONE)) {
            self.by_key.insert(key, node);
        }
        self.nodes.insert(node, entry);
        Some(node)
    }

    /// Changes an entry, here and in its record. A descriptor is closed only after the record has stopped to name it.
    fn change<T>(&mut self, node: Node, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let entry = self.nodes.get_mut(&node)?;
        let before = (entry.original.clone(), entry.reader.clone());
        let outcome = change(entry);
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
    fn rebind(&mut self, node: Node, key: OriginalKey, original: &Arc<OwnedFd>) -> Arc<OwnedFd> {
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

    fn take_back(&mut self, node: Node, lookups: u64) -> bool {
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
    fn close(&mut self, node: Node) {
        let Some(entry) = self.nodes.get(&node) else { return };
        if entry.marks.is_empty() {
            return self.remove(node);
        }
        if let Some(key) = entry.key
            && self.by_key.get(&key) == Some(&node)
        {
            self.by_key.remove(&key);
        }
        self.change(node, |entry| (entry.original, entry.reader, entry.key) = (None, None, None));
    }

    fn remove(&mut self, node: Node) {
        let Some(entry) = self.nodes.remove(&node) else { return };
        if let Some(key) = entry.key
            && self.by_key.get(&key) == Some(&node)
        {
            self.by_key.remove(&key);
        }
        self.records.free(entry.index);
    }

    /// Takes over a record. Nothing is asked of an original: its file system may not answer now, and the image can.
    fn restore(&mut self, index: Index) {
        let word = |number| self.records.get(index, number);
        let open = |number| number_of(number).and_then(adopt).map(Arc::new);
        let key = (word(DEVICE), word(INODE));
        let descriptors = word(DESCRIPTORS);
        let original = open(descriptors);
        let entry = Entry {
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
        self.nodes.insert(node, entry);
    }
}

/// The numbers of all descriptors that the records in `memory` name.
pub(crate) fn descriptors(memory: &Arc<SharedMemory>) -> Vec<RawFd> {
    let records = NodeRecords::attach(Arc::clone(memory));
    let both = |index| {
        let word = records.get(index, DESCRIPTORS);
        [number_of(word), number_of(word >> 32)]
    };
    records.used().flat_map(both).flatten().collect()
}

/// The descriptor that half a word names, if it names one.
fn number_of(word: u64) -> Option<RawFd> {
    RawFd::try_from(word & 0xffff_ffff).ok()?.checked_sub(1).filter(|number| *number >= 0)
}

fn frozen_of(node: Node) -> Option<Nid> {
    match node {
        Node::Frozen(nid) => Some(nid),
        Node::Found(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &std::path::Path) -> (OriginalKey, OwnedFd) {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap();
        (key_of(&rustix::fs::fstat(&descriptor).unwrap()), descriptor)
    }

    fn memories() -> (Arc<SharedMemory>, Arc<SharedMemory>) {
        (NodeRecords::memory(100).unwrap(), References::memory(100).unwrap())
    }

    fn attach((records, references): &(Arc<SharedMemory>, Arc<SharedMemory>)) -> Nodes {
        Nodes::attach(Arc::clone(records), References::attach(Arc::clone(references)))
    }

    #[test]
    fn numbers_survive_the_way_through_the_kernel() {
        let root = Nid::new(36);
        let found = Node::found(Index(7), (5 << 31) + 3);
        for node in [Node::Frozen(root), Node::Frozen(Nid::new(38)), Node::Found(1), found] {
            assert_eq!(Node::decode(node.encode(root), root), node);
        }
        assert_eq!(Node::Frozen(root).encode(root), NodeId::ROOT);
    }

    #[test]
    fn a_number_never_leads_to_the_next_record_of_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let nodes = attach(&memories());
        let (key, original) = open(directory.path());
        let first = nodes.intern(key, original, NodeMarks::empty()).unwrap();
        let (_, again) = open(directory.path());
        assert_eq!(nodes.intern(key, again, NodeMarks::WRITE_BELOW), Some(first));
        assert!(!nodes.forget(first, 1) && nodes.forget(first, 1));
        assert!(nodes.original(first).is_none());
        let (_, original) = open(directory.path());
        let second = nodes.intern(key, original, NodeMarks::empty()).unwrap();
        assert_ne!(first, second);
        assert!(nodes.original(first).is_none() && nodes.original(second).is_some());
    }

    #[test]
    fn the_next_server_has_the_same_nodes_with_the_same_originals() {
        let directory = tempfile::tempdir().unwrap();
        let memories = memories();
        let nodes = attach(&memories);
        let (key, original) = open(directory.path());
        let (nid, altered) = (Nid::new(4), Nid::new(6));
        nodes.references().look_up(nid);
        nodes.bind(nid, key, original);
        nodes.mark(Node::Frozen(nid), NodeMarks::LIVE);
        nodes.mark(Node::Frozen(altered), NodeMarks::ALTERED);
        // A server that is killed closes nothing.
        std::mem::forget(nodes);
        let next = attach(&memories);
        assert_eq!((next.node_of(key), next.untold()), (Some(Node::Frozen(nid)), vec![nid]));
        assert!(next.is_marked(altered, NodeMarks::ALTERED) && !next.is_marked(altered, NodeMarks::LIVE));
        assert!(next.original(Node::Frozen(nid)).is_some());
        assert!(next.forget(Node::Frozen(nid), 1));
        assert!(next.original(Node::Frozen(nid)).is_none() && next.is_marked(nid, NodeMarks::LIVE));
        assert_eq!(next.node_of(key), None);
    }
}
