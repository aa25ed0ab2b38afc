//! Nodes, open files, and the originals that they are bound to.
//!
//! The two tiers share this state: it says which directories are live and which files are altered, so which tier answers.
//! [`find`] finds the original of a node, and the node of an original.

mod find;
mod identities;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use quell_image::{Beyond, FileKind as Kind, Nid};
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use super::handles::Handles;
use super::handover::HandoverMemory;
use super::node::{Node, NodeMarks};
use super::nodes::Nodes;
use super::notifier::{Forget, Notifier};
use super::originals::Originals;
use super::packed::Packed;
use super::references::References;
use crate::counters::Counters;
use crate::fuse::abi::StatfsBytes;
use crate::fuse::device::Device;
use identities::{Devices, Identities};

/// Nodes, handles and originals of one mount.
#[derive(Debug)]
pub(crate) struct Bindings {
    pub(crate) packed: Arc<Packed>,
    pub(crate) nodes: Nodes,
    pub(crate) handles: Handles,
    pub(crate) originals: Originals,
    pub(crate) devices: Devices,
    identities: Identities,
    pub(crate) notifier: Notifier,
    pub(crate) device: Arc<Device>,
}

impl Bindings {
    /// The bindings that an earlier server left in `handover`.
    pub(crate) fn attach(
        handover: &HandoverMemory,
        packed: Arc<Packed>,
        counters: &Arc<Counters>,
        device: Arc<Device>,
        notifier: Notifier,
    ) -> Self {
        let references = References::attach(Arc::clone(&handover.references));
        let nodes = Nodes::attach(Arc::clone(&handover.nodes), references);
        for directory in nodes.untold() {
            notifier.forget(Forget::Directory(directory));
        }
        let devices = Devices::default();
        for (nid, (device, _)) in nodes.tied() {
            devices.agree(packed.device_of(nid), device);
        }
        let bindings = Self {
            nodes,
            handles: Handles::attach(Arc::clone(&handover.handles), packed.root),
            originals: Originals::new(packed.beyond, Arc::clone(counters), handover.lessons()),
            devices,
            identities: Identities::default(),
            notifier,
            device,
            packed,
        };
        bindings.tie_roots();
        bindings
    }

    /// Ties the roots to the directories that are at their paths now. Directories that are put there later must not be taken for
    /// them.
    fn tie_roots(&self) {
        if self.packed.beyond == Beyond::Originals {
            for root in
                self.packed.roots.iter().filter(|root| self.nodes.original(Node::Frozen(**root)).is_none())
            {
                // A root that cannot be opened now is asked for again when it is needed, and says why then.
                let _asked_again = self.open_root(*root);
            }
        }
    }

    /// From now on a directory's names come from the original. Returns that.
    pub(crate) fn go_live(&self, directory: Node) -> Result<Arc<OwnedFd>, Errno> {
        let original = self.pin(directory)?;
        self.keep_listable(directory);
        self.mark_live(directory);
        Ok(original)
    }

    pub(crate) fn mark_live(&self, directory: Node) {
        let before = self.nodes.mark(directory, NodeMarks::LIVE);
        if let Node::Frozen(nid) = directory
            && !before.contains(NodeMarks::LIVE)
        {
            self.keep_open_below(nid);
            self.notifier.forget(Forget::Directory(nid));
        }
    }

    /// From now on a file's attributes and content come from the original.
    pub(crate) fn alter(&self, nid: Nid) {
        let before = self.nodes.mark(Node::Frozen(nid), NodeMarks::ALTERED);
        if !before.contains(NodeMarks::ALTERED) {
            // The kernel keeps attributes that came from the image for ever. ENOENT: it has none.
            let _unknown = self.device.expire_attributes(Node::Frozen(nid).encode(self.packed.root));
        }
    }

