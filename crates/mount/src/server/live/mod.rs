//! The live tier: answers from the originals, by descriptors.
//!
//! The kernel keeps an answer from the original for a second, and none about directories and files that were changed here:
//! other nodes and processes outside may change them, too.
//!
//! This file has the questions about names and attributes; [`files`] has open files, [`change`] decides what a change means,
//! [`names`] makes names, [`moves`] removes and moves them, [`attributes`] sets attributes, [`appends`] appends, [`locks`] locks.

mod appends;
mod attributes;
mod change;
mod files;
pub(crate) mod locks;
mod moves;
mod names;
mod readers;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use quell_image::{Lookup, Nid};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::bindings::Bindings;
use super::frozen::FrozenTier;
use super::handles::Handle;
use super::handover::HandoverMemory;
use super::lock_table::LockTable;
use super::node::{Node, NodeMarks, key_of};
use super::originals::attr_of;
use super::packed::Packed;
use super::permissions::Evidence;
use super::takeover::Takeover;
use super::umasks::Umasks;
use crate::fuse::abi::{Attr, EntryReply, Validity};
use crate::fuse::listing::Listing;
use crate::fuse::request::FileHandle;
use readers::Readers;

/// The tier that answers from the originals.
#[derive(Debug)]
pub(crate) struct LiveTier {
    packed: Arc<Packed>,
    bindings: Arc<Bindings>,
    frozen: Arc<FrozenTier>,
    takeover: Arc<Takeover>,
    pub(crate) locks: LockTable,
    readers: Readers,
    pub(crate) umasks: Umasks,
}

impl LiveTier {
    /// The tier with the locks that an earlier server left in `handover`.
    pub(crate) fn attach(
        handover: &HandoverMemory,
        bindings: Arc<Bindings>,
        frozen: Arc<FrozenTier>,
        takeover: Arc<Takeover>,
    ) -> Self {
        let (owners, waiting) = (Arc::clone(&handover.owners), Arc::clone(&handover.waiting));
        Self {
            locks: LockTable::attach(owners, waiting, bindings.packed.root),
            packed: Arc::clone(&bindings.packed),
            bindings,
            frozen,
            takeover,
            readers: Readers::default(),
            umasks: Umasks::default(),
        }
    }

