//! Brings a container from its last state to the present one.

use std::collections::BTreeSet;

use quell_gather::{DirectoryOrigin, Node, NodeKind, Op, PIECE, Piece, Shown, Time, WHOLE_MOST};
use rustix::io::Errno;

use super::content::{Gathered, Unrecorded};
use super::gatherer::{BatchEnding, Gatherer};
use crate::fuse::abi::{self, Attr};
use crate::scratch::content::Content;
use crate::scratch::originals::{KIND, below};
use crate::scratch::tree::{Kind, TOP, Tree};

/// The changes that a batch takes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::scratch) enum Scope {
    All,
    /// The same with files that have no name, since memory is full.
    Full,
    /// All but files that programs still have open; with this one.
    Settled(u64),
}

/// The longest file that is written whole when a quarter of it is new. Unit: bytes.
const SMALL: u64 = 64 << 10;

/// The longest part. Unit: bytes.
const PART: u64 = 4 << 20;

/// `S_IFIFO`.
const FIFO: u32 = 0o010_000;

impl Tree {
    /// Records what has changed. A kill leaves all of it in the container, or nothing.
    ///
    /// # Errors
    /// `EIO` where recorded content cannot be read back; the rest is recorded.
    pub(in crate::scratch) fn record(&mut self, scope: Scope) -> Result<(), Errno> {
        let Some(mut gatherer) = self.gatherer.take() else { return Ok(()) };
        let mut batch =
            Batch { tree: self, gatherer: &mut gatherer, scope, notes: Vec::new(), outcome: Ok(()) };
        batch.names();
        batch.inodes();
        let (outcome, notes) = (batch.outcome, batch.notes);
        gatherer.append_notes(notes, BatchEnding::Commits);
        self.gatherer = Some(gatherer);
        outcome
    }

    /// Gives tar the last state of the files that it can have, as far as there is room: quell needs none of it.
    ///
    /// # Errors
    /// `EIO` where recorded content cannot be read back.
    pub(super) fn record_for_tar(&mut self) -> Result<(), Errno> {
        let Some(mut gatherer) = self.gatherer.take() else { return Ok(()) };
        let mut outcome = Ok(());
        for id in gatherer.stale_for_tar() {
            let place = gatherer.names_of.get(&id).and_then(BTreeSet::first).cloned();
            let path = place.and_then(|(directory, name)| gatherer.path(directory, &name));
            let (Some(node), Some(path)) = (self.node(id, DirectoryOrigin::There), path) else { continue };
            let Some(Content::Gathered(content)) = self.content_mut(id) else { continue };
            if gatherer.reserve(node.size).is_err() {
                break;
            }
            let written = content.hold_all().and_then(|()| gatherer.whole(id, node, content, path, None));
            outcome = outcome.and(written);
            // Memory holds one file at a time. What cannot be written is written with the index, or its error is told then.
            _ = gatherer.log.write_pieces();
        }
        gatherer.append_notes(Vec::new(), BatchEnding::Commits);
        self.gatherer = Some(gatherer);
        outcome
    }

    /// Appends what a copy of a file that was there holds in memory, before all of it is copied.
    ///
    /// **Parameters** `attr`: the file's.
    pub(in crate::scratch) fn append_parts(&mut self, id: u64, attr: &Attr, content: &mut Gathered) {
        let Some(gatherer) = &mut self.gatherer else { return };
        let unnamed = node_of(NodeKind::File, attr, Vec::new());
        // A copy that failed before has left nothing.
        let emptied = (!gatherer.copied.contains(&id)).then(|| Op::Inode { id, node: unnamed.clone() });
        gatherer.copied.insert(id);
        let longest = Op::Inode { id, node: Node { size: u64::MAX, ..unnamed } };
        gatherer.append_notes(emptied.into_iter().chain([longest]).collect(), BatchEnding::GoesOn);
        gatherer.parts(id, content, Vec::new());
    }

    /// A copy of a file that was there has ended. One that failed is of no use.
    pub(in crate::scratch) fn end_parts(&mut self, id: u64, is_whole: bool) {
        let Some(gatherer) = &mut self.gatherer else { return };
        if gatherer.copied.remove(&id) && !is_whole {
            gatherer.contents.forget(id);
        }
    }

