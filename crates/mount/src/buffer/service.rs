//! Answers the kernel's requests for one buffered directory: on the originals, but for the content of files.

mod attributes;
mod moving;
mod opening;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, FallocateFlags, FileType, RenameFlags, Stat, XattrFlags};
use rustix::io::Errno;

use super::counts::DirectoryCounts;
use super::file::{BufferedFile, Common, Memory, OpenState};
use super::picked::Picked;
use super::request::{BufferDirectory, BufferSharing};
use super::rules::BufferRule;
use crate::counters::AtomicRequests;
use crate::covers::Answering;
use crate::fuse::abi::{self, Attr, EntryReply, InitFlags, NodeId, Validity, encode_statfs};
use crate::fuse::device::Device;
use crate::fuse::init;
use crate::fuse::listing::Listing;
use crate::fuse::original::{self, os, place_of, reach};
use crate::fuse::passage::locks::{self, LockServer, PassedLocks};
use crate::fuse::passage::{INIT_FLAGS, PassedNode, PassedNodes, Rights, changes};
use crate::fuse::reply::{Reply, reply_created, reply_done, reply_entry, reply_with, reply_xattr, written};
use crate::fuse::request::{Caller, Create, FileHandle, Lock, LockOwner, Operation, Read, Request};
use crate::fuse::serving::answer_requests;

/// A buffered directory that is served.
#[derive(Debug)]
pub(super) struct Service {
    device: Device,
    nodes: PassedNodes<BufferedFile, OpenState>,
    locks: PassedLocks,
    rules: Vec<BufferRule>,
    /// The second place for names of the directory itself.
    picked: Option<Picked>,
    pub(super) common: Common,
    pub(super) requests: AtomicRequests,
}

type Node = PassedNode<BufferedFile>;

impl Service {
    pub(super) fn new(
        device: OwnedFd,
        original: OwnedFd,
        picked: Option<Picked>,
        directory: &BufferDirectory,
        memory: Arc<Memory>,
    ) -> Result<Self, Errno> {
        Ok(Self {
            device: Device::new(device),
            nodes: PassedNodes::new(original, BufferedFile::top())?,
            locks: PassedLocks::default(),
            rules: directory.rules.clone(),
            picked,
            common: Common {
                rights: Rights::of_this_process(),
                counts: DirectoryCounts::default(),
                memory,
                is_private: directory.sharing == BufferSharing::Private,
            },
            requests: AtomicRequests::default(),
        })
    }

    /// Writes what lay in buffers for a while, as long as the service lives.
    pub(super) fn tend(service: &Weak<Self>) {
        while let Some(service) = service.upgrade() {
            for node in service.nodes.all() {
                node.data.tend(&service.common, DIRTY_AGE);
            }
            drop(service);
            std::thread::sleep(TENDING);
        }
    }

    /// Writes everything. The mount is gone, and no program is left to be told of errors.
    pub(super) fn finish(&self) {
        self.nodes.all().iter().for_each(|node| node.data.finish(&self.common));
    }

