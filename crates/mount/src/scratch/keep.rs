//! The end of a scratch directory: what is in it, and `--keep`, which puts what programs made and changed to the real directory.
//!
//! Everything that is to be kept goes into a directory of its own in the real one first, with its attributes, and then each file is
//! renamed to its place. Nothing is removed: at any moment, and whatever fails, the old file lies at its place, or the new one
//! does, and what is not at its place yet lies in that directory. What fails is counted, and the rest goes on.
//!
//! Other users may own the real directory. So nothing is done by its path but to reach the directory of a name, without links, and
//! attributes are set on what a descriptor was opened for.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::content::Content;
use super::originals::{DIRECTORY, FILE, KIND, LINK, Originals, below};
use super::request::{ScratchEnd, ScratchKept};
use super::stores::{ScratchRoom, Source};
use super::tree::{Kind, TOP, Tree};
use crate::fuse::abi::{Attr, Time};
use crate::fuse::namespace::Privilege;
use crate::fuse::original::{self, os, place_of, reach};

/// A name that is not the original's: its path and inode.
type Fresh = (Vec<u8>, u64);

/// The way in which a file goes that lies in the scratch directory's own store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spilled {
    Move,
    /// A process that outlives the ranks goes on to use it.
    Copy,
}

/// The files at the end.
pub(super) fn end_of(tree: &Tree) -> ScratchEnd {
    let found = tree.stores.found.clone();
    let mut end = ScratchEnd { made: tree.made, found, ..ScratchEnd::default() };
    for (path, id) in fresh(tree) {
        let Ok(inode) = tree.inode(id) else { continue };
        if matches!(inode.kind, Kind::Directory(_) | Kind::Original(_)) {
            continue;
        }
        end.files += 1;
        end.bytes += inode.attr().map_or(0, |attr| attr.size);
        end.changed += u64::from(inode.origins.contains(&path));
    }
    let is_there = |path: &&Vec<u8>| find(tree, path).is_none();
    end.removed = tree.gone.iter().filter(is_there).count() as u64;
    end.spilled = tree.stores.spilled().map(|(path, files)| (quell_base::shown(path), files)).collect();
    end
}

fn find(tree: &Tree, path: &[u8]) -> Option<u64> {
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.try_fold(TOP, |id, name| tree.names(id).ok()?.names.get(name).copied())
}

/// Hands every name below the top to `visit`, directories before what is in them.
fn walk(tree: &Tree, mut visit: impl FnMut(&[u8], u64)) {
    let mut left = vec![(Vec::new(), TOP)];
    while let Some((path, directory)) = left.pop() {
        let Ok(names) = tree.names(directory) else { continue };
        for (name, id) in &names.names {
            let path = below(&path, name);
            visit(&path, *id);
            if tree.is_directory(*id) == Ok(true) {
                left.push((path, *id));
            }
        }
    }
}

/// Names that are not the original's, directories before what is in them.
fn fresh(tree: &Tree) -> Vec<Fresh> {
    let mut found = Vec::new();
    walk(tree, |path, id| {
        let is_as_before = tree.inode(id).is_ok_and(|inode| {
            inode.origins.iter().any(|origin| origin == path)
                && matches!(inode.kind, Kind::Directory(_) | Kind::Original(_))
        });
        if !is_as_before {
            found.push((path.to_vec(), id));
        }
    });
    found
}

/// Puts what programs made and changed to the real directory.
pub(super) fn keep(tree: &mut Tree, spilled: Spilled) -> ScratchKept {
    let mut keeper = Keeper {
        originals: Arc::clone(&tree.originals),
        tree,
        spilled,
        kept: ScratchKept::default(),
        barred: Vec::new(),
        groups: HashMap::new(),
    };
    let fresh = keeper.all_fresh();
    // A directory that was closed may have been opened for what was made in it.
    _ = keeper.settle(&[], Settled::Open);
    let made = if fresh.is_empty() { Vec::new() } else { keeper.keep_names(fresh) };
    if spilled == Spilled::Move {
        keeper.tree.stores.remove();
    }
    // What is put into a directory changes its times, and it may be closed afterwards.
    for (path, errno) in keeper.settle(&made, Settled::Finally) {
        keeper.fail(&path, errno);
    }
    keeper.kept
}

struct Keeper<'t> {
    tree: &'t mut Tree,
    originals: Arc<Originals>,
    spilled: Spilled,
    kept: ScratchKept,
    /// Originals that programs moved and that could not be taken along: nothing may take their place.
    barred: Vec<(Vec<u8>, Errno)>,
    /// The groups that new directories pass on.
    groups: HashMap<Vec<u8>, Option<u32>>,
}

