//! Reading an image in place: nothing is parsed ahead, nothing is allocated, nothing is trusted.
//!
//! Works on any bytes, usually a memory map that the caller made. Every offset is checked where it is used,
//! so damaged or forged bytes give [`Corrupt`] and never a panic or an endless loop.

use crate::bytes::span;
use crate::erofs::dirent::{DirBlock, Dirent};
use crate::erofs::inode::{DataLayout, INODE, Inode, decode_device};
use crate::erofs::superblock::{SUPER_OFFSET, SUPER_SIZE, Superblock};
use crate::erofs::xattr::Xattrs;
use crate::erofs::{BLOCK, BLOCK_BYTES, SLOT, blocks_for, chunk};
use crate::error::{Corrupt, Fault, OpenError};
use crate::index::read::{Absences, Index, Sections};
use crate::index::row::{ContentState, ROW, Row, SLOTS_PER_BLOCK};
use crate::model::{Attributes, Coverage, Device, Kind, Nid, Use};
use crate::part::Part;

/// An image, opened.
#[derive(Debug)]
pub struct Image<B> {
    bytes: B,
    superblock: Superblock,
    /// Offset and length of the index, within the image.
    index: (u64, u64),
    sections: Sections,
}

/// What an image knows of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The name exists.
    Found(Nid),
    /// The name is known not to exist.
    Absent,
    /// The image cannot tell: ask the original.
    Unknown,
}

/// The data of a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// All of it, as one slice that starts on a page.
    Held(&'a [u8]),
    /// A part of it: read the rest from the original.
    Part(Part<'a>),
    /// The image does not hold it: read the original.
    Original,
}

/// An entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Name without slashes; `.` and `..` occur.
    pub name: &'a [u8],
    /// Node that it means.
    pub nid: Nid,
    /// What the node is.
    pub kind: Kind,
    /// Where to resume after this entry, never 0.
    pub cookie: u64,
}

impl Entry<'_> {
    /// Whether this is `.` or `..`.
    pub fn is_dot(&self) -> bool {
        matches!(self.name, b"." | b"..")
    }
}

impl<B: AsRef<[u8]>> Image<B> {
    /// Opens an image: verifies the first block, the length, and the index with its checksum. Not the rest:
    /// that is [`check`](crate::check::check)'s work.
    ///
    /// **Errors** see [`OpenError`]; an image that was cut short is [`OpenError::Length`].
    pub fn open(bytes: B) -> Result<Self, OpenError> {
        let image = bytes.as_ref();
        let superblock = Superblock::parse(image)?;
        let index = locate_index(image, &superblock)?;
        let sections = Sections::parse(span(image, index.0, index.1).unwrap_or_default())?;
        let opened = Self { bytes, superblock, index, sections };
        if opened.index().row_count() as u64 != superblock.inodes {
            return Err(OpenError::IndexBounds { part: "number of rows" });
        }
        Ok(opened)
    }

    /// The root directory of the image, which stands for the original `/`.
    pub fn root(&self) -> Nid {
        Nid::new(self.superblock.root.into())
    }

    /// Length of the image in bytes.
    pub fn length(&self) -> u64 {
        self.tree().bytes.len() as u64
    }