    fn answer(&self, request: &Request<'_>, reply: Reply<'_>, scratch: &mut Vec<u8>) {
        let (node, caller) = (request.node, request.caller);
        match request.operation {
            Operation::Init { .. } => {
                let mut wanted = INIT_FLAGS | InitFlags::HANDLE_KILLPRIV_V2;
                wanted.set(InitFlags::WRITEBACK_CACHE, self.common.is_private);
                init::settle(&request.operation, reply, wanted, abi::MAX_TRANSFER);
            }
            Operation::Lookup { name } => reply_entry(self.look_up(node, name, caller), reply),
            Operation::GetAttributes { .. } => {
                let attr = self.nodes.get(node).and_then(|known| self.attributes(&known));
                reply_with(attr, reply, |attr, reply| reply.attr(&attr, validity(&attr)));
            }
            Operation::ReadLink => {
                let target = self.nodes.get(node).and_then(|known| {
                    rustix::fs::readlinkat(&known.original, "", Vec::new()).map(std::ffi::CString::into_bytes)
                });
                reply_with(target, reply, |target, reply| reply.bytes(&target));
            }
            Operation::Access { mask } => {
                let wanted = Access::from_bits_truncate(mask);
                reply_done(self.act(node, caller, |known| changes::access(&known.original, wanted)), reply);
            }
            Operation::Open { flags, directory } => {
                let opened = if directory {
                    self.open_directory(node, caller)
                } else {
                    self.open(node, flags, caller)
                };
                reply_with(opened, reply, |opened, reply| reply.bytes(&opened.encode()));
            }
            Operation::Read(ref read) => {
                let outcome = self.read(node, read, scratch);
                reply_with(outcome, reply, |bytes, reply| reply.bytes(&scratch[..bytes]));
            }
            Operation::ListDirectory { handle, offset, size, plus: false } => {
                let mut listing = Listing::new(size);
                let handle = self.nodes.handle(handle);
                let listed = handle.and_then(|open| match (&self.picked, &open.data.picked) {
                    (Some(picked), Some(more)) => picked.list(&open.file, more, offset, &mut listing),
                    _ => original::list(&open.file, offset, &mut |name| listing.push(name)),
                });
                reply_with(listed, reply, |(), reply| reply.bytes(listing.bytes()));
            }
            Operation::Flush { handle, owner } => reply_done(self.flush(node, handle, owner), reply),
            Operation::Release { handle, .. } => {
                self.release(node, handle);
                reply.done();
            }
            Operation::FileSystem => {
                let totals = self.nodes.get(node).and_then(|known| rustix::fs::fstatvfs(&known.original));
                reply_with(totals, reply, |totals, reply| reply.bytes(&encode_statfs(&totals)));
            }
            Operation::GetXattr { name, size } => {
                let value = self.act(node, caller, |known| original::xattr(&known.original, name));
                reply_xattr(value, size, reply);
            }
            Operation::ListXattr { size } => {
                let names = self.act(node, caller, |known| original::xattr_names(&known.original));
                reply_xattr(names, size, reply);
            }
            Operation::ForgetOne { lookups } => {
                self.nodes.forget(node, lookups);
                reply.none();
            }
            Operation::BatchForget { nodes } => {
                nodes.iter().for_each(|(node, lookups)| _ = self.nodes.forget(node, lookups));
                reply.none();
            }
            // No file that reaches FUSE is a terminal or a device.
            Operation::Ioctl => reply.error(Errno::NOTTY),
            Operation::Destroy => reply.done(),
            _ => self.change(request, reply),
        }
    }

    /// The requests that change something.
    fn change(&self, request: &Request<'_>, reply: Reply<'_>) {
        let (node, caller) = (request.node, request.caller);
        match request.operation {
            Operation::Write(ref write) => {
                let file =
                    self.nodes.get(node).and_then(|known| Ok((known, self.nodes.handle(write.handle)?)));
                let outcome = file.and_then(|(known, open)| known.data.write(&self.common, &open, write));
                reply_with(outcome, reply, |bytes, reply| reply.bytes(&written(bytes)));
            }
            Operation::SetAttributes(ref change) => {
                let attr = self.set_attributes(node, change, caller);
                reply_with(attr, reply, |attr, reply| reply.attr(&attr, validity(&attr)));
            }
            Operation::Create(ref create) => {
                reply_created(self.create(node, create, caller, changes::create), reply);
            }
            Operation::MakeUnnamed(ref create) => {
                let create = &Create { name: b"", ..*create };
                reply_created(self.create(node, create, caller, changes::make_unnamed), reply);
            }
            Operation::MakeNode { name, mode, umask, device } => {
                let make = |directory: &OwnedFd| changes::make_node(directory, name, mode, umask, device);
                reply_entry(self.make(node, name, caller, make), reply);
            }
            Operation::MakeDirectory { name, mode, umask } => {
                let make = |directory: &OwnedFd| changes::make_directory(directory, name, mode, umask);
                reply_entry(self.make(node, name, caller, make), reply);
            }
            Operation::Symlink { name, target } => {
                let make = |directory: &OwnedFd| rustix::fs::symlinkat(os(target), directory, os(name));
                reply_entry(self.make(node, name, caller, make), reply);
            }
            Operation::Link { old, name } => {
                let linked = self.nodes.get(old).and_then(|old| {
                    self.make(node, name, caller, |directory| original::link(&old.original, directory, name))
                });
                reply_entry(linked, reply);
            }
            Operation::Unlink { name } => {
                reply_done(self.remove(node, name, AtFlags::empty(), caller), reply);
            }
            Operation::RemoveDirectory { name } => {
                reply_done(self.remove(node, name, AtFlags::REMOVEDIR, caller), reply);
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                let flags = RenameFlags::from_bits_retain(flags);
                let renamed = self.rename((node, name), (new_parent, new_name), flags, caller);
                reply_done(renamed, reply);
            }
            Operation::Synchronise { handle, data_only } => {
                reply_done(self.synchronise(node, handle, data_only), reply);
            }
            Operation::Allocate { handle, offset, length, mode } => {
                let mode = FallocateFlags::from_bits_retain(mode);
                let allocated = self.nodes.handle(handle).and_then(|open| {
                    self.act(node, caller, |known| {
                        let allocate = || rustix::fs::fallocate(&open.file, mode, offset, length);
                        known.data.around(&self.common, allocate)
                    })
                });
                reply_done(allocated, reply);
            }
            Operation::SetXattr(ref change) => {
                let flags = XattrFlags::from_bits_retain(change.flags);
                let set = |known: &Node| {
                    rustix::fs::setxattr(place_of(&known.original), os(change.name), change.value, flags)
                };
                reply_done(self.act(node, caller, set), reply);
            }
            Operation::RemoveXattr { name } => {
                let remove = |known: &Node| rustix::fs::removexattr(place_of(&known.original), os(name));
                reply_done(self.act(node, caller, remove), reply);
            }
            _ => reply.error(Errno::NOSYS),
        }
    }