/// What lies in the room, under a number for a name.
struct Staged {
    path: Vec<u8>,
    number: String,
    attr: Attr,
    identity: Identity,
    /// It cannot be as it must be, and goes nowhere.
    refused: Option<Errno>,
}

/// Device and inode.
type Identity = (u64, u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// With all permissions for the owner besides.
    Open,
    Finally,
}

impl Keeper<'_> {
    fn fail(&mut self, path: &[u8], errno: Errno) {
        self.kept.failed += 1;
        let number = u16::try_from(errno.raw_os_error()).unwrap_or_default();
        self.kept.first.get_or_insert_with(|| (quell_base::shown(Path::new(os(path))), number));
    }

    /// Lets nothing take the place of what cannot be taken along, if it lay there before.
    fn bar(&mut self, id: u64, errno: Errno) {
        let origins = self.tree.inode(id).map(|inode| inode.origins.clone()).unwrap_or_default();
        self.barred.extend(origins.into_iter().map(|origin| (origin, errno)));
    }

    /// Names that are not the original's; a directory that was renamed is made anew with all that is in it.
    fn all_fresh(&mut self) -> Vec<Fresh> {
        let mut tried = HashSet::new();
        loop {
            let found = fresh(self.tree);
            let mut unread = found.iter().filter(|(_, id)| self.tree.is_directory(*id) == Ok(true));
            let unread: Vec<_> = unread.by_ref().filter(|(_, id)| tried.insert(*id)).cloned().collect();
            if unread.is_empty() {
                return found;
            }
            for (path, id) in unread {
                if let Err(errno) = self.tree.entries(id) {
                    self.fail(&path, errno);
                    self.bar(id, errno);
                }
            }
        }
    }

    /// Returns the directories that were made.
    fn keep_names(&mut self, fresh: Vec<Fresh>) -> Vec<Staged> {
        let top = Arc::clone(&self.originals.top);
        let room = match ScratchRoom::for_kept(&top) {
            Ok(room) => room,
            Err(errno) => {
                fresh.iter().for_each(|(path, _)| self.fail(path, errno));
                return Vec::new();
            }
        };
        let mut staged: Vec<Staged> = Vec::new();
        let mut seen: HashMap<u64, usize> = HashMap::new();
        for (place, (path, id)) in fresh.into_iter().enumerate() {
            let number = place.to_string();
            let outcome = match seen.get(&id).map(|first| &staged[*first]) {
                Some(first) => {
                    let directory = &*room.directory;
                    rustix::fs::linkat(directory, &*first.number, directory, &*number, AtFlags::empty())
                        .map(|()| Staged { path: path.clone(), number: number.clone(), ..*first })
                }
                None => self.stage(&room.directory, &number, &path, id),
            };
            match outcome {
                Ok(made) => {
                    if let Some(errno) = made.refused {
                        self.bar(id, errno);
                    }
                    seen.entry(id).or_insert(staged.len());
                    staged.push(made);
                }
                Err(errno) => {
                    _ = rustix::fs::unlinkat(&*room.directory, &*number, AtFlags::empty());
                    self.fail(&path, errno);
                    self.bar(id, errno);
                }
            }
        }
        let line = |staged: &Staged| {
            format!("{} {}\n", staged.number, quell_base::shown(Path::new(os(&staged.path))))
        };
        // Without it what a kill leaves is harder to sort, and nothing else.
        _ = room.note(staged.iter().map(line).collect::<String>().as_bytes());
        let mut is_left = false;
        for staged in &staged {
            match self.put(&room, staged) {
                Ok(()) if staged.attr.mode & KIND != DIRECTORY => {
                    self.kept.files += 1;
                    self.kept.bytes += staged.attr.size;
                }
                Ok(()) => {}
                Err(errno) => {
                    is_left = true;
                    self.fail(&staged.path, errno);
                }
            }
        }
        if is_left {
            self.kept.left = Some(room.name);
        } else {
            room.remove(&top);
        }
        staged.retain(|staged| staged.attr.mode & KIND == DIRECTORY);
        staged
    }

    /// Puts an inode into the room.
    fn stage(&mut self, room: &OwnedFd, number: &str, path: &[u8], id: u64) -> Result<Staged, Errno> {
        let attr = self.tree.attr(id)?;
        self.fill(room, number, id, attr)?;
        let (made, stat) = reach(room, number.as_bytes())?;
        let refused = self.dress(&made, path, id, attr).err();
        let identity = (stat.st_dev, stat.st_ino);
        Ok(Staged { path: path.to_vec(), number: number.to_owned(), attr, identity, refused })
    }

    /// Gives what was made the attributes of an inode.
    fn dress(&mut self, made: &OwnedFd, path: &[u8], id: u64, attr: Attr) -> Result<(), Errno> {
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

    /// Makes what an inode is.
    fn fill(&self, room: &OwnedFd, number: &str, id: u64, attr: Attr) -> Result<(), Errno> {
        let inode = self.tree.inode(id)?;
        match attr.mode & KIND {
            DIRECTORY => rustix::fs::mkdirat(room, number, Mode::RWXU),
            LINK => rustix::fs::symlinkat(os(&self.tree.read_link(id)?), room, number),
            FIFO => rustix::fs::mknodat(room, number, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0),
            FILE => match (&inode.kind, inode.origin()) {
                (Kind::File(Content::Stored(stored)), _)
                    if self.spilled == Spilled::Move && self.tree.stores.is_last(stored.number) =>
                {
                    rustix::fs::renameat(&*stored.directory, stored.inode.to_string(), room, number)
                }
                (Kind::File(Content::Stored(stored)), _) => {
                    copy(room, number, &Source::File(&*stored.open()?, attr.size))
                }
                (Kind::File(Content::Memory(pieces)), _) => {
                    copy(room, number, &Source::Pieces(pieces, attr.size))
                }
                (_, Some(origin)) => {
                    copy(room, number, &Source::File(&self.originals.open(origin)?, attr.size))
                }
                _ => Err(Errno::STALE),
            },
            // A socket without its process is of no use, and a device is none of a file system's that is shared.
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// The group that a new name of this user's gets.
    fn group_within(&self, path: &[u8]) -> u32 {
        let parent = path.iter().rposition(|byte| *byte == b'/').map_or(&b""[..], |slash| &path[..slash]);
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

    /// Renames from the room to the place.
    fn put(&self, room: &ScratchRoom, staged: &Staged) -> Result<(), Errno> {
        if let Some(errno) = staged.refused {
            return Err(errno);
        }
        let is_below = |origin: &Vec<u8>| {
            staged.path.strip_prefix(&**origin).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        if let Some((_, errno)) = self.barred.iter().find(|(origin, _)| is_below(origin)) {
            return Err(*errno);
        }
        let (parent, name) = self.originals.parent(&staged.path)?;
        if staged.attr.mode & KIND != DIRECTORY {
            return rustix::fs::renameat(&*room.directory, &*staged.number, &parent, os(name));
        }
        let flags = RenameFlags::NOREPLACE;
        let moved =
            match rustix::fs::renameat_with(&*room.directory, &*staged.number, &parent, os(name), flags) {
                // Not every file system knows the flag.
                Err(Errno::INVAL | Errno::NOSYS) if reach(&parent, name).is_err() => {
                    rustix::fs::renameat(&*room.directory, &*staged.number, &parent, os(name))
                }
                Err(Errno::INVAL | Errno::NOSYS) => Err(Errno::EXIST),
                moved => moved,
            };
        let is_there = || reach(&parent, name).is_ok_and(|(_, stat)| stat.st_mode & KIND == DIRECTORY);
        match moved {
            Err(Errno::EXIST) if is_there() => {
                rustix::fs::unlinkat(&*room.directory, &*staged.number, AtFlags::REMOVEDIR)
            }
            moved => moved,
        }
    }
}

impl Keeper<'_> {
    /// Gives the directories that are in their place the attributes that programs gave them. Returns those that refuse.
    fn settle(&self, made: &[Staged], how: Settled) -> Vec<(Vec<u8>, Errno)> {
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

    /// What lies at the path now may be another one, put there by another user. So it must be what was made, or what was there when
    /// its attributes were asked for.
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

/// `S_IFIFO`.
const FIFO: u32 = 0o010_000;

/// The extended attribute that is an access control list.
const ACCESS_LIST: &str = "system.posix_acl_access";

fn copy(room: &OwnedFd, number: &str, content: &Source<'_>) -> Result<(), Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    content.write_to(&rustix::fs::openat(room, number, flags, Mode::RUSR | Mode::WUSR)?)
}

fn set_times(found: &OwnedFd, attr: &Attr) -> Result<(), Errno> {
    let time = |time: Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() };
    let times = Timestamps { last_access: time(attr.atime), last_modification: time(attr.mtime) };
    rustix::fs::utimensat(rustix::fs::CWD, place_of(found), &times, AtFlags::empty())
}
