//! Answers the kernel's requests for one scratch directory.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use quell_gather::Log;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::content::Content;
use super::counts::{Asked, RequestCounts};
use super::gather::Scope;
use super::originals::{FILE, KIND, OpenOriginal};
use super::tree::{Kind, New, Removed, Rename, Tree};
use crate::fuse::abi::{
    self, Attr, EntryReply, InitFlags, NodeId, OpenFlags, OpenReply, SetAttributes, Validity, encode_statfs,
};
use crate::fuse::device::Device;
use crate::fuse::init;
use crate::fuse::listing::{ListedName, Listing, Pushed};
use crate::fuse::original;
use crate::fuse::reply::{Reply, reply_created, reply_done, reply_entry, reply_with, reply_xattr, written};
use crate::fuse::request::{FileHandle, Operation, Read, Request, SetAttr};
use crate::fuse::serving::answer_requests;

/// A scratch directory that is served.
#[derive(Debug)]
pub(super) struct Service {
    device: Device,
    pub(super) tree: Mutex<Tree>,
    pub(super) counts: RequestCounts,
    handles: Mutex<Handles>,
    /// The container, where new files go to one.
    log: Option<Arc<Log>>,
}

#[derive(Debug, Default)]
struct Handles {
    open: HashMap<u64, Handle>,
    last: u64,
}

#[derive(Debug, Clone)]
enum Handle {
    /// With the original, if that was opened.
    File(u64, Option<Arc<OpenOriginal>>),
    Directory(Arc<Vec<(Vec<u8>, u64, u32)>>),
}

impl Service {
    pub(super) fn new(device: OwnedFd, tree: Tree) -> Self {
        Self {
            device: Device::new(device),
            log: tree.gatherer.as_ref().map(|gatherer| Arc::clone(&gatherer.log)),
            tree: Mutex::new(tree),
            counts: RequestCounts::default(),
            handles: Mutex::default(),
        }
    }

    /// Answers until the mount is gone.
    pub(super) fn serve(&self) {
        let mut buffer = vec![0; abi::REQUEST_BUFFER];
        answer_requests(&self.device, &mut buffer, |request, reply| {
            self.counts.asked(&request.operation);
            self.answer(request, reply);
        });
    }

    fn answer(&self, request: &Request<'_>, reply: Reply<'_>) {
        let node = request.node.0;
        match request.operation {
            Operation::Init { .. } => init::settle(&request.operation, reply, INIT_FLAGS, abi::MAX_WRITE),
            Operation::Lookup { name } => reply_entry(self.look_up(node, name), reply),
            Operation::ForgetOne { lookups } => {
                crate::lock(&self.tree).forget(node, lookups);
                reply.none();
            }
            Operation::BatchForget { nodes } => {
                let mut tree = crate::lock(&self.tree);
                nodes.iter().for_each(|(node, lookups)| tree.forget(node.0, lookups));
                reply.none();
            }
            Operation::GetAttributes { .. } => {
                let mut tree = crate::lock(&self.tree);
                let attr = tree.attr(node).map(|attr| (attr, validity(&tree, node)));
                drop(tree);
                reply_with(attr, reply, |(attr, valid), reply| reply.attr(&attr, valid));
            }
            Operation::SetAttributes(change) => {
                let attr = self.set_attributes(node, &change);
                reply_with(attr, reply, |attr, reply| reply.attr(&attr, Validity::Forever));
            }
            Operation::ReadLink => {
                let target = crate::lock(&self.tree).read_link(node);
                reply_with(target, reply, |target, reply| reply.bytes(&target));
            }
            Operation::Open { directory, flags } => {
                let opened = if directory { self.open_directory(node) } else { self.open_file(node, flags) };
                reply_with(opened, reply, |opened, reply| reply.bytes(&opened.encode()));
            }
            Operation::Read(read) => {
                let outcome = self.read(node, &read);
                self.counts.read(outcome.as_ref().map_or(0, Vec::len));
                reply_with(outcome, reply, |bytes, reply| reply.bytes(&bytes));
            }
            Operation::ListDirectory { handle, offset, size, plus: false } => {
                let listing = self.list((node, handle), offset, size);
                reply_with(listing, reply, |listing, reply| reply.bytes(listing.bytes()));
            }
            Operation::Release { handle, .. } => {
                self.release(handle);
                reply.done();
            }
            Operation::FileSystem => {
                let top = Arc::clone(&crate::lock(&self.tree).originals);
                let totals = original::reopen(&*top.top, OFlags::PATH).and_then(rustix::fs::fstatvfs);
                reply_with(totals, reply, |totals, reply| reply.bytes(&encode_statfs(&totals)));
            }
            Operation::GetXattr { name, size } => {
                let value = crate::lock(&self.tree).xattr(node, name);
                reply_xattr(value, size, reply);
            }
            Operation::ListXattr { size } => {
                let names = crate::lock(&self.tree).xattr_names(node);
                reply_xattr(names, size, reply);
            }
            Operation::Flush { .. } => {
                let outcome = self.log.as_ref().map_or(Ok(()), |log| log.recheck());
                reply_done(outcome, reply);
            }
            // Of scratch directories the user was told that nothing outlives the node.
            Operation::Synchronise { .. } => reply_done(self.synchronise(node), reply),
            Operation::Destroy => reply.done(),
            Operation::Ioctl => reply.error(Errno::NOTTY),
            Operation::Interrupt { .. } => reply.none(),
            _ => self.change(request, reply),
        }
    }