    /// Compares an original with its packed attributes. If they differ, the original answers from now on.
    pub(crate) fn note_if_altered(&self, nid: Nid, stat: &Stat) -> Result<(), Errno> {
        let attributes = self.packed.attributes(nid)?;
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

    /// A file may be written to from now on: it and its directory are the original.
    pub(crate) fn note_written(&self, node: Node) {
        let Node::Frozen(nid) = node else { return };
        self.keep_readable(nid);
        self.alter(nid);
        if let Ok(parent) = self.packed.image.parent(nid) {
            // A directory that cannot be tied to its original stays as the image has it; the file does not.
            let _stays_frozen = self.go_live(Node::Frozen(parent));
        }
    }

    /// From now on attributes are the original's, and the names of a directory too.
    pub(crate) fn note_changed(&self, node: Node) -> Result<(), Errno> {
        let Node::Frozen(nid) = node else { return Ok(()) };
        if self.packed.attributes(nid)?.kind == Kind::Directory {
            self.go_live(node)?;
        } else {
            self.note_written(node);
        }
        Ok(())
    }

    /// Before a frozen file or its name may change: if it is open without a handle, its original is opened for reading, while
    /// its mode and its name still allow that.
    pub(crate) fn keep_readable(&self, nid: Nid) {
        let node = Node::Frozen(nid);
        if !self.nodes.references().is_open(nid) || self.nodes.reader(node).is_some() {
            return;
        }
        if let Ok(original) = self.pin(node)
            && let Ok(reader) = self.originals.open(&original, OFlags::RDONLY)
        {
            self.nodes.keep_reader(node, reader);
        }
    }

    /// Ties what is open in a directory to its originals, while their names lead to them: a directory that is live has to
    /// answer for its files, and others may take the names away.
    fn keep_open_below(&self, directory: Nid) {
        let Ok(entries) = self.packed.image.entries(directory) else { return };
        for entry in entries.filter_map(Result::ok).filter(|entry| !entry.is_dot()) {
            self.keep_listable(Node::Frozen(entry.nid));
            self.keep_readable(entry.nid);
        }
    }

    /// Tells whether a node has to be answered for by its original, and is not tied to it.
    pub(crate) fn is_loose(&self, nid: Nid) -> bool {
        self.is_from_original(nid) && self.nodes.original(Node::Frozen(nid)).is_none()
    }

    /// Before a directory is changed: if it is open and the image lists it, its original is opened, while its mode still
    /// allows that.
    pub(crate) fn keep_listable(&self, directory: Node) {
        if self.handles.has_without_file(directory)
            && self.nodes.reader(directory).is_none()
            && let Ok(reader) = self.open_directory(directory)
        {
            self.nodes.keep_reader(directory, reader);
        }
    }

    /// Opens a directory's original to list it.
    pub(crate) fn open_directory(&self, node: Node) -> Result<OwnedFd, Errno> {
        let original = self.original(node)?;
        self.originals.open(&original, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Tells whether a node is open in this namespace.
    pub(crate) fn is_open(&self, node: Node) -> bool {
        let frozen = match node {
            Node::Frozen(nid) => self.nodes.references().is_open(nid),
            Node::Found(_) => false,
        };
        frozen || self.handles.is_open(node)
    }

    /// Tells whether a node is a file that no program has open, so that its original can be looked up again.
    pub(crate) fn may_lose_original(&self, node: Node) -> bool {
        let is_file = match node {
            Node::Frozen(nid) => {
                self.packed.attributes(nid).is_ok_and(|packed| packed.kind != Kind::Directory)
            }
            Node::Found(_) => true,
        };
        is_file && !self.is_open(node)
    }

    /// The totals for a frozen node are those of its root: tools that walk trees ask in every directory.
    pub(crate) fn original_totals(&self, node: Node) -> Result<StatfsBytes, Errno> {
        let original = match node {
            Node::Frozen(nid) => self.original(Node::Frozen(self.packed.root_above(nid)))?,
            Node::Found(_) => self.original(node)?,
        };
        let device = rustix::fs::fstat(&*original)?.st_dev;
        self.originals.file_system(&original, device)
    }

    /// Tells whether a directory's names come from the original because something was written to it.
    pub(crate) fn is_live(&self, nid: Nid) -> bool {
        self.nodes.is_marked(nid, NodeMarks::LIVE)
    }

    /// The same of any directory, one that only the original has too.
    pub(crate) fn is_live_node(&self, node: Node) -> bool {
        match node {
            Node::Frozen(nid) => self.is_live(nid),
            Node::Found(_) => self.nodes.marks(node).contains(NodeMarks::LIVE),
        }
    }

    /// Tells whether a file's content comes from the original.
    pub(crate) fn is_altered(&self, nid: Nid) -> bool {
        self.packed.is_altered(nid) || self.nodes.is_marked(nid, NodeMarks::ALTERED)
    }

    /// Tells whether a node's attributes are those of the image.
    pub(crate) fn is_frozen(&self, nid: Nid) -> bool {
        !self.is_from_original(nid) && self.packed.is_uncovered(nid) == Ok(false)
    }

    /// Tells whether a node's attributes come from the original: it, or the directory that it lies in, was written to.
    pub(crate) fn is_from_original(&self, nid: Nid) -> bool {
        if self.packed.is_altered(nid) {
            return true;
        }
        if !self.nodes.any_frozen() {
            return false;
        }
        self.nodes.is_marked(nid, NodeMarks::ALTERED | NodeMarks::LIVE)
            || self.packed.image.parent(nid).is_ok_and(|parent| self.is_live(parent))
    }
}
