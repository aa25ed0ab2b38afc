//! Attributes and content of a scratch directory's inodes.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::{Inode, Kind, NUMBERS, Tree, now};
use crate::fuse::abi::Attr;
use crate::scratch::content::{Content, Pieces};
use crate::scratch::counts::Asked;
use crate::scratch::originals::{FILE, LINK, OriginalState, ShownOriginal};
use crate::scratch::stored::zero;
use crate::scratch::stores::Source;

impl Tree {
    pub(in crate::scratch) fn attr(&mut self, id: u64) -> Result<Attr, Errno> {
        self.seen(id).map(|(attr, _)| attr)
    }

    /// Attributes, with the state of the original where that answers for them.
    fn seen(&mut self, id: u64) -> Result<(Attr, Option<OriginalState>), Errno> {
        let inode = self.inode(id)?;
        let (mut attr, is_anothers, state) = match (&inode.own, inode.origin()) {
            (Some(attr), _) => (*attr, inode.is_anothers, None),
            (None, Some(origin)) => {
                let ShownOriginal { attr, is_anothers, state } = self.originals.attr(origin)?;
                (attr, is_anothers, Some(state))
            }
            (None, None) => return Err(Errno::STALE),
        };
        let inode = self.inode_mut(id)?;
        if inode.number & NUMBERS != 0 {
            attr.inode = inode.number;
        }
        if inode.own.is_none() {
            (inode.real_links, inode.is_anothers) = (Some(attr.nlink), is_anothers);
            attr.ctime = inode.changed.unwrap_or(attr.ctime);
        }
        match &inode.kind {
            Kind::Directory(names) => {
                let before = inode.real_links.unwrap_or(2);
                let with_name = (before + names.directories).saturating_sub(names.listed_directories);
                (attr.nlink, attr.size) = if inode.links > 0 { (with_name, attr.size) } else { (0, 0) };
            }
            kind => {
                if let Kind::Link(target) = kind {
                    attr.size = target.len() as u64;
                }
                attr.nlink = inode.links + inode.unseen_links();
            }
        }
        if let Kind::Original(_) = inode.kind {
            return Ok((attr, state));
        }
        if let Kind::File(_) = inode.kind {
            attr.blocks = attr.size.div_ceil(512);
        }
        attr.inode = inode.number;
        // A directory's original is asked once.
        if inode.own.is_none() {
            inode.own = Some(attr);
            attr = self.take_earlier_attributes(id, attr)?;
        }
        Ok((attr, None))
    }

    /// Makes an inode the run's own. The content of a file stays the original's.
    pub(in crate::scratch) fn own(&mut self, id: u64) -> Result<&mut Attr, Errno> {
        let (attr, state) = self.seen(id)?;
        if self.is_to_be_gathered(id)? {
            self.gather_file(id, u64::MAX)?;
        }
        self.changed(id);
        let inode = self.inode_mut(id)?;
        inode.has_other_attributes |= matches!(inode.kind, Kind::Directory(_));
        let inode = self.inode(id)?;
        if let (Kind::Original(kind), Some(origin)) = (&inode.kind, inode.origin().cloned()) {
            let kind = match *kind {
                FILE => Kind::File(Content::Original(state.ok_or(Errno::STALE)?)),
                LINK => Kind::Link(self.originals.read_link(&origin)?),
                _ => Kind::Special,
            };
            let xattrs = self.copied_xattrs(&origin);
            self.set_xattrs(id, xattrs)?;
            let inode = self.inode_mut(id)?;
            (inode.kind, inode.own) = (kind, Some(attr));
        }
        self.inode_mut(id)?.own.as_mut().ok_or(Errno::STALE)
    }

    /// The same with the first `length` bytes of its content. Nothing has changed where they cannot be copied.
    fn own_content(&mut self, id: u64, length: u64) -> Result<&mut Attr, Errno> {
        let attr = self.attr(id)?;
        if self.is_to_be_gathered(id)? {
            self.gather_file(id, length)?;
        }
        let inode = self.inode(id)?;
        if matches!(inode.kind, Kind::Original(FILE) | Kind::File(Content::Original(_))) {
            let content = self.copied(id, length.min(attr.size))?;
            self.own(id)?;
            self.inode_mut(id)?.kind = Kind::File(content);
        }
        self.own(id)
    }