    /// What the image knows besides its tree.
    pub fn index(&self) -> Index<'_> {
        // `open` found the index within the image.
        Index::new(span(self.bytes.as_ref(), self.index.0, self.index.1).unwrap_or_default(), &self.sections)
    }

    /// Looks `name` up in the directory `dir`.
    ///
    /// **Errors** [`Fault::NotDirectory`] if `dir` is none; else the image is damaged.
    pub fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Lookup, Corrupt> {
        let directory = self.tree().directory(dir)?;
        if let Some(entry) = directory.find(name)? {
            return Ok(Lookup::Found(entry.nid));
        }
        let row = self.row(dir, &directory.inode)?;
        match row.coverage {
            Some(Coverage::Complete) => Ok(Lookup::Absent),
            Some(Coverage::Partial) => {
                let absent = self.index().absences(&row).and_then(|absences| absences.contains(name));
                let absent = absent.ok_or(Fault::Absences.at(dir))?;
                Ok(if absent { Lookup::Absent } else { Lookup::Unknown })
            }
            Some(Coverage::Uncovered) | None => Ok(Lookup::Unknown),
        }
    }

    /// What `stat` says of the original.
    pub fn attributes(&self, nid: Nid) -> Result<Attributes, Corrupt> {
        let inode = self.tree().inode(nid)?;
        let row = self.row(nid, &inode)?;
        let rdev = match inode.kind {
            Kind::CharacterDevice | Kind::BlockDevice => decode_device(inode.start),
            _ => Device::default(),
        };
        Ok(Attributes {
            kind: inode.kind,
            permissions: inode.permissions,
            uid: inode.uid,
            gid: inode.gid,
            size: row.size,
            nlink: inode.nlink,
            rdev,
            mtime: inode.mtime,
            ctime: row.ctime,
            inode: row.inode,
            device: row.device,
        })
    }

    /// The known entries of `dir`, sorted by name, with `.` and `..`. All there are, if [`coverage`] is
    /// [`Coverage::Complete`].
    ///
    /// [`coverage`]: Self::coverage
    pub fn entries(&self, dir: Nid) -> Result<Entries<'_>, Corrupt> {
        Ok(Entries { directory: self.tree().directory(dir)?, next: 0, block: None })
    }

    /// What the symbolic link points to.
    pub fn link_target(&self, nid: Nid) -> Result<&[u8], Corrupt> {
        let tree = self.tree();
        let inode = tree.inode(nid)?;
        if inode.kind != Kind::Symlink {
            return Err(Fault::NotSymlink.at(nid));
        }
        if inode.size > BLOCK_BYTES {
            return Err(Fault::Data.at(nid));
        }
        tree.block(nid, &inode, 0).ok_or(Fault::Data.at(nid))
    }

    /// The data of a regular file.
    pub fn content(&self, nid: Nid) -> Result<Content<'_>, Corrupt> {
        let tree = self.tree();
        let inode = tree.inode(nid)?;
        match (inode.kind, inode.layout) {
            (Kind::Regular, DataLayout::Chunks) => self.mapped_content(nid, &inode),
            (Kind::Regular, DataLayout::Plain) => {
                let data = span(tree.bytes, u64::from(inode.start) * BLOCK_BYTES, inode.size);
                data.map(Content::Held).ok_or(Fault::Data.at(nid))
            }
            (Kind::Regular, DataLayout::Inline) => Err(Fault::Data.at(nid)),
            _ => Err(Fault::NotRegular.at(nid)),
        }
    }

    /// The data of a file with a map of chunks.
    fn mapped_content(&self, nid: Nid, inode: &Inode) -> Result<Content<'_>, Corrupt> {
        let row = self.row(nid, inode)?;
        if row.content != ContentState::Part {
            return Ok(Content::Original);
        }
        let bytes = self.tree().bytes;
        let part = || {
            let bits = (inode.start <= chunk::BITS_MAX && inode.size <= SIZE_MAX).then_some(inode.start)?;
            let map = chunk::ENTRY * chunk::count(inode.size, bits);
            Some(Part {
                map: span(bytes, address(nid) + INODE as u64 + u64::from(inode.xattr_bytes), map)?,
                data: span(bytes, u64::from(row.first) * BLOCK_BYTES, u64::from(row.count) * BLOCK_BYTES)?,
                first: row.first,
                chunk: BLOCK_BYTES << bits,
                size: inode.size,
            })
        };
        part().map(Content::Part).ok_or(Fault::Data.at(nid))
    }

    /// The extended attributes.
    pub fn xattrs(&self, nid: Nid) -> Result<Xattrs<'_>, Corrupt> {
        let tree = self.tree();
        let inode = tree.inode(nid)?;
        let body = span(tree.bytes, address(nid) + INODE as u64, inode.xattr_bytes.into());
        body.map(Xattrs::parse).ok_or(Fault::Xattrs.at(nid))
    }

    /// What the recordings asked for, as the packer encodes it; `None` in an image that does not tell.
    pub fn asked(&self) -> Option<&[u8]> {
        match self.content(self.asked_node()?) {
            Ok(Content::Held(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The node of [`Self::asked`].
    pub(crate) fn asked_node(&self) -> Option<Nid> {
        ASKED_PATH.into_iter().try_fold(self.root(), |nid, name| match self.lookup(nid, name) {
            Ok(Lookup::Found(found)) => Some(found),
            _ => None,
        })
    }

    /// How much is known of the directory's names.
    pub fn coverage(&self, dir: Nid) -> Result<Coverage, Corrupt> {
        let row = self.row(dir, &self.tree().inode(dir)?)?;
        row.coverage.ok_or(Fault::NotDirectory.at(dir))
    }

    /// The names known to be absent from a partly covered directory; empty for any other.
    pub fn absences(&self, dir: Nid) -> Result<Absences<'_>, Corrupt> {
        let row = self.row(dir, &self.tree().inode(dir)?)?;
        self.index().absences(&row).ok_or(Fault::Absences.at(dir))
    }

    /// Whether the recording asked for the node by name.
    pub fn usage(&self, nid: Nid) -> Result<Use, Corrupt> {
        Ok(self.row(nid, &self.tree().inode(nid)?)?.usage)
    }

    /// The directory that has the node's first name; the root's is the root.
    pub fn parent(&self, nid: Nid) -> Result<Nid, Corrupt> {
        let inode = self.tree().inode(nid)?;
        let row = self.row(nid, &inode)?;
        // Parents come first, so hostile rows cannot lead in circles.
        let parent = Some(row.parent).filter(|&parent| parent < inode.number - 1 || inode.number == 1);
        let parent = parent.and_then(|parent| self.index().row(parent));
        parent.map(|parent| parent.nid).ok_or(Fault::Parent.at(nid))
    }

    /// The node's original absolute path, by its first name. The root's is `/`.
    pub fn path(&self, nid: Nid) -> Result<Vec<u8>, Corrupt> {
        let inode = self.tree().inode(nid)?;
        let mut row = self.row(nid, &inode)?;
        let mut number = inode.number - 1;
        let mut names = Vec::new();
        let mut length = 0;
        while number != 0 {
            // Parents come first, so hostile rows cannot lead in circles.
            let known = row.parent < number && names.len() < DEPTH_MAX;
            let parent = self.index().row(row.parent).filter(|_| known);
            let parent = parent.ok_or(Fault::Parent.at(nid))?;
            let name = self.tree().directory(parent.nid)?.at_slot(row.slot)?.name;
            length += name.len() + 1;
            names.push(name);
            (number, row) = (row.parent, parent);
        }
        if names.is_empty() {
            return Ok(b"/".to_vec());
        }
        let mut path = Vec::with_capacity(length);
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Ok(path)
    }

    /// Every node of the image in order of nids, each once.
    pub fn nodes(&self) -> impl Iterator<Item = Nid> + '_ {
        let count = u32::try_from(self.index().row_count()).unwrap_or(u32::MAX);
        (0..count).filter_map(|number| self.index().row(number)).map(|row| row.nid)
    }

    /// Where `part`, a slice of this image, lies in it.
    pub fn offset_of(&self, part: &[u8]) -> u64 {
        part.as_ptr().addr().wrapping_sub(self.tree().bytes.as_ptr().addr()) as u64
    }

    /// The image's bytes.
    pub(crate) fn tree(&self) -> Tree<'_> {
        Tree { bytes: self.bytes.as_ref() }
    }

    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Offset and length of the index within the image.
    pub(crate) fn index_span(&self) -> (u64, u64) {
        self.index
    }

    /// The row that the inode names, if it is this node's.
    pub(crate) fn row(&self, nid: Nid, inode: &Inode) -> Result<Row, Corrupt> {
        let number = inode.number.checked_sub(1).ok_or(Fault::Row.at(nid))?;
        let row = self.index().row(number).filter(|row| row.nid == nid).ok_or(Fault::Row.at(nid))?;
        let held = inode.layout != DataLayout::Chunks;
        let agrees = held == (row.content == ContentState::Held)
            && (inode.kind == Kind::Directory) == row.coverage.is_some()
            && (!matches!(inode.kind, Kind::Regular | Kind::Symlink) || inode.size == row.size);
        agrees.then_some(row).ok_or(Fault::Row.at(nid))
    }
}

