//! Questions, answered by the frozen tier if it can, else by the original, whose answers the kernel keeps for a
//! second.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use quell_image::{Beyond, Kind, Lookup, Nid};
use rustix::fs::{FileType, Stat, StatVfs, StatVfsMountFlags};
use rustix::io::Errno;

use super::Server;
use super::found::Rights;
use super::frozen::{Answer, Patience, damaged};
use super::nodes::{Access, Held, Node, below};
use super::originals::{BLOCK_SIZE, attr_of};
use super::permissions::Evidence;
use super::slots::{Attempt, Before};
use crate::fuse::abi::{self, Attr, Entry, Listing, NodeId, Totals, Validity, encode_statfs};
use crate::fuse::reply::Reply;
use crate::fuse::request::Read;

impl Server {
    /// LOOKUP.
    pub(crate) fn lookup(&self, directory: Node, name: &[u8]) -> Result<Entry, Errno> {
        if let Node::Frozen(nid) = directory
            && !self.is_live(nid)
            && let Answer::Known(entry) = self.frozen_lookup(nid, name, Patience::ForOriginal)?
        {
            return Ok(entry);
        }
        self.original_lookup(directory, name)
    }

    /// Looks a name up in the original.
    pub(crate) fn original_lookup(&self, directory: Node, name: &[u8]) -> Result<Entry, Errno> {
        let path = below(&self.path(directory)?, name);
        match self.originals.lookup(&path) {
            Ok(stat) => self.original_entry(directory, name, path, &stat),
            Err(Errno::NOENT) => Ok(Entry::absent(Validity::Brief)),
            Err(errno) => Err(errno),
        }
    }

    /// The entry for an original that was found at `path`, which is `name` in `directory`.
    pub(crate) fn original_entry(
        &self,
        directory: Node,
        name: &[u8],
        path: PathBuf,
        stat: &Stat,
    ) -> Result<Entry, Errno> {
        let attr = self.original_attr(&path, stat, self.may_write_in(directory));
        let (node, name_valid) = match self.frozen_counterpart(directory, name, stat)? {
            // A name that leads to a frozen node in a frozen directory is as frozen as they are.
            Some(nid) if !self.is_live_node(directory) => (Node::Frozen(nid), Validity::Forever),
            Some(nid) => (Node::Frozen(nid), Validity::Brief),
            None => {
                let rights = Rights {
                    write_below: self.viewer.may_write(&attr),
                    write_beside: self.may_write_in(directory),
                };
                (self.found.intern((stat.st_dev, stat.st_ino), path, rights), Validity::Brief)
            }
        };
        let node = Some(node.encode(self.root));
        Ok(Entry { node, name_valid, attr_valid: validity_of(&attr), attr })
    }

    /// The image's node for an original, if it still is the same. A file that was rewritten in place keeps its node,
    /// and is served from the original from then on.
    fn frozen_counterpart(&self, directory: Node, name: &[u8], stat: &Stat) -> Result<Option<Nid>, Errno> {
        let Node::Frozen(parent) = directory else {
            return Ok(None);
        };
        let Lookup::Found(nid) = self.image.lookup(parent, name).map_err(damaged)? else {
            return Ok(None);
        };
        let attributes = self.image.attributes(nid).map_err(damaged)?;
        let displaced = self.alterations.of(nid).is_some_and(|alteration| alteration.displaced);
        if displaced || Kind::from_mode(stat.st_mode) != Some(attributes.kind) {
            return Ok(None);
        }
        if attributes.kind == Kind::Directory {
            // The same node whatever its number: another one would take away what is bound below it.
            return Ok(Some(nid));
        }
        if attributes.inode != stat.st_ino {
            return Ok(None);
        }
        self.note_if_rewritten(nid, stat)?;
        Ok(Some(nid))
    }

    /// Compares an original with what the image has of it, and leaves the image behind if they differ.
    fn note_if_rewritten(&self, nid: Nid, stat: &Stat) -> Result<(), Errno> {
        let attributes = self.image.attributes(nid).map_err(damaged)?;
        let (mtime, ctime) = (attributes.mtime, attributes.ctime);
        let same = attributes.size == stat.st_size.cast_unsigned()
            && (mtime.seconds, u64::from(mtime.nanoseconds)) == (stat.st_mtime, stat.st_mtime_nsec)
            && (ctime.seconds, u64::from(ctime.nanoseconds)) == (stat.st_ctime, stat.st_ctime_nsec);
        if !same {
            self.alterations.note(nid, |alteration| alteration.rewritten = true);
        }
        Ok(())
    }

