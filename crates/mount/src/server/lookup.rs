//! Questions about names and attributes, answered by the frozen tier if it can, else by the original.
//!
//! The kernel keeps what the original said for a second, and nothing of what was changed here: other nodes and processes
//! outside may change it, too.

use std::os::fd::OwnedFd;

use quell_image::{Beyond, FileKind as Kind, Lookup, Nid};
use rustix::fs::{FileType, Stat, StatVfs, StatVfsMountFlags};
use rustix::io::Errno;

use super::Server;
use super::frozen::{Answer, Patience, damaged};
use super::nodes::{Node, NodeMarks, key_of};
use super::originals::{BLOCK_SIZE, attr_of};
use super::permissions::Evidence;
use super::slots::{Attempt, Before};
use crate::fuse::abi::{Attr, Entry, Listing, NodeId, Totals, Validity, encode_statfs};
use crate::fuse::reply::Reply;
use crate::fuse::request::FileHandle;

impl Server {
    /// LOOKUP.
    pub(crate) fn lookup(&self, directory: Node, name: &[u8]) -> Result<Entry, Errno> {
        if let Node::Frozen(nid) = directory
            && !self.is_live(nid)
            && let Answer::Known(entry) = self.frozen_lookup(nid, name, Patience::ForOriginal)?
        {
            return Ok(entry);
        }
        let original = match self.is_live_node(directory) {
            true => self.pin(directory)?,
            false => self.original(directory)?,
        };
        match self.originals.find(&original, name) {
            Ok((found, stat)) => self.entry_of(directory, name, found, &stat),
            Err(Errno::NOENT) => Ok(Entry::absent(self.absence_validity(directory))),
            Err(errno) => Err(errno),
        }
    }

    /// The entry for an original that was found as `name` in `directory`; counts one lookup of its node.
    pub(crate) fn entry_of(
        &self,
        directory: Node,
        name: &[u8],
        found: OwnedFd,
        stat: &Stat,
    ) -> Result<Entry, Errno> {
        let counterpart = self.counterpart(directory, name, stat);
        let attr = self.original_attr(&found, stat, self.may_write_in(directory));
        self.nodes.shed(|node| self.may_lose_original(node));
        let node = match counterpart {
            Some(nid) => {
                // Before it is bound: a descriptor is closed when there is no lookup left.
                self.nodes.count_lookup(Node::Frozen(nid));
                self.nodes.bind(nid, key_of(stat), found);
                self.note_if_altered(nid, stat)?;
                Node::Frozen(nid)
            }
            None => {
                let mut marks = NodeMarks::empty();
                marks.set(NodeMarks::WRITE_BELOW, self.viewer.may_write(&attr));
                marks.set(NodeMarks::WRITE_BESIDE, self.may_write_in(directory));
                marks.set(NodeMarks::DIRECTORY, FileType::from_raw_mode(stat.st_mode).is_dir());
                self.nodes.intern(key_of(stat), found, marks).ok_or(Errno::NFILE)?
            }
        };
        Ok(Entry {
            node: Some(node.encode(self.root)),
            name_valid: self.name_validity(directory, name, counterpart, &attr),
            attr_valid: validity_of(&attr),
            attr,
        })
    }

    /// Whether a node is a file that no program has open, so that its original can be looked up again.
    pub(crate) fn may_lose_original(&self, node: Node) -> bool {
        let is_file = match node {
            Node::Frozen(nid) => {
                self.image.attributes(nid).is_ok_and(|packed| packed.kind != Kind::Directory)
            }
            Node::Found(_) => true,
        };
        is_file && !self.is_open(node)
    }

    /// The time for which a name that the original gave may be kept: for ever where the image has the same name in a
    /// frozen directory. The kernel is told to ask for those names again when the directory goes live, and for no others.
    pub(crate) fn name_validity(
        &self,
        directory: Node,
        name: &[u8],
        counterpart: Option<Nid>,
        attr: &Attr,
    ) -> Validity {
        if self.is_live_node(directory) {
            let is_directory = FileType::from_raw_mode(attr.mode).is_dir();
            return if is_directory { Validity::Brief } else { Validity::Never };
        }
        match (directory, counterpart) {
            (Node::Frozen(parent), Some(nid)) if self.has_name(parent, name, nid) => Validity::Forever,
            _ => Validity::Brief,
        }
    }

    /// Whether `name` leads to `nid` in the image. A packed file may have further links that were not packed.
    fn has_name(&self, directory: Nid, name: &[u8], nid: Nid) -> bool {
        matches!(self.image.lookup(directory, name), Ok(Lookup::Found(packed)) if packed == nid)
    }

