//! Copying what an image holds into a directory of a tmpfs, as the user may see it.
//!
//! Owners cannot be set without privileges, so the user owns everything and may do with it what the original allows.
//! Extended attributes are not copied, and times are those of modification.
//!
//! A file of a complete image that the image has no content of has its size and times, and the permissions of others; the
//! user, who owns it, has none. So it cannot be opened: zeros are never an answer. A user who is not bound by
//! permissions gets no extraction of such an image ([`can_read_anything`]).

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quell_image::{Attributes, Beyond, FileContent as Content, FileKind as Kind, Image, Nid};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chmodat, chownat, linkat, mkdirat,
    mknodat, openat, renameat, symlinkat, utimensat,
};
use rustix::io::Errno;

use super::files::{create, name_of, write_at};
use super::plan::ExtractionPlan;
use crate::fuse::abi::Attr;
use crate::loaded::LoadedImage;
use crate::memory::{Memory, SharedImage};
use crate::namespace::Privilege;
use crate::server::acl;
use crate::server::permissions::{Evidence, Viewer};

/// The user who runs.
#[derive(Debug)]
pub(crate) struct RunUser {
    pub(crate) privilege: Privilege,
    viewer: Viewer,
}

impl RunUser {
    /// The user of this process, asked before it makes a user namespace: in that one every user looks like root, and
    /// supplementary groups have no number.
    pub(crate) fn of_this_process() -> Self {
        let privilege = Privilege::of_this_process();
        Self { privilege, viewer: Viewer::of_this_process(privilege) }
    }
}

/// Tells whether the user of this process, or a program that it starts, can read files regardless of permissions.
pub(crate) fn can_read_anything(privilege: Privilege) -> bool {
    privilege == Privilege::Administrator || rustix::process::geteuid().is_root()
}

/// Fills directories of one tmpfs.
#[derive(Debug)]
pub(crate) struct Filler<'i> {
    image: &'i Image<SharedImage>,
    memory: &'i Memory,
    user: &'i RunUser,
    /// The user packed the image, and so could read everything that it holds.
    packed_by_viewer: bool,
    /// Places that something is bound over, so that nothing below them is copied with what lies around them.
    places: HashSet<&'i Path>,
    /// The first name of each file that has several.
    linked: HashMap<Nid, (PathBuf, OwnedFd)>,
    /// The directory of files that were made whole.
    store: &'i OwnedFd,
    /// Files that were to be made whole.
    parts: HashSet<Nid>,
    /// Those of them that could not be.
    missed: HashSet<Nid>,
    /// Their names.
    unfilled: Vec<PathBuf>,
}

impl<'i> Filler<'i> {
    /// The parts of `plan` were made whole in `store` where they could be.
    pub(crate) fn new(
        image: &'i LoadedImage,
        store: &'i OwnedFd,
        plan: &'i ExtractionPlan,
        user: &'i RunUser,
    ) -> Self {
        Self {
            image: &image.image,
            memory: &image.memory,
            user,
            packed_by_viewer: image.owner == rustix::process::geteuid(),
            places: plan.pieces.iter().map(|piece| piece.path.as_path()).collect(),
            linked: HashMap::new(),
            store,
            parts: plan.parts.iter().map(|part| part.nid).collect(),
            missed: HashSet::new(),
            unfilled: Vec::new(),
        }
    }

    /// The names of files that could not be made whole: they have to come from the originals.
    pub(crate) fn into_unfilled(self) -> Vec<PathBuf> {
        self.unfilled
    }