    /// An inode as a container has it; `None` for what it does not hold.
    fn node(&self, id: u64, origin: DirectoryOrigin) -> Option<Node> {
        let inode = self.inode(id).ok()?;
        let attr = *inode.attr()?;
        let kind = match &inode.kind {
            Kind::Directory(_) => NodeKind::Directory { origin },
            Kind::File(_) => NodeKind::File,
            Kind::Link(target) => NodeKind::Link { target: target.clone() },
            _ if attr.mode & KIND == FIFO => NodeKind::Fifo,
            _ => return None,
        };
        let names = self.xattr_names(id).unwrap_or_default();
        let names = names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
        let xattrs = names.filter_map(|name| Some((name.to_vec(), self.xattr(id, name).ok()?))).collect();
        let size = if kind == NodeKind::File { attr.size } else { 0 };
        Some(Node { size, ..node_of(kind, &attr, xattrs) })
    }

    /// **Parameters** `place`: directory and name.
    fn origin_of(&self, id: u64, (directory, name): (u64, &[u8])) -> DirectoryOrigin {
        let there = self.inode(id).ok().and_then(|inode| inode.origin_there());
        there.unwrap_or_else(|| match self.hides(directory, name) {
            true => DirectoryOrigin::Replacing,
            false => DirectoryOrigin::New,
        })
    }

    /// True where the real directory, or an earlier container, has a name that programs took away.
    fn hides(&self, directory: u64, name: &[u8]) -> bool {
        let origin = self.inode(directory).ok().and_then(|inode| inode.origin());
        origin.is_some_and(|origin| self.gone.contains(&below(origin, name)))
    }
}

/// An empty inode.
fn node_of(kind: NodeKind, attr: &Attr, xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> Node {
    let (mode, mtime, atime) = (attr.mode & 0o7777, time(attr.mtime), time(attr.atime));
    Node { kind, mode, uid: attr.uid, gid: attr.gid, size: 0, mtime, atime, xattrs }
}

fn time(time: abi::Time) -> Time {
    Time { seconds: time.seconds, nanoseconds: time.nanoseconds }
}

struct Batch<'t> {
    tree: &'t mut Tree,
    gatherer: &'t mut Gatherer,
    scope: Scope,
    /// Ops for which tar has no member.
    notes: Vec<Op>,
    outcome: Result<(), Errno>,
}

