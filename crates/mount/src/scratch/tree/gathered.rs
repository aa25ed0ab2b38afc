//! The differences of a directory whose new files are gathered: their content, what an original becomes that changes, and the names of
//! earlier containers.

use std::collections::BTreeMap;
use std::sync::Arc;

use quell_gather::Seen;
use rustix::io::Errno;

use super::{Inode, Kind, Known, NUMBERS, Names, Tree};
use crate::fuse::abi::Attr;
use crate::scratch::content::{Content, Pieces};
use crate::scratch::counts::Asked;
use crate::scratch::gather::EarlierFile;
use crate::scratch::originals::{DIRECTORY, FILE, KIND, LINK, below};

/// Bytes of an original that are taken into memory at a time.
const STEP: u64 = 4 << 20;

impl Tree {
    pub(super) fn new_content(&self) -> Content {
        match &self.gatherer {
            Some(gatherer) => Content::Gathered(gatherer.content()),
            None => Content::Memory(Pieces::new(&self.budget)),
        }
    }

    /// True for a file that was there, and of which a container is to get the content.
    pub(super) fn is_to_be_gathered(&self, id: u64) -> Result<bool, Errno> {
        let kind = &self.inode(id)?.kind;
        let was_there =
            matches!(kind, Kind::Original(FILE) | Kind::File(Content::Original(_) | Content::Earlier(_)));
        Ok(was_there && self.gatherer.is_some())
    }

    /// Takes the first `length` bytes of a file that was there into the container. Nothing has changed where that fails.
    pub(super) fn gather_file(&mut self, id: u64, length: u64) -> Result<(), Errno> {
        let attr = self.attr(id)?;
        let is_original = matches!(self.inode(id)?.kind, Kind::Original(_));
        let content = self.copied(id, length.min(attr.size));
        self.end_parts(id, content.is_ok());
        let content = content?;
        if let Some(origin) = self.inode(id)?.origin().cloned().filter(|_| is_original) {
            let xattrs = self.copied_xattrs(&origin);
            self.set_xattrs(id, xattrs)?;
        }
        let inode = self.inode_mut(id)?;
        (inode.kind, inode.own, inode.has_xattrs) = (Kind::File(content), Some(attr), true);
        self.changed(id);
        Ok(())
    }

    /// The beginning of a file that was there, as content of its own.
    pub(super) fn gathered_copy(&mut self, id: u64, size: u64) -> Result<Content, Errno> {
        let attr = self.attr(id)?;
        let Some(gatherer) = &self.gatherer else { return Err(Errno::INVAL) };
        let mut copy = gatherer.content();
        let file = match &self.inode(id)?.kind {
            Kind::File(Content::Earlier(_)) => None,
            _ => Some(self.open_original(id)?),
        };
        let mut offset = 0;
        while offset < size {
            let mut buffer = vec![0; size.saturating_sub(offset).min(STEP) as usize];
            match (&file, &self.inode(id)?.kind) {
                (Some(file), _) => {
                    self.originals.counts.asked(Asked::Read);
                    let read = crate::fuse::original::read_at(file, &mut buffer, offset)?;
                    buffer.truncate(read);
                }
                (None, Kind::File(Content::Earlier(earlier))) => earlier.read(offset, &mut buffer)?,
                (None, _) => return Err(Errno::STALE),
            }
            if buffer.is_empty() {
                break;
            }
            copy.write(offset, &buffer)?;
            offset += buffer.len() as u64;
            if let Some(gatherer) = self.gatherer.as_ref().filter(|gatherer| gatherer.is_full()) {
                let log = Arc::clone(&gatherer.log);
                gatherer.reserve(0)?;
                self.append_parts(id, &attr, &mut copy);
                log.write_pieces()?;
            }
        }
        Ok(Content::Gathered(copy))
    }

    /// **Errors** `EXDEV` for a directory of the real directory, as with overlayfs: programs copy it then.
    pub(super) fn must_be_movable(&mut self, id: u64) -> Result<(), Errno> {
        if self.gatherer.is_none() || self.inode(id)?.origin().is_none() {
            return Ok(());
        }
        if self.is_directory(id)? {
            return Err(Errno::XDEV);
        }
        self.own(id).map(drop)
    }