    /// Opens the original, from which content is still read.
    ///
    /// **Errors** `ESTALE` if the original was changed or replaced since a program first changed the file's attributes or names.
    pub(in crate::scratch) fn open_original(&self, id: u64) -> Result<OwnedFd, Errno> {
        let inode = self.inode(id)?;
        let file = self.originals.open(inode.origin().ok_or(Errno::STALE)?)?;
        if let Kind::File(Content::Original(state)) = &inode.kind {
            state.must_be_that_of(&file)?;
        }
        Ok(file)
    }

    /// A copy of an original lies at a path of the real directory: what was read from the original is read from that now.
    pub(in crate::scratch) fn has_moved(&mut self, id: u64, path: &[u8]) {
        let Ok(copy) = self.originals.open(path) else { return };
        let Ok(Inode { kind, origins, .. }) = self.inode_mut(id) else { return };
        match (kind, OriginalState::of(&copy)) {
            (Kind::File(Content::Original(state)), Ok(new)) => *state = new,
            (Kind::Original(FILE), _) => {}
            _ => return,
        }
        origins.retain(|origin| origin != path);
        origins.insert(0, path.to_vec());
    }

    pub(super) fn copied(&mut self, id: u64, size: u64) -> Result<Content, Errno> {
        if size == 0 {
            // An owner may empty a file without reading it.
            return Ok(self.new_content());
        }
        if self.gatherer.is_some() {
            return self.gathered_copy(id, size);
        }
        let file = self.open_original(id)?;
        let mut pieces = Pieces::new(&self.budget);
        let mut buffer = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < size {
            self.originals.counts.asked(Asked::Read);
            let read = crate::fuse::original::read_at(&file, &mut buffer, offset)?;
            if read == 0 {
                break;
            }
            if !pieces.write(offset, &buffer[..read]) {
                match self.stores.spill(id, 0, &Source::File(&file, size)) {
                    Ok(stored) => return Ok(Content::Stored(stored)),
                    Err(errno) if is_refusal(errno) => pieces.write_anyhow(offset, &buffer[..read])?,
                    Err(errno) => return Err(errno),
                }
            }
            offset += read as u64;
        }
        Ok(Content::Memory(pieces))
    }

    /// Reads from what is the run's own; `None`: from the original.
    pub(in crate::scratch) fn read(
        &mut self,
        id: u64,
        offset: u64,
        size: u32,
    ) -> Result<Option<Vec<u8>>, Errno> {
        let inode = self.inode(id)?;
        let Kind::File(content) = &inode.kind else {
            return Ok(None);
        };
        if matches!(content, Content::Original(_)) {
            return Ok(None);
        }
        let end = inode.own.map_or(0, |attr| attr.size);
        let length = end.saturating_sub(offset).min(size.into());
        let mut buffer = vec![0; length as usize];
        content.read(offset, &mut buffer)?;
        Ok(Some(buffer))
    }

