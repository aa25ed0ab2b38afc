//! What each inode number of the mount means: a node of the image, or something that only the original has.
//!
//! A node of the image needs no table: its number is the image's own plus one, and it is never forgotten. What the
//! image does not know gets a number with the top bit set and a [`Found`] in a table, kept as long as the kernel's
//! lookups and FORGETs say. Numbers are never used twice.
//!
//! What an unforeseen write did to a frozen node is an [`Alteration`]; as long as there is none, one atomic load says
//! so.

use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use quell_image::Nid;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Both,
}

impl Access {
    /// Whether `self` allows what `needed` asks for.
    pub(crate) fn allows(self, needed: Self) -> bool {
        self == Self::Both || self == needed
    }
}

/// What tells one original from another: device and inode number.
pub(crate) type OriginalKey = (u64, u64);

/// Something that only the original has.
#[derive(Debug, Clone)]
struct Found {
    path: PathBuf,
    key: OriginalKey,
    /// Lookups that the kernel has not given back.
    lookups: u64,
    /// It has lost its name; programs may still have it open.
    nameless: bool,
    held: Option<Arc<Held>>,
}

/// The table of found nodes.
#[derive(Debug, Default)]
pub(crate) struct FoundNodes(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last: u64,
    nodes: HashMap<u64, Found>,
    numbers: HashMap<OriginalKey, u64>,
}

impl FoundNodes {
    /// The number of the original `key`, which was found at `path`; counts one lookup.
    pub(crate) fn intern(&self, key: OriginalKey, path: PathBuf) -> Node {
        let mut table = lock(&self.0);
        if let Some(number) = table.numbers.get(&key).copied()
            && let Some(node) = table.nodes.get_mut(&number)
        {
            node.lookups += 1;
            node.path = path;
            return Node::Found(number);
        }
        table.last += 1;
        let number = table.last;
        table.numbers.insert(key, number);
        table.nodes.insert(number, Found { path, key, lookups: 1, nameless: false, held: None });
        Node::Found(number)
    }

    /// One more lookup of a node that has a number.
    pub(crate) fn count_lookup(&self, number: u64) {
        if let Some(node) = lock(&self.0).nodes.get_mut(&number) {
            node.lookups += 1;
        }
    }

    /// The kernel gives back lookups; after the last one the node is gone.
    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        let mut table = lock(&self.0);
        let Some(node) = table.nodes.get_mut(&number) else {
            return;
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 {
            let key = node.key;
            table.nodes.remove(&number);
            if table.numbers.get(&key) == Some(&number) {
                table.numbers.remove(&key);
            }
        }
    }

    /// Where the node's original lies.
    pub(crate) fn path(&self, number: u64) -> Option<PathBuf> {
        lock(&self.0).nodes.get(&number).map(|node| node.path.clone())
    }

    /// The number of an original that is known.
    pub(crate) fn number(&self, key: OriginalKey) -> Option<u64> {
        lock(&self.0).numbers.get(&key).copied()
    }

    pub(crate) fn held(&self, number: u64) -> Option<Arc<Held>> {
        lock(&self.0).nodes.get(&number)?.held.clone()
    }

    pub(crate) fn hold(&self, number: u64, held: Arc<Held>) {
        if let Some(node) = lock(&self.0).nodes.get_mut(&number) {
            node.held = Some(held);
        }
    }

    /// Gives up the node's descriptor if its path leads to it too. Whether there is none now.
    pub(crate) fn release(&self, number: u64) -> bool {
        let mut table = lock(&self.0);
        let Some(node) = table.nodes.get_mut(&number).filter(|node| !node.nameless) else {
            return !table.nodes.contains_key(&number);
        };
        node.held = None;
        true
    }

    /// The original's last name is gone: its device and inode number may be given to another file.
    pub(crate) fn detach(&self, number: u64) {
        let mut table = lock(&self.0);
        if let Some(node) = table.nodes.get_mut(&number) {
            node.nameless = true;
        }
        if let Some(key) = table.nodes.get(&number).map(|node| node.key)
            && table.numbers.get(&key) == Some(&number)
        {
            table.numbers.remove(&key);
        }
    }

    /// Something was renamed; everything at or below it moves along.
    pub(crate) fn rename(&self, from: &Path, to: &Path) {
        for node in lock(&self.0).nodes.values_mut() {
            if let Some(moved) = moved(&node.path, from, to) {
                node.path = moved;
            }
        }
    }
}

/// Where `path` lies after `from` became `to`; `None` if it is not concerned.
fn moved(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix(from).ok()?;
    Some(if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) })
}

/// What unforeseen writes did to a frozen node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alteration {
    /// A directory whose names come from the original from now on.
    pub(crate) live: bool,
    /// A file or link whose attributes and content come from the original from now on.
    pub(crate) rewritten: bool,
    /// The node is no longer where the image has it: renamed, or without a name.
    pub(crate) displaced: bool,
    /// The node has lost its name; programs may still have it open.
    pub(crate) nameless: bool,
    pub(crate) held: Option<Arc<Held>>,
}

