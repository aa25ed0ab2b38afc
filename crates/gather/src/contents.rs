//! The state to which a container's ops lead: inodes, names, pieces.

use std::collections::{BTreeMap, BTreeSet};

use crate::ops::{Begin, DirectoryOrigin, Node, NodeKind, Op, PIECE, Piece, TOP, Time, is_name};

/// The state that ops lead to.
#[derive(Debug, Clone)]
pub struct Contents {
    /// The container's origin.
    pub begin: Begin,
    entries: BTreeMap<u64, Entry>,
}

/// An inode.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Type and attributes.
    pub node: Node,
    /// The names of a directory, with the numbers that they lead to; `None` for one that is gone and hides another.
    pub names: BTreeMap<Vec<u8>, Option<u64>>,
    /// The pieces of a file, by their number in it. **Shape** at least one extent each, one behind the other, and [`PIECE`] bytes at
    /// most.
    pub pieces: BTreeMap<u64, Vec<Piece>>,
}

/// The most extents that a piece has: a forged container would take memory.
pub const EXTENTS_MOST: usize = 32;

fn is_piece(piece: &Piece) -> bool {
    (1..=PIECE).contains(&piece.length.into())
}

/// The longest path below the top. Source: `PATH_MAX`.
const PATH_MAX: usize = 4096;

impl Default for Contents {
    fn default() -> Self {
        let node = Node {
            kind: NodeKind::Directory { origin: DirectoryOrigin::There },
            mode: 0o755,
            uid: 0,
            gid: 0,
            size: 0,
            mtime: Time::default(),
            atime: Time::default(),
            xattrs: Vec::new(),
        };
        Self { begin: Begin::default(), entries: BTreeMap::from([(TOP, Entry::new(node))]) }
    }
}

impl Entry {
    fn new(node: Node) -> Self {
        Self { node, names: BTreeMap::new(), pieces: BTreeMap::new() }
    }

    /// The beginning of a directory.
    pub fn origin(&self) -> Option<DirectoryOrigin> {
        match self.node.kind {
            NodeKind::Directory { origin } => Some(origin),
            _ => None,
        }
    }

    /// True for a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.node.kind, NodeKind::Directory { .. })
    }
}

