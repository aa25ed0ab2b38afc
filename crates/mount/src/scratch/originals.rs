//! Files that lie in a scratch directory already: they are read, and never changed.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::fs::{Access, AtFlags, OFlags, Stat, StatxFlags};
use rustix::io::Errno;

use super::counts::{Asked, OriginalCounts};
use super::descriptors::{Descriptors, KeptOpen};
use crate::fuse::abi::{Attr, attr_of};
use crate::fuse::listing::Pushed;
use crate::fuse::namespace::Privilege;
use crate::fuse::original::{self, os, place_of, reach, reopen};

/// The real directory, by a descriptor that was opened before it was covered.
#[derive(Debug)]
pub(super) struct Originals {
    pub(super) top: Arc<OwnedFd>,
    pub(super) privilege: Privilege,
    pub(super) descriptors: Arc<Descriptors>,
    /// The directories of which attributes were asked, with device and attributes.
    directories: Mutex<HashMap<Vec<u8>, (u64, Attr)>>,
    pub(super) counts: OriginalCounts,
}

/// A file of the real directory that programs have open.
#[derive(Debug)]
pub(super) struct OpenOriginal {
    path: Vec<u8>,
    /// Device and inode.
    file: (u32, u32, u64),
    kept: KeptOpen,
}

/// The state of a file of the real directory. Another node may change it at any time, or put another file in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OriginalState {
    device: u64,
    inode: u64,
    pub(super) size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl OriginalState {
    fn new(stat: &Stat) -> Self {
        let nanoseconds = |time: _| i64::try_from(time).unwrap_or_default();
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, nanoseconds(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, nanoseconds(stat.st_ctime_nsec)),
        }
    }

    pub(super) fn of(file: &OwnedFd) -> Result<Self, Errno> {
        rustix::fs::fstat(file).map(|stat| Self::new(&stat))
    }

    /// **Errors** `ESTALE` where `file` is another one, or was changed since.
    pub(super) fn must_be_that_of(self, file: &OwnedFd) -> Result<(), Errno> {
        if Self::of(file)? == self { Ok(()) } else { Err(Errno::STALE) }
    }
}

/// An original as it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShownOriginal {
    /// Its attributes as the kernel judges by them.
    pub(super) attr: Attr,
    /// Another user owns it, although the attributes say otherwise.
    pub(super) is_anothers: bool,
    /// Its state when the attributes were asked for.
    pub(super) state: OriginalState,
}

/// An entry of a directory's listing.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) name: Vec<u8>,
    pub(super) inode: u64,
    /// `S_IFMT` of its mode.
    pub(super) kind: u32,
}

impl Originals {
    pub(super) fn new(top: Arc<OwnedFd>, descriptors: Arc<Descriptors>) -> Self {
        let privilege = Privilege::of_this_process();
        Self { top, privilege, descriptors, directories: Mutex::default(), counts: OriginalCounts::default() }
    }

