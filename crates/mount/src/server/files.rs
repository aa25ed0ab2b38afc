//! Open files: OPEN to RELEASE.
//!
//! A file that the image answers for is opened without its original, and without a handle. Every other file is opened as
//! the program opens it, with the same flags: what the program does by its descriptor is done by ours, and errors at close
//! reach the program. The first open for writing leaves the image behind.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use quell_image::{Beyond, Nid};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::Server;
use super::frozen::damaged;
use super::nodes::Node;
use super::slots::{Attempt, Note};
use crate::counters::SentOn;
use crate::fuse::abi::{self, OpenFlags, Opened};
use crate::fuse::reply::Reply;
use crate::fuse::request::{Caller, FileHandle, LockOwner, Read, Unique, Write};

impl Server {
    /// Opens a file that the image answers for: nothing but what is held of it has to be given to the kernel first. `None` if
    /// the original is needed.
    pub(crate) fn open_frozen(&self, nid: Nid, flags: u32) -> Option<Opened> {
        if changes_content(OFlags::from_bits_retain(flags)) || self.is_altered(nid) {
            return None;
        }
        self.nodes.references().open(nid);
        // Another thread may have changed the file before it could see that it is open.
        if self.is_altered(nid) {
            self.nodes.references().close(nid);
            return None;
        }
        Some(Opened { handle: 0, flags: OpenFlags::KEEP_CACHE | OpenFlags::NO_FLUSH })
    }

    /// OPEN of a file.
    pub(crate) fn open(
        &self,
        node: Node,
        flags: u32,
        caller: Caller,
        unique: Unique,
    ) -> Result<Opened, Errno> {
        if let Node::Frozen(nid) = node
            && let Some(opened) = self.open_frozen(nid, flags)
        {
            self.push_first(nid);
            return Ok(opened);
        }
        let flags = OFlags::from_bits_retain(flags);
        let original = self.pin(node)?;
        if changes_content(flags) {
            self.note_written(node);
        }
        let asked = kept(flags) | flags & OFlags::TRUNC;
        let file = self.as_caller(caller, || self.originals.open(&original, asked))??;
        self.opened(node, file, flags, unique)
    }

    /// Gives an open original to the kernel.
    pub(crate) fn opened(
        &self,
        node: Node,
        file: OwnedFd,
        flags: OFlags,
        unique: Unique,
    ) -> Result<Opened, Errno> {
        self.handles.open(node, Some(file), kept(flags), unique).map(|handle| opened_as(handle, flags))
    }

    /// A file may be written to from now on: it and its directory are the original.
    pub(crate) fn note_written(&self, node: Node) {
        let Node::Frozen(nid) = node else { return };
        self.keep_readable(nid);
        self.alter(nid);
        if let Ok(parent) = self.image.parent(nid) {
            // A directory that cannot be tied to its original stays as the image has it; the file does not.
            let _stays_frozen = self.go_live(Node::Frozen(parent));
        }
    }

    /// Before a frozen file is changed: if it is open without a handle, its original is opened for reading, while its mode
    /// and its name still allow that.
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

