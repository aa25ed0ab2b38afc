//! The originals of frozen nodes: found once by the path that the image has, from directory to directory without following
//! a link, and tied to the node by device and inode number.
//!
//! Only an original that is the packed one itself is ever changed. If another process replaced it, the directory goes live
//! and the request is answered with `ESTALE`: the kernel then walks the path again and gets the present file.
//!
//! For reading, equal size and time of modification are enough: some file systems number their inodes anew at each mount.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use quell_image::{Attributes, FileKind as Kind, Lookup, Nid};
use rustix::fs::{CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::Bindings;
use super::identities::Devices;
use crate::counters::SentOn;
use crate::server::node::{Node, NodeMarks, OriginalKey, key_of};
use crate::server::originals::reach;
use crate::server::packed::damaged;

/// The purpose that an original is found for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Change,
}

/// The certainty that an original is the packed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// By device and inode number.
    Same,
    /// By size and time of modification, or a directory.
    Equal,
    Other,
}

impl Bindings {
    /// The original of a node, tied to it from now on: whatever happens to its name, this is it.
    ///
    /// **Errors** `ESTALE` where another file took its place; the kernel then asks for the name again.
    pub(crate) fn pin(&self, node: Node) -> Result<Arc<OwnedFd>, Errno> {
        self.look_for(node, Purpose::Change)
    }

    /// The original of a node, to look at: directories are tied to their nodes, files are not.
    ///
    /// **Errors** As [`Self::pin`].
    pub(crate) fn original(&self, node: Node) -> Result<Arc<OwnedFd>, Errno> {
        self.look_for(node, Purpose::Read)
    }