    /// Gives a directory that was there the attributes that programs of an earlier run gave it. Returns those that it has then.
    pub(super) fn take_earlier_attributes(&mut self, id: u64, there: Attr) -> Result<Attr, Errno> {
        let (Some(gatherer), Some(path)) = (&self.gatherer, self.inode(id)?.origin()) else {
            return Ok(there);
        };
        let earlier = Arc::clone(&gatherer.earlier);
        let seen = earlier.changed_directory(path, there.ctime);
        let Some((attr, _)) = seen.and_then(|seen| earlier.attr(seen)) else { return Ok(there) };
        self.set_xattrs(id, seen.map(|seen| earlier.xattrs(seen)).unwrap_or_default())?;
        let Attr { mode, uid, gid, atime, mtime, .. } = attr;
        let attr = Attr { mode, uid, gid, atime, mtime, ..there };
        let inode = self.inode_mut(id)?;
        (inode.own, inode.has_xattrs, inode.has_other_attributes) = (Some(attr), true, true);
        Ok(attr)
    }

    pub(super) fn is_earlier(&self, path: &[u8]) -> bool {
        self.gatherer.as_ref().is_some_and(|gatherer| gatherer.earlier.has_directory(path))
    }

    /// The names that earlier containers have in a directory, but for those of which the directory has something later.
    pub(super) fn earlier_names(&self, directory: &[u8]) -> Result<BTreeMap<Vec<u8>, Option<Seen>>, Errno> {
        let Some(gatherer) = &self.gatherer else { return Ok(BTreeMap::new()) };
        let mut names = BTreeMap::new();
        for (name, seen) in gatherer.earlier.names(directory) {
            let there = self.originals.attr(&below(directory, &name));
            let counts = match there {
                Err(Errno::NOENT) => seen.is_some(),
                Err(errno) => return Err(errno),
                // Both directories are shown as one.
                Ok(there) if there.attr.mode & KIND == DIRECTORY && seen.is_some() => {
                    !gatherer.earlier.has_directory(&below(directory, &name))
                }
                Ok(there) => !gatherer.earlier.is_older(&below(directory, &name), seen, there.attr.ctime),
            };
            if counts {
                names.insert(name, seen);
            }
        }
        Ok(names)
    }

    pub(super) fn add_earlier(
        &mut self,
        directory: u64,
        within: &[u8],
        names: BTreeMap<Vec<u8>, Option<Seen>>,
    ) -> Result<(), Errno> {
        for (name, seen) in names {
            let Some(seen) = seen else { continue };
            let id = match self.earlier_inode(seen) {
                Some(id) => id,
                None => self.earlier_inode_made(directory, seen)?,
            };
            self.inode_mut(id)?.origins.push(below(within, &name));
            self.link_known(directory, &name, id)?;
            if matches!(self.inode(id)?.kind, Kind::File(Content::Gathered(_))) {
                // The name leads to what the file has become.
                self.changed(id);
            }
        }
        Ok(())
    }

    /// The inode of a file of which a name was seen before.
    fn earlier_inode(&self, seen: Seen) -> Option<u64> {
        let id = *self.gatherer.as_ref()?.earlier_inodes.get(&seen)?;
        self.inode(id).is_ok().then_some(id)
    }

    fn earlier_inode_made(&mut self, directory: u64, seen: Seen) -> Result<u64, Errno> {
        let Some(gatherer) = &self.gatherer else { return Err(Errno::STALE) };
        let earlier = Arc::clone(&gatherer.earlier);
        let (attr, target) = earlier.attr(seen).ok_or(Errno::STALE)?;
        let kind = match (attr.mode & KIND, target) {
            (DIRECTORY, _) => Kind::Directory(Names::new(directory, Known::Nothing)),
            (LINK, target) => Kind::Link(target.unwrap_or_default()),
            (FILE, _) => Kind::File(Content::Earlier(EarlierFile(Arc::clone(&earlier), seen))),
            _ => Kind::Special,
        };
        let number = NUMBERS | self.next;
        let own = Some(Attr { inode: number, ..attr });
        let id = self.add(Inode { own, number, has_xattrs: true, ..Inode::new(kind) });
        self.set_xattrs(id, earlier.xattrs(seen))?;
        if let Some(gatherer) = &mut self.gatherer {
            gatherer.earlier_inodes.insert(seen, id);
        }
        Ok(id)
    }
}