    /// GETATTR.
    pub(crate) fn attributes(&self, node: Node) -> Result<(Attr, Validity), Errno> {
        if let Node::Frozen(nid) = node
            && self.is_frozen(nid)
        {
            self.push_first(nid);
            return Ok((self.frozen_attr(nid)?, Validity::Forever));
        }
        if let Node::Frozen(nid) = node
            && self.alterations.of(nid).is_some_and(|altered| altered.nameless && altered.held.is_none())
        {
            return Ok((Attr { nlink: 0, ..self.frozen_attr(nid)? }, Validity::Forever));
        }
        let path = self.path(node)?;
        let stat = self.originals.stat(&path, self.held(node).as_deref())?;
        if let Node::Frozen(nid) = node
            && FileType::from_raw_mode(stat.st_mode).is_file()
        {
            self.note_if_rewritten(nid, &stat)?;
        }
        let attr = self.original_attr(&path, &stat, self.may_write_beside(node));
        Ok((attr, validity_of(&attr)))
    }

    /// READ.
    pub(crate) fn read(&self, node: Node, read: &Read, reply: Reply<'_>, scratch: &mut Vec<u8>) {
        if let Node::Frozen(nid) = node
            && !self.is_rewritten(nid)
        {
            match self.frozen_content(nid, read) {
                Ok(Some(held)) => {
                    self.counters.answered(held.len() as u64);
                    self.note_read(nid, read);
                    return reply.bytes(held);
                }
                Ok(None) if self.is_needless(nid, read) => {
                    reply.error(Errno::IO);
                    return self.push_window(nid, read);
                }
                Ok(None) => {}
                Err(errno) => return reply.error(errno),
            }
        }
        match self.original_read(node, read, scratch) {
            Ok(bytes) => {
                if let Node::Frozen(nid) = node {
                    self.note_read(nid, read);
                }
                reply.bytes(&scratch[..bytes]);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn original_read(&self, node: Node, read: &Read, scratch: &mut Vec<u8>) -> Result<usize, Errno> {
        let path = self.path(node)?;
        let held = match self.held(node).filter(|held| held.access.allows(Access::Read)) {
            Some(held) => held,
            None => self.originals.reading(node, &path)?,
        };
        scratch.resize(read.size.min(abi::MAX_TRANSFER) as usize, 0);
        let bytes = self.originals.read(&held, &path, scratch, read.offset)?;
        self.verify_part(node, &held, &path)?;
        Ok(bytes)
    }

    /// READDIR and READDIRPLUS.
    pub(crate) fn list(&self, node: Node, offset: u64, size: u32, plus: bool) -> Result<Listing, Errno> {
        if let Node::Frozen(nid) = node
            && !self.is_live(nid)
            && self.is_listed(nid)?
        {
            return self.frozen_listing(nid, offset, size, plus);
        }
        let path = self.path(node)?;
        let mut listing = Listing::new(size);
        // Without nodes: attributes would cost an operation each, whether the program wants them or not.
        let nameless = Entry::absent(Validity::Brief);
        self.originals.list(node, &path, offset, &mut |name| {
            if plus { listing.push_plus(&nameless, name) } else { listing.push(name) }
        })?;
        Ok(listing)
    }

    /// READLINK.
    pub(crate) fn read_link(&self, node: Node, reply: Reply<'_>) {
        if let Node::Frozen(nid) = node
            && !self.is_rewritten(nid)
        {
            return match self.image.link_target(nid) {
                Ok(target) => reply.bytes(target),
                Err(corrupt) => reply.error(damaged(corrupt)),
            };
        }
        match self.path(node).and_then(|path| self.originals.read_link(&path)) {
            Ok(target) => reply.bytes(&target),
            Err(errno) => reply.error(errno),
        }
    }

    /// STATFS: what the original's file system says, or where there is none what the image takes.
    pub(crate) fn file_system(&self, node: Node, reply: Reply<'_>) {
        if self.beyond == Beyond::Nothing {
            return reply.bytes(&self.image_totals());
        }
        match self.path(node).and_then(|path| self.originals.file_system(self.root_of(&path))) {
            Ok(totals) => reply.bytes(&totals),
            Err(errno) => reply.error(errno),
        }
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

    /// The root that `path` lies in.
    fn root_of<'p>(&'p self, path: &'p Path) -> &'p Path {
        self.inode_numbers.root_of(path).unwrap_or(path)
    }

    /// FORGET and BATCH_FORGET, at most once: to take lookups back twice would take a node away that is in use.
    pub(crate) fn forget_all(&self, nodes: impl Iterator<Item = (NodeId, u64)>, attempt: Attempt<'_>) {
        if attempt.before() != Before::Nothing {
            return;
        }
        attempt.begin();
        nodes.for_each(|(id, lookups)| self.forget(Node::decode(id, self.root), lookups));
    }

    fn forget(&self, node: Node, lookups: u64) {
        let held = match node {
            Node::Found(number) => self.found.forget(number, lookups),
            // The kernel has dropped the inode, so nobody has the file open.
            Node::Frozen(nid) if self.alterations.of(nid).is_some_and(|altered| altered.held.is_some()) => {
                self.alterations.note(nid, |alteration| alteration.held = None).held
            }
            Node::Frozen(nid) => {
                self.forget_part(nid);
                None
            }
        };
        if held.is_some() {
            self.descriptors.give_up(node);
        }
    }

    /// Where the node's original lies.
    pub(crate) fn path(&self, node: Node) -> Result<PathBuf, Errno> {
        match node {
            Node::Frozen(nid) => Ok(self.alterations.resolve(self.image.path(nid).map_err(damaged)?)),
            Node::Found(number) => self.found.path(number).ok_or(Errno::STALE),
        }
    }

    /// The descriptor that belongs to the node, if one is held.
    pub(crate) fn held(&self, node: Node) -> Option<Arc<Held>> {
        match node {
            Node::Frozen(nid) => self.alterations.of(nid)?.held,
            Node::Found(number) => self.found.held(number),
        }
    }

    /// The same if it can be used for more than to ask for attributes.
    pub(crate) fn opened(&self, node: Node) -> Option<Arc<Held>> {
        self.held(node).filter(|held| held.access != Access::Neither)
    }

    /// Attributes of an original, as the kernel must see them. `removable`: the user may write to its directory.
    pub(crate) fn original_attr(&self, path: &Path, stat: &Stat, removable: bool) -> Attr {
        let mut attr = attr_of(stat);
        attr.inode = self.inode_numbers.of_path(path, attr.inode);
        let acl = self.viewer.judges(attr.uid).then(|| self.originals.acl(path, stat)).flatten();
        self.viewer.present(&mut attr, &Evidence { acl: acl.as_deref(), held: false, removable });
        attr
    }

    /// Whether the user may make and remove names in this directory.
    fn may_write_in(&self, directory: Node) -> bool {
        match directory {
            Node::Frozen(nid) => self.may_write_below(nid),
            Node::Found(number) => self.found.rights(number).write_below,
        }
    }

    /// Whether the user may make and remove names in the directory that the node lies in.
    pub(crate) fn may_write_beside(&self, node: Node) -> bool {
        match node {
            Node::Frozen(nid) => self.image.parent(nid).is_ok_and(|parent| self.may_write_below(parent)),
            Node::Found(number) => self.found.rights(number).write_beside,
        }
    }

    /// Whether a directory's names come from the original because something was written to it.
    pub(crate) fn is_live(&self, nid: Nid) -> bool {
        self.alterations.of(nid).is_some_and(|alteration| alteration.live)
    }

    fn is_live_node(&self, node: Node) -> bool {
        match node {
            Node::Frozen(nid) => self.is_live(nid),
            Node::Found(_) => true,
        }
    }

    /// Whether a file's content comes from the original.
    pub(crate) fn is_rewritten(&self, nid: Nid) -> bool {
        self.alterations.of(nid).is_some_and(|alteration| alteration.rewritten)
    }

    /// Whether a node's attributes are those of the image.
    pub(crate) fn is_frozen(&self, nid: Nid) -> bool {
        !self.is_from_original(nid) && self.is_uncovered(nid) == Ok(false)
    }

    /// Whether a node's attributes come from the original: it, or the directory that it lies in, was written to.
    pub(crate) fn is_from_original(&self, nid: Nid) -> bool {
        if !self.alterations.any() {
            return false;
        }
        let own = self.alterations.of(nid);
        own.is_some_and(|altered| altered.live || altered.rewritten || altered.displaced)
            || self.image.parent(nid).is_ok_and(|parent| self.is_live(parent))
    }
}

/// How long the attributes of an original hold. Those of a file not at all: the kernel does not tell us of opens, and who opens
/// a file that another has closed must read all of it, which it does up to the size that the kernel knows.
pub(crate) fn validity_of(attr: &Attr) -> Validity {
    if FileType::from_raw_mode(attr.mode).is_file() { Validity::Never } else { Validity::Brief }
}
