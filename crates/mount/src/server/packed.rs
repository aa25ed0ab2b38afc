//! The image as the user of the namespace may see it. Nothing here changes while the mount lives.

use std::collections::HashSet;
use std::sync::Arc;

use quell_image::{
    Attributes, Beyond, Corrupt, Coverage, FileContent as Content, FileKind as Kind, FilePart as Part, Image,
    Lookup, Nid, NodeUse as Use,
};
use rustix::fs::{StatVfs, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::process::Uid;

use super::inodes::InodeNumbers;
use super::originals::{BLOCK_SIZE, device_number};
use super::permissions::Viewer;
use crate::fuse::abi::{Attr, StatfsBytes, Time, encode_statfs};
use crate::fuse::request::Read;
use crate::memory::{HeldPart, Memory, SharedImage};
use crate::namespace::Privilege;
use crate::staleness::{Staleness, is_compared};

/// An image, and the user to whom it is shown.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) image: Arc<Image<SharedImage>>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) root: Nid,
    /// The source of names and content that the image lacks.
    pub(crate) beyond: Beyond,
    /// Directories on the way to the roots, and live ones: they are only walked through while the mount is built, and
    /// covered by other mounts then.
    passed_through: HashSet<Nid>,
    /// The covered directories, none below another.
    pub(crate) roots: HashSet<Nid>,
    pub(crate) inode_numbers: InodeNumbers,
    pub(crate) viewer: Viewer,
    /// The user packed the image, and so could read everything that it holds.
    pub(crate) by_viewer: bool,
    /// The differences of the originals from the image at the start.
    staleness: Arc<Staleness>,
}

impl Packed {
    /// An image whose file belongs to `owner`, as this process' user sees it, where it still holds.
    pub(crate) fn new(
        image: Arc<Image<SharedImage>>,
        memory: Arc<Memory>,
        owner: Uid,
        staleness: Arc<Staleness>,
    ) -> Self {
        let first = image.index().roots().next().map_or(0, |root| device_of(&image, root.nid));
        Self {
            root: image.root(),
            beyond: image.index().beyond(),
            passed_through: passed_through(&image),
            roots: image.index().roots().map(|root| root.nid).collect(),
            inode_numbers: InodeNumbers::new(first),
            viewer: Viewer::of_this_process(Privilege::of_this_process()),
            by_viewer: owner == rustix::process::geteuid(),
            image,
            memory,
            staleness,
        }
    }

    /// The attributes of a node: those that were packed, or of a directory those that it had at the start.
    pub(crate) fn attributes(&self, nid: Nid) -> Result<Attributes, Errno> {
        match self.staleness.renewed.get(&nid) {
            Some(renewed) => Ok(*renewed),
            None => self.image.attributes(nid).map_err(damaged),
        }
    }

    /// Looks a name up, in a directory of which names may have come and gone before the start too.
    pub(crate) fn lookup(&self, directory: Nid, name: &[u8]) -> Result<Lookup, Errno> {
        let found = self.image.lookup(directory, name).map_err(damaged)?;
        let holds = match found {
            Lookup::Found(nid) => self.is_known(directory, nid)?,
            Lookup::Absent if self.staleness.is_renewed(directory) => {
                self.staleness.is_absent(&self.image, directory, name)
            }
            Lookup::Absent | Lookup::Unknown => true,
        };
        Ok(if holds { found } else { Lookup::Unknown })
    }

    /// Tells whether the image answers for a node in `directory`. It does not for a file that the recording only saw listed
    /// and that may have changed: no check compares that, and its content has to come from the original anyway.
    pub(crate) fn is_known(&self, directory: Nid, nid: Nid) -> Result<bool, Errno> {
        if self.is_altered(nid) {
            return Ok(false);
        }
        let packed = self.image.attributes(nid).map_err(damaged)?;
        let is_listed_file = packed.kind == Kind::Regular && self.staleness.looks_up_listed;
        let uncertain = self.staleness.is_renewed(directory) || is_listed_file;
        Ok(self.beyond == Beyond::Nothing || !uncertain || is_compared(&self.image, nid, &packed))
    }

    /// Tells whether the original answered for a node from the start.
    pub(crate) fn is_altered(&self, nid: Nid) -> bool {
        self.staleness.is_altered(nid)
    }

    /// The device that a node was packed from, by the image's number; 0 for a damaged node.
    pub(crate) fn device_of(&self, nid: Nid) -> u64 {
        device_of(&self.image, nid)
    }

    /// Tells whether a node is a covered directory.
    pub(crate) fn is_root(&self, nid: Nid) -> bool {
        self.roots.contains(&nid)
    }

    /// The root that a frozen node lies in, or the node itself.
    pub(crate) fn root_above(&self, nid: Nid) -> Nid {
        let above = std::iter::successors(Some(nid), |nid| {
            self.image.parent(*nid).ok().filter(|parent| parent != nid)
        });
        above.into_iter().find(|above| self.roots.contains(above)).unwrap_or(nid)
    }

    /// Tells whether `nid` is a directory below a root of which the image does not know the names.
    pub(crate) fn is_uncovered(&self, nid: Nid) -> Result<bool, Errno> {
        if self.beyond == Beyond::Nothing || self.passed_through.contains(&nid) {
            return Ok(false);
        }
        match self.image.coverage(nid) {
            Ok(coverage) => Ok(coverage == Coverage::Uncovered),
            Err(Corrupt { fault: quell_image::Fault::NotDirectory, .. }) => Ok(false),
            Err(corrupt) => Err(damaged(corrupt)),
        }
    }