    fn absence_validity(&self, directory: Node) -> Validity {
        if self.is_live_node(directory) { Validity::Never } else { Validity::Brief }
    }

    /// Compares an original with what the image has of it, and leaves the image behind if they differ.
    pub(crate) fn note_if_altered(&self, nid: Nid, stat: &Stat) -> Result<(), Errno> {
        let attributes = self.image.attributes(nid).map_err(damaged)?;
        let (mtime, ctime) = (attributes.mtime, attributes.ctime);
        if attributes.kind == Kind::Directory {
            // Names came or went, or it is another directory with this inode number.
            if (mtime.seconds, u64::from(mtime.nanoseconds)) != (stat.st_mtime, stat.st_mtime_nsec) {
                self.mark_live(Node::Frozen(nid));
            }
            return Ok(());
        }
        let same = attributes.size == stat.st_size.cast_unsigned()
            && (mtime.seconds, u64::from(mtime.nanoseconds)) == (stat.st_mtime, stat.st_mtime_nsec)
            && (ctime.seconds, u64::from(ctime.nanoseconds)) == (stat.st_ctime, stat.st_ctime_nsec);
        if !same {
            self.alter(nid);
        }
        Ok(())
    }

    /// From now on a file's attributes and content come from the original.
    pub(crate) fn alter(&self, nid: Nid) {
        let before = self.nodes.mark(Node::Frozen(nid), NodeMarks::ALTERED);
        if !before.contains(NodeMarks::ALTERED) {
            // The kernel keeps attributes that came from the image for ever. ENOENT: it has none.
            let _unknown = self.device.expire_attributes(Node::Frozen(nid).encode(self.root));
        }
    }

    /// GETATTR.
    pub(crate) fn attributes(
        &self,
        node: Node,
        handle: Option<FileHandle>,
    ) -> Result<(Attr, Validity), Errno> {
        if let Node::Frozen(nid) = node
            && self.is_frozen(nid)
        {
            return Ok((self.frozen_attr(nid)?, Validity::Forever));
        }
        let open = handle.and_then(|handle| self.handles.get(handle).ok()?.file());
        let original = match open {
            Some(file) => file,
            None => self.original(node)?,
        };
        let stat = self.originals.stat(&original)?;
        if let Node::Frozen(nid) = node {
            self.note_if_altered(nid, &stat)?;
        }
        let attr = self.original_attr(&original, &stat, self.may_write_beside(node));
        Ok((attr, validity_of(&attr)))
    }

    /// READLINK.
    pub(crate) fn read_link(&self, node: Node, reply: Reply<'_>) {
        if let Node::Frozen(nid) = node
            && !self.is_altered(nid)
        {
            return match self.image.link_target(nid) {
                Ok(target) => reply.bytes(target),
                Err(corrupt) => reply.error(damaged(corrupt)),
            };
        }
        match self.original(node).and_then(|original| self.originals.read_link(&original)) {
            Ok(target) => reply.bytes(&target),
            Err(errno) => reply.error(errno),
        }
    }

    /// STATFS: what the original's file system says, or where there is none what the image takes.
    pub(crate) fn file_system(&self, node: Node, reply: Reply<'_>) {
        if self.beyond == Beyond::Nothing {
            return reply.bytes(&self.image_totals());
        }
        match self.original_totals(node) {
            Ok(totals) => reply.bytes(&totals),
            Err(errno) => reply.error(errno),
        }
    }

    /// The totals for a frozen node are those of its root: tools that walk trees ask in every directory.
    fn original_totals(&self, node: Node) -> Result<Totals, Errno> {
        let original = match node {
            Node::Frozen(nid) => self.original(Node::Frozen(self.root_above(nid)))?,
            Node::Found(_) => self.original(node)?,
        };
        let device = rustix::fs::fstat(&*original)?.st_dev;
        self.originals.file_system(&original, device)
    }

    /// The root that a frozen node lies in, or the node itself.
    fn root_above(&self, nid: Nid) -> Nid {
        let above = std::iter::successors(Some(nid), |nid| {
            self.image.parent(*nid).ok().filter(|parent| parent != nid)
        });
        above.into_iter().find(|above| self.roots.contains(above)).unwrap_or(nid)
    }

