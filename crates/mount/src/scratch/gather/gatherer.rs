//! The recorder of a directory: what its container has, and what is not recorded yet.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_gather::{Contents, Log, NodeKind, Op, Seen, Shown, encode};
use rustix::io::Errno;

use super::content::Gathered;
use super::earlier::Earlier;
use super::place::GatherPlace;
use crate::scratch::originals::below;

/// The recorder of a directory whose files are gathered.
#[derive(Debug)]
pub(in crate::scratch) struct Gatherer {
    pub(in crate::scratch) log: Arc<Log>,
    /// The state of the container, once its batch is whole.
    pub(super) contents: Contents,
    /// Inodes that are not as they are recorded.
    pub(super) changed: BTreeSet<u64>,
    /// The same for names: directory and name.
    pub(super) changed_names: BTreeSet<(u64, Vec<u8>)>,
    pub(super) names_of: HashMap<u64, BTreeSet<(u64, Vec<u8>)>>,
    /// For tar: the inode whose member had a path last, and the path of an inode's.
    pub(super) tar_paths: HashMap<Vec<u8>, u64>,
    pub(super) tar_path: HashMap<u64, Vec<u8>>,
    pub(super) held: Arc<AtomicU64>,
    /// Members were appended, and no commit after them.
    pub(super) is_in_batch: bool,
    /// The inodes of files of earlier containers. One that has changed keeps its number, for names that are seen later.
    pub(in crate::scratch) earlier_inodes: HashMap<Seen, u64>,
    /// Files that were there, and of which a copy is being made.
    pub(super) copied: HashSet<u64>,
    /// Inodes that a container does not hold: sockets and devices.
    pub(super) refused: HashSet<u64>,
    /// Paths that programs asked for and that were not there.
    absent: BTreeSet<Vec<u8>>,
    pub(in crate::scratch) earlier: Arc<Earlier>,
    pub(super) place: GatherPlace,
}

/// Bytes in memory at which everything is recorded.
const FULL: u64 = 8 << 20;

/// The place of notes in their batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchEnding {
    /// More of the batch.
    GoesOn,
    /// All of the batch counts.
    Commits,
}

/// The length of the ops of one member without data. A reader refuses members that are a few times longer. Unit: bytes.
const NOTES: usize = 512 << 10;

/// The length of an op without content, about. Unit: bytes.
fn length_of(op: &Op) -> usize {
    let text = match op {
        Op::Inode { node, .. } => {
            let xattrs = node.xattrs.iter().map(|(name, value)| name.len() + value.len() + 8);
            xattrs.sum::<usize>() + if let NodeKind::Link { target } = &node.kind { target.len() } else { 0 }
        }
        Op::Name { name, .. } | Op::Remove { name, .. } => name.len(),
        Op::Begin(_) | Op::Data { .. } | Op::Growth { .. } | Op::Commit => 0,
    };
    text + 64
}

/// Most paths, and the longest, of those that are absent: enough to name an example.
const ABSENT_MOST: usize = 100;
const ABSENT_LONGEST: usize = 200;

/// Bytes that an inode takes in a container beside its content, about.
const MEMBER: u64 = 3 << 10;

impl Gatherer {
    pub(super) fn new(log: Arc<Log>, earlier: Arc<Earlier>, place: GatherPlace) -> Self {
        Self {
            log,
            contents: Contents::default(),
            changed: BTreeSet::new(),
            changed_names: BTreeSet::new(),
            names_of: HashMap::new(),
            tar_paths: HashMap::new(),
            tar_path: HashMap::new(),
            held: Arc::default(),
            is_in_batch: false,
            earlier_inodes: HashMap::new(),
            copied: HashSet::new(),
            refused: HashSet::new(),
            absent: BTreeSet::new(),
            earlier,
            place,
        }
    }

    pub(in crate::scratch) fn content(&self) -> Gathered {
        Gathered::new(&self.log, &self.held)
    }

    /// An inode is not as it is recorded. Its names that are not recorded are then, too: content may be recorded before them.
    pub(in crate::scratch) fn changed(&mut self, id: u64) {
        self.changed.insert(id);
        let names = self.names_of.get(&id).into_iter().flatten();
        let unrecorded: Vec<_> =
            names.filter(|(directory, name)| self.recorded(*directory, name) != Some(id)).cloned().collect();
        self.changed_names.extend(unrecorded);
    }

    pub(in crate::scratch) fn has_name(&mut self, directory: u64, name: &[u8], id: u64) {
        self.names_of.entry(id).or_default().insert((directory, name.to_vec()));
    }

