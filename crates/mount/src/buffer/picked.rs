//! Directories of which some names lie on the node: those that match a pattern are names of the directory that the node has in the
//! place of the real one, all others are the real one's (`run --gather 'DIR/rank-*'`).

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::rules::is_match;
use crate::fuse::abi::{Attr, Time, attr_of};
use crate::fuse::listing::{ListedName, Listing, Pushed};
use crate::fuse::original::{list, reopen};
use crate::fuse::passage::changes;
use crate::fuse::request::SetAttr;
use crate::scratch::is_hidden;

/// The names of a directory that lie on the node. All others lie in the real directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PickedNames {
    /// Patterns of names, not of paths. `*` and `?` stand for bytes.
    pub patterns: Vec<Vec<u8>>,
    /// The directory on the node hides containers.
    pub hides_containers: bool,
}

impl PickedNames {
    /// True for a name that lies on the node. So do names that programs must not see in the real directory.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        let is_dots = matches!(name, b"." | b"..");
        let is_picked = self.patterns.iter().any(|pattern| is_match(pattern, name));
        !is_dots && (is_picked || is_hidden(name, self.hides_containers))
    }
}

/// A directory with two places for its names.
#[derive(Debug)]
pub(super) struct Picked {
    names: PickedNames,
    /// The directory that the node has in the place of the real one. It has names of the real one too, as they were.
    pub(super) local: OwnedFd,
    /// The attributes of both at the beginning.
    local_before: Attr,
    real_before: Attr,
}

/// The second place of a directory that a program has open, and the names of both as they were when it began to list them.
#[derive(Debug)]
pub(super) struct PickedListing {
    pub(super) local: OwnedFd,
    entries: Mutex<Vec<PickedEntry>>,
}

#[derive(Debug)]
struct PickedEntry {
    inode: u64,
    kind: u32,
    name: Vec<u8>,
}

impl Picked {
    pub(super) fn new(names: PickedNames, local: OwnedFd, real: &OwnedFd) -> Result<Self, Errno> {
        let attr = |directory: &OwnedFd| rustix::fs::fstat(directory).map(|stat| attr_of(&stat));
        let (local_before, real_before) = (attr(&local)?, attr(real)?);
        Ok(Self { names, local, local_before, real_before })
    }

    /// The directory on the node, if it has the name.
    pub(super) fn local_of(&self, name: &[u8]) -> Option<&OwnedFd> {
        self.names.has(name).then_some(&self.local)
    }

    /// Opens the directory that the node has, to be listed.
    pub(super) fn open(&self) -> Result<PickedListing, Errno> {
        let local = reopen(&self.local, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(PickedListing { local, entries: Mutex::default() })
    }

    /// Lists the names of both places from the one with the number `offset` on. They are read anew at the beginning.
    pub(super) fn list(
        &self,
        real: &OwnedFd,
        open: &PickedListing,
        offset: u64,
        listing: &mut Listing,
    ) -> Result<(), Errno> {
        let mut entries = crate::lock(&open.entries);
        if offset == 0 {
            *entries = self.entries(real, &open.local)?;
        }
        for (PickedEntry { inode, kind, name }, next) in entries.iter().zip(1..).skip(offset as usize) {
            if listing.push(&ListedName { inode: *inode, next, kind: *kind, name }) == Pushed::Full {
                break;
            }
        }
        Ok(())
    }

    fn entries(&self, real: &OwnedFd, local: &OwnedFd) -> Result<Vec<PickedEntry>, Errno> {
        let mut entries = Vec::new();
        for (directory, is_local) in [(real, false), (local, true)] {
            list(directory, 0, &mut |entry| {
                if self.names.has(entry.name) == is_local {
                    let name = entry.name.to_vec();
                    entries.push(PickedEntry { inode: entry.inode, kind: entry.kind, name });
                }
                Pushed::Yes
            })?;
        }
        Ok(entries)
    }

    /// The node judges by the attributes that the real directory was given, and the last of its times count.
    pub(super) fn set_attributes(&self, change: &SetAttr) -> Result<(), Errno> {
        changes::set_attributes(&self.local, change, None)
    }

    /// Attributes of the real directory become those of both. Its times at the beginning are those of the node's container, and so
    /// they are not shown.
    pub(super) fn overlay(&self, attr: &mut Attr) {
        let Ok(local) = rustix::fs::fstat(&self.local).map(|stat| attr_of(&stat)) else { return };
        let later = |real: Time, before: Time, local: Time| {
            let is_later = (real.seconds, real.nanoseconds) > (local.seconds, local.nanoseconds);
            if real != before && is_later { real } else { local }
        };
        attr.mtime = later(attr.mtime, self.real_before.mtime, local.mtime);
        attr.ctime = later(attr.ctime, self.real_before.ctime, local.ctime);
        attr.nlink = (attr.nlink + local.nlink).saturating_sub(self.local_before.nlink);
    }
}