    /// Carries out an action on a file with the rights of the process that asked.
    fn act<T>(
        &self,
        node: NodeId,
        caller: Caller,
        action: impl FnOnce(&Node) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let known = self.nodes.get(node)?;
        self.common.rights.act_as(caller, || action(&known))
    }

    /// The original of a directory in which a name lies.
    fn place<'d>(&'d self, directory: &'d Node, name: &[u8]) -> &'d OwnedFd {
        let picked = self.picked.as_ref().filter(|_| directory.data.is_top);
        picked.and_then(|picked| picked.local_of(name)).unwrap_or(&directory.original)
    }

    fn look_up(&self, parent: NodeId, name: &[u8], caller: Caller) -> Result<EntryReply, Errno> {
        let (found, stat) = self.act(parent, caller, |directory| reach(self.place(directory, name), name))?;
        self.entry(parent, name, found, &stat)
    }

    /// Gives the kernel a file that was found or made. It asks for each name anew, and forgets a file that is not in use.
    fn entry(&self, parent: NodeId, name: &[u8], found: OwnedFd, stat: &Stat) -> Result<EntryReply, Errno> {
        let directory = self.nodes.get(parent)?;
        let is_removable = self.common.rights.may_remove_from(self.place(&directory, name));
        let node = self.nodes.add(found, stat, is_removable, || {
            let within = &directory.data.path;
            let slash = if within.is_empty() { &b""[..] } else { b"/" };
            let path = [within, slash, name].concat();
            let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
            let rule = self.rules.iter().find(|rule| is_file && rule.matches(&path)).cloned();
            BufferedFile::new(path, rule)
        });
        let attr = self.nodes.get(node).and_then(|known| self.attributes(&known))?;
        let attr_valid = validity(&attr);
        Ok(EntryReply { node: Some(node), name_valid: Validity::Never, attr_valid, attr })
    }

    fn attributes(&self, node: &Node) -> Result<Attr, Errno> {
        let stat = rustix::fs::fstat(&node.original)?;
        let mut attr = self.common.rights.attributes(&node.original, &stat, node.is_removable);
        node.data.overlay(&mut attr);
        self.picked.iter().filter(|_| node.data.is_top).for_each(|picked| picked.overlay(&mut attr));
        Ok(attr)
    }

