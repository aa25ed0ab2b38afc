//! The attributes of what is kept: owners, permissions, times, extended attributes.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Gid, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::survey::walk;
use super::{Identity, Keeper, Settled, Staged};
use crate::fuse::abi::{Attr, Time};
use crate::fuse::namespace::Privilege;
use crate::fuse::original::{self, os, place_of};
use crate::scratch::originals::{DIRECTORY, FILE, KIND, LINK, split};
use crate::scratch::tree::{Kind, TOP};

impl Keeper<'_> {
    /// Gives what was made the attributes of an inode.
    pub(super) fn dress(&mut self, made: &OwnedFd, path: &[u8], id: u64, attr: Attr) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(made)?;
        let origin = self.tree.inode(id)?.origin().cloned();
        let origin = origin.and_then(|origin| self.originals.reach(&origin).ok());
        let before = origin.as_ref().map(rustix::fs::fstat).transpose()?;
        let (uid, gid) = match before {
            _ if self.originals.privilege == Privilege::Administrator => (attr.uid, attr.gid),
            Some(stat) => (stat.st_uid, stat.st_gid),
            None => (stat.st_uid, self.group_within(path)),
        };
        if (uid, gid) != (stat.st_uid, stat.st_gid) {
            let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
            match rustix::fs::chownat(made, "", uid, gid, AtFlags::EMPTY_PATH) {
                // A directory may pass on a group that this user is not in.
                Err(Errno::PERM) if before.is_none() => {}
                outcome => outcome?,
            }
        }
        let is_directory = attr.mode & KIND == DIRECTORY;
        if let (Some(origin), Some(before)) = (&origin, before)
            && before.st_uid == uid
            && attr.mode & KIND != LINK
            && let Ok(list) = original::xattr(origin, ACCESS_LIST.as_bytes())
        {
            rustix::fs::setxattr(place_of(made), ACCESS_LIST, &list, XattrFlags::empty())?;
        }
        self.set_xattrs(made, id, attr)?;
        if attr.mode & KIND != LINK {
            let more = if is_directory { 0o700 } else { 0 };
            original::set_mode(made, attr.mode | more)?;
        }
        if is_directory {
            self.groups.insert(path.to_vec(), (attr.mode & 0o2000 != 0).then_some(gid));
        }
        let inode = self.tree.inode(id)?;
        let changed = before.filter(|_| matches!(inode.kind, Kind::File(_)));
        let links = changed.map_or(0, |stat| stat.st_nlink as usize);
        self.kept.split += u64::from(links > inode.origins.len());
        set_times(made, &attr)
    }

    /// The group that a new name of this user's gets.
    fn group_within(&self, path: &[u8]) -> u32 {
        let (parent, _) = split(path);
        let passed_on = self.groups.get(parent).copied().unwrap_or_else(|| {
            let parent = self.originals.reach(parent).and_then(rustix::fs::fstat).ok();
            parent.filter(|stat| stat.st_mode & 0o2000 != 0).map(|stat| stat.st_gid)
        });
        passed_on.unwrap_or_else(|| rustix::process::getegid().as_raw())
    }

    /// Gives a file the extended attributes of an inode, and takes others away.
    fn set_xattrs(&self, found: &OwnedFd, id: u64, attr: Attr) -> Result<(), Errno> {
        if !matches!(attr.mode & KIND, FILE | DIRECTORY) {
            return Ok(());
        }
        let place = place_of(found);
        let own = |name: &&[u8]| name.starts_with(b"user.");
        let names = self.tree.xattr_names(id).unwrap_or_default();
        let wanted: BTreeMap<_, _> = names
            .split(|byte| *byte == 0)
            .filter(own)
            .map(|name| Ok((name, self.tree.xattr(id, name)?)))
            .collect::<Result<_, Errno>>()?;
        let there = original::xattr_names(found).unwrap_or_default();
        for name in there.split(|byte| *byte == 0).filter(own).filter(|name| !wanted.contains_key(name)) {
            rustix::fs::removexattr(&place, os(name))?;
        }
        for (name, value) in wanted {
            if original::xattr(found, name).as_ref() == Ok(&value) {
                continue;
            }
            match rustix::fs::setxattr(&place, os(name), &value, XattrFlags::empty()) {
                // A file system without extended attributes keeps the rest.
                Err(Errno::OPNOTSUPP) => return Ok(()),
                outcome => outcome?,
            }
        }
        Ok(())
    }
}