/// What unforeseen writes did to all frozen nodes.
#[derive(Debug, Default)]
pub(crate) struct Alterations {
    any: AtomicBool,
    nodes: RwLock<HashMap<Nid, Alteration>>,
    /// Renames of frozen nodes, in their order.
    moves: RwLock<Vec<(PathBuf, PathBuf)>>,
}

impl Alterations {
    /// What happened to `nid`; `None` if it is as the image says.
    pub(crate) fn of(&self, nid: Nid) -> Option<Alteration> {
        if !self.any() {
            return None;
        }
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(&nid).cloned()
    }

    /// Whether anything was altered at all.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Notes a change of `nid`, and returns what was known before.
    pub(crate) fn note(&self, nid: Nid, change: impl FnOnce(&mut Alteration)) -> Alteration {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        let alteration = nodes.entry(nid).or_default();
        let before = alteration.clone();
        change(alteration);
        self.any.store(true, Ordering::Release);
        before
    }

    /// Notes that something frozen was renamed.
    pub(crate) fn rename(&self, from: &Path, to: &Path) {
        let mut moves = self.moves.write().unwrap_or_else(PoisonError::into_inner);
        moves.push((from.to_owned(), to.to_owned()));
    }

    /// Gives up the node's descriptor if its path leads to it too. Whether there is none now.
    pub(crate) fn release(&self, nid: Nid) -> bool {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        match nodes.get_mut(&nid) {
            Some(alteration) if alteration.nameless => false,
            Some(alteration) => {
                alteration.held = None;
                true
            }
            None => true,
        }
    }

    /// Where an original lies that the image has at `path`.
    pub(crate) fn resolve(&self, path: Vec<u8>) -> PathBuf {
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        if !self.any() {
            return path;
        }
        let moves = self.moves.read().unwrap_or_else(PoisonError::into_inner);
        moves.iter().fold(path, |path, (from, to)| moved(&path, from, to).unwrap_or(path))
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

/// Names that the kernel was told are absent for ever, so that it can be told otherwise when a directory goes live.
#[derive(Debug, Default)]
pub(crate) struct ToldAbsences(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    names: HashMap<Nid, HashSet<Box<[u8]>>>,
    count: usize,
}

/// Most absences that are remembered; beyond them the kernel is told for a second only. A start of Python tells about
/// a thousand; the bound keeps a program that probes random names from filling the memory.
const MAX_TOLD: usize = 1 << 20;

impl ToldAbsences {
    /// Remembers that `name` is absent. Whether there was room to.
    pub(crate) fn remember(&self, directory: Nid, name: &[u8]) -> bool {
        let mut told = lock(&self.0);
        if told.count >= MAX_TOLD {
            return false;
        }
        if told.names.entry(directory).or_default().insert(name.into()) {
            told.count += 1;
        }
        true
    }

    /// Takes the names of `directory` out.
    pub(crate) fn take(&self, directory: Nid) -> Vec<Box<[u8]>> {
        let mut told = lock(&self.0);
        let names: Vec<_> = told.names.remove(&directory).unwrap_or_default().into_iter().collect();
        told.count -= names.len();
        names
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

    #[test]
    fn a_found_node_lives_as_long_as_its_lookups() {
        let nodes = FoundNodes::default();
        let first = nodes.intern((1, 2), "/env/a".into());
        assert_eq!(nodes.intern((1, 2), "/env/b".into()), first);
        let Node::Found(number) = first else { panic!("frozen") };
        assert_eq!(nodes.path(number).unwrap(), Path::new("/env/b"));
        nodes.forget(number, 1);
        assert!(nodes.path(number).is_some());
        nodes.forget(number, 1);
        assert!(nodes.path(number).is_none());
        assert_ne!(nodes.intern((1, 2), "/env/a".into()), first);
    }

    #[test]
    fn renames_carry_everything_below_along() {
        let nodes = FoundNodes::default();
        let Node::Found(number) = nodes.intern((1, 2), "/env/a/b/c".into()) else { panic!("frozen") };
        nodes.rename(Path::new("/env/a"), Path::new("/env/z"));
        nodes.rename(Path::new("/env/zz"), Path::new("/env/y"));
        assert_eq!(nodes.path(number).unwrap(), Path::new("/env/z/b/c"));

        let alterations = Alterations::default();
        alterations.note(Nid::new(1), |alteration| alteration.displaced = true);
        alterations.rename(Path::new("/env/a"), Path::new("/env/z"));
        alterations.rename(Path::new("/env/z/x"), Path::new("/env/y"));
        assert_eq!(alterations.resolve(b"/env/a/x/1".to_vec()), Path::new("/env/y/1"));
        assert_eq!(alterations.resolve(b"/env/b".to_vec()), Path::new("/env/b"));
    }

    #[test]
    fn told_absences_are_given_back_once() {
        let told = ToldAbsences::default();
        assert!(told.remember(Nid::new(5), b"avx2"));
        assert!(told.remember(Nid::new(5), b"avx2"));
        assert_eq!(told.take(Nid::new(5)), vec![Box::from(&b"avx2"[..])]);
        assert!(told.take(Nid::new(5)).is_empty());
    }
}