    /// Opens what lies at a path below the top with `O_PATH`. No link is followed, so it lies below the top for certain.
    pub(super) fn reach(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let mut directory = self.top.try_clone().map_err(|_| Errno::MFILE)?;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            self.counts.asked(Asked::Lookup);
            directory = reach(&directory, name)?.0;
        }
        Ok(directory)
    }

    /// Attributes as the kernel judges by them.
    ///
    /// The namespace of a user knows this user and group alone, and the kernel changes nothing whose owner it does not know. So
    /// what this user may write to or remove is shown as the user's own, with the permissions that the user has.
    pub(super) fn attr(&self, path: &[u8]) -> Result<ShownOriginal, Errno> {
        let found = self.reach(path)?;
        self.counts.asked(Asked::Stat);
        let stat = rustix::fs::fstat(&found)?;
        let (attr, is_anothers) = self.shown(&found, path, attr_of(&stat))?;
        if attr.mode & KIND == DIRECTORY {
            let known = (stat.st_dev, Attr { inode: stat.st_ino, ..attr });
            crate::lock(&self.directories).insert(path.to_vec(), known);
        }
        Ok(ShownOriginal { attr, is_anothers, state: OriginalState::new(&stat) })
    }

    /// A directory's device, and its attributes when they were asked for.
    pub(super) fn asked(&self, path: &[u8]) -> Option<(u64, Attr)> {
        crate::lock(&self.directories).get(path).copied()
    }

    fn shown(&self, found: &OwnedFd, path: &[u8], mut attr: Attr) -> Result<(Attr, bool), Errno> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        if self.privilege == Privilege::Administrator {
            return Ok((attr, false));
        }
        if attr.uid == uid {
            attr.gid = gid;
            return Ok((attr, false));
        }
        let is_link = attr.mode & KIND == LINK;
        let bits = [(Access::READ_OK, 4), (Access::WRITE_OK, 2), (Access::EXEC_OK, 1)];
        let allowed = bits.into_iter().filter(|(access, _)| is_link || may(found, *access));
        let granted = allowed.map(|(_, bit)| bit).sum::<u32>();
        let is_shown_as_own = !is_link && granted & 2 != 0 || self.is_removable(path);
        if is_shown_as_own {
            (attr.uid, attr.gid) = (uid, gid);
            attr.mode = attr.mode & !0o700 | granted << 6;
        } else {
            attr.mode = attr.mode & !0o007 | granted;
        }
        Ok((attr, is_shown_as_own))
    }

    /// True where this user may remove the name of another user's file.
    fn is_removable(&self, path: &[u8]) -> bool {
        if path.is_empty() {
            return false;
        }
        let Ok((parent, _)) = self.parent(path) else { return false };
        let Ok(stat) = rustix::fs::fstat(&parent) else { return false };
        let is_sticky = stat.st_mode & 0o1000 != 0 && stat.st_uid != rustix::process::geteuid().as_raw();
        !is_sticky && may(&parent, Access::WRITE_OK)
    }

    /// Device and number of a file that has several names.
    pub(super) fn linked_file(&self, path: &[u8]) -> Option<(u64, u64)> {
        self.counts.asked(Asked::Stat);
        let stat = rustix::fs::fstat(self.reach(path).ok()?).ok()?;
        (stat.st_nlink > 1).then_some((stat.st_dev, stat.st_ino))
    }

    pub(super) fn open(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.counts.asked(Asked::Open);
        reopen(&self.reach(path)?, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// A file that was opened by its path, as one that programs have open.
    pub(super) fn keep_open(&self, path: &[u8], file: OwnedFd) -> Result<OpenOriginal, Errno> {
        let identity = identity(&file)?;
        Ok(OpenOriginal { path: path.to_vec(), file: identity, kept: KeptOpen::new(&self.descriptors, file) })
    }

    /// **Errors** `ESTALE` where another file has the path meanwhile.
    pub(super) fn opened(&self, original: &OpenOriginal) -> Result<Arc<OwnedFd>, Errno> {
        original.kept.get(|| {
            let file = self.open(&original.path)?;
            if identity(&file)? == original.file { Ok(file) } else { Err(Errno::STALE) }
        })
    }

    /// **Errors** `ENOMEM` for more than `most` names.
    pub(super) fn list(&self, path: &[u8], most: u64) -> Result<Vec<Listed>, Errno> {
        self.counts.asked(Asked::List);
        let directory = reopen(&self.reach(path)?, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let (mut names, mut is_too_long) = (Vec::new(), false);
        original::list(&directory, 0, &mut |entry| {
            let kind = entry.kind << 12;
            if matches!(entry.name, b"." | b"..") {
                return Pushed::Yes;
            }
            if names.len() as u64 == most {
                is_too_long = true;
                return Pushed::Full;
            }
            names.push(Listed { name: entry.name.to_vec(), inode: entry.inode, kind });
            Pushed::Yes
        })?;
        if is_too_long {
            return Err(Errno::NOMEM);
        }
        for listed in names.iter_mut().filter(|listed| listed.kind == 0) {
            listed.kind =
                rustix::fs::statat(&directory, os(&listed.name), AtFlags::SYMLINK_NOFOLLOW)?.st_mode & KIND;
        }
        Ok(names)
    }

    pub(super) fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.counts.asked(Asked::Stat);
        let link = self.reach(path)?;
        Ok(rustix::fs::readlinkat(&link, "", Vec::new())?.into_bytes())
    }

    pub(super) fn xattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.counts.asked(Asked::Stat);
        original::xattr(&self.reach(path)?, name)
    }

    pub(super) fn xattr_names(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.counts.asked(Asked::Stat);
        original::xattr_names(&self.reach(path)?)
    }

    /// Opens the parent of a path, to change a name in it, and returns the name.
    pub(super) fn parent<'p>(&self, path: &'p [u8]) -> Result<(OwnedFd, &'p [u8]), Errno> {
        let (parent, name) = split(path);
        Ok((self.reach(parent)?, name))
    }
}

/// The parent of a path below the real directory, which is empty for the real directory itself, and the name in it.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    slash.map_or((b"", path), |slash| (&path[..slash], &path[slash + 1..]))
}

/// Device and inode, as the client of a network file system knows them: its server is not asked.
fn identity(file: &OwnedFd) -> Result<(u32, u32, u64), Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let known = rustix::fs::statx(file, "", flags, StatxFlags::INO)?;
    Ok((known.stx_dev_major, known.stx_dev_minor, known.stx_ino))
}

/// True where this user has the permission.
fn may(found: &OwnedFd, access: Access) -> bool {
    match rustix::fs::accessat(found, "", access, AtFlags::EMPTY_PATH | AtFlags::EACCESS) {
        // Kernels before 5.8.
        Err(Errno::NOSYS | Errno::INVAL) => rustix::fs::access(place_of(found), access).is_ok(),
        outcome => outcome.is_ok(),
    }
}

/// `S_IFMT`.
pub(super) const KIND: u32 = 0o170_000;
pub(super) const DIRECTORY: u32 = 0o040_000;
pub(super) const FILE: u32 = 0o100_000;
pub(super) const LINK: u32 = 0o120_000;

/// A path below another one, which is empty for the top.
pub(super) fn below(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}