/// Finds the data of `/.quell/index`: offset and length, within the image.
fn locate_index(image: &[u8], superblock: &Superblock) -> Result<(u64, u64), OpenError> {
    let tree = Tree { bytes: image };
    let mut nid = Nid::new(superblock.root.into());
    for name in INDEX_PATH {
        nid = tree.directory(nid)?.find(name)?.ok_or(OpenError::NotQuell)?.nid;
    }
    let inode = tree.inode(nid)?;
    let start = u64::from(inode.start) * BLOCK_BYTES;
    let plain = inode.kind == Kind::Regular && inode.layout == DataLayout::Plain;
    if !plain || inode.size < ROW as u64 || span(image, start, inode.size).is_none() {
        return Err(OpenError::NotQuell);
    }
    Ok((start, inode.size))
}

/// Names of the longest path that Linux takes (`PATH_MAX` of 4096 bytes, each name at least one and a slash). Deeper
/// nodes have no path; no part of the format.
const DEPTH_MAX: usize = 2048;

/// Bytes of the largest file that is held in part: offsets in it can be added without overflow. Linux has none that
/// are larger.
const SIZE_MAX: u64 = 1 << 62;

/// Where the index lies in the tree. Part of the format.
pub(crate) const INDEX_PATH: [&[u8]; 2] = [b".quell", b"index"];