    /// Tells whether the image can list the directory.
    pub(crate) fn is_listed(&self, nid: Nid) -> Result<bool, Errno> {
        let coverage = self.image.coverage(nid).map_err(damaged)?;
        let complete = coverage == Coverage::Complete && !self.staleness.is_renewed(nid);
        Ok(complete || self.beyond == Beyond::Nothing)
    }

    /// The held content of a file, or `None` if it must be read from the original. Waits until it has arrived.
    pub(crate) fn content(&self, nid: Nid, read: &Read) -> Result<Option<HeldPart<'_>>, Errno> {
        let held = self.held_content(nid, read)?;
        // An image that cannot be read any more is no reason to fail: the original is still there.
        let held = held.and_then(|held| self.memory.hold(held).ok());
        Ok(held.filter(|held| self.memory.bring_in(held).is_ok()))
    }

    /// The same if it can be had without waiting.
    pub(crate) fn present_content(&self, nid: Nid, read: &Read) -> Option<HeldPart<'_>> {
        let held = self.held_content(nid, read).ok().flatten()?;
        self.memory.hold_present(held).filter(|held| self.memory.bring_in(held).is_ok())
    }

    /// The bytes of the image that answer a READ.
    fn held_content(&self, nid: Nid, read: &Read) -> Result<Option<&[u8]>, Errno> {
        let content = match self.image.content(nid).map_err(damaged)? {
            Content::Held(content) => content,
            Content::Part(part) => return Ok(part.bytes(read.range())),
            Content::Original => return Ok(None),
        };
        let start = usize::try_from(read.offset).map_or(content.len(), |offset| offset.min(content.len()));
        let end = start.saturating_add(read.size as usize).min(content.len());
        Ok(Some(&content[start..end]))
    }

    /// The stretches that the image holds of a file, if it holds it in part.
    pub(crate) fn part(&self, nid: Nid) -> Option<Part<'_>> {
        match self.image.content(nid) {
            Ok(Content::Part(part)) => Some(part),
            _ => None,
        }
    }

    /// GETXATTR of a node that is as the image says.
    pub(crate) fn xattr(&self, nid: Nid, name: &[u8]) -> Result<Option<&[u8]>, Errno> {
        let mut all = self.image.xattrs(nid).map_err(damaged)?;
        Ok(all.find(|xattr| xattr.is_named(name)).map(|xattr| xattr.value))
    }

    /// The same as it was packed.
    pub(crate) fn has_xattrs(&self, nid: Nid) -> bool {
        let touched = self.image.usage(nid) == Ok(Use::Touched) && !self.staleness.is_renewed(nid);
        touched || self.beyond == Beyond::Nothing
    }

    /// The names of all extended attributes that the image has of `nid`, each with a zero byte behind it.
    pub(crate) fn xattr_names(&self, nid: Nid) -> Result<Vec<u8>, Errno> {
        let mut names = Vec::new();
        for xattr in self.image.xattrs(nid).map_err(damaged)? {
            names.extend_from_slice(&xattr.name());
            names.push(0);
        }
        Ok(names)
    }

    /// A full, read-only file system of the image's size.
    pub(crate) fn totals(&self) -> StatfsBytes {
        let block = u64::from(BLOCK_SIZE);
        encode_statfs(&StatVfs {
            f_bsize: block,
            f_frsize: block,
            f_blocks: self.image.length() / block,
            f_bfree: 0,
            f_bavail: 0,
            f_files: self.image.index().totals().nodes,
            f_ffree: 0,
            f_favail: 0,
            f_fsid: 0,
            f_flag: StatVfsMountFlags::RDONLY,
            f_namemax: 255,
        })
    }
}

/// A damaged image answers `EIO`: it was verified when it was opened, so its file has changed since.
pub(crate) fn damaged(_corrupt: Corrupt) -> Errno {
    Errno::IO
}

/// Attributes of the image, for the kernel. EROFS keeps no access time: that of the modification stands in.
pub(crate) fn attr_of(attributes: &Attributes) -> Attr {
    let time = |time: quell_image::Timestamp| Time { seconds: time.seconds, nanoseconds: time.nanoseconds };
    Attr {
        inode: attributes.inode,
        size: attributes.size,
        blocks: attributes.size.div_ceil(512),
        atime: time(attributes.mtime),
        mtime: time(attributes.mtime),
        ctime: time(attributes.ctime),
        mode: attributes.mode(),
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: device_number(attributes.rdev.major, attributes.rdev.minor),
        block_size: BLOCK_SIZE,
    }
}

fn device_of(image: &Image<SharedImage>, nid: Nid) -> u64 {
    image.attributes(nid).map_or(0, |attributes| attributes.device)
}

/// The directories from the image's root to each covered root, without the latter, and the live ones.
fn passed_through(image: &Image<SharedImage>) -> HashSet<Nid> {
    let mut passed = HashSet::from([image.root()]);
    for root in image.index().roots() {
        let mut nid = root.nid;
        while let Ok(parent) = image.parent(nid)
            && parent != nid
        {
            nid = parent;
            passed.insert(nid);
        }
    }
    for root in image.index().roots() {
        passed.remove(&root.nid);
    }
    passed.extend(image.index().live_directories().map(|live| live.nid));
    passed
}
