//! Open files: OPEN to RELEASE.
//!
//! A file that the image answers for is opened without its original, and without a handle. Every other file is opened as
//! the program opens it, with the same flags: each operation of the program is carried out by our descriptor, and errors at close
//! reach the program. The first open for writing leaves the image behind.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use quell_image::{Beyond, Nid};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::LiveTier;
use crate::counters::SentOn;
use crate::fuse::abi::{self, OpenFlags, OpenReply};
use crate::fuse::request::{Caller, FileHandle, LockOwner, Read, Unique, Write};
use crate::server::node::Node;
use crate::server::open_flags::{changes_content, kept, opened_as};
use crate::server::packed::damaged;
use crate::server::slots::{Attempt, SlotNote};

impl LiveTier {
    /// OPEN of an original.
    pub(crate) fn open(
        &self,
        node: Node,
        flags: u32,
        caller: Caller,
        unique: Unique,
    ) -> Result<OpenReply, Errno> {
        let flags = OFlags::from_bits_retain(flags);
        let original = self.bindings.pin(node)?;
        if changes_content(flags) {
            self.bindings.note_written(node);
        }
        let asked = kept(flags) | flags & OFlags::TRUNC;
        let file = self.packed.viewer.act_as(caller, || self.bindings.originals.open(&original, asked))??;
        self.opened(node, file, flags, unique)
    }

    /// Gives an open original to the kernel.
    pub(crate) fn opened(
        &self,
        node: Node,
        file: OwnedFd,
        flags: OFlags,
        unique: Unique,
    ) -> Result<OpenReply, Errno> {
        self.bindings
            .handles
            .open(node, Some(file), kept(flags), unique)
            .map(|handle| opened_as(handle, flags))
    }

    /// OPENDIR of an original.
    pub(crate) fn open_directory_handle(
        &self,
        node: Node,
        caller: Caller,
        unique: Unique,
    ) -> Result<OpenReply, Errno> {
        let file = self.packed.viewer.act_as(caller, || self.bindings.open_directory(node))??;
        let handle = self.bindings.handles.open(node, Some(file), OFlags::RDONLY, unique)?;
        Ok(OpenReply { handle: handle.0, flags: OpenFlags::empty() })
    }

    /// FLUSH: passes on the error that the original's file system gives at close.
    pub(crate) fn flush(&self, node: Node, handle: FileHandle, owner: LockOwner) -> Result<(), Errno> {
        self.locks.drop_process(node, owner);
        let Some(file) = self.bindings.handles.get(handle).ok().and_then(|handle| handle.file()) else {
            return Ok(());
        };
        let copy = rustix::io::fcntl_dupfd_cloexec(&*file, 3)?;
        quell_fuse::descriptors::close(copy)
    }

    /// RELEASE and RELEASEDIR of a file that has a handle. The number of a handle is given once: this can be done again.
    pub(crate) fn release(&self, node: Node, handle: FileHandle) {
        self.locks.drop_handle(node, handle);
        self.bindings.handles.release(handle);
    }

    /// RELEASE of a packed file without a handle. Done twice, it would be taken for one that is not open.
    pub(crate) fn release_packed(&self, nid: Nid) {
        if self.bindings.nodes.references().close(nid) {
            self.locks.drop_handle(Node::Frozen(nid), FileHandle(0));
        }
    }

    /// READ from the original. Returns the bytes that are in `scratch`.
    pub(crate) fn read(&self, node: Node, read: &Read, scratch: &mut Vec<u8>) -> Result<usize, Errno> {
        let file = self.file_to_read(node, read.handle)?;
        scratch.resize(read.size.min(abi::MAX_TRANSFER) as usize, 0);
        let bytes = self.bindings.originals.read(&file, scratch, read.offset)?;
        self.frozen.verify_part(node, &file)?;
        Ok(bytes)
    }

    fn file_to_read(&self, node: Node, handle: FileHandle) -> Result<Arc<OwnedFd>, Errno> {
        let open = self.bindings.handles.get(handle).ok().filter(|handle| handle.reads());
        if let Some(file) = open.and_then(|handle| handle.file()) {
            return Ok(file);
        }
        if let Some(reader) = self.bindings.nodes.reader(node).or_else(|| self.readers.get(node)) {
            return Ok(reader);
        }
        if let Node::Frozen(nid) = node
            && self.packed.beyond == Beyond::Nothing
        {
            let path = self.packed.image.path(nid).map_err(damaged)?;
            self.bindings.originals.send_on(SentOn::Read, Path::new(OsStr::from_bytes(&path)))?;
        }
        // ESTALE would say that the file is gone; some of it may have been read.
        let original = self
            .bindings
            .original(node)
            .map_err(|errno| if errno == Errno::STALE { Errno::IO } else { errno })?;
        let file = Arc::new(self.bindings.originals.open(&original, OFlags::RDONLY)?);
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
        let handle = self.bindings.handles.get(write.handle)?;
        let file = handle.file().ok_or(Errno::BADF)?;
        let appends =
            write.open_flags & OFlags::APPEND.bits() != 0 && write.write_flags & abi::WRITE_CACHE == 0;
        // Held until an append is noted as done: what it leaves in the open file is about one append at a time.
        let mut state = crate::lock(&handle.position);
        if state.appends != appends {
            let flags = rustix::fs::fcntl_getfl(&*file)?;
            rustix::fs::fcntl_setfl(
                &*file,
                if appends { flags | OFlags::APPEND } else { flags - OFlags::APPEND },
            )?;
            state.appends = appends;
        }
        let written = if appends {
            let written = self.append(&handle, &file, write.data, caller, attempt);
            // It may lie elsewhere than the kernel believed.
            let _unknown = self.bindings.device.expire_attributes(node.encode(self.packed.root));
            written?
        } else {
            self.packed
                .viewer
                .act_as(caller, || self.bindings.originals.write(&file, write.data, write.offset))??
        };
        attempt.remember(SlotNote::Written, written as u64);
        Ok(written)
    }

    /// FSYNC and FSYNCDIR.
    pub(crate) fn synchronise(&self, handle: FileHandle, data_only: bool) -> Result<(), Errno> {
        let Some(file) = self.bindings.handles.get(handle).ok().and_then(|handle| handle.file()) else {
            // It cannot have been written by this descriptor.
            return Ok(());
        };
        self.bindings.originals.change(&file, || {
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
        let file = self.bindings.handles.get(handle)?.file().ok_or(Errno::BADF)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        self.packed.viewer.act_as(caller, || {
            self.bindings.originals.change(&file, || rustix::fs::fallocate(&*file, mode, offset, length))
        })?
    }
}
