//! Requests that look: names, attributes, content.

use super::served::{OpenServed, ServedFile, ServedHandle, ServedNode, descriptor, joined};
use super::service::{MountService, Requester};
use super::walks::{OpenedIdentity, OwnedCall, RequestOrigin, WalkStep, failed};
use quell_fuse::abi::{self, Attr, EntryReply, NodeId, OpenFlags, Validity, encode_statfs};
use quell_fuse::listing::Listing;
use quell_fuse::open_flags::{kept, opened_as};
use quell_fuse::original::{self, reach, reopen};
use quell_fuse::passage::changes::{self, FOR_EXECUTION, open_program};
use quell_fuse::reply::{Reply, reply_done, reply_entry, reply_with, reply_xattr};
use quell_fuse::request::{FileHandle, Operation, Read, Request};
use quell_trace::flags::{O_CLOEXEC, O_DIRECTORY};
use quell_trace::{Call, Outcome};
use rustix::fs::{Access, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl MountService {
    /// Answers a request that is about no lock.
    pub(super) fn answer(&self, request: &Request<'_>, reply: Reply<'_>, scratch: &mut Vec<u8>) {
        let (node, by) = (request.node, Requester { caller: request.caller, start: self.shared.now() });
        match request.operation {
            Operation::Lookup { name } => reply_entry(self.lookup(node, name, by), reply),
            Operation::GetAttributes { .. } => {
                let attr = self.get_attributes(node, by);
                reply_with(attr, reply, |attr, reply| reply.attr(&attr, Validity::Never));
            }
            Operation::ReadLink => {
                reply_with(self.read_link(node, by), reply, |target, reply| reply.bytes(&target));
            }
            Operation::Access { mask } => reply_done(self.access(node, mask, by), reply),
            Operation::Open { flags, directory } => {
                let opened = self.open(node, flags, directory, by);
                reply_with(opened, reply, |opened, reply| reply.bytes(&opened.encode()));
            }
            Operation::Read(read) => self.read(&read, by, reply, scratch),
            Operation::ListDirectory { handle, offset, size, plus: false } => {
                let listing = self.list(handle, offset, size, by);
                reply_with(listing, reply, |listing, reply| reply.bytes(listing.bytes()));
            }
            Operation::Flush { handle, owner } => {
                self.locks.closed(node, owner);
                self.flush(handle, by, reply);
            }
            Operation::Release { handle, .. } => {
                let released = self.nodes.release(handle);
                self.locks.released(node, handle);
                reply.done();
                if let Some(handle) = released {
                    self.closed(&handle, by.as_thread(handle.data.thread));
                }
            }
            Operation::FileSystem => {
                reply_with(self.file_system(node, by), reply, |totals, reply| reply.bytes(&totals));
            }
            Operation::GetXattr { name, size } => reply_xattr(self.get_xattr(node, name, by), size, reply),
            Operation::ListXattr { size } => reply_xattr(self.list_xattr(node, by), size, reply),
            Operation::ForgetOne { lookups } => {
                self.forget(node, lookups);
                reply.none();
            }
            Operation::BatchForget { nodes } => {
                nodes.iter().for_each(|(node, lookups)| self.forget(node, lookups));
                reply.none();
            }
            // No file that reaches FUSE is a terminal or a device.
            Operation::Ioctl => reply.error(Errno::NOTTY),
            Operation::Destroy => reply.done(),
            _ => self.change(request, by, reply),
        }
    }

    fn forget(&self, node: NodeId, lookups: u64) {
        if self.nodes.forget(node, lookups).is_some() {
            self.shared.forget(self.key(node));
        }
    }

    /// Tells the recording of a call with this outcome on a file or name.
    pub(super) fn note<T>(
        &self,
        by: Requester,
        node: Option<NodeId>,
        outcome: Result<T, Errno>,
        call: impl FnOnce(RequestOrigin) -> OwnedCall,
    ) -> Result<T, Errno> {
        let asked = self.asked(by);
        let call = match &outcome {
            Ok(_) => call(asked),
            Err(errno) => failed(call(asked), number(*errno)),
        };
        self.shared.see(asked, WalkStep::Call { node: node.map(|node| self.key(node)), call });
        outcome
    }

    fn lookup(&self, parent: NodeId, name: &[u8], by: Requester) -> Result<EntryReply, Errno> {
        let directory = self.nodes.get(parent)?;
        let within = directory.data.path();
        let path = joined(&within, name);
        match self.act_as(by.caller, || reach(&directory.original, name)) {
            Ok((found, stat)) => {
                let entry = self.entry(&directory.original, path.clone(), found, &stat)?;
                let node = self.key(entry.node.unwrap_or(NodeId::ROOT));
                let step = WalkStep::Found { parent: self.key(parent), node, path };
                self.shared.see(self.asked(by), step);
                Ok(entry)
            }
            Err(Errno::NOENT) => {
                self.shared.see(self.asked(by), WalkStep::Absent { path });
                Err(Errno::NOENT)
            }
            Err(errno) => {
                self.note(by, Some(parent), Err(errno), |asked| OwnedCall::new(asked, Call::Newfstatat, path))
            }
        }
    }

    /// Gives the kernel a file that was found or made.
    pub(super) fn entry(
        &self,
        directory: &OwnedFd,
        path: Vec<u8>,
        found: OwnedFd,
        stat: &Stat,
    ) -> Result<EntryReply, Errno> {
        let is_removable = self.rights.may_remove_from(directory);
        let node = self.nodes.add(found, stat, is_removable, || ServedFile::new(path.clone()));
        self.nodes.get(node)?.data.found(path);
        let attr = self.nodes.get(node).and_then(|known| self.attributes(&known))?;
        Ok(EntryReply { node: Some(node), name_valid: Validity::Never, attr_valid: Validity::Never, attr })
    }

    fn get_attributes(&self, node: NodeId, by: Requester) -> Result<Attr, Errno> {
        let (known, path) = self.known(node)?;
        let attr = self.attributes(&known)?;
        let step = WalkStep::Attributes { node: self.key(node), path, is_open: self.nodes.is_open(node) };
        self.shared.see(self.asked(by), step);
        Ok(attr)
    }

    fn read_link(&self, node: NodeId, by: Requester) -> Result<Vec<u8>, Errno> {
        let (known, path) = self.known(node)?;
        let target = rustix::fs::readlinkat(&known.original, "", Vec::new())?.into_bytes();
        let step = WalkStep::Link { node: self.key(node), path, target: target.clone() };
        self.shared.see(self.asked(by), step);
        Ok(target)
    }

    /// A check of permissions, as access(2) and chdir(2) make it.
    fn access(&self, node: NodeId, mask: u32, by: Requester) -> Result<(), Errno> {
        let (known, path) = self.known(node)?;
        let wanted = Access::from_bits_truncate(mask);
        let outcome = self.act_as(by.caller, || changes::access(&known.original, wanted));
        self.note(by, Some(node), outcome, |asked| OwnedCall {
            flags: mask.into(),
            ..OwnedCall::new(asked, Call::Faccessat, path)
        })
    }

    fn open(
        &self,
        node: NodeId,
        flags: u32,
        directory: bool,
        by: Requester,
    ) -> Result<abi::OpenReply, Errno> {
        let (known, path) = self.known(node)?;
        let executes = flags & FOR_EXECUTION != 0;
        let asked = OFlags::from_bits_retain(flags & !FOR_EXECUTION);
        let kept = match directory {
            true => OFlags::RDONLY | OFlags::DIRECTORY,
            false => kept(asked) | asked & OFlags::TRUNC,
        };
        let file = self.act_as(by.caller, || match executes {
            true => open_program(&known.original),
            false => reopen(&known.original, kept),
        });
        if executes && file.is_ok() {
            let step = WalkStep::Executable { node: self.key(node), path: path.clone() };
            self.shared.see(self.asked(by), step);
            let handle = self.open_handle(node, file?, path, by);
            // It has no descriptor, so no call closes it.
            self.nodes.handle(handle)?.data.closes();
            return Ok(abi::OpenReply { handle: handle.0, flags: OpenFlags::empty() });
        }
        let is_directory = if directory { O_DIRECTORY } else { 0 };
        let opened = file.map(|file| {
            let facts = rustix::fs::fstat(&file).ok().map(|stat| identity(&stat));
            (self.open_handle(node, file, path.clone(), by), facts)
        });
        let (handle, facts) =
            opened.as_ref().map_or((FileHandle(0), None), |(handle, facts)| (*handle, *facts));
        let call = |asked| OwnedCall {
            outcome: self.descriptor(handle),
            flags: u64::from(flags) & !OFlags::LARGEFILE.bits() as u64 | is_directory | O_CLOEXEC,
            opened: facts,
            ..OwnedCall::new(asked, Call::Openat, path)
        };
        self.note(by, Some(node), opened, call)?;
        Ok(opened_as(handle, asked))
    }

    /// A file and the name by which it was found last.
    pub(super) fn known(&self, node: NodeId) -> Result<(Arc<ServedNode>, Vec<u8>), Errno> {
        let known = self.nodes.get(node)?;
        let path = known.data.path();
        Ok((known, path))
    }

    pub(super) fn open_handle(
        &self,
        node: NodeId,
        file: OwnedFd,
        path: Vec<u8>,
        by: Requester,
    ) -> FileHandle {
        self.nodes.open(node, file, |handle| ServedHandle::new(path, by.caller.pid as i32, handle))
    }

    /// The descriptor that a handle has in the trace.
    pub(super) fn descriptor(&self, handle: FileHandle) -> Outcome {
        Outcome::Success(descriptor(&self.nodes, handle))
    }

    fn read(&self, read: &Read, by: Requester, reply: Reply<'_>, scratch: &mut Vec<u8>) {
        let handle = self.nodes.handle(read.handle);
        scratch.resize(read.size.min(abi::MAX_TRANSFER) as usize, 0);
        let outcome = handle.clone().and_then(|handle| original::read_at(&handle.file, scratch, read.offset));
        match outcome {
            Ok(bytes) => reply.bytes(&scratch[..bytes]),
            Err(errno) => reply.error(errno),
        }
        // Only now: the thread may hold its memory until it is answered, and what `/proc` tells may wait for that.
        let Ok(handle) = handle else { return };
        let moved = outcome.unwrap_or(0);
        // The kernel may read on its own behalf.
        let by = if by.caller.pid == 0 { by.as_thread(handle.data.thread) } else { by };
        let call = |asked| OwnedCall {
            outcome: Outcome::Success(moved as i64),
            size: read.size.into(),
            offset: i64::try_from(read.offset).ok(),
            ..on(&handle, asked, Call::Pread64)
        };
        _ = self.note(by, None, outcome, call);
    }

    fn list(&self, handle: FileHandle, offset: u64, size: u32, by: Requester) -> Result<Listing, Errno> {
        let handle = self.nodes.handle(handle)?;
        let mut listing = Listing::new(size);
        let outcome = original::list(&handle.file, offset, &mut |name| listing.push(name));
        let length = listing.bytes().len() as i64;
        self.note(by, None, outcome, |asked| OwnedCall {
            outcome: Outcome::Success(length),
            size: size.into(),
            ..on(&handle, asked, Call::Getdents64)
        })?;
        Ok(listing)
    }

    /// A descriptor was closed: passes on the error that the original's file system gives then.
    fn flush(&self, handle: FileHandle, by: Requester, reply: Reply<'_>) {
        let Ok(handle) = self.nodes.handle(handle) else { return reply.done() };
        let copy = rustix::io::fcntl_dupfd_cloexec(&handle.file, 3);
        reply_done(copy.and_then(quell_fuse::descriptors::close), reply);
        // Only now: a program that is executed closes descriptors, and until it runs `/proc` tells nothing of its process.
        self.closed(&handle, by);
    }

    fn closed(&self, handle: &OpenServed, by: Requester) {
        if handle.data.closes() {
            let call = |asked| OwnedCall { path: None, ..on(handle, asked, Call::Close) };
            _ = self.note(by, None, Ok(()), call);
        }
    }

    fn file_system(&self, node: NodeId, by: Requester) -> Result<abi::StatfsBytes, Errno> {
        let (known, path) = self.known(node)?;
        let outcome = rustix::fs::fstatvfs(&known.original).map(|totals| encode_statfs(&totals));
        self.note(by, Some(node), outcome, |asked| OwnedCall::new(asked, Call::Statfs, path))
    }

    fn get_xattr(&self, node: NodeId, name: &[u8], by: Requester) -> Result<Vec<u8>, Errno> {
        let (known, path) = self.known(node)?;
        let outcome = self.act_as(by.caller, || original::xattr(&known.original, name));
        // The kernel asks for it before each write and execution.
        if name == b"security.capability" {
            return outcome;
        }
        self.note(by, Some(node), outcome, |asked| OwnedCall::new(asked, Call::Lgetxattr, path))
    }

    fn list_xattr(&self, node: NodeId, by: Requester) -> Result<Vec<u8>, Errno> {
        let (known, path) = self.known(node)?;
        let outcome = self.act_as(by.caller, || original::xattr_names(&known.original));
        self.note(by, Some(node), outcome, |asked| OwnedCall::new(asked, Call::Llistxattr, path))
    }
}

/// A call on an open file.
pub(super) fn on(handle: &OpenServed, asked: RequestOrigin, call: Call) -> OwnedCall {
    OwnedCall { fd: quell_trace::Fd(handle.data.fd), ..OwnedCall::new(asked, call, handle.data.path.clone()) }
}

pub(super) fn identity(stat: &Stat) -> OpenedIdentity {
    OpenedIdentity {
        device: stat.st_dev,
        inode: stat.st_ino,
        mode: stat.st_mode,
        size: stat.st_size.cast_unsigned(),
        modified: stat.st_mtime.saturating_mul(1_000_000_000) + stat.st_mtime_nsec as i64,
    }
}

fn number(errno: Errno) -> quell_trace::Errno {
    quell_trace::Errno(errno.raw_os_error() as u16)
}
