//! Reading an image in place: nothing is parsed ahead, nothing is allocated, nothing is trusted.
//!
//! Works on any bytes, usually a memory map that the caller made. Every offset is checked where it is used,
//! so damaged or forged bytes give [`Corrupt`] and never a panic or an endless loop.

pub(crate) mod directory;
pub(crate) mod view;

use crate::bytes::span;
use crate::erofs::inode::{DataLayout, INODE, Inode, decode_device};
use crate::erofs::superblock::Superblock;
use crate::erofs::xattr::Xattrs;
use crate::erofs::{BLOCK_BYTES, chunk};
use crate::error::{Corrupt, Fault, OpenError};
use crate::image::directory::{DirectoryEntries, ErofsDirectory};
use crate::image::view::{ErofsView, address};
use crate::index::read::{Absences, ImageIndex, Sections};
use crate::index::row::{ContentState, ROW, Row};
use crate::index::{INDEX_PATH, REQUESTS_PATH};
use crate::model::{Attributes, Coverage, DeviceNumber, FileKind, Nid, NodeUse};
use crate::part::FilePart;

/// An image, opened.
#[derive(Debug)]
pub struct Image<B> {
    bytes: B,
    superblock: Superblock,
    /// Offset and length of the index, within the image.
    index: (u64, u64),
    sections: Sections,
}

/// The answer for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The name exists.
    Found(Nid),
    /// The name is known not to exist.
    Absent,
    /// The image does not know: ask the original.
    Unknown,
}