impl Batch<'_> {
    fn names(&mut self) {
        let changed = std::mem::take(&mut self.gatherer.changed_names);
        for (directory, name) in changed {
            let Ok(names) = self.tree.names(directory) else {
                continue;
            };
            match names.names.get(&name).copied() {
                None => self.removed(directory, name),
                // It serves to reach what is below it.
                Some(id) if self.is_there(id) => {}
                Some(id) if self.waits(id) => _ = self.gatherer.changed_names.insert((directory, name)),
                Some(id) => self.named(directory, &name, id),
            }
        }
    }

    fn removed(&mut self, directory: u64, name: Vec<u8>) {
        let hides = self.tree.hides(directory, &name);
        if !hides && !self.gatherer.is_named(directory, &name) {
            return;
        }
        if self.directory(directory) {
            self.notes.push(Op::Remove { directory, name, hides });
        }
    }

    fn is_there(&self, id: u64) -> bool {
        self.tree.inode(id).is_ok_and(|inode| inode.origin_there() == Some(DirectoryOrigin::There))
    }

    /// A program still writes to it, and nothing asks for it.
    fn waits(&self, id: u64) -> bool {
        let Scope::Settled(wanted) = self.scope else { return false };
        let is_open =
            self.tree.inode(id).is_ok_and(|inode| inode.opens > 0 && matches!(inode.kind, Kind::File(_)));
        is_open && id != wanted && self.gatherer.contents.entry(id).is_none()
    }

    /// Records a directory, and those above it. False where it has no name any more.
    fn directory(&mut self, id: u64) -> bool {
        if id == TOP || self.gatherer.contents.entry(id).is_some() {
            return true;
        }
        let place = self.gatherer.names_of.get(&id).and_then(BTreeSet::first).cloned();
        let Some((above, name)) = place else { return false };
        self.directory(above) && self.one(above, &name, id)
    }

    fn named(&mut self, directory: u64, name: &[u8], id: u64) {
        if self.directory(directory) && !self.one(directory, name, id) {
            // The inode that had the name before has lost it all the same.
            self.removed(directory, name.to_vec());
        }
    }

    /// Records a name, and what it leads to. False where a container does not hold that.
    fn one(&mut self, directory: u64, name: &[u8], id: u64) -> bool {
        // A directory's attributes are asked once.
        _ = self.tree.attr(id);
        let origin = self.tree.origin_of(id, (directory, name));
        let Some(node) = self.tree.node(id, origin) else {
            self.gatherer.refused.insert(id);
            return false;
        };
        let Some(path) = self.gatherer.path(directory, name) else { return false };
        let named = Op::Name { directory, name: name.to_vec(), id };
        let is_known = self.gatherer.contents.entry(id).is_some();
        let has_changed = !is_known || self.gatherer.changed.contains(&id);
        match node.kind {
            NodeKind::File if has_changed => self.file(id, node, Some((&path, named))),
            NodeKind::File => self.another_name(id, node, &path, named),
            NodeKind::Directory { origin: DirectoryOrigin::There } => {
                self.gatherer.changed.remove(&id);
                self.notes.extend([Op::Inode { id, node }, named]);
                // Names that are recorded below it need it.
                self.write_notes();
            }
            _ => {
                self.gatherer.changed.remove(&id);
                let ops = vec![Op::Inode { id, node: node.clone() }, named];
                self.gatherer.append(Shown::Inode(&path, &node), ops, &[]);
                self.gatherer.has_member(path, id);
            }
        }
        true
    }

    fn write_notes(&mut self) {
        let notes = std::mem::take(&mut self.notes);
        self.gatherer.append_notes(notes, BatchEnding::GoesOn);
    }

    /// A recorded file that has not changed has another name.
    fn another_name(&mut self, id: u64, node: Node, path: &[u8], named: Op) {
        match self.gatherer.tar_path.get(&id).filter(|other| self.gatherer.tar_paths.get(*other) == Some(&id))
        {
            Some(other) if other == path => self.notes.push(named),
            Some(other) => {
                let other = other.clone();
                self.gatherer.append(Shown::Link(path, &other, &node), vec![named], &[]);
                self.gatherer.has_member(path.to_vec(), id);
            }
            // Another file has the path for tar.
            None => self.file(id, node, Some((path, named))),
        }
    }

    /// Records a file, under a new name if there is one. What cannot be recorded stays to be.
    fn file(&mut self, id: u64, node: Node, place: Option<(&[u8], Op)>) {
        let name = match &place {
            Some((_, Op::Name { directory, name, .. })) => Some((*directory, name.clone())),
            _ => None,
        };
        let is_complete =
            self.scope == Scope::Settled(id) || self.tree.inode(id).is_ok_and(|inode| inode.opens == 0);
        let outcome = match self.tree.content_mut(id) {
            Some(Content::Gathered(content)) => {
                self.gatherer.file(id, (node, is_complete), content, place, &mut self.notes)
            }
            // Nothing but names and attributes of an original or an earlier file has changed: `own` takes the content along.
            _ => Err(Errno::STALE),
        };
        match outcome {
            Ok(()) => _ = self.gatherer.changed.remove(&id),
            Err(_) => {
                self.gatherer.changed.insert(id);
                self.gatherer.changed_names.extend(name);
                self.outcome = outcome;
            }
        }
    }

    /// Inodes that have changed, under the names that they had.
    fn inodes(&mut self) {
        for id in std::mem::take(&mut self.gatherer.changed) {
            let Ok(inode) = self.tree.inode(id) else { continue };
            let is_known = self.gatherer.contents.entry(id).is_some();
            let place = self.gatherer.names_of.get(&id).and_then(BTreeSet::first).cloned();
            if matches!(inode.kind, Kind::File(_)) {
                let is_open = inode.opens > 0;
                let is_left = match self.scope {
                    Scope::Settled(wanted) => wanted != id && is_open,
                    Scope::All => place.is_none(),
                    Scope::Full => false,
                };
                match self.tree.node(id, DirectoryOrigin::There) {
                    Some(node) if !is_left && (is_known || place.is_none()) => self.file(id, node, None),
                    _ => _ = self.gatherer.changed.insert(id),
                }
                continue;
            }
            if id == TOP {
                let is_changed = inode.origin_there() == Some(DirectoryOrigin::Changed);
                let node = self.tree.node(id, DirectoryOrigin::Changed).filter(|_| is_changed);
                self.notes.extend(node.map(|node| Op::Inode { id, node }));
                continue;
            }
            let Some((directory, name)) = place.filter(|_| is_known) else { continue };
            let origin = self.tree.origin_of(id, (directory, &name));
            let (Some(node), Some(path)) = (self.tree.node(id, origin), self.gatherer.path(directory, &name))
            else {
                continue;
            };
            let ops = vec![Op::Inode { id, node: node.clone() }];
            match origin {
                DirectoryOrigin::There => self.notes.extend(ops),
                _ => _ = self.gatherer.append(Shown::Inode(&path, &node), ops, &[]),
            }
        }
    }
}