    /// The requests that change something.
    fn change(&self, request: &Request<'_>, reply: Reply<'_>) {
        let (node, caller) = (request.node.0, request.caller);
        if let Err(errno) = self.admit(&request.operation) {
            return reply.error(errno);
        }
        let make = |name, new| {
            let made = crate::lock(&self.tree).make((node, name), new, caller);
            made.map(|(id, attr)| entry(id, attr, Validity::Forever))
        };
        let tree = || crate::lock(&self.tree);
        match request.operation {
            Operation::Create(create) => {
                let made = make(create.name, New::File { mode: create.mode });
                reply_created(made.and_then(|entry| self.opened(entry)), reply);
            }
            Operation::MakeUnnamed(create) => {
                let made = tree().make_unnamed(node, create.mode, caller);
                let entry = made.map(|(id, attr)| entry(id, attr, Validity::Forever));
                reply_created(entry.and_then(|entry| self.opened(entry)), reply);
            }
            Operation::MakeNode { name, mode, device, .. } => {
                let special = New::Special { mode, device };
                reply_entry(
                    make(name, if mode & KIND == FILE { New::File { mode } } else { special }),
                    reply,
                );
            }
            Operation::MakeDirectory { name, mode, .. } => {
                reply_entry(make(name, New::Directory { mode }), reply);
            }
            Operation::Symlink { name, target } => reply_entry(make(name, New::Link { target }), reply),
            Operation::Link { old, name } => {
                let linked = tree().add_link(old.0, node, name);
                reply_entry(linked.map(|attr| entry(old.0, attr, Validity::Forever)), reply);
            }
            Operation::Unlink { name } => reply_done(tree().remove(node, name, Removed::Other), reply),
            Operation::RemoveDirectory { name } => {
                reply_done(tree().remove(node, name, Removed::Directory), reply);
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                let how = match flags {
                    0 => Ok(Rename::Replace),
                    1 => Ok(Rename::NoReplace),
                    2 => Ok(Rename::Exchange),
                    _ => Err(Errno::INVAL),
                };
                let renamed = how.and_then(|how| tree().rename((node, name), (new_parent.0, new_name), how));
                reply_done(renamed, reply);
            }
            Operation::Write(write) => {
                let mut outcome = tree().write(node, write.offset, write.data);
                if write.open_flags & (OFlags::SYNC | OFlags::DSYNC).bits() != 0 {
                    outcome = outcome.and_then(|bytes| self.synchronise(node).map(|()| bytes));
                }
                self.counts.written(outcome.unwrap_or(0));
                reply_with(outcome, reply, |bytes, reply| reply.bytes(&written(bytes)));
            }
            Operation::Allocate { offset, length, mode, .. } => {
                reply_done(tree().allocate(node, offset, length, mode), reply);
            }
            Operation::SetXattr(set) => {
                reply_done(tree().set_xattr(node, set.name, Some(set.value), set.flags), reply);
            }
            Operation::RemoveXattr { name } => reply_done(tree().set_xattr(node, name, None, 0), reply),
            _ => reply.error(Errno::NOSYS),
        }
    }

