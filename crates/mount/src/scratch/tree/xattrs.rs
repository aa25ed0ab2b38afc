//! Targets of links, and extended attributes: the original's until one is changed.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::{INODE_BYTES, Inode, Kind, Tree, now};
use crate::scratch::originals::LINK;

impl Tree {
    pub(in crate::scratch) fn read_link(&self, id: u64) -> Result<Vec<u8>, Errno> {
        let inode = self.inode(id)?;
        match (&inode.kind, inode.origin()) {
            (Kind::Link(target), _) => Ok(target.clone()),
            (Kind::Original(LINK), Some(origin)) => self.originals.read_link(origin),
            _ => Err(Errno::INVAL),
        }
    }

    /// True where the original answers for extended attributes.
    fn asks_original(inode: &Inode) -> Option<&Vec<u8>> {
        match inode.kind {
            Kind::Original(_) | Kind::Directory(_) if !inode.has_xattrs => inode.origin(),
            _ => None,
        }
    }

    pub(in crate::scratch) fn xattr(&self, id: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let inode = self.inode(id)?;
        match Self::asks_original(inode) {
            Some(origin) => self.originals.xattr(origin, name),
            None => inode.xattrs.get(name).cloned().ok_or(Errno::NODATA),
        }
    }

    pub(in crate::scratch) fn xattr_names(&self, id: u64) -> Result<Vec<u8>, Errno> {
        let inode = self.inode(id)?;
        match Self::asks_original(inode) {
            Some(origin) => self.originals.xattr_names(origin),
            None => Ok(inode.xattrs.keys().flat_map(|name| [&**name, b"\0"].concat()).collect()),
        }
    }

    pub(in crate::scratch) fn set_xattr(
        &mut self,
        id: u64,
        name: &[u8],
        value: Option<&[u8]>,
        flags: u32,
    ) -> Result<(), Errno> {
        const CREATE: u32 = 1;
        const REPLACE: u32 = 2;
        if !name.starts_with(b"user.") {
            return Err(Errno::OPNOTSUPP);
        }
        let there = match self.xattr(id, name) {
            Ok(value) => Some(value),
            Err(Errno::NODATA) => None,
            Err(errno) => return Err(errno),
        };
        match (value, &there) {
            (Some(_), Some(_)) if flags & CREATE != 0 => return Err(Errno::EXIST),
            (Some(_), None) if flags & REPLACE != 0 => return Err(Errno::NODATA),
            (None, None) => return Err(Errno::NODATA),
            _ => {}
        }
        let origin = Self::asks_original(self.inode(id)?).cloned();
        self.own(id)?;
        if let Some(origin) = origin.filter(|_| self.is_directory(id) == Ok(true)) {
            self.set_xattrs(id, self.copied_xattrs(&origin))?;
            self.inode_mut(id)?.has_xattrs = true;
        }
        self.hold(id, name, (there.as_deref(), value))?;
        self.own(id)?.ctime = now();
        let inode = self.inode_mut(id)?;
        inode.has_xattrs = true;
        let xattrs = &mut inode.xattrs;
        match value {
            Some(value) => _ = xattrs.insert(name.to_vec(), value.to_vec()),
            None => _ = xattrs.remove(name),
        }
        Ok(())
    }

    /// Takes memory for a change of an attribute.
    ///
    /// **Errors** `ENOSPC` where the budget is used up, and the file has more attributes than most file systems keep; where a container
    /// has no place for them.
    fn hold(&mut self, id: u64, name: &[u8], change: (Option<&[u8]>, Option<&[u8]>)) -> Result<(), Errno> {
        let (before, after) = (cost(name, change.0), cost(name, change.1));
        if self.gatherer.is_some() && after > before {
            let all = self.inode(id)?.xattrs.iter().map(|(name, value)| cost(name, Some(value))).sum::<u64>();
            if all + after - before > GATHERED_MOST {
                return Err(Errno::NOSPC);
            }
        }
        let held = self.inode(id)?.held.saturating_sub(before) + after;
        if after < before {
            self.budget.give_back(before - after);
        } else if !self.budget.take(after - before) {
            if held > INODE_BYTES + ALWAYS || self.budget.room() < after {
                return Err(Errno::NOSPC);
            }
            self.budget.charge(after - before);
        }
        self.inode_mut(id)?.held = held;
        Ok(())
    }

    /// Gives an inode without attributes the original's.
    pub(super) fn set_xattrs(&mut self, id: u64, xattrs: BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), Errno> {
        let bytes = xattrs.iter().map(|(name, value)| cost(name, Some(value))).sum();
        self.budget.charge(bytes);
        let inode = self.inode_mut(id)?;
        inode.held += bytes;
        inode.xattrs = xattrs;
        Ok(())
    }

    pub(super) fn copied_xattrs(&self, origin: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let names = self.originals.xattr_names(origin).unwrap_or_default();
        let names = names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
        names.filter_map(|name| Some((name.to_vec(), self.originals.xattr(origin, name).ok()?))).collect()
    }
}

/// Memory that an attribute takes, about.
fn cost(name: &[u8], value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| (name.len() + value.len() + 64) as u64)
}

/// The attributes of a file for which there is room in any case. Source: ext4(5) keeps one block of them.
const ALWAYS: u64 = 4096;

/// The attributes of a file that a container holds. A header of a container has them three times, and a reader takes 8 MiB.
/// Unit: bytes.
const GATHERED_MOST: u64 = 1 << 20;