impl Gatherer {
    fn has_member(&mut self, path: Vec<u8>, id: u64) {
        self.tar_paths.insert(path.clone(), id);
        self.tar_path.insert(id, path);
    }

    /// tar has another state of the file.
    pub(super) fn has_no_member(&mut self, id: u64) {
        if let Some(path) = self.tar_path.remove(&id)
            && self.tar_paths.get(&path) == Some(&id)
        {
            self.tar_paths.remove(&path);
        }
    }

    /// Files that tar has not in their last state, although it could.
    fn stale_for_tar(&self) -> BTreeSet<u64> {
        let files = self.contents.paths().into_iter().filter_map(|(path, id)| Some((path, id?)));
        let is_stale = |(path, id): &(Vec<u8>, u64)| {
            let is_file = |entry: &quell_gather::Entry| entry.node.kind == NodeKind::File;
            let is_short =
                self.contents.entry(*id).is_some_and(|entry| is_file(entry) && entry.node.size <= WHOLE_MOST);
            is_short && self.tar_paths.get(path) != Some(id)
        };
        files.filter(is_stale).map(|(_, id)| id).collect()
    }

    fn file(
        &mut self,
        id: u64,
        (node, is_complete): (Node, bool),
        content: &mut Gathered,
        place: Option<(&[u8], Op)>,
        notes: &mut Vec<Op>,
    ) -> Result<(), Errno> {
        let unrecorded = content.unrecorded();
        let is_known = self.contents.entry(id).is_some();
        let is_mostly_new = is_complete && (!is_known || 2 * unrecorded >= node.size);
        let is_small = node.size <= SMALL && (!is_known || 4 * unrecorded >= node.size);
        let is_worth_it = is_small || is_mostly_new;
        let place_known = || {
            let path = self.tar_path.get(&id).filter(|path| self.tar_paths.get(*path) == Some(&id));
            path.filter(|path| self.has_path(id, path)).cloned()
        };
        let known = place_known();
        let (path, named) = match place {
            Some((path, named)) => (Some(path.to_vec()), Some(named)),
            None => (known, None),
        };
        // A recorded piece that cannot be read back keeps nothing from being recorded.
        if let Some(path) =
            path.filter(|_| node.size <= WHOLE_MOST && is_worth_it && content.hold_all().is_ok())
        {
            return self.whole(id, node, content, path, named);
        }
        self.has_no_member(id);
        let least = content.least_size().min(node.size);
        let shorter = Op::Inode { id, node: Node { size: least, xattrs: Vec::new(), ..node.clone() } };
        self.parts(id, content, vec![shorter, Op::Inode { id, node }]);
        notes.extend(named);
        Ok(())
    }

