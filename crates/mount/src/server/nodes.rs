//! Each inode of the mount, and the original that it stands for.
//!
//! A node of the image is *frozen*: its number is the image's own plus one, and it needs no record as long as the image
//! answers for it. What only the original has is *found*: its number names a record, with the top bit set.
//!
//! An original is reached by the descriptor in its node's record, opened with `O_PATH` when the name was looked up, and by
//! nothing else. So a node stays the same file whatever is renamed, replaced or removed around it. Records lie in memory
//! that outlives the server ([`super::node_table`]), and name descriptors of the table that the holder and all servers share.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use quell_image::Nid;

use super::node::{Node, NodeMarks, OriginalKey};
use super::node_table::{NodeEntry, NodeTable, frozen_of};
use super::references::References;
use crate::sys::shared::SharedMemory;

/// The nodes that have a record: all found ones, and the frozen ones whose original was needed or that were altered.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// True if any frozen node has a record: as long as none has, the image answers without a look at the table.
    any_frozen: AtomicBool,
    table: RwLock<NodeTable>,
    references: References,
    /// Originals that may be open at a time.
    most: usize,
}

impl Nodes {
    /// The nodes that an earlier server left in `memory`, with their descriptors.
    pub(crate) fn attach(memory: Arc<SharedMemory>, references: References) -> Self {
        let table = NodeTable::attach(memory);
        let any = table.nodes.keys().any(|node| matches!(node, Node::Frozen(_)));
        Self {
            any_frozen: AtomicBool::new(any),
            table: RwLock::new(table),
            references,
            most: most_originals(),
        }
    }

    /// The kernel's references to frozen nodes.
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
        let entry = NodeEntry {
            key: Some(key),
            original: Some(Arc::new(original)),
            lookups: 1,
            ..NodeEntry::new(marks)
        };
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
        let entry = NodeEntry {
            key: Some(key),
            original: Some(Arc::clone(&original)),
            ..NodeEntry::new(NodeMarks::empty())
        };
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

    /// The marks of a node; none if it has no record.
    pub(crate) fn marks(&self, node: Node) -> NodeMarks {
        self.look(node, |entry| entry.marks).unwrap_or_default()
    }

    /// Adds marks to a node; returns its marks before. A frozen node gets a record if it has none.
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
            table.insert(Some(nid), NodeEntry::new(added));
        }
        NodeMarks::empty()
    }

    /// The node is not found by its original's identity any more: that may be given to another file.
    pub(crate) fn detach(&self, node: Node) {
        self.write().detach(node);
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
                    let mut table = self.write();
                    // Another thread may have counted a lookup, and is about to bind the node.
                    if self.references.is_unknown(nid) {
                        table.close(node);
                    }
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

    /// Closes the originals of found files that no program has open, when nodes take half of the descriptors that this
    /// process may have: further requests for them fail with `ESTALE`, on which the kernel looks the name up again.
    pub(crate) fn shed(&self, may_go: impl Fn(Node) -> bool) {
        if self.read().originals < self.most {
            return;
        }
        let mut table = self.write();
        let kept = NodeMarks::DIRECTORY | NodeMarks::GONE;
        let open =
            table.nodes.iter().filter(|(_, entry)| entry.original.is_some() && !entry.marks.intersects(kept));
        let files: Vec<Node> = open.map(|(node, _)| *node).filter(|node| may_go(*node)).collect();
        for node in files {
            table.detach(node);
            table.change(node, |entry| entry.original = None);
        }
    }

    /// Lets no record, and no descriptor that one names, come or go until the guard is dropped.
    pub(crate) fn pause(&self) -> impl Sized + '_ {
        self.write()
    }

    /// Tells whether a frozen node has these marks: without a lock as long as no frozen node has any.
    pub(crate) fn is_marked(&self, nid: Nid, marks: NodeMarks) -> bool {
        self.any_frozen.load(Ordering::Acquire) && self.marks(Node::Frozen(nid)).intersects(marks)
    }

    /// Tells whether any frozen node was bound to its original or altered.
    pub(crate) fn any_frozen(&self) -> bool {
        self.any_frozen.load(Ordering::Acquire)
    }

    fn look<T>(&self, node: Node, look: impl FnOnce(&NodeEntry) -> T) -> Option<T> {
        self.read().nodes.get(&node).map(look)
    }

    fn read(&self) -> RwLockReadGuard<'_, NodeTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, NodeTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nodes beyond which only frozen ones get a record: their marks must reach the next server.
const MOST_FOUND: usize = 1 << 20;

/// Half of the descriptors that this process may have open: the rest is for open files, locks and ranks.
fn most_originals() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = limit.and_then(|limit| usize::try_from(limit / 2).ok());
    half.unwrap_or(MOST_FOUND).min(MOST_FOUND / 2)
}

/// The marks that each lookup sets anew.
const RIGHTS: NodeMarks = NodeMarks::WRITE_BELOW.union(NodeMarks::WRITE_BESIDE);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::node::key_of;
    use crate::server::node_table::NodeRecords;

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