impl Keeper<'_> {
    /// Gives the directories that are in their place the attributes that programs gave them. Returns those that refuse.
    pub(super) fn settle(&self, made: &[Staged], how: Settled) -> Vec<(Vec<u8>, Errno)> {
        let made: HashMap<&[u8], Identity> = made.iter().map(|made| (&*made.path, made.identity)).collect();
        let mut directories = vec![(Vec::new(), TOP)];
        walk(self.tree, |path, id| {
            if self.tree.is_directory(id) == Ok(true) {
                directories.push((path.to_vec(), id));
            }
        });
        if how == Settled::Finally {
            directories.reverse();
        }
        let mut refused = Vec::new();
        for (path, id) in directories {
            if let Err(errno) = self.settle_one(&path, id, made.get(&*path).copied(), how) {
                refused.push((path, errno));
            }
        }
        refused
    }

    /// Another user may have put another directory at the path. So only the directory that was made gets attributes, or the one
    /// that was there when its attributes were asked for.
    fn settle_one(&self, path: &[u8], id: u64, made: Option<Identity>, how: Settled) -> Result<(), Errno> {
        let inode = self.tree.inode(id)?;
        let Some(attr) = inode.attr().copied() else { return Ok(()) };
        let asked = self.originals.asked(path);
        let is_in_place = inode.origins.iter().any(|origin| origin == path);
        if made.is_none() && asked.is_none_or(|(_, asked)| is_in_place && asked.ctime == attr.ctime) {
            return Ok(());
        }
        let found = self.originals.reach(path)?;
        let stat = rustix::fs::fstat(&found)?;
        // The owner of the directory above may have put a file there that got the number of a directory.
        if stat.st_mode & KIND != DIRECTORY {
            return Err(Errno::STALE);
        }
        let is = |identity: Identity| identity == (stat.st_dev, stat.st_ino);
        let before = asked.filter(|(device, asked)| is((*device, asked.inode))).map(|(_, asked)| asked);
        let is_administrator = self.originals.privilege == Privilege::Administrator;
        match before {
            None if made.is_some_and(is) => {}
            // Made by another node, perhaps.
            None if made.is_some() => return Ok(()),
            None => return Err(Errno::STALE),
            // Another user's.
            Some(_) if !is_administrator && stat.st_uid != rustix::process::geteuid().as_raw() => {
                return Ok(());
            }
            Some(_) => {}
        }
        let has_mode = before.is_some_and(|before| before.mode == attr.mode);
        if how == Settled::Open {
            return if has_mode { Ok(()) } else { original::set_mode(&found, attr.mode | 0o700) };
        }
        if is_administrator && before.is_some_and(|before| (before.uid, before.gid) != (attr.uid, attr.gid)) {
            let (uid, gid) = (Some(Uid::from_raw(attr.uid)), Some(Gid::from_raw(attr.gid)));
            rustix::fs::chownat(&found, "", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        self.set_xattrs(&found, id, attr)?;
        if !has_mode {
            original::set_mode(&found, attr.mode)?;
        }
        set_times(&found, &attr)
    }
}

/// The extended attribute that is an access control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

fn set_times(found: &OwnedFd, attr: &Attr) -> Result<(), Errno> {
    let time = |time: Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    let times = Timestamps { last_access: time(attr.atime), last_modification: time(attr.mtime) };
    rustix::fs::utimensat(rustix::fs::CWD, place_of(found), &times, AtFlags::empty())
}