    /// A full, read-only file system of the image's size.
    fn image_totals(&self) -> Totals {
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

    /// READDIR and READDIRPLUS.
    pub(crate) fn list(
        &self,
        node: Node,
        handle: FileHandle,
        offset: u64,
        size: u32,
        plus: bool,
    ) -> Result<Listing, Errno> {
        let open = self.handles.get(handle)?;
        let file = match open.file() {
            Some(file) => file,
            None => match node {
                // A listing that began with the image's goes on with it.
                Node::Frozen(nid) if offset != 0 || !self.is_live(nid) => {
                    return self.frozen_listing(nid, offset, size, plus);
                }
                _ => match self.nodes.reader(node) {
                    Some(reader) => reader,
                    None => self.handles.give_file(&open, self.open_directory(node)?),
                },
            },
        };
        let mut listing = Listing::new(size);
        // Without nodes: attributes would cost an operation each, whether the program wants them or not.
        let nameless = Entry::absent(Validity::Brief);
        let _one_at_a_time = crate::lock(&open.appends);
        let _one_of_all_handles = open.file().is_none().then(|| self.readers.listing());
        self.originals.list(&file, offset, &mut |name| {
            if plus { listing.push_plus(&nameless, name) } else { listing.push(name) }
        })?;
        Ok(listing)
    }

    /// FORGET and BATCH_FORGET, at most once: to take lookups back twice would take a node away that is in use.
    pub(crate) fn forget_all(&self, nodes: impl Iterator<Item = (NodeId, u64)>, attempt: Attempt<'_>) {
        if attempt.before() != Before::Nothing {
            return;
        }
        attempt.begin();
        for (id, lookups) in nodes {
            let node = Node::decode(id, self.root);
            if self.nodes.forget(node, lookups)
                && let Node::Frozen(nid) = node
            {
                self.forget_part(nid);
            }
        }
    }

    /// Attributes of an original, as the kernel must see them. `removable`: the user may write to its directory.
    pub(crate) fn original_attr(&self, original: &OwnedFd, stat: &Stat, removable: bool) -> Attr {
        let mut attr = attr_of(stat);
        let device = self.devices.packed(stat.st_dev).unwrap_or(stat.st_dev);
        attr.inode = self.inode_numbers.of_device(device, attr.inode);
        let acl = self.viewer.judges(attr.uid).then(|| self.originals.acl(original, stat)).flatten();
        self.viewer.present(&mut attr, &Evidence { acl: acl.as_deref(), held: false, removable });
        attr
    }

    /// Tells whether the user may make and remove names in this directory.
    pub(crate) fn may_write_in(&self, directory: Node) -> bool {
        match directory {
            Node::Frozen(nid) => self.may_write_below(nid),
            Node::Found(_) => self.nodes.marks(directory).contains(NodeMarks::WRITE_BELOW),
        }
    }

    /// Tells whether the user may make and remove names in the directory that the node lies in.
    pub(crate) fn may_write_beside(&self, node: Node) -> bool {
        match node {
            Node::Frozen(nid) => self.image.parent(nid).is_ok_and(|parent| self.may_write_below(parent)),
            Node::Found(_) => self.nodes.marks(node).contains(NodeMarks::WRITE_BESIDE),
        }
    }

    /// Tells whether a directory's names come from the original because something was written to it.
    pub(crate) fn is_live(&self, nid: Nid) -> bool {
        self.nodes.is_marked(nid, NodeMarks::LIVE)
    }

    /// The same of any directory, one that only the original has too.
    fn is_live_node(&self, node: Node) -> bool {
        match node {
            Node::Frozen(nid) => self.is_live(nid),
            Node::Found(_) => self.nodes.marks(node).contains(NodeMarks::LIVE),
        }
    }

    /// Tells whether a file's content comes from the original.
    pub(crate) fn is_altered(&self, nid: Nid) -> bool {
        self.nodes.is_marked(nid, NodeMarks::ALTERED)
    }

    /// Tells whether a node's attributes are those of the image.
    pub(crate) fn is_frozen(&self, nid: Nid) -> bool {
        !self.is_from_original(nid) && self.is_uncovered(nid) == Ok(false)
    }

    /// Tells whether a node's attributes come from the original: it, or the directory that it lies in, was written to.
    pub(crate) fn is_from_original(&self, nid: Nid) -> bool {
        if !self.nodes.any_frozen() {
            return false;
        }
        self.nodes.is_marked(nid, NodeMarks::ALTERED | NodeMarks::LIVE)
            || self.image.parent(nid).is_ok_and(|parent| self.is_live(parent))
    }
}

/// The time for which the attributes of an original hold. Those of a file not at all: another node may write to it at any time.
pub(crate) fn validity_of(attr: &Attr) -> Validity {
    if FileType::from_raw_mode(attr.mode).is_file() { Validity::Never } else { Validity::Brief }
}