    /// Makes room in the container for a change, and writes to it when memory holds enough.
    fn admit(&self, operation: &Operation<'_>) -> Result<(), Errno> {
        let Some(log) = &self.log else { return Ok(()) };
        let bytes = match operation {
            // A full disk must be able to be emptied.
            Operation::Unlink { .. }
            | Operation::RemoveDirectory { .. }
            | Operation::Rename { .. }
            | Operation::RemoveXattr { .. } => return Ok(()),
            Operation::Write(write) => write.data.len() as u64,
            _ => 0,
        };
        {
            let mut tree = crate::lock(&self.tree);
            let Some(gatherer) = &tree.gatherer else { return Ok(()) };
            gatherer.reserve(bytes)?;
            if !gatherer.is_full() {
                return Ok(());
            }
            tree.record(Scope::Full)?;
        }
        log.write_pieces()
    }

    /// Puts what programs have done on stable storage.
    fn synchronise(&self, node: u64) -> Result<(), Errno> {
        let Some(log) = &self.log else { return Ok(()) };
        let (recorded, end) = {
            let mut tree = crate::lock(&self.tree);
            let is_directory = tree.is_directory(node)?;
            let recorded = tree.record(if is_directory { Scope::All } else { Scope::Settled(node) });
            (recorded, log.end())
        };
        log.synchronise(end).and(recorded)
    }

    /// Writes what has changed, so that a kill later does not take it along.
    pub(super) fn write_out(&self) {
        if let Some(log) = &self.log {
            // Programs learn of an error at their next call.
            _ = crate::lock(&self.tree).record(Scope::All);
            _ = log.write_all();
        }
    }

    fn look_up(&self, parent: u64, name: &[u8]) -> Result<EntryReply, Errno> {
        let mut tree = crate::lock(&self.tree);
        match tree.look_up(parent, name)? {
            Some((id, attr)) => Ok(entry(id, attr, validity(&tree, id))),
            // Only this mount can make it.
            None => Ok(EntryReply::absent(Validity::Forever)),
        }
    }

    fn set_attributes(&self, node: u64, change: &SetAttr) -> Result<Attr, Errno> {
        let mut tree = crate::lock(&self.tree);
        if tree.inode(node)?.is_anothers {
            allowed_to_others(&tree.attr(node)?, change.valid)?;
        }
        if change.valid.contains(SetAttributes::SIZE) {
            tree.set_size(node, change.size)?;
        }
        let now = super::tree::now();
        let attr = tree.own(node)?;
        let valid = change.valid;
        if valid.contains(SetAttributes::MODE) {
            attr.mode = attr.mode & KIND | change.mode & 0o7777;
        }
        if valid.contains(SetAttributes::UID) {
            attr.uid = change.uid;
        }
        if valid.contains(SetAttributes::GID) {
            attr.gid = change.gid;
        }
        if valid.contains(SetAttributes::ATIME) {
            attr.atime = if valid.contains(SetAttributes::ATIME_NOW) { now } else { change.atime };
        }
        if valid.contains(SetAttributes::MTIME) {
            attr.mtime = if valid.contains(SetAttributes::MTIME_NOW) { now } else { change.mtime };
        }
        attr.ctime = now;
        tree.attr(node)
    }

    fn opened(&self, entry: EntryReply) -> Result<(EntryReply, OpenReply), Errno> {
        let node = entry.node.map_or(0, |node| node.0);
        Ok((entry, self.open_file(node, 0)?))
    }

    fn open_directory(&self, node: u64) -> Result<OpenReply, Errno> {
        let entries = crate::lock(&self.tree).entries(node)?;
        Ok(self.opened_as(Handle::Directory(Arc::new(entries)), OpenFlags::empty()))
    }

    fn open_file(&self, node: u64, flags: u32) -> Result<OpenReply, Errno> {
        let mut tree = crate::lock(&self.tree);
        let inode = tree.inode(node)?;
        let (handle, reply) = match (&inode.kind, inode.origin()) {
            (Kind::Original(_) | Kind::File(Content::Original(_)), Some(origin)) => {
                let opened = tree.open_original(node);
                let file = match opened.and_then(|file| tree.originals.keep_open(origin, file)) {
                    // An owner may write to a file, or empty it, without the right to read it.
                    Err(Errno::ACCESS) if flags & OFlags::ACCMODE.bits() == OFlags::WRONLY.bits() => None,
                    opened => Some(Arc::new(opened?)),
                };
                (Handle::File(node, file), OpenFlags::empty())
            }
            // A close tells of a container that cannot be written to.
            _ if self.log.is_some() => (Handle::File(node, None), OpenFlags::KEEP_CACHE),
            _ => (Handle::File(node, None), OpenFlags::KEEP_CACHE | OpenFlags::NO_FLUSH),
        };
        tree.opened(node)?;
        Ok(self.opened_as(handle, reply))
    }

