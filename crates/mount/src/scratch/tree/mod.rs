//! The names and inodes of a scratch directory, all in memory.
//!
//! A file that a program makes has no counterpart elsewhere. A file that lay there before is known by its path in the
//! real directory, its *origin*; a file of which anything is changed is copied first. So the real directory stays as it
//! is, and no name is looked up in it twice: each of its directories is listed once, and a name that is not in the listing is absent.

mod files;
mod xattrs;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::fuse::abi::{Attr, BLOCK_SIZE, Time};
use crate::fuse::request::Caller;
use crate::scratch::content::{Budget, Content, Pieces};
use crate::scratch::originals::{DIRECTORY, FILE, KIND, LINK, Originals, ShownOriginal, below};
use crate::scratch::room::PREFIX;
use crate::scratch::stored::Stored;
use crate::scratch::stores::Stores;

/// A scratch directory.
#[derive(Debug)]
pub(in crate::scratch) struct Tree {
    inodes: HashMap<u64, Inode>,
    next: u64,
    /// Originals by the number that listings give them: names of one file lead to one inode. A directory may hold files of several
    /// devices (overlayfs, btrfs), which number theirs alike.
    by_number: HashMap<u64, Vec<u64>>,
    pub(in crate::scratch) originals: Arc<Originals>,
    pub(in crate::scratch) stores: Stores,
    budget: Arc<Budget>,
    /// Origins whose names were removed or given to others.
    pub(in crate::scratch) gone: BTreeSet<Vec<u8>>,
    /// Names but those of directories that programs made.
    pub(in crate::scratch) made: u64,
}

#[derive(Debug)]
pub(in crate::scratch) struct Inode {
    pub(in crate::scratch) kind: Kind,
    /// `None`: the original's, asked for each time.
    own: Option<Attr>,
    /// The time of change of an original whose names were changed.
    changed: Option<Time>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// They are those; until then a directory has its original's.
    has_xattrs: bool,
    /// Of the budget.
    held: u64,
    /// The paths of the original that are known, if there is one.
    pub(in crate::scratch) origins: Vec<Vec<u8>>,
    /// `st_nlink` of the original, once it was asked for.
    real_links: Option<u32>,
    /// `st_ino`.
    number: u64,
    /// The original's in listings.
    listed: u64,
    /// Its original is another user's, although it is shown as this user's.
    pub(in crate::scratch) is_anothers: bool,
    /// Names of it.
    pub(in crate::scratch) links: u32,
    lookups: u64,
    opens: u32,
}

#[derive(Debug)]
pub(in crate::scratch) enum Kind {
    Directory(Names),
    File(Content),
    Link(Vec<u8>),
    /// A fifo, a socket or a device, which the kernel serves.
    Special,
    /// Anything but a directory, as the original is; with `S_IFMT` of its mode.
    Original(u32),
}

#[derive(Debug)]
pub(in crate::scratch) struct Names {
    pub(in crate::scratch) names: BTreeMap<Vec<u8>, u64>,
    parent: u64,
    known: Known,
    directories: u32,
    /// Those that the original's listing had.
    listed_directories: u32,
}

impl Names {
    fn new(parent: u64, known: Known) -> Self {
        Self { names: BTreeMap::new(), parent, known, directories: 0, listed_directories: 0 }
    }
}

/// The known facts about the original of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    All,
    Nothing,
    /// It may be searched but not listed: each name is asked for.
    ByName,
}

/// The inode of the top.
pub(in crate::scratch) const TOP: u64 = 1;

/// Memory that a name and its inode take, about.
const INODE_BYTES: u64 = 512;

/// Longest name. Source: `NAME_MAX`.
const NAME_MAX: usize = 255;

/// Added to the numbers of inodes that have no original, so that no original has the same.
const NUMBERS: u64 = 1 << 62;

impl Tree {
    pub(in crate::scratch) fn new(
        originals: Arc<Originals>,
        stores: Stores,
        budget: Arc<Budget>,
    ) -> Result<Self, Errno> {
        let ShownOriginal { attr, is_anothers, .. } = originals.attr(b"")?;
        let names = Names::new(TOP, Known::Nothing);
        let top = Inode {
            own: Some(attr),
            origins: vec![Vec::new()],
            real_links: Some(attr.nlink),
            number: attr.inode,
            listed: attr.inode,
            is_anothers,
            ..Inode::new(Kind::Directory(names))
        };
        let inodes = HashMap::from([(TOP, Inode { links: 1, lookups: 1, ..top })]);
        Ok(Self {
            inodes,
            next: TOP + 1,
            by_number: HashMap::from([(attr.inode, vec![TOP])]),
            originals,
            stores,
            budget,
            gone: BTreeSet::new(),
            made: 0,
        })
    }