    pub(in crate::scratch) fn write(&mut self, id: u64, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let size = self.own_content(id, u64::MAX)?.size;
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::FBIG)?;
        let written = self.put(id, (offset, data), size)?;
        let attr = self.own(id)?;
        attr.size = attr.size.max(end - (data.len() - written) as u64);
        let now = now();
        (attr.mtime, attr.ctime) = (now, now);
        Ok(written)
    }

    /// Writes where there is room, and moves the file there first if need be.
    fn put(&mut self, id: u64, (offset, data): (u64, &[u8]), size: u64) -> Result<usize, Errno> {
        loop {
            let inode = self.inodes.get_mut(&id).ok_or(Errno::STALE)?;
            let Kind::File(content) = &mut inode.kind else { return Err(Errno::INVAL) };
            let (next, outcome) = match content {
                Content::Original(_) | Content::Earlier(_) => return Err(Errno::INVAL),
                Content::Gathered(gathered) => return gathered.write(offset, data).map(|()| data.len()),
                Content::Memory(pieces) => match pieces.write(offset, data) {
                    true => return Ok(data.len()),
                    false => (0, Err(Errno::NOSPC)),
                },
                Content::Stored(stored) => {
                    let written = crate::fuse::original::write_at(&*stored.open()?, data, offset);
                    self.stores.wrote(stored.number, *written.as_ref().unwrap_or(&0));
                    (stored.number + 1, written)
                }
            };
            // The real directory's own errors are those that the program would meet there.
            if outcome == Ok(data.len()) || (next > 0 && self.stores.is_last(next - 1)) {
                return outcome;
            }
            if self.spill(id, next, size)? {
                continue;
            }
            let Kind::File(Content::Memory(pieces)) = &mut self.inode_mut(id)?.kind else { return outcome };
            return pieces.write_anyhow(offset, data).map(|()| data.len());
        }
    }

    /// Moves a file to the first store from `first` on that takes it, and tells whether there was one. Where the scratch
    /// directory itself may not be written to, the file stays in memory; a full one fails the write, as it would without quell.
    fn spill(&mut self, id: u64, first: usize, size: u64) -> Result<bool, Errno> {
        let Some(Inode { kind: Kind::File(content), .. }) = self.inodes.get(&id) else {
            return Ok(false);
        };
        let stored = match content {
            Content::Original(_) => {
                let file = self.open_original(id)?;
                self.stores.spill(id, first, &Source::File(&file, size))
            }
            Content::Memory(pieces) => self.stores.spill(id, first, &Source::Pieces(pieces, size)),
            Content::Stored(stored) => self.stores.spill(id, first, &Source::File(&*stored.open()?, size)),
            Content::Gathered(_) | Content::Earlier(_) => return Ok(false),
        };
        match (stored, &mut self.inode_mut(id)?.kind) {
            (Ok(stored), Kind::File(content)) => {
                *content = Content::Stored(stored);
                Ok(true)
            }
            (Err(errno), _) if is_refusal(errno) => Ok(false),
            (Err(errno), _) => Err(errno),
            _ => Ok(false),
        }
    }

    pub(in crate::scratch) fn set_size(&mut self, id: u64, size: u64) -> Result<(), Errno> {
        self.own_content(id, size)?;
        let inode = self.inode_mut(id)?;
        match &mut inode.kind {
            Kind::File(Content::Memory(pieces)) => pieces.truncate(size),
            Kind::File(Content::Gathered(gathered)) => gathered.truncate(size)?,
            Kind::File(Content::Stored(stored)) => rustix::fs::ftruncate(&*stored.open()?, size)?,
            _ => return Err(Errno::INVAL),
        }
        let now = now();
        if let Some(attr) = &mut inode.own {
            (attr.size, attr.mtime, attr.ctime) = (size, now, now);
        }
        Ok(())
    }

    /// fallocate(2): room is made when it is written to.
    pub(in crate::scratch) fn allocate(
        &mut self,
        id: u64,
        offset: u64,
        length: u64,
        mode: u32,
    ) -> Result<(), Errno> {
        const KEEP_SIZE: u32 = 1;
        const PUNCH_HOLE: u32 = 2;
        const ZERO_RANGE: u32 = 16;
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        let size = self.own_content(id, u64::MAX)?.size;
        match mode & !KEEP_SIZE {
            0 => {}
            PUNCH_HOLE | ZERO_RANGE => {
                let within = end.min(size).saturating_sub(offset);
                match &mut self.inode_mut(id)?.kind {
                    Kind::File(Content::Memory(pieces)) => pieces.zero(offset, within),
                    Kind::File(Content::Gathered(gathered)) => gathered.zero(offset, within)?,
                    Kind::File(Content::Stored(stored)) => zero(&*stored.open()?, offset, within)?,
                    _ => return Err(Errno::INVAL),
                }
            }
            _ => return Err(Errno::OPNOTSUPP),
        }
        let attr = self.own(id)?;
        (attr.mtime, attr.ctime) = (now(), now());
        if mode & KEEP_SIZE == 0 && end > size { self.set_size(id, end) } else { Ok(()) }
    }
}

/// The directory may not be written to: it takes nothing, whatever is removed from it.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::ACCESS | Errno::PERM | Errno::ROFS)
}