    fn look_for(&self, node: Node, purpose: Purpose) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(original) = self.nodes.original(node) {
            return Ok(original);
        }
        let Node::Frozen(nid) = node else { return Err(Errno::STALE) };
        if self.nodes.is_marked(nid, NodeMarks::GONE) {
            return Err(Errno::STALE);
        }
        let path = self.packed.image.path(nid).map_err(damaged)?;
        self.originals.send_on(SentOn::Lookup, Path::new(OsStr::from_bytes(&path)))?;
        if self.packed.is_root(nid) {
            return self.open_root(nid);
        }
        let attributes = self.packed.attributes(nid)?;
        let (found, stat, likeness) = self.walk_to(nid, &path, &attributes)?;
        let lasts = purpose == Purpose::Change || attributes.kind == Kind::Directory;
        match likeness {
            Likeness::Same if lasts => {
                self.nodes.shed(|node| self.may_lose_original(node));
                Ok(self.nodes.bind(nid, key_of(&stat), found))
            }
            Likeness::Same => Ok(Arc::new(found)),
            Likeness::Equal if purpose == Purpose::Read => Ok(Arc::new(found)),
            Likeness::Equal | Likeness::Other => {
                self.note_replaced(nid);
                Err(Errno::STALE)
            }
        }
    }

    /// Another file lies where the image has `nid`, or none: names come from the original from now on.
    fn note_replaced(&self, nid: Nid) {
        if let Ok(parent) = self.packed.image.parent(nid).map(Node::Frozen)
            && parent != Node::Frozen(nid)
            && !self.packed.is_root(nid)
        {
            // Looked for first: it may have been replaced, too.
            let _replaced_too = self.go_live(parent);
            self.mark_live(parent);
        }
    }

    /// Finds a frozen node's original by the names that the image has of it.
    fn walk_to(
        &self,
        nid: Nid,
        path: &[u8],
        attributes: &Attributes,
    ) -> Result<(OwnedFd, Stat, Likeness), Errno> {
        let first = self.walk(nid, path).map(|(found, stat)| {
            let likeness = self.likeness(attributes, &stat);
            (found, stat, likeness)
        });
        match &first {
            Ok((_, _, Likeness::Same)) => return first,
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) if attributes.nlink > 1 => {}
            Ok(_) => return first,
            Err(Errno::NOENT | Errno::NOTDIR) => {
                self.note_replaced(nid);
                return Err(Errno::STALE);
            }
            Err(errno) => return Err(*errno),
        }
        let others = self.identities.get(&self.packed.image).names.get(&nid);
        for (directory, name) in others.into_iter().flatten() {
            if let Ok(directory) = self.original(Node::Frozen(*directory))
                && let Ok((found, stat)) = reach(&directory, name)
                && self.likeness(attributes, &stat) == Likeness::Same
            {
                return Ok((found, stat, Likeness::Same));
            }
        }
        first.map_err(|_| Errno::STALE)
    }

    /// Goes to `nid` from the nearest directory above it that is tied to its original, or from `/`.
    fn walk(&self, nid: Nid, path: &[u8]) -> Result<(OwnedFd, Stat), Errno> {
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let (mut above, mut depth) = (nid, names.len());
        let start = loop {
            if depth == 0 {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                break Arc::new(rustix::fs::openat(CWD, "/", flags, Mode::empty())?);
            }
            (above, depth) = (self.packed.image.parent(above).map_err(damaged)?, depth - 1);
            if let Some(bound) = self.nodes.original(Node::Frozen(above)) {
                break bound;
            }
            if self.packed.is_root(above) {
                break self.open_root(above)?;
            }
        };
        let mut directory = start;
        let (last, between) = names[depth..].split_last().ok_or(Errno::STALE)?;
        for name in between {
            directory = Arc::new(reach(&directory, name)?.0);
        }
        reach(&directory, last)
    }

    /// Ties a root of the image to the directory at its path. A server of root follows no link on the way:
    /// the directories above may belong to another user.
    pub(crate) fn open_root(&self, root: Nid) -> Result<Arc<OwnedFd>, Errno> {
        let path = self.packed.image.path(root).map_err(damaged)?;
        let (found, stat) = if self.packed.viewer.acts_for_others() {
            self.walk_from_top(&path)?
        } else {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let found = rustix::fs::openat(CWD, OsStr::from_bytes(&path), flags, Mode::empty())?;
            let stat = rustix::fs::fstat(&found)?;
            (found, stat)
        };
        if Kind::from_mode(stat.st_mode) != Some(Kind::Directory) {
            return Err(Errno::NOTDIR);
        }
        let packed = self.packed.attributes(root)?;
        self.devices.agree(packed.device, stat.st_dev);
        Ok(self.nodes.bind(root, key_of(&stat), found))
    }

    fn walk_from_top(&self, path: &[u8]) -> Result<(OwnedFd, Stat), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory = rustix::fs::openat(CWD, "/", flags, Mode::empty())?;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            directory = reach(&directory, name)?.0;
        }
        let stat = rustix::fs::fstat(&directory)?;
        Ok((directory, stat))
    }

    /// Compares the file at a frozen node's path with the packed one.
    fn likeness(&self, packed: &Attributes, stat: &Stat) -> Likeness {
        if Kind::from_mode(stat.st_mode) != Some(packed.kind) {
            return Likeness::Other;
        }
        if self.packed.viewer.acts_for_others()
            && packed.kind != Kind::Directory
            && !same_rights(packed, stat)
        {
            // The kernel judged by the packed rights whether the caller may have this file.
            return Likeness::Other;
        }
        let equal = packed.kind == Kind::Directory
            || packed.size == stat.st_size.cast_unsigned()
                && (packed.mtime.seconds, u64::from(packed.mtime.nanoseconds))
                    == (stat.st_mtime, stat.st_mtime_nsec);
        match packed.inode == stat.st_ino && self.devices.agree(packed.device, stat.st_dev) {
            true => Likeness::Same,
            false if equal => Likeness::Equal,
            false => Likeness::Other,
        }
    }

    /// The frozen node that an original is, which was found as `name` in `directory`: by that name, or as a node that was
    /// moved, or by another hard link.
    pub(crate) fn counterpart(&self, directory: Node, name: &[u8], stat: &Stat) -> Option<Nid> {
        let key: OriginalKey = key_of(stat);
        match self.nodes.node_of(key) {
            Some(Node::Frozen(nid)) => return Some(nid),
            Some(Node::Found(_)) => return None,
            None => {}
        }
        if let Node::Frozen(parent) = directory
            && let Ok(Lookup::Found(nid)) = self.packed.image.lookup(parent, name)
            && self.is_unchanged_counterpart(nid, stat, Devices::agree)
        {
            return Some(nid);
        }
        if !self.nodes.any_frozen() && stat.st_nlink < 2 {
            return None;
        }
        let candidates = self.identities.get(&self.packed.image).by_inode.get(&stat.st_ino)?;
        candidates.iter().copied().find(|nid| self.is_unchanged_counterpart(*nid, stat, Devices::is))
    }

    /// Something was made just now: a frozen node that had its inode number is gone.
    pub(crate) fn note_fresh(&self, stat: &Stat) {
        if let Some(candidates) = self.identities.get(&self.packed.image).by_inode.get(&stat.st_ino) {
            let gone = candidates.iter().filter(|nid| self.is_counterpart(**nid, stat, Devices::is));
            gone.for_each(|nid| self.nodes.mark_gone(Node::Frozen(*nid)));
        }
    }

    /// The same, and not another symbolic link that was given the number of a removed one: the kernel keeps the target of
    /// the packed link.
    fn is_unchanged_counterpart(
        &self,
        nid: Nid,
        stat: &Stat,
        is_device: fn(&Devices, u64, u64) -> bool,
    ) -> bool {
        self.is_counterpart(nid, stat, is_device)
            && self.packed.attributes(nid).is_ok_and(|packed| {
                packed.kind != Kind::Symlink
                    || packed.size == stat.st_size.cast_unsigned()
                        && (packed.mtime.seconds, u64::from(packed.mtime.nanoseconds))
                            == (stat.st_mtime, stat.st_mtime_nsec)
            })
    }

    fn is_counterpart(&self, nid: Nid, stat: &Stat, is_device: fn(&Devices, u64, u64) -> bool) -> bool {
        !self.nodes.is_marked(nid, NodeMarks::GONE)
            && self.packed.attributes(nid).is_ok_and(|packed| {
                packed.inode == stat.st_ino
                    && Kind::from_mode(stat.st_mode) == Some(packed.kind)
                    && is_device(&self.devices, packed.device, stat.st_dev)
            })
    }
}

/// Tells whether an original has the owner, group and mode that were packed.
fn same_rights(packed: &Attributes, stat: &Stat) -> bool {
    (packed.uid, packed.gid, packed.mode()) == (stat.st_uid, stat.st_gid, stat.st_mode)
}