impl Contents {
    /// Applies one op, whose places count from the beginning of the container. False: it means nothing, and the container is
    /// damaged.
    pub fn apply(&mut self, op: Op) -> bool {
        match op {
            Op::Begin(begin) => self.begin = begin,
            Op::Inode { id, node } => self.set(id, node),
            Op::Name { directory, name, id } => {
                let leads_back = id == TOP || id == directory;
                if leads_back || !self.entries.contains_key(&id) {
                    return false;
                }
                return self.name(directory, name, Some(id));
            }
            Op::Remove { directory, name, hides: true } => return self.name(directory, name, None),
            Op::Remove { directory, name, hides: false } => {
                let Some(names) = self.names_mut(directory) else { return false };
                names.remove(&name);
            }
            Op::Data { id, pieces } => {
                let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.node.kind == NodeKind::File)
                else {
                    return false;
                };
                if !pieces.iter().all(|(_, piece)| is_piece(piece)) {
                    return false;
                }
                entry.pieces.extend(pieces.into_iter().map(|(number, piece)| (number, vec![piece])));
            }
            Op::Growth { id, pieces } => {
                let Some(entry) = self.entries.get_mut(&id) else { return false };
                return pieces.into_iter().all(|(number, piece)| {
                    let Some(extents) = entry.pieces.get_mut(&number) else { return false };
                    let length: u64 =
                        extents.iter().chain([&piece]).map(|extent| u64::from(extent.length)).sum();
                    let fits = is_piece(&piece) && length <= PIECE && extents.len() < EXTENTS_MOST;
                    if fits {
                        extents.push(piece);
                    }
                    fits
                });
            }
            Op::Commit => {}
        }
        true
    }

    fn set(&mut self, id: u64, mut node: Node) {
        node.xattrs.retain(|(name, _)| is_xattr(name));
        let entry = self.entries.entry(id).or_insert_with(|| Entry::new(node.clone()));
        if std::mem::discriminant(&entry.node.kind) != std::mem::discriminant(&node.kind) {
            *entry = Entry::new(node);
            return;
        }
        drop(entry.pieces.split_off(&node.size.div_ceil(PIECE)));
        entry.node = node;
    }

    fn names_mut(&mut self, directory: u64) -> Option<&mut BTreeMap<Vec<u8>, Option<u64>>> {
        let entry = self.entries.get_mut(&directory).filter(|entry| entry.is_directory())?;
        Some(&mut entry.names)
    }

    fn name(&mut self, directory: u64, name: Vec<u8>, id: Option<u64>) -> bool {
        if !is_name(&name) {
            return false;
        }
        self.names_mut(directory).map(|names| names.insert(name, id)).is_some()
    }

    /// Forgets an inode that no name leads to any more.
    pub fn forget(&mut self, id: u64) {
        self.entries.remove(&id);
    }

    /// The inode of a number.
    pub fn entry(&self, id: u64) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// All paths below the top with the numbers that they lead to, `None` for what is gone and hides another.
    ///
    /// **Shape** a directory comes before what is in it. No path has `..`. A directory appears once, and no path is longer than
    /// `PATH_MAX`: what a forged container has besides is left out.
    pub fn paths(&self) -> Vec<(Vec<u8>, Option<u64>)> {
        let mut found = Vec::new();
        let mut visited = BTreeSet::from([TOP]);
        let mut open = vec![(Vec::new(), TOP)];
        while let Some((path, directory)) = open.pop() {
            let Some(entry) = self.entries.get(&directory) else { continue };
            for (name, id) in &entry.names {
                let below = below(&path, name);
                if below.len() >= PATH_MAX {
                    continue;
                }
                let inner = id.filter(|id| self.entries.get(id).is_some_and(Entry::is_directory));
                if inner.is_some_and(|id| !visited.insert(id)) {
                    continue;
                }
                open.extend(inner.map(|id| (below.clone(), id)));
                found.push((below, *id));
            }
        }
        found
    }

    /// Ops that lead to this state, for an index. What no name leads to is left out.
    pub(crate) fn ops(&self) -> Vec<Op> {
        let mut ops = vec![Op::Begin(self.begin.clone())];
        let reachable: BTreeSet<u64> = self.paths().into_iter().filter_map(|(_, id)| id).collect();
        let inodes = self.entries.iter().filter(|(id, _)| **id == TOP || reachable.contains(id));
        let inodes: Vec<_> = inodes.collect();
        for (id, entry) in &inodes {
            ops.push(Op::Inode { id: **id, node: entry.node.clone() });
            if !entry.pieces.is_empty() {
                let first = entry.pieces.iter().map(|(number, extents)| (*number, extents[0]));
                ops.push(Op::Data { id: **id, pieces: first.collect() });
                let more = entry
                    .pieces
                    .iter()
                    .flat_map(|(number, extents)| extents[1..].iter().map(|extent| (*number, *extent)));
                let more: Vec<_> = more.collect();
                if !more.is_empty() {
                    ops.push(Op::Growth { id: **id, pieces: more });
                }
            }
        }
        for (directory, entry) in inodes {
            let is_there = |id: Option<u64>| id.is_none_or(|id| self.entries.contains_key(&id));
            let names = entry.names.iter().filter(|(_, id)| is_there(**id));
            ops.extend(names.map(|(name, id)| match id {
                Some(id) => Op::Name { directory: *directory, name: name.clone(), id: *id },
                None => Op::Remove { directory: *directory, name: name.clone(), hides: true },
            }));
        }
        ops
    }
}

/// True for an extended attribute that programs give files. Others are rights and labels, which a container must not give.
pub(crate) fn is_xattr(name: &[u8]) -> bool {
    name.starts_with(b"user.")
}

/// A path below another one, which is empty for the top.
pub(crate) fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