    /// OPENDIR.
    pub(crate) fn open_directory_handle(
        &self,
        node: Node,
        caller: Caller,
        unique: Unique,
    ) -> Result<Opened, Errno> {
        if let Node::Frozen(nid) = node
            && !self.is_live(nid)
            && self.is_listed(nid)?
        {
            let handle = self.handles.open(node, None, OFlags::RDONLY, unique)?;
            // Another thread may have changed the directory before it could see that it is open.
            if !self.is_live(nid) {
                return Ok(Opened { handle: handle.0, flags: OpenFlags::KEEP_CACHE | OpenFlags::CACHE_DIR });
            }
            self.handles.release(handle);
        }
        let file = self.as_caller(caller, || self.open_directory(node))??;
        let handle = self.handles.open(node, Some(file), OFlags::RDONLY, unique)?;
        Ok(Opened { handle: handle.0, flags: OpenFlags::empty() })
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

    /// FLUSH: what the original's file system says at close, the program is told.
    pub(crate) fn flush(&self, node: Node, handle: FileHandle, owner: LockOwner) -> Result<(), Errno> {
        self.locks.drop_owner(node, owner, false);
        let Some(file) = self.handles.get(handle).ok().and_then(|handle| handle.file()) else {
            return Ok(());
        };
        let copy = rustix::io::fcntl_dupfd_cloexec(&*file, 3)?;
        crate::sys::descriptors::close(copy)
    }

    /// RELEASE and RELEASEDIR.
    pub(crate) fn release(&self, node: Node, handle: FileHandle, owner: Option<LockOwner>) {
        if let Some(owner) = owner {
            self.locks.drop_owner(node, owner, true);
        }
        let last = match (handle, node) {
            (FileHandle(0), Node::Frozen(nid)) => self.nodes.references().close(nid),
            _ => self.handles.release(handle).is_some(),
        };
        if last {
            self.locks.drop_handle(node, handle);
        }
    }

    /// READ.
    pub(crate) fn read(&self, node: Node, read: &Read, reply: Reply<'_>, scratch: &mut Vec<u8>) {
        if let Node::Frozen(nid) = node
            && !self.is_altered(nid)
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
        let file = self.file_to_read(node, read.handle)?;
        scratch.resize(read.size.min(abi::MAX_TRANSFER) as usize, 0);
        let bytes = self.originals.read(&file, scratch, read.offset)?;
        self.verify_part(node, &file)?;
        Ok(bytes)
    }

    fn file_to_read(&self, node: Node, handle: FileHandle) -> Result<Arc<OwnedFd>, Errno> {
        let open = self.handles.get(handle).ok().filter(|handle| handle.reads());
        if let Some(file) = open.and_then(|handle| handle.file()) {
            return Ok(file);
        }
        if let Some(reader) = self.nodes.reader(node).or_else(|| self.readers.get(node)) {
            return Ok(reader);
        }
        if let Node::Frozen(nid) = node
            && self.beyond == Beyond::Nothing
        {
            let path = self.image.path(nid).map_err(damaged)?;
            self.originals.send_on(SentOn::Read, Path::new(std::ffi::OsStr::from_bytes(&path)))?;
        }
        // ESTALE would say that the file is gone; some of it may have been read.
        let original =
            self.original(node).map_err(|errno| if errno == Errno::STALE { Errno::IO } else { errno })?;
        let file = Arc::new(self.originals.open(&original, OFlags::RDONLY)?);
        self.readers.put(node, Arc::clone(&file));
        Ok(file)
    }

    /// WRITE. Returns how many bytes were written.
    pub(crate) fn write(
        &self,
        node: Node,
        write: &Write<'_>,
        caller: Caller,
        attempt: Attempt<'_>,
    ) -> Result<usize, Errno> {
        let handle = self.handles.get(write.handle)?;
        let file = handle.file().ok_or(Errno::BADF)?;
        let appends =
            write.open_flags & OFlags::APPEND.bits() != 0 && write.write_flags & abi::WRITE_CACHE == 0;
        // Held until an append is noted as done: what it leaves in the open file is about one append at a time.
        let mut state = crate::lock(&handle.appends);
        if *state != appends {
            let flags = rustix::fs::fcntl_getfl(&*file)?;
            rustix::fs::fcntl_setfl(
                &*file,
                if appends { flags | OFlags::APPEND } else { flags - OFlags::APPEND },
            )?;
            *state = appends;
        }
        let written = if appends {
            let written = self.append(&handle, &file, write.data, caller, attempt);
            // It may lie elsewhere than the kernel believed.
            let _unknown = self.device.expire_attributes(node.encode(self.root));
            written?
        } else {
            self.as_caller(caller, || self.originals.write(&file, write.data, write.offset))??
        };
        attempt.remember(Note::Written, written as u64);
        Ok(written)
    }

    /// FSYNC and FSYNCDIR.
    pub(crate) fn synchronise(&self, handle: FileHandle, data_only: bool) -> Result<(), Errno> {
        let Some(file) = self.handles.get(handle).ok().and_then(|handle| handle.file()) else {
            // It cannot have been written by this descriptor.
            return Ok(());
        };
        self.originals.change(&file, || {
            if data_only { rustix::fs::fdatasync(&*file) } else { rustix::fs::fsync(&*file) }
        })
    }

    /// FALLOCATE.
    pub(crate) fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: u32,
        caller: Caller,
    ) -> Result<(), Errno> {
        let file = self.handles.get(handle)?.file().ok_or(Errno::BADF)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        self.as_caller(caller, || {
            self.originals.change(&file, || rustix::fs::fallocate(&*file, mode, offset, length))
        })?
    }

    /// Tells whether a node is open in this namespace.
    pub(crate) fn is_open(&self, node: Node) -> bool {
        let frozen = match node {
            Node::Frozen(nid) => self.nodes.references().is_open(nid),
            Node::Found(_) => false,
        };
        frozen || self.handles.is_open(node)
    }
}

/// The answer for an original that is open with these flags.
pub(crate) fn opened_as(handle: FileHandle, flags: OFlags) -> Opened {
    // An append goes to where the file ends at that moment, of which the kernel's cache knows nothing.
    let cache = if flags.contains(OFlags::APPEND) { OpenFlags::DIRECT_IO } else { OpenFlags::empty() };
    Opened { handle: handle.0, flags: cache }
}

/// Whether a file that is opened with these flags is, or may be, changed.
fn changes_content(flags: OFlags) -> bool {
    flags & OFlags::ACCMODE != OFlags::RDONLY || flags.contains(OFlags::TRUNC)
}

/// The flags of an open call that count for the original. `O_DIRECT` would want aligned memory; the others say how a path is
/// walked, which the kernel has done.
fn kept(flags: OFlags) -> OFlags {
    flags & (OFlags::ACCMODE | OFlags::APPEND | OFlags::DSYNC | OFlags::SYNC | OFlags::NOATIME)
}