    pub(in crate::scratch) fn has_no_name(&mut self, directory: u64, name: &[u8], id: u64) {
        if let Some(names) = self.names_of.get_mut(&id) {
            names.remove(&(directory, name.to_vec()));
        }
        self.changed_name(directory, name);
    }

    pub(in crate::scratch) fn changed_name(&mut self, directory: u64, name: &[u8]) {
        self.changed_names.insert((directory, name.to_vec()));
    }

    /// A program asked for a name that is not there. Another node may have made it.
    pub(in crate::scratch) fn asked_in_vain(&mut self, directory: u64, name: &[u8]) {
        let path = self.path(directory, name).filter(|path| path.len() <= ABSENT_LONGEST);
        if let Some(path) = path.filter(|_| self.absent.len() < ABSENT_MOST) {
            self.absent.insert(path);
        }
    }

    /// Paths that programs asked for, and that are still not there.
    pub(super) fn absent(&self) -> Vec<Vec<u8>> {
        let mut absent = self.absent.clone();
        if !absent.is_empty() {
            self.contents.paths().iter().for_each(|(path, _)| _ = absent.remove(path));
        }
        absent.into_iter().collect()
    }

    /// The inode is gone.
    pub(in crate::scratch) fn forget(&mut self, id: u64) {
        self.changed.remove(&id);
        self.names_of.remove(&id);
        self.contents.forget(id);
        self.has_no_member(id);
    }

    /// Makes sure that the container can take what memory holds, and `bytes` more.
    pub(in crate::scratch) fn reserve(&self, bytes: u64) -> Result<(), Errno> {
        let inodes = (self.changed.len() + self.changed_names.len() + 1) as u64;
        self.log.reserve(self.held.load(Ordering::Relaxed) + bytes + inodes * MEMBER)
    }

    pub(in crate::scratch) fn is_full(&self) -> bool {
        let changes = (self.changed.len() + self.changed_names.len()) as u64;
        self.held.load(Ordering::Relaxed) >= FULL || changes * MEMBER >= FULL
    }

    /// The path of a name below the top.
    pub(super) fn path(&self, directory: u64, name: &[u8]) -> Option<Vec<u8>> {
        let mut path = name.to_vec();
        let mut at = directory;
        while at != quell_gather::TOP {
            let (above, name) = self.names_of.get(&at)?.first()?;
            path = below(name, &path);
            at = *above;
        }
        Some(path)
    }

    /// Appends a member. **Parameters** `ops`: with places in `data`. **Shape** the beginning of the data in the container.
    pub(super) fn append(&mut self, shown: Shown<'_>, ops: Vec<Op>, data: &[&[u8]]) -> u64 {
        let member = encode(shown, ops.clone(), data);
        let start = self.log.append(&member.bytes) + member.data as u64;
        self.is_in_batch = true;
        self.applied(ops, start);
        start
    }

    pub(super) fn applied(&mut self, ops: Vec<Op>, start: u64) {
        for mut op in ops {
            op.pieces_mut().iter_mut().for_each(|(_, piece)| piece.place += start);
            let means_something = self.contents.apply(op);
            debug_assert!(means_something, "a recorded op means something");
        }
    }

    /// Appends ops for which tar has no member, in members that a reader takes, and ends the batch.
    pub(super) fn append_notes(&mut self, notes: Vec<Op>, ending: BatchEnding) {
        let mut rest = notes.into_iter().peekable();
        while rest.peek().is_some() {
            let mut member = Vec::new();
            let mut bytes = 0;
            while let Some(op) = rest.next_if(|op| member.is_empty() || bytes + length_of(op) <= NOTES) {
                bytes += length_of(&op);
                member.push(op);
            }
            if ending == BatchEnding::Commits && rest.peek().is_none() {
                member.push(Op::Commit);
                self.append(Shown::Notes, member, &[]);
                self.is_in_batch = false;
                return;
            }
            self.append(Shown::Notes, member, &[]);
        }
        if ending == BatchEnding::Commits && self.is_in_batch {
            self.append(Shown::Notes, vec![Op::Commit], &[]);
            self.is_in_batch = false;
        }
    }

    /// The number of the inode that a recorded name leads to.
    pub(super) fn recorded(&self, directory: u64, name: &[u8]) -> Option<u64> {
        self.named(directory)?.get(name).copied().flatten()
    }

    pub(super) fn is_named(&self, directory: u64, name: &[u8]) -> bool {
        self.named(directory).is_some_and(|names| names.contains_key(name))
    }

    pub(super) fn named(&self, directory: u64) -> Option<&BTreeMap<Vec<u8>, Option<u64>>> {
        Some(&self.contents.entry(directory)?.names)
    }
}