    /// Makes the directory `path` of the tmpfs, with those that lead to it, and everything that the image has in it.
    ///
    /// **Errors** What the kernel says; `EIO` for an image that contradicts itself or cannot be read.
    pub(crate) fn fill(&mut self, top: &OwnedFd, path: &Path, nid: Nid) -> Result<(), Errno> {
        let mut directory = rustix::io::fcntl_dupfd_cloexec(top, 0)?;
        for name in path.strip_prefix("/").unwrap_or(path) {
            match mkdirat(&directory, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            directory = openat(&directory, name, DIRECTORY, Mode::empty())?;
        }
        self.directory(&directory, path, nid, 0)?;
        self.dress(&directory, OsStr::new("."), nid)
    }

    /// Everything in a directory, but for what is bound over.
    fn directory(&mut self, directory: &OwnedFd, path: &Path, nid: Nid, depth: usize) -> Result<(), Errno> {
        if depth > DEPTH_MAX {
            return Err(Errno::LOOP);
        }
        for entry in self.image.entries(nid).map_err(damaged)? {
            let entry = entry.map_err(damaged)?;
            if !entry.is_dot() {
                self.entry(directory, &path.join(OsStr::from_bytes(entry.name)), entry.nid, depth)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, at: &OwnedFd, path: &Path, nid: Nid, depth: usize) -> Result<(), Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let attributes = self.image.attributes(nid).map_err(damaged)?;
        if self.places.contains(path) {
            return match attributes.kind {
                Kind::Directory => mkdirat(at, name, Mode::RWXU),
                _ => create(at, name).map(drop),
            };
        }
        match attributes.kind {
            Kind::Directory => {
                mkdirat(at, name, Mode::RWXU)?;
                let inner = openat(at, name, DIRECTORY, Mode::empty())?;
                self.directory(&inner, path, nid, depth + 1)?;
            }
            Kind::Symlink => {
                let target = self.image.link_target(nid).map_err(damaged)?;
                symlinkat(OsStr::from_bytes(target), at, name)?;
            }
            Kind::Regular => {
                if attributes.nlink > 1 && self.link(at, path, nid)? {
                    return Ok(());
                }
                self.file(at, path, nid, &attributes)?;
            }
            // Only a complete image has one here. It is not opened, as below a mount of ours.
            Kind::CharacterDevice | Kind::BlockDevice => drop(create(at, name)?),
            Kind::Fifo | Kind::Socket => {
                let kind = if attributes.kind == Kind::Fifo { FileType::Fifo } else { FileType::Socket };
                mknodat(at, name, kind, Mode::from_raw_mode(0o600), 0)?;
            }
        }
        self.dress(at, name, nid)
    }

    /// Gives a file that was made already another name.
    fn link(&mut self, at: &OwnedFd, path: &Path, nid: Nid) -> Result<bool, Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let Some((first, directory)) = self.linked.get(&nid) else {
            let directory = rustix::io::fcntl_dupfd_cloexec(at, 0)?;
            // Descriptors are few: beyond that links become files of their own.
            if self.linked.len() < LINKS_MAX {
                self.linked.insert(nid, (name.into(), directory));
            }
            return Ok(false);
        };
        linkat(directory, first, at, name, AtFlags::empty())?;
        if self.missed.contains(&nid) {
            self.unfilled.push(path.to_owned());
        }
        Ok(true)
    }

    fn file(&mut self, at: &OwnedFd, path: &Path, nid: Nid, attributes: &Attributes) -> Result<(), Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        if self.parts.contains(&nid) {
            if renameat(self.store, name_of(nid), at, name).is_ok() {
                return Ok(());
            }
            self.missed.insert(nid);
            self.unfilled.push(path.to_owned());
        }
        let file = create(at, name)?;
        match self.image.content(nid).map_err(damaged)? {
            Content::Held(content) => write_at(&file, &self.memory.hold(content)?, 0),
            Content::Part(_) | Content::Original => rustix::fs::ftruncate(&file, attributes.size),
        }
    }

    /// Gives a node its permissions, owner and time.
    fn dress(&self, at: &OwnedFd, name: &OsStr, nid: Nid) -> Result<(), Errno> {
        let attributes = self.image.attributes(nid).map_err(damaged)?;
        let follow_not = AtFlags::SYMLINK_NOFOLLOW;
        if self.user.privilege == Privilege::Administrator {
            give(at, name, &attributes)?;
        }
        if attributes.kind != Kind::Symlink {
            let mode = self.mode(nid, &attributes);
            let mode = if self.is_readable(nid, &attributes) { mode } else { mode & OTHERS };
            chmodat(at, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
        }
        let time =
            Timespec { tv_sec: attributes.mtime.seconds, tv_nsec: attributes.mtime.nanoseconds.into() };
        utimensat(at, name, &Timestamps { last_access: time, last_modification: time }, follow_not)
    }

    /// Tells whether the content of a file is there, or will come.
    fn is_readable(&self, nid: Nid, attributes: &Attributes) -> bool {
        self.image.index().beyond() == Beyond::Originals
            || match attributes.kind {
                Kind::Regular => {
                    attributes.size == 0 || matches!(self.image.content(nid), Ok(Content::Held(_)))
                }
                Kind::CharacterDevice | Kind::BlockDevice => false,
                Kind::Directory | Kind::Symlink | Kind::Fifo | Kind::Socket => true,
            }
    }

    /// Permissions with which the user, as owner, can do what the original allows.
    fn mode(&self, nid: Nid, attributes: &Attributes) -> u32 {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let mut attr = Attr {
            mode: attributes.permissions.into(),
            uid: attributes.uid,
            gid: attributes.gid,
            ..Attr::default()
        };
        if self.user.privilege == Privilege::Administrator {
            return attr.mode;
        }
        let acl =
            self.image.xattrs(nid).ok().and_then(|mut all| all.find(|xattr| xattr.is_named(acl::ACCESS)));
        let evidence = Evidence {
            acl: acl.map(|xattr| xattr.value),
            held: self.packed_by_viewer && attributes.kind == Kind::Regular,
            removable: false,
        };
        self.user.viewer.present(&mut attr, &evidence);
        let allowed = match (attr.uid == uid, attr.gid == gid) {
            (true, _) => attr.mode >> 6 & 0o7,
            (false, true) => attr.mode >> 3 & 0o7,
            (false, false) => attr.mode & 0o7,
        };
        attr.mode & !0o700 | allowed << 6
    }
}

/// Gives a node its owner and group, as far as there are such ids: a user namespace around us (a container's) need not map
/// them, and what would be theirs stays the user's.
fn give(at: &OwnedFd, name: &OsStr, attributes: &Attributes) -> Result<(), Errno> {
    let change = |uid, gid| match chownat(at, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::INVAL) => Ok(()),
        outcome => outcome,
    };
    change(None, Some(Gid::from_raw(attributes.gid)))?;
    change(Some(Uid::from_raw(attributes.uid)), None)
}

fn damaged(_corrupt: quell_image::Corrupt) -> Errno {
    Errno::IO
}

/// The permissions of users other than the owner.
const OTHERS: u32 = 0o077;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// As in the plan: a forged image cannot make this recurse further.
const DEPTH_MAX: usize = 2048;

/// Files with several names that are remembered, by a descriptor each.
const LINKS_MAX: usize = 400;