    /// LOOKUP in the original of a directory.
    pub(crate) fn lookup(&self, directory: Node, name: &[u8]) -> Result<EntryReply, Errno> {
        let original = match self.bindings.is_live_node(directory) {
            true => self.bindings.pin(directory)?,
            false => self.bindings.original(directory)?,
        };
        match self.bindings.originals.find(&original, name) {
            Ok((found, stat)) => self.entry_of(directory, name, found, &stat),
            Err(Errno::NOENT) => Ok(EntryReply::absent(self.absence_validity(directory))),
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
    ) -> Result<EntryReply, Errno> {
        let counterpart = self.bindings.counterpart(directory, name, stat);
        let attr = self.original_attr(&found, stat, self.may_write_in(directory));
        self.bindings.nodes.shed(|node| self.bindings.may_lose_original(node));
        let node = match counterpart {
            Some(nid) => {
                // Before it is bound: a descriptor is closed when there is no lookup left.
                self.bindings.nodes.count_lookup(Node::Frozen(nid));
                self.bindings.nodes.bind(nid, key_of(stat), found);
                self.bindings.note_if_altered(nid, stat)?;
                Node::Frozen(nid)
            }
            None => {
                let mut marks = NodeMarks::empty();
                marks.set(NodeMarks::WRITE_BELOW, self.packed.viewer.may_write(&attr));
                marks.set(NodeMarks::WRITE_BESIDE, self.may_write_in(directory));
                marks.set(NodeMarks::DIRECTORY, FileType::from_raw_mode(stat.st_mode).is_dir());
                self.bindings.nodes.intern(key_of(stat), found, marks).ok_or(Errno::NFILE)?
            }
        };
        Ok(EntryReply {
            node: Some(node.encode(self.packed.root)),
            name_valid: self.name_validity(directory, name, counterpart, &attr),
            attr_valid: validity_of(&attr),
            attr,
        })
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
        if self.bindings.is_live_node(directory) {
            let is_directory = FileType::from_raw_mode(attr.mode).is_dir();
            return if is_directory { Validity::Brief } else { Validity::Never };
        }
        match (directory, counterpart) {
            (Node::Frozen(parent), Some(nid)) if self.has_name(parent, name, nid) => Validity::Forever,
            _ => Validity::Brief,
        }
    }

    /// Tells whether `name` leads to `nid` in the image. A packed file may have further links that were not packed.
    fn has_name(&self, directory: Nid, name: &[u8], nid: Nid) -> bool {
        matches!(self.packed.image.lookup(directory, name), Ok(Lookup::Found(packed)) if packed == nid)
    }

    fn absence_validity(&self, directory: Node) -> Validity {
        if self.bindings.is_live_node(directory) { Validity::Never } else { Validity::Brief }
    }

    /// GETATTR of an original.
    pub(crate) fn attributes(
        &self,
        node: Node,
        handle: Option<FileHandle>,
    ) -> Result<(Attr, Validity), Errno> {
        let open = handle.and_then(|handle| self.bindings.handles.get(handle).ok()?.file());
        let original = match open {
            Some(file) => file,
            None => self.bindings.original(node)?,
        };
        let stat = self.bindings.originals.stat(&original)?;
        if let Node::Frozen(nid) = node {
            self.bindings.note_if_altered(nid, &stat)?;
        }
        let attr = self.original_attr(&original, &stat, self.may_write_beside(node));
        Ok((attr, validity_of(&attr)))
    }

    /// READDIR and READDIRPLUS of an original.
    pub(crate) fn list(
        &self,
        node: Node,
        open: &Handle,
        offset: u64,
        size: u32,
        plus: bool,
    ) -> Result<Listing, Errno> {
        let reader = self.bindings.nodes.reader(node);
        // The handle keeps the descriptor: a listing that began with the original's must not go on with the image's.
        let file = match (open.file(), &reader) {
            (Some(file), _) => file,
            (None, Some(reader)) => {
                self.bindings.handles.give_file(open, rustix::io::fcntl_dupfd_cloexec(reader, 0)?)
            }
            (None, None) => self.bindings.handles.give_file(open, self.bindings.open_directory(node)?),
        };
        let mut listing = Listing::new(size);
        // Without nodes: attributes would cost an operation each, whether the program wants them or not.
        let nameless = EntryReply::absent(Validity::Brief);
        let _one_at_a_time = crate::lock(&open.position);
        let _one_of_all_handles = reader.is_some().then(|| self.readers.listing());
        self.bindings.originals.list(&file, offset, &mut |name| {
            if plus { listing.push_plus(&nameless, name) } else { listing.push(name) }
        })?;
        Ok(listing)
    }

    /// Attributes of an original, as the kernel must see them. `removable`: the user may write to its directory.
    pub(crate) fn original_attr(&self, original: &OwnedFd, stat: &Stat, removable: bool) -> Attr {
        let mut attr = attr_of(stat);
        let device = self.bindings.devices.packed(stat.st_dev).unwrap_or(stat.st_dev);
        attr.inode = self.packed.inode_numbers.of_device(device, attr.inode);
        let acl = self
            .packed
            .viewer
            .judges(attr.uid)
            .then(|| self.bindings.originals.acl(original, stat))
            .flatten();
        self.packed.viewer.present(&mut attr, &Evidence { acl: acl.as_deref(), held: false, removable });
        attr
    }

    /// Tells whether the user may make and remove names in this directory.
    pub(crate) fn may_write_in(&self, directory: Node) -> bool {
        match directory {
            Node::Frozen(nid) => self.frozen.may_write_below(nid),
            Node::Found(_) => self.bindings.nodes.marks(directory).contains(NodeMarks::WRITE_BELOW),
        }
    }

    /// Tells whether the user may make and remove names in the directory that the node lies in.
    pub(crate) fn may_write_beside(&self, node: Node) -> bool {
        match node {
            Node::Frozen(nid) => {
                self.packed.image.parent(nid).is_ok_and(|parent| self.frozen.may_write_below(parent))
            }
            Node::Found(_) => self.bindings.nodes.marks(node).contains(NodeMarks::WRITE_BESIDE),
        }
    }
}

/// The time for which the attributes of an original hold. Those of a file not at all: another node may write to it at any time.
pub(crate) fn validity_of(attr: &Attr) -> Validity {
    if FileType::from_raw_mode(attr.mode).is_file() { Validity::Never } else { Validity::Brief }
}
