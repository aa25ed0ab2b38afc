//! The names and inodes of a scratch directory, all in memory.
//!
//! A file that a program makes has no counterpart elsewhere. A file that lay there before is known by its path in the
//! real directory, its *origin*; its content is copied when it first changes. So the real directory stays as it
//! is, and no name is looked up in it twice: each of its directories is listed once, and a name that is not in the listing is
//! absent.

mod files;
mod gathered;
mod names;
mod xattrs;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use quell_gather::DirectoryOrigin;
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::fuse::abi::{Attr, Time};
use crate::scratch::content::{Budget, Content};
use crate::scratch::gather::Gatherer;
use crate::scratch::originals::{Originals, ShownOriginal};
use crate::scratch::stored::Stored;
use crate::scratch::stores::Stores;

/// A scratch directory.
#[derive(Debug)]
pub(in crate::scratch) struct Tree {
    inodes: HashMap<u64, Inode>,
    next: u64,
    /// Inodes with an original, by the number that listings give this one: so two names of one file lead to one inode. A number
    /// has several inodes where a directory holds files of several devices (overlayfs, btrfs), each of which counts from one.
    by_number: HashMap<u64, Vec<u64>>,
    pub(in crate::scratch) originals: Arc<Originals>,
    pub(in crate::scratch) stores: Stores,
    budget: Arc<Budget>,
    /// Origins that programs removed, renamed or replaced.
    pub(in crate::scratch) gone: BTreeSet<Vec<u8>>,
    /// The number of names that programs made, without those of directories.
    pub(in crate::scratch) made: u64,
    /// New files go to a container.
    pub(in crate::scratch) gatherer: Option<Gatherer>,
}

#[derive(Debug)]
pub(in crate::scratch) struct Inode {
    pub(in crate::scratch) kind: Kind,
    /// The attributes; `None` where the original is asked for them each time.
    own: Option<Attr>,
    /// The time at which a name of an original was last changed here, which is its time of change then.
    changed: Option<Time>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// `xattrs` are the inode's attributes. Until then the original has them.
    has_xattrs: bool,
    /// A directory that was there, to which programs gave other attributes.
    has_other_attributes: bool,
    /// Bytes that it has taken from the budget.
    held: u64,
    /// The paths that lead to the original in the real directory, as far as they were seen.
    pub(in crate::scratch) origins: Vec<Vec<u8>>,
    /// `st_nlink` of the original, once it was asked for.
    real_links: Option<u32>,
    /// `st_ino`, as programs see it.
    number: u64,
    /// The number that listings of the real directory give the original.
    listed: u64,
    /// Another user owns the original, which is shown as this user's.
    pub(in crate::scratch) is_anothers: bool,
    /// The number of its names here.
    pub(in crate::scratch) links: u32,
    lookups: u64,
    pub(in crate::scratch) opens: u32,
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
            gatherer: None,
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
            if let Some(gatherer) = &mut self.gatherer {
                gatherer.forget(id);
            }
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

    pub(in crate::scratch) fn content_mut(&mut self, id: u64) -> Option<&mut Content> {
        match &mut self.inodes.get_mut(&id)?.kind {
            Kind::File(content) => Some(content),
            _ => None,
        }
    }

    /// The inode is not as it was recorded.
    fn changed(&mut self, id: u64) {
        if let Some(gatherer) = &mut self.gatherer {
            gatherer.changed(id);
        }
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
}

impl Inode {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            own: None,
            changed: None,
            xattrs: BTreeMap::new(),
            has_xattrs: false,
            has_other_attributes: false,
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

    /// The beginning of a directory that was there; `None` for anything else.
    pub(in crate::scratch) fn origin_there(&self) -> Option<DirectoryOrigin> {
        let was_there = matches!(self.kind, Kind::Directory(_)) && !self.origins.is_empty();
        was_there.then_some(match self.has_other_attributes {
            true => DirectoryOrigin::Changed,
            false => DirectoryOrigin::There,
        })
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