    fn has_path(&self, id: u64, path: &[u8]) -> bool {
        let names = self.names_of.get(&id).into_iter().flatten();
        names.into_iter().any(|(directory, name)| self.path(*directory, name).as_deref() == Some(path))
    }

    fn whole(
        &mut self,
        id: u64,
        node: Node,
        content: &mut Gathered,
        path: Vec<u8>,
        named: Option<Op>,
    ) -> Result<(), Errno> {
        let mut bytes = vec![0; usize::try_from(node.size).map_err(|_| Errno::FBIG)?];
        content.read(0, &mut bytes)?;
        let pieces = content.held_pieces().filter(|(number, _)| number * PIECE < node.size);
        let pieces: Vec<_> = pieces
            .map(|(number, held)| {
                let place = number * PIECE;
                let length = held.len().min(bytes.len() - place as usize);
                (number, piece(place, &bytes[place as usize..][..length]))
            })
            .collect();
        content.least_size();
        // Nothing is left of what was recorded before.
        let empty = Op::Inode { id, node: Node { size: 0, xattrs: Vec::new(), ..node.clone() } };
        let mut ops = vec![empty, Op::Inode { id, node: node.clone() }];
        if !pieces.is_empty() {
            ops.push(Op::Data { id, pieces: pieces.clone() });
        }
        ops.extend(named);
        let start = self.append(Shown::Inode(&path, &node), ops, &[&bytes]);
        content.place(&moved(pieces, start));
        self.has_member(path, id);
        // tar makes a new file: other names must lead to that.
        let names: Vec<_> = self.names_of.get(&id).into_iter().flatten().cloned().collect();
        let here = self.tar_path.get(&id).cloned().unwrap_or_default();
        for (directory, name) in names.iter().filter(|_| names.len() > 1) {
            let Some(other) = self.path(*directory, name).filter(|other| *other != here) else { continue };
            if self.is_named(*directory, name) {
                self.append(Shown::Link(&other, &here, &node), Vec::new(), &[]);
                self.tar_paths.insert(other, id);
            }
        }
        Ok(())
    }

    /// Appends what of a file is not recorded. **Parameters** `before`: ops that come first.
    fn parts(&mut self, id: u64, content: &mut Gathered, mut before: Vec<Op>) {
        loop {
            let (mut pieces, mut bytes, mut grows) = (Vec::new(), Vec::new(), false);
            let mut start = 0;
            let mut end = None;
            for Unrecorded { number, from, bytes: part } in content.unrecorded_parts() {
                // A part is a range of the file, and grows one piece or has whole ones.
                let at = number * PIECE + from as u64;
                let follows = end.is_none_or(|end| end == at && !grows && from == 0);
                if !follows || bytes.len() as u64 >= PART {
                    break;
                }
                if end.is_none() {
                    (start, grows) = (at, from > 0);
                }
                end = Some(at + part.len() as u64);
                pieces.push((number, piece(bytes.len() as u64, part)));
                bytes.extend_from_slice(part);
            }
            if pieces.is_empty() {
                if !before.is_empty() {
                    self.append(Shown::Notes, before, &[]);
                }
                return content.release();
            }
            let path = format!(".quell.parts/{id}/{start:020}").into_bytes();
            let op = match grows {
                true => Op::Growth { id, pieces: pieces.clone() },
                false => Op::Data { id, pieces: pieces.clone() },
            };
            before.push(op);
            let start = self.append(Shown::Part(&path), std::mem::take(&mut before), &[&bytes]);
            match grows {
                true => content.place_growth(&moved(pieces, start)),
                false => content.place(&moved(pieces, start)),
            }
        }
    }
}

/// A piece of a member's data.
fn piece(place: u64, bytes: &[u8]) -> Piece {
    Piece { place, length: u32::try_from(bytes.len()).unwrap_or_default(), sum: crc32c::crc32c(bytes) }
}

fn moved(mut pieces: Vec<(u64, Piece)>, start: u64) -> Vec<(u64, Piece)> {
    pieces.iter_mut().for_each(|(_, piece)| piece.place += start);
    pieces
}