    fn opened_as(&self, handle: Handle, flags: OpenFlags) -> OpenReply {
        let mut handles = crate::lock(&self.handles);
        handles.last += 1;
        let number = handles.last;
        handles.open.insert(number, handle);
        OpenReply { handle: number, flags }
    }

    fn release(&self, handle: FileHandle) {
        let released = crate::lock(&self.handles).open.remove(&handle.0);
        if let Some(Handle::File(node, _)) = released {
            crate::lock(&self.tree).closed(node);
        }
    }

    fn read(&self, node: u64, read: &Read) -> Result<Vec<u8>, Errno> {
        if let Some(bytes) =
            crate::lock(&self.tree).read(node, read.offset, read.size.min(abi::MAX_TRANSFER))?
        {
            return Ok(bytes);
        }
        // The original may be slow: other requests go on meanwhile.
        let handle = crate::lock(&self.handles).open.get(&read.handle.0).cloned();
        let Some(Handle::File(_, Some(file))) = handle else { return Err(Errno::BADF) };
        let mut buffer = vec![0; read.size.min(abi::MAX_TRANSFER) as usize];
        let originals = Arc::clone(&crate::lock(&self.tree).originals);
        originals.counts.asked(Asked::Read);
        let bytes = original::read_at(&*originals.opened(&file)?, &mut buffer, read.offset)?;
        buffer.truncate(bytes);
        Ok(buffer)
    }

    fn list(&self, (node, handle): (u64, FileHandle), offset: u64, size: u32) -> Result<Listing, Errno> {
        if offset == 0 {
            // A program that begins anew sees what is there now.
            let entries = crate::lock(&self.tree).entries(node)?;
            crate::lock(&self.handles).open.insert(handle.0, Handle::Directory(Arc::new(entries)));
        }
        let handle = crate::lock(&self.handles).open.get(&handle.0).cloned();
        let Some(Handle::Directory(entries)) = handle else { return Err(Errno::BADF) };
        let mut listing = Listing::new(size);
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (place, (name, inode, kind)) in entries.iter().enumerate().skip(from) {
            let listed = ListedName { inode: *inode, next: place as u64 + 1, kind: kind >> 12, name };
            if listing.push(&listed) == Pushed::Full {
                break;
            }
        }
        Ok(listing)
    }
}

/// The rules for who is no owner, although the kernel takes this user for one. Source: utimensat(2), chown(2), chmod(2).
fn allowed_to_others(attr: &Attr, valid: SetAttributes) -> Result<(), Errno> {
    let now = SetAttributes::ATIME_NOW | SetAttributes::MTIME_NOW;
    let times = SetAttributes::ATIME | SetAttributes::MTIME;
    let owners = SetAttributes::MODE | SetAttributes::UID | SetAttributes::GID;
    match () {
        () if valid.intersects(owners) || valid.intersects(times) && !valid.contains(now) => Err(Errno::PERM),
        () if valid.intersects(times) && attr.mode & 0o200 == 0 => Err(Errno::ACCESS),
        () => Ok(()),
    }
}

fn entry(id: u64, attr: Attr, attr_valid: Validity) -> EntryReply {
    EntryReply { node: Some(NodeId(id)), name_valid: Validity::Forever, attr_valid, attr }
}

/// Only an original can change behind this mount.
fn validity(tree: &Tree, id: u64) -> Validity {
    let is_original = tree.inode(id).is_ok_and(|inode| matches!(inode.kind, Kind::Original(_)));
    if is_original { Validity::Brief } else { Validity::Forever }
}

/// Locks are the kernel's: all processes that can meet at a file are on this node.
const INIT_FLAGS: InitFlags = InitFlags::ASYNC_READ
    .union(InitFlags::BIG_WRITES)
    .union(InitFlags::AUTO_INVAL_DATA)
    .union(InitFlags::PARALLEL_DIROPS)
    .union(InitFlags::MAX_PAGES)
    .union(InitFlags::CACHE_SYMLINKS);