/// Where what the recordings asked for lies, beside the index. Part of the format.
pub const ASKED_PATH: [&[u8]; 2] = [INDEX_PATH[0], b"asked"];

/// Offset of the node's inode in the image; beyond any image if the number is forged.
pub(crate) fn address(nid: Nid) -> u64 {
    nid.value().saturating_mul(SLOT)
}

/// The EROFS side of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Tree<'a> {
    /// The inode of `nid`.
    pub(crate) fn inode(&self, nid: Nid) -> Result<Inode, Corrupt> {
        let behind_superblock = address(nid) >= (SUPER_OFFSET + SUPER_SIZE) as u64;
        let raw = span(self.bytes, address(nid), INODE as u64).filter(|_| behind_superblock);
        raw.and_then(Inode::parse).ok_or(Fault::Inode.at(nid))
    }

    /// The directory `nid`.
    fn directory(&self, nid: Nid) -> Result<Directory<'a>, Corrupt> {
        let inode = self.inode(nid)?;
        if inode.kind != Kind::Directory {
            return Err(Fault::NotDirectory.at(nid));
        }
        // Bounds the search: no directory is larger than the image.
        if inode.size == 0 || inode.size > self.bytes.len() as u64 {
            return Err(Fault::Data.at(nid));
        }
        Ok(Directory { tree: *self, nid, inode, blocks: blocks_for(inode.size) })
    }

    /// The used bytes of block `number` of the data of a node with flat layout.
    pub(crate) fn block(&self, nid: Nid, inode: &Inode, number: u64) -> Option<&'a [u8]> {
        let blocks = blocks_for(inode.size);
        let used = inode.size.checked_sub(number.checked_mul(BLOCK_BYTES)?)?.min(BLOCK_BYTES);
        let at = match inode.layout {
            DataLayout::Chunks => return None,
            DataLayout::Inline if number + 1 == blocks => {
                let tail = address(nid) + INODE as u64 + u64::from(inode.xattr_bytes);
                // The kernel refuses a tail that crosses a block, so it must not work here either.
                (tail % BLOCK_BYTES + used <= BLOCK_BYTES).then_some(tail)?
            }
            DataLayout::Plain | DataLayout::Inline => (u64::from(inode.start) + number) * BLOCK_BYTES,
        };
        span(self.bytes, at, used)
    }
}