/// The data of a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileContent<'a> {
    /// All of it, as one slice that starts on a page.
    Held(&'a [u8]),
    /// A part of it: read the rest from the original.
    Part(FilePart<'a>),
    /// The image does not hold it: read the original.
    Original,
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
        self.view().bytes.len() as u64
    }

    /// The index: everything that EROFS has no place for.
    pub fn index(&self) -> ImageIndex<'_> {
        // `open` found the index within the image.
        ImageIndex::new(
            span(self.bytes.as_ref(), self.index.0, self.index.1).unwrap_or_default(),
            &self.sections,
        )
    }

    /// Looks `name` up in the directory `dir`.
    ///
    /// **Errors** [`Fault::NotDirectory`] if `dir` is none; else the image is damaged.
    pub fn lookup(&self, dir: Nid, name: &[u8]) -> Result<Lookup, Corrupt> {
        let directory = ErofsDirectory::open(self.view(), dir)?;
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

    /// Attributes of the original.
    pub fn attributes(&self, nid: Nid) -> Result<Attributes, Corrupt> {
        let inode = self.view().inode(nid)?;
        let row = self.row(nid, &inode)?;
        let rdev = match inode.kind {
            FileKind::CharacterDevice | FileKind::BlockDevice => decode_device(inode.start),
            _ => DeviceNumber::default(),
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
    pub fn entries(&self, dir: Nid) -> Result<DirectoryEntries<'_>, Corrupt> {
        ErofsDirectory::open(self.view(), dir).map(DirectoryEntries::new)
    }

    /// The target of a symbolic link.
    pub fn link_target(&self, nid: Nid) -> Result<&[u8], Corrupt> {
        let view = self.view();
        let inode = view.inode(nid)?;
        if inode.kind != FileKind::Symlink {
            return Err(Fault::NotSymlink.at(nid));
        }
        if inode.size > BLOCK_BYTES {
            return Err(Fault::Data.at(nid));
        }
        view.block(nid, &inode, 0).ok_or(Fault::Data.at(nid))
    }

    /// The data of a regular file.
    pub fn content(&self, nid: Nid) -> Result<FileContent<'_>, Corrupt> {
        let view = self.view();
        let inode = view.inode(nid)?;
        match (inode.kind, inode.layout) {
            (FileKind::Regular, DataLayout::Chunks) => self.mapped_content(nid, &inode),
            (FileKind::Regular, DataLayout::Plain) => {
                let data = span(view.bytes, u64::from(inode.start) * BLOCK_BYTES, inode.size);
                data.map(FileContent::Held).ok_or(Fault::Data.at(nid))
            }
            (FileKind::Regular, DataLayout::Inline) => Err(Fault::Data.at(nid)),
            _ => Err(Fault::NotRegular.at(nid)),
        }
    }

    /// The data of a file with a map of chunks.
    fn mapped_content(&self, nid: Nid, inode: &Inode) -> Result<FileContent<'_>, Corrupt> {
        let row = self.row(nid, inode)?;
        if row.content != ContentState::Part {
            return Ok(FileContent::Original);
        }
        let bytes = self.view().bytes;
        let part = || {
            let bits = (inode.start <= chunk::BITS_MAX && inode.size <= SIZE_MAX).then_some(inode.start)?;
            let map = chunk::ENTRY * chunk::count(inode.size, bits);
            Some(FilePart {
                map: span(bytes, address(nid) + INODE as u64 + u64::from(inode.xattr_bytes), map)?,
                data: span(bytes, u64::from(row.first) * BLOCK_BYTES, u64::from(row.count) * BLOCK_BYTES)?,
                first: row.first,
                chunk: BLOCK_BYTES << bits,
                size: inode.size,
            })
        };
        part().map(FileContent::Part).ok_or(Fault::Data.at(nid))
    }

    /// The extended attributes.
    pub fn xattrs(&self, nid: Nid) -> Result<Xattrs<'_>, Corrupt> {
        let view = self.view();
        let inode = view.inode(nid)?;
        let body = span(view.bytes, address(nid) + INODE as u64, inode.xattr_bytes.into());
        body.map(Xattrs::parse).ok_or(Fault::Xattrs.at(nid))
    }

    /// The packer's record of requested paths; `None` in an image without one.
    pub fn requests(&self) -> Option<&[u8]> {
        match self.content(self.requests_node()?) {
            Ok(FileContent::Held(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The node of [`Self::requests`].
    pub(crate) fn requests_node(&self) -> Option<Nid> {
        REQUESTS_PATH.into_iter().try_fold(self.root(), |nid, name| match self.lookup(nid, name) {
            Ok(Lookup::Found(found)) => Some(found),
            _ => None,
        })
    }

    /// The coverage of a directory.
    pub fn coverage(&self, dir: Nid) -> Result<Coverage, Corrupt> {
        let row = self.row(dir, &self.view().inode(dir)?)?;
        row.coverage.ok_or(Fault::NotDirectory.at(dir))
    }

    /// The names that the recordings looked for in a directory and that are absent. A partly covered directory knows no other
    /// absences; of a complete one, images before version 3 name none.
    pub fn absences(&self, dir: Nid) -> Result<Absences<'_>, Corrupt> {
        let row = self.row(dir, &self.view().inode(dir)?)?;
        self.index().absences(&row).ok_or(Fault::Absences.at(dir))
    }

    /// Tells whether the listing of a directory is a fact that the program learned: it is complete, and the recording listed
    /// it. Images before version 3 do not tell, so all their complete directories count.
    pub fn is_listing_learned(&self, dir: Nid) -> Result<bool, Corrupt> {
        let row = self.row(dir, &self.view().inode(dir)?)?;
        Ok(row.coverage == Some(Coverage::Complete) && !row.searched)
    }

    /// Tells whether the recording asked for the node by name.
    pub fn usage(&self, nid: Nid) -> Result<NodeUse, Corrupt> {
        Ok(self.row(nid, &self.view().inode(nid)?)?.usage)
    }

    /// The directory that has the node's first name; the root's is the root.
    pub fn parent(&self, nid: Nid) -> Result<Nid, Corrupt> {
        let inode = self.view().inode(nid)?;
        let row = self.row(nid, &inode)?;
        // Parents come first, so hostile rows cannot lead in circles.
        let parent = Some(row.parent).filter(|&parent| parent < inode.number - 1 || inode.number == 1);
        let parent = parent.and_then(|parent| self.index().row(parent));
        parent.map(|parent| parent.nid).ok_or(Fault::Parent.at(nid))
    }

    /// The node's original absolute path, by its first name. The root's is `/`.
    pub fn path(&self, nid: Nid) -> Result<Vec<u8>, Corrupt> {
        let inode = self.view().inode(nid)?;
        let mut row = self.row(nid, &inode)?;
        let mut number = inode.number - 1;
        let mut names = Vec::new();
        let mut length = 0;
        while number != 0 {
            // Parents come first, so hostile rows cannot lead in circles.
            let known = row.parent < number && names.len() < DEPTH_MAX;
            let parent = self.index().row(row.parent).filter(|_| known);
            let parent = parent.ok_or(Fault::Parent.at(nid))?;
            let name = ErofsDirectory::open(self.view(), parent.nid)?.at_slot(row.slot)?.name;
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

    /// Offset of `part`, a slice of this image.
    pub fn offset_of(&self, part: &[u8]) -> u64 {
        part.as_ptr().addr().wrapping_sub(self.view().bytes.as_ptr().addr()) as u64
    }

    /// The image's bytes.
    pub(crate) fn view(&self) -> ErofsView<'_> {
        ErofsView { bytes: self.bytes.as_ref() }
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
            && (inode.kind == FileKind::Directory) == row.coverage.is_some()
            && (!matches!(inode.kind, FileKind::Regular | FileKind::Symlink) || inode.size == row.size);
        agrees.then_some(row).ok_or(Fault::Row.at(nid))
    }
}

/// Finds the data of `/.quell/index`: offset and length, within the image.
fn locate_index(image: &[u8], superblock: &Superblock) -> Result<(u64, u64), OpenError> {
    let view = ErofsView { bytes: image };
    let mut nid = Nid::new(superblock.root.into());
    for name in INDEX_PATH {
        nid = ErofsDirectory::open(view, nid)?.find(name)?.ok_or(OpenError::NotQuell)?.nid;
    }
    let inode = view.inode(nid)?;
    let start = u64::from(inode.start) * BLOCK_BYTES;
    let plain = inode.kind == FileKind::Regular && inode.layout == DataLayout::Plain;
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