    /// Makes a name of any other kind, and gives it to the kernel.
    fn make(
        &self,
        parent: NodeId,
        name: &[u8],
        caller: Caller,
        make: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<EntryReply, Errno> {
        self.act(parent, caller, |directory| make(self.place(directory, name)))?;
        let directory = self.nodes.get(parent)?;
        let (found, stat) = reach(self.place(&directory, name), name)?;
        self.entry(parent, name, found, &stat)
    }

    fn remove(&self, parent: NodeId, name: &[u8], flags: AtFlags, caller: Caller) -> Result<(), Errno> {
        let remove = |directory: &Node| rustix::fs::unlinkat(self.place(directory, name), os(name), flags);
        self.act(parent, caller, remove)
    }

    fn read(&self, node: NodeId, read: &Read, scratch: &mut Vec<u8>) -> Result<usize, Errno> {
        let (known, open) = (self.nodes.get(node)?, self.nodes.handle(read.handle)?);
        scratch.resize(read.size.min(abi::MAX_TRANSFER) as usize, 0);
        known.data.read(&self.common, &open, read.offset, scratch, read.direct)
    }

    /// A descriptor was closed: everything goes to the original, and its errors to the program.
    fn flush(&self, node: NodeId, handle: FileHandle, owner: LockOwner) -> Result<(), Errno> {
        let known = self.nodes.get(node)?;
        known.data.flush(&self.common);
        self.locks.closed(node, owner);
        let Ok(open) = self.nodes.handle(handle) else { return Ok(()) };
        // The file system reports errors at close for the open file by which buffers were written.
        let writer = known.data.writer().filter(|writer| !Arc::ptr_eq(writer, &open));
        let written = writer.map_or(Ok(()), |writer| closed(&writer.file));
        known.data.reported(&open.data).and(closed(&open.file)).and(written)
    }

    fn release(&self, node: NodeId, handle: FileHandle) {
        self.locks.released(node, handle);
        let Some(open) = self.nodes.release(handle) else { return };
        if let Ok(known) = self.nodes.get(open.node) {
            known.data.released(&self.common);
        }
    }

    fn synchronise(&self, node: NodeId, handle: FileHandle, data_only: bool) -> Result<(), Errno> {
        let (known, open) = (self.nodes.get(node)?, self.nodes.handle(handle)?);
        known.data.flush(&self.common);
        known.data.reported(&open.data)?;
        open.data.picked.as_ref().map_or(Ok(()), |picked| rustix::fs::fsync(&picked.local))?;
        if data_only { rustix::fs::fdatasync(&open.file) } else { rustix::fs::fsync(&open.file) }
    }
}

/// Kept briefly where the kernel would ask before each read and write.
fn validity(attr: &Attr) -> Validity {
    if FileType::from_raw_mode(attr.mode).is_file() { Validity::Brief } else { Validity::Never }
}

impl Answering for Service {
    const THREADS: usize = 4;

    fn answer_requests(self: &Arc<Self>) {
        // Each thread applies the mask of the process that asks.
        _ = quell_fuse::unshare_umask();
        let mut buffer = vec![0; abi::MAX_TRANSFER as usize + 4096];
        let mut scratch = Vec::new();
        answer_requests(&self.device, &mut buffer, |request, reply| {
            self.requests.asked(&request.operation);
            match request.operation {
                Operation::Lock { .. } | Operation::GetLock { .. } | Operation::Interrupt { .. } => {
                    locks::answer(self, request, reply);
                }
                _ => self.answer(request, reply, &mut scratch),
            }
        });
    }
}

impl LockServer for Service {
    type File = BufferedFile;
    type Open = OpenState;

    // Pages that the kernel gives up are written by requests of their own.
    const IS_APART: bool = true;

    fn device(&self) -> &Device {
        &self.device
    }

    fn nodes(&self) -> &PassedNodes<BufferedFile, OpenState> {
        &self.nodes
    }

    fn locks(&self) -> &PassedLocks {
        &self.locks
    }

    fn before(&self, node: NodeId, lock: &Lock) {
        if !locks::is_taken(lock) {
            self.make_coherent(node);
        }
    }

    fn after(&self, node: NodeId, _lock: &Lock) {
        self.make_coherent(node);
    }
}

impl Service {
    /// Has everything that was written to a file on the original, and everything that is read from now on come from there.
    fn make_coherent(&self, node: NodeId) {
        let Ok(known) = self.nodes.get(node) else { return };
        known.data.locked(&self.common);
        // A file that the kernel does not know any more has no pages.
        _ = self.device.forget_inode(node);
    }
}

/// Closes a copy of an open file, as when a program closes a descriptor of it.
fn closed(file: &OwnedFd) -> Result<(), Errno> {
    rustix::io::fcntl_dupfd_cloexec(file, 3).and_then(quell_fuse::descriptors::close)
}

/// The longest time for which a buffer has bytes that the file does not have.
const DIRTY_AGE: Duration = Duration::from_secs(5);

const TENDING: Duration = Duration::from_secs(1);