/// A directory with its number of blocks, at least 1.
#[derive(Debug, Clone, Copy)]
struct Directory<'a> {
    tree: Tree<'a>,
    nid: Nid,
    inode: Inode,
    blocks: u64,
}

impl<'a> Directory<'a> {
    fn block(&self, number: u64) -> Result<DirBlock<'a>, Corrupt> {
        let bytes = self.tree.block(self.nid, &self.inode, number);
        bytes.and_then(DirBlock::parse).ok_or(Fault::Directory.at(self.nid))
    }

    /// Finds `name`: by the blocks' first names the block, then within it.
    fn find(&self, name: &[u8]) -> Result<Option<Dirent<'a>>, Corrupt> {
        let malformed = Fault::Directory.at(self.nid);
        let (mut low, mut high) = (0, self.blocks);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.block(middle)?.name(0).ok_or(malformed)? <= name {
                low = middle;
            } else {
                high = middle;
            }
        }
        let block = self.block(low)?;
        match block.find(name).ok_or(malformed)? {
            Ok(i) => block.entry(i).map(Some).ok_or(malformed),
            Err(()) => Ok(None),
        }
    }

    /// The entry at a slot, see the index's rows.
    fn at_slot(&self, slot: u32) -> Result<Dirent<'a>, Corrupt> {
        let block = self.block((slot / SLOTS_PER_BLOCK).into())?;
        block.entry((slot % SLOTS_PER_BLOCK) as usize).ok_or(Fault::Directory.at(self.nid))
    }
}

/// The entries of a directory, in order of names.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    directory: Directory<'a>,
    /// Slot of the next entry.
    next: u64,
    /// The block that was read last, with its number.
    block: Option<(u64, DirBlock<'a>)>,
}

impl Entries<'_> {
    /// Goes on after the entry that had `cookie`, from the start with 0, and ends at once beyond the end.
    #[must_use]
    pub fn resume(mut self, cookie: u64) -> Self {
        self.next = cookie;
        self
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        let slots = u64::from(SLOTS_PER_BLOCK);
        loop {
            let (number, i) = (self.next / slots, (self.next % slots) as usize);
            if number >= self.directory.blocks {
                return None;
            }
            let block = match self.block {
                Some((read, block)) if read == number => block,
                _ => match self.directory.block(number) {
                    Ok(block) => self.block.insert((number, block)).1,
                    Err(corrupt) => return Some(self.end(corrupt)),
                },
            };
            if i >= block.len() {
                self.next = (number + 1) * slots;
                continue;
            }
            let Some(Dirent { name, nid, kind }) = block.entry(i) else {
                return Some(self.end(Fault::Directory.at(self.directory.nid)));
            };
            self.next += 1;
            return Some(Ok(Entry { name, nid, kind, cookie: self.next }));
        }
    }
}

impl<'a> Entries<'a> {
    /// Reports damage once and ends.
    fn end(&mut self, corrupt: Corrupt) -> Result<Entry<'a>, Corrupt> {
        self.next = u64::MAX;
        Err(corrupt)
    }
}

/// `BLOCK` bounds the entries of a block, and slots must tell them apart.
const _: () = assert!(BLOCK / (crate::erofs::dirent::DIRENT + 1) < SLOTS_PER_BLOCK as usize);