    pub(in crate::scratch) fn inode(&self, id: u64) -> Result<&Inode, Errno> {
        self.inodes.get(&id).ok_or(Errno::STALE)
    }

    fn inode_mut(&mut self, id: u64) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&id).ok_or(Errno::STALE)
    }

    pub(in crate::scratch) fn names(&self, id: u64) -> Result<&Names, Errno> {
        match &self.inode(id)?.kind {
            Kind::Directory(names) => Ok(names),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn names_mut(&mut self, id: u64) -> Result<&mut Names, Errno> {
        match &mut self.inode_mut(id)?.kind {
            Kind::Directory(names) => Ok(names),
            _ => Err(Errno::NOTDIR),
        }
    }

    fn add(&mut self, mut inode: Inode) -> u64 {
        let id = self.next;
        self.next += 1;
        inode.held = INODE_BYTES + if let Kind::Link(target) = &inode.kind { target.len() as u64 } else { 0 };
        self.budget.charge(inode.held);
        self.inodes.insert(id, inode);
        id
    }

    /// **Errors** `ENOMEM` where the process gets no memory for another inode.
    fn must_have_room(&self) -> Result<(), Errno> {
        if self.budget.room() < INODE_BYTES { Err(Errno::NOMEM) } else { Ok(()) }
    }

    // Names.

    /// Reads the listing of a directory's original, once.
    pub(in crate::scratch) fn load(&mut self, directory: u64) -> Result<(), Errno> {
        if self.names(directory)?.known != Known::Nothing {
            return Ok(());
        }
        let Some(origin) = self.inode(directory)?.origin().cloned() else { return Ok(()) };
        let listed = match self.originals.list(&origin, self.budget.room() / INODE_BYTES) {
            Ok(listed) => listed,
            Err(Errno::ACCESS | Errno::PERM) => {
                self.names_mut(directory)?.known = Known::ByName;
                return Ok(());
            }
            Err(errno) => return Err(errno),
        };
        for entry in listed.iter().filter(|entry| !entry.name.starts_with(PREFIX.as_bytes())) {
            self.add_original(directory, &origin, &entry.name, (entry.inode, entry.kind))?;
        }
        let names = self.names_mut(directory)?;
        (names.known, names.listed_directories) = (Known::All, names.directories);
        Ok(())
    }

    fn add_original(
        &mut self,
        directory: u64,
        within: &[u8],
        name: &[u8],
        (listed, mode): (u64, u32),
    ) -> Result<u64, Errno> {
        let path = below(within, name);
        let known = self.by_number.get(&listed).cloned().unwrap_or_default();
        if mode & KIND != DIRECTORY
            && let Some(id) = self.same_file(&known, &path)
        {
            self.inode_mut(id)?.origins.push(path);
            self.link(directory, name, id)?;
            return Ok(id);
        }
        let kind = match mode & KIND {
            DIRECTORY => Kind::Directory(Names::new(directory, Known::Nothing)),
            kind => Kind::Original(kind),
        };
        let number = if known.is_empty() { listed } else { NUMBERS | self.next };
        let id = self.add(Inode { origins: vec![path], number, listed, ..Inode::new(kind) });
        self.by_number.entry(listed).or_default().push(id);
        self.link(directory, name, id)?;
        Ok(id)
    }

    /// The one of `known` whose original has `path` for another name. Asks for those alone that share a number.
    fn same_file(&self, known: &[u64], path: &[u8]) -> Option<u64> {
        let is_file = |id: &&u64| self.is_directory(**id) == Ok(false);
        let known: Vec<_> = known.iter().filter(is_file).collect();
        if known.is_empty() {
            return None;
        }
        let file = self.originals.linked_file(path)?;
        let is_same = |id: &&&u64| {
            let origin = self.inode(***id).ok().and_then(Inode::origin);
            origin.is_some_and(|origin| self.originals.linked_file(origin) == Some(file))
        };
        known.iter().find(is_same).map(|id| **id)
    }

    /// The inode that a name leads to.
    pub(in crate::scratch) fn find(&mut self, directory: u64, name: &[u8]) -> Result<Option<u64>, Errno> {
        if name.len() > NAME_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        self.load(directory)?;
        let names = self.names(directory)?;
        if let Some(id) = names.names.get(name) {
            return Ok(Some(*id));
        }
        if names.known != Known::ByName {
            return Ok(None);
        }
        let within = self.inode(directory)?.origin().cloned().unwrap_or_default();
        let path = below(&within, name);
        if self.gone.contains(&path) || name.starts_with(PREFIX.as_bytes()) {
            return Ok(None);
        }
        self.must_have_room()?;
        match self.originals.attr(&path) {
            Ok(ShownOriginal { attr, .. }) => {
                self.add_original(directory, &within, name, (attr.inode, attr.mode)).map(Some)
            }
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The same, with its attributes, counted as a lookup of the kernel's. An original that is gone has no name any more.
    pub(in crate::scratch) fn look_up(
        &mut self,
        directory: u64,
        name: &[u8],
    ) -> Result<Option<(u64, Attr)>, Errno> {
        let Some(id) = self.find(directory, name)? else { return Ok(None) };
        match self.attr(id) {
            Ok(attr) => {
                self.inode_mut(id)?.lookups += 1;
                Ok(Some((id, attr)))
            }
            Err(Errno::NOENT) => {
                self.unlink_name(directory, name)?;
                Ok(None)
            }
            Err(errno) => Err(errno),
        }
    }

    /// A new name of `id`.
    fn link(&mut self, directory: u64, name: &[u8], id: u64) -> Result<(), Errno> {
        let is_directory = self.is_directory(id)?;
        let names = self.names_mut(directory)?;
        names.names.insert(name.to_vec(), id);
        names.directories += u32::from(is_directory);
        if let Kind::Directory(names) = &mut self.inode_mut(id)?.kind {
            names.parent = directory;
        }
        self.inode_mut(id)?.links += 1;
        Ok(())
    }

    /// Takes a name away, and the inode with its last use.
    fn unlink_name(&mut self, directory: u64, name: &[u8]) -> Result<(), Errno> {
        let id = *self.names(directory)?.names.get(name).ok_or(Errno::NOENT)?;
        let is_directory = self.is_directory(id)?;
        let names = self.names_mut(directory)?;
        names.names.remove(name);
        names.directories -= u32::from(is_directory);
        let within = self.inode(directory)?.origin().cloned();
        let inode = self.inode_mut(id)?;
        let path = within.map(|within| below(&within, name)).filter(|path| inode.origins.contains(path));
        inode.links -= 1;
        inode.stamp();
        self.gone.extend(path);
        self.drop_unused(id);
        Ok(())
    }

    fn drop_unused(&mut self, id: u64) {
        // A file that was changed may have another name in a directory that was not listed yet.
        let unused = |inode: &Inode| {
            let is_changed = (inode.own.is_some() || inode.changed.is_some()) && inode.unseen_links() > 0;
            inode.links == 0 && inode.lookups == 0 && inode.opens == 0 && !is_changed
        };
        if id != TOP && self.inodes.get(&id).is_some_and(unused) {
            let removed = self.inodes.remove(&id);
            let (held, listed) = removed.map_or((0, 0), |inode| (inode.held, inode.listed));
            self.budget.give_back(held);
            if let Some(known) = self.by_number.get_mut(&listed) {
                known.retain(|other| *other != id);
                if known.is_empty() {
                    self.by_number.remove(&listed);
                }
            }
        }
    }

    pub(in crate::scratch) fn forget(&mut self, id: u64, lookups: u64) {
        if let Some(inode) = self.inodes.get_mut(&id) {
            inode.lookups = inode.lookups.saturating_sub(lookups);
            self.drop_unused(id);
        }
    }

    pub(in crate::scratch) fn opened(&mut self, id: u64) -> Result<(), Errno> {
        self.inode_mut(id)?.opens += 1;
        Ok(())
    }

    pub(in crate::scratch) fn closed(&mut self, id: u64) {
        let Some(inode) = self.inodes.get_mut(&id) else { return };
        inode.opens -= 1;
        if let (0, Kind::File(Content::Stored(stored))) = (inode.opens, &inode.kind) {
            stored.close();
        }
        self.drop_unused(id);
    }

    /// The content of a file that lies in a store.
    pub(in crate::scratch) fn stored(&self, id: u64) -> Option<&Stored> {
        match &self.inodes.get(&id)?.kind {
            Kind::File(Content::Stored(stored)) => Some(stored),
            _ => None,
        }
    }

    /// A spilled file outlives its inode.
    pub(in crate::scratch) fn stay(&mut self, id: u64) {
        if let Some(Inode { kind: Kind::File(Content::Stored(stored)), .. }) = self.inodes.get_mut(&id) {
            stored.stay();
        }
    }

    /// A number that no inode has, nor a file of a store, nor any greater one.
    pub(in crate::scratch) fn next_number(&self) -> u64 {
        self.next
    }

    pub(in crate::scratch) fn is_directory(&self, id: u64) -> Result<bool, Errno> {
        Ok(matches!(self.inode(id)?.kind, Kind::Directory(_)))
    }

    /// Makes a name for something new, and counts a lookup.
    pub(in crate::scratch) fn make(
        &mut self,
        at: (u64, &[u8]),
        new: New<'_>,
        caller: Caller,
    ) -> Result<(u64, Attr), Errno> {
        let (directory, name) = at;
        if self.inode(directory)?.links == 0 {
            return Err(Errno::NOENT);
        }
        if self.find(directory, name)?.is_some() {
            return Err(Errno::EXIST);
        }
        let id = self.add_new(directory, new, caller)?;
        self.made += u64::from(!self.is_directory(id)?);
        self.link(directory, name, id)?;
        self.touch(directory)?;
        self.inode_mut(id)?.lookups += 1;
        Ok((id, self.attr(id)?))
    }

    /// A file without a name, as `O_TMPFILE` makes it.
    pub(in crate::scratch) fn make_unnamed(
        &mut self,
        directory: u64,
        mode: u32,
        caller: Caller,
    ) -> Result<(u64, Attr), Errno> {
        let id = self.add_new(directory, New::File { mode }, caller)?;
        self.inode_mut(id)?.lookups += 1;
        Ok((id, self.attr(id)?))
    }

    fn add_new(&mut self, directory: u64, new: New<'_>, caller: Caller) -> Result<u64, Errno> {
        self.must_have_room()?;
        let around = self.attr(directory)?;
        let (kind, mut mode, rdev) = match new {
            New::File { mode } => {
                (Kind::File(Content::Memory(Pieces::new(&self.budget))), mode & 0o7777 | FILE, 0)
            }
            New::Directory { mode } => {
                let names = Names::new(directory, Known::All);
                (Kind::Directory(names), mode & 0o7777 | DIRECTORY, 0)
            }
            New::Link { target } => (Kind::Link(target.to_vec()), 0o777 | LINK, 0),
            New::Special { mode, device } => (Kind::Special, mode, device),
        };
        let inherits = around.mode & 0o2000 != 0;
        if inherits && mode & KIND == DIRECTORY {
            mode |= 0o2000;
        }
        let (now, number) = (now(), NUMBERS | self.next);
        let attr = Attr {
            inode: number,
            atime: now,
            mtime: now,
            ctime: now,
            mode,
            uid: caller.uid,
            gid: if inherits { around.gid } else { caller.gid },
            rdev,
            size: if mode & KIND == DIRECTORY { BLOCK_SIZE.into() } else { 0 },
            block_size: BLOCK_SIZE,
            ..Attr::default()
        };
        Ok(self.add(Inode { own: Some(attr), number, ..Inode::new(kind) }))
    }

    pub(in crate::scratch) fn add_link(
        &mut self,
        id: u64,
        directory: u64,
        name: &[u8],
    ) -> Result<Attr, Errno> {
        if self.find(directory, name)?.is_some() {
            return Err(Errno::EXIST);
        }
        if self.inode(directory)?.links == 0 {
            return Err(Errno::NOENT);
        }
        // The kernel's rule for files of others, which it takes for this user's here. Source: `fs.protected_hardlinks`, proc_sys_fs(5).
        if self.inode(id)?.is_anothers && self.attr(id)?.mode & 0o600 != 0o600 {
            return Err(Errno::PERM);
        }
        // Another name of an original is none of the real directory's.
        self.own(id)?;
        self.made += 1;
        self.link(directory, name, id)?;
        let inode = self.inode_mut(id)?;
        inode.lookups += 1;
        inode.stamp();
        self.touch(directory)?;
        self.attr(id)
    }

    pub(in crate::scratch) fn remove(
        &mut self,
        directory: u64,
        name: &[u8],
        kind: Removed,
    ) -> Result<(), Errno> {
        let id = self.find(directory, name)?.ok_or(Errno::NOENT)?;
        match (kind, self.is_directory(id)?) {
            (Removed::Directory, false) => return Err(Errno::NOTDIR),
            (Removed::Other, true) => return Err(Errno::ISDIR),
            (Removed::Directory, true) => self.must_be_empty(id)?,
            (Removed::Other, false) => {}
        }
        self.unlink_name(directory, name)?;
        self.touch(directory)
    }

    fn must_be_empty(&mut self, id: u64) -> Result<(), Errno> {
        self.load(id)?;
        let names = self.names(id)?;
        // A directory that cannot be listed cannot be known to be empty; the original would say the same, or EACCES.
        let is_empty = names.names.is_empty() && names.known != Known::ByName;
        if is_empty { Ok(()) } else { Err(Errno::NOTEMPTY) }
    }

    pub(in crate::scratch) fn rename(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        how: Rename,
    ) -> Result<(), Errno> {
        let id = self.find(from.0, from.1)?.ok_or(Errno::NOENT)?;
        let other = self.find(to.0, to.1)?;
        match (how, other) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::EXIST),
            (Rename::Exchange, None) => return Err(Errno::NOENT),
            (_, Some(other)) if other == id => return Ok(()),
            (Rename::Replace, Some(other)) => match (self.is_directory(id)?, self.is_directory(other)?) {
                (true, false) => return Err(Errno::NOTDIR),
                (false, true) => return Err(Errno::ISDIR),
                (true, true) => self.must_be_empty(other)?,
                (false, false) => {}
            },
            _ => {}
        }
        // Held while it has no name.
        self.inode_mut(id)?.opens += 1;
        self.unlink_name(from.0, from.1)?;
        if let Some(other) = other {
            self.inode_mut(other)?.opens += 1;
            self.unlink_name(to.0, to.1)?;
            if how == Rename::Exchange {
                self.link(from.0, from.1, other)?;
            }
            self.closed(other);
        }
        self.link(to.0, to.1, id)?;
        self.closed(id);
        self.touch(from.0)?;
        self.touch(to.0)
    }

    /// A directory has changed.
    fn touch(&mut self, directory: u64) -> Result<(), Errno> {
        self.attr(directory)?;
        let now = now();
        if let Some(attr) = &mut self.inode_mut(directory)?.own {
            (attr.mtime, attr.ctime) = (now, now);
        }
        Ok(())
    }

    /// Entries for a listing: name, inode number, type.
    pub(in crate::scratch) fn entries(&mut self, directory: u64) -> Result<Vec<(Vec<u8>, u64, u32)>, Errno> {
        self.load(directory)?;
        let names = self.names(directory)?;
        if names.known == Known::ByName {
            return Err(Errno::ACCESS);
        }
        let number = |id: u64| self.inode(id).map_or(0, |inode| inode.number);
        let dots = [(&b"."[..], directory), (b"..", names.parent)];
        let mut entries: Vec<_> =
            dots.into_iter().map(|(name, id)| (name.to_vec(), number(id), DIRECTORY)).collect();
        for (name, id) in &names.names {
            let inode = self.inode(*id)?;
            let kind = match &inode.kind {
                Kind::Directory(_) => DIRECTORY,
                Kind::File(_) => FILE,
                Kind::Link(_) => LINK,
                Kind::Original(kind) => *kind,
                Kind::Special => inode.own.map_or(0, |attr| attr.mode & KIND),
            };
            entries.push((name.clone(), inode.number, kind));
        }
        Ok(entries)
    }
}

impl Inode {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            own: None,
            changed: None,
            xattrs: BTreeMap::new(),
            has_xattrs: false,
            held: 0,
            origins: Vec::new(),
            real_links: None,
            number: 0,
            listed: 0,
            is_anothers: false,
            links: 0,
            lookups: 0,
            opens: 0,
        }
    }

    /// Its names have changed.
    fn stamp(&mut self) {
        match &mut self.own {
            Some(attr) => attr.ctime = now(),
            None => self.changed = Some(now()),
        }
    }

    /// A path by which the original is read.
    pub(in crate::scratch) fn origin(&self) -> Option<&Vec<u8>> {
        self.origins.first()
    }

    /// Names of the original in directories that were not listed.
    fn unseen_links(&self) -> u32 {
        let seen = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
        self.real_links.map_or(0, |links| links.saturating_sub(seen))
    }

    pub(in crate::scratch) fn attr(&self) -> Option<&Attr> {
        self.own.as_ref()
    }
}

/// Something new.
#[derive(Debug, Clone, Copy)]
pub(in crate::scratch) enum New<'a> {
    File { mode: u32 },
    Directory { mode: u32 },
    Link { target: &'a [u8] },
    Special { mode: u32, device: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::scratch) enum Removed {
    Directory,
    Other,
}

/// Ways to rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::scratch) enum Rename {
    Replace,
    NoReplace,
    Exchange,
}

pub(in crate::scratch) fn now() -> Time {
    let now = clock_gettime(ClockId::Realtime);
    Time { seconds: now.tv_sec, nanoseconds: u32::try_from(now.tv_nsec).unwrap_or_default() }
}
