//! The names of a scratch directory: looked up, listed, made, removed and renamed.

use rustix::io::Errno;

use super::{
    INODE_BYTES, Inode, Kind, Known, NAME_MAX, NUMBERS, Names, New, Removed, Rename, TOP, Tree, now,
};
use crate::fuse::abi::{Attr, BLOCK_SIZE};
use crate::fuse::request::Caller;
use crate::scratch::gather::is_container;
use crate::scratch::originals::{DIRECTORY, FILE, KIND, LINK, ShownOriginal, below};
use crate::scratch::room::PREFIX;

impl Tree {
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
            Err(Errno::NOENT) if self.is_earlier(&origin) => Vec::new(),
            Err(errno) => return Err(errno),
        };
        let hides = |name: &[u8]| {
            let is_top = directory == TOP && self.gatherer.is_some();
            name.starts_with(PREFIX.as_bytes()) || is_top && is_container(name)
        };
        let listed: Vec<_> = listed.into_iter().filter(|entry| !hides(&entry.name)).collect();
        let earlier = self.earlier_names(&origin)?;
        for entry in listed.iter().filter(|entry| !earlier.contains_key(&entry.name)) {
            self.add_original(directory, &origin, &entry.name, (entry.inode, entry.kind))?;
        }
        self.add_earlier(directory, &origin, earlier)?;
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
            // Of a file that has changed the name must be recorded too.
            match self.inode(id)?.kind {
                Kind::Original(_) => self.link_known(directory, name, id)?,
                _ => self.link(directory, name, id)?,
            }
            return Ok(id);
        }
        let kind = match mode & KIND {
            DIRECTORY => Kind::Directory(Names::new(directory, Known::Nothing)),
            kind => Kind::Original(kind),
        };
        let number = if known.is_empty() { listed } else { NUMBERS | self.next };
        let id = self.add(Inode { origins: vec![path], number, listed, ..Inode::new(kind) });
        self.by_number.entry(listed).or_default().push(id);
        self.link_known(directory, name, id)?;
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
        let Some(id) = self.find(directory, name)? else {
            if let Some(gatherer) = &mut self.gatherer {
                gatherer.asked_in_vain(directory, name);
            }
            return Ok(None);
        };
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
        if let Some(gatherer) = &mut self.gatherer {
            gatherer.changed_name(directory, name);
        }
        self.link_known(directory, name, id)
    }

    /// A name of `id` that was there before.
    pub(super) fn link_known(&mut self, directory: u64, name: &[u8], id: u64) -> Result<(), Errno> {
        if let Some(gatherer) = &mut self.gatherer {
            gatherer.has_name(directory, name, id);
        }
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
        if let Some(gatherer) = &mut self.gatherer {
            gatherer.has_no_name(directory, name, id);
        }
        self.drop_unused(id);
        Ok(())
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
            New::File { mode } => (Kind::File(self.new_content()), mode & 0o7777 | FILE, 0),
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
        let id = self.add(Inode { own: Some(attr), number, ..Inode::new(kind) });
        self.changed(id);
        Ok(id)
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
        // The kernel's rule for files of others, which it takes for this user's here. Source: `fs.protected_hardlinks`,
        // proc_sys_fs(5).
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
        self.must_be_movable(id)?;
        if let Some(other) = other.filter(|_| how == Rename::Exchange) {
            self.must_be_movable(other)?;
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
        self.changed(directory);
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
