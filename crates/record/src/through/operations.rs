//! Requests that look: names, attributes, content.

use super::nodes::{Handle, joined, place_of, reach, reopen};
use super::service::Service;
use super::walks::{Opened, OwnedCall, Step, failed};
use quell_fuse::abi::{self, Attr, Entry, NodeId, OpenFlags, Validity, encode_statfs};
use quell_fuse::listing::{ListedName, Listing, Pushed};
use quell_fuse::reply::Reply;
use quell_fuse::request::{Caller, FileHandle, Operation, Read, Request};
use quell_trace::flags::{O_CLOEXEC, O_DIRECTORY};
use quell_trace::{Call, Nanos, Outcome};
use rustix::fs::{Access, AtFlags, CWD, OFlags, RawDir, SeekFrom, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// `__FMODE_EXEC`: the kernel opens a file to execute it. Source: `include/linux/fs.h` of the kernel.
const FOR_EXECUTION: u32 = 0x20;
/// The flags of an open call that count for the original. `O_DIRECT` would want aligned memory.
const KEPT: OFlags = OFlags::ACCMODE
    .union(OFlags::APPEND)
    .union(OFlags::DSYNC)
    .union(OFlags::SYNC)
    .union(OFlags::NOATIME)
    .union(OFlags::TRUNC);
/// Longest value, and longest list of names, of extended attributes. Source: xattr(7).
const XATTR_MAX: usize = 64 << 10;
/// Bytes of names asked for at once.
const LISTING_BUFFER: usize = 32 << 10;

impl Service {
    /// Answers a request that is about no lock.
    pub(super) fn answer(&self, request: &Request<'_>, reply: Reply<'_>, scratch: &mut Vec<u8>) {
        let start = self.shared.now();
        let (node, caller) = (request.node, request.caller);
        match request.operation {
            Operation::Lookup { name } => {
                respond(self.lookup(node, name, caller, start), reply, Reply::entry)
            }
            Operation::GetAttributes { .. } => {
                let attr = self.get_attributes(node, caller, start);
                respond(attr, reply, |reply, attr| reply.attr(attr, Validity::Never));
            }
            Operation::ReadLink => respond(self.read_link(node, caller, start), reply, |reply, target| {
                reply.bytes(target);
            }),
            Operation::Access { mask } => respond(self.access(node, mask, caller, start), reply, done),
            Operation::Open { flags, directory } => {
                let opened = self.open(node, flags, directory, caller, start);
                respond(opened, reply, |reply, opened| reply.bytes(&opened.encode()));
            }
            Operation::Read(read) => self.read(&read, caller, start, reply, scratch),
            Operation::ListDirectory { handle, offset, size, plus: false } => {
                let listing = self.list(handle, offset, size, caller, start);
                respond(listing, reply, |reply, listing| reply.bytes(listing.bytes()));
            }
            Operation::Flush { handle, owner } => {
                self.locks.closed(node, owner);
                self.flush(handle, caller, start, reply);
            }
            Operation::Release { handle, .. } => {
                let released = self.nodes.release(handle.0);
                reply.done();
                if let Some(handle) = released {
                    self.closed(&handle, Caller { pid: handle.thread as u32, ..caller }, start);
                }
            }
            Operation::FileSystem => {
                respond(self.file_system(node, caller, start), reply, |reply, totals| reply.bytes(totals));
            }
            Operation::GetXattr { name, size } => {
                let value = self.get_xattr(node, name, caller, start);
                reply_xattr(value, size, reply);
            }
            Operation::ListXattr { size } => {
                reply_xattr(self.list_xattr(node, caller, start), size, reply);
            }
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
            _ => self.change(request, start, reply),
        }
    }

    fn forget(&self, node: NodeId, lookups: u64) {
        if self.nodes.forget(node, lookups) {
            self.shared.forget(self.key(node));
        }
    }

    /// Tells the recording of a call with this outcome on a file or name.
    pub(super) fn note<T>(
        &self,
        caller: Caller,
        start: Nanos,
        node: Option<NodeId>,
        outcome: Result<T, Errno>,
        call: impl FnOnce(super::walks::Asked) -> OwnedCall,
    ) -> Result<T, Errno> {
        let call = call(self.asked(caller, start));
        let call = match &outcome {
            Ok(_) => call,
            Err(errno) => failed(call, number(*errno)),
        };
        let asked = self.asked(caller, start);
        self.shared.see(asked, Step::Call { node: node.map(|node| self.key(node)), call });
        outcome
    }

    fn lookup(&self, parent: NodeId, name: &[u8], caller: Caller, start: Nanos) -> Result<Entry, Errno> {
        let (directory, within) = self.nodes.get(parent)?;
        let path = joined(&within, name);
        match self.act_as(caller, || reach(&directory.original, name)) {
            Ok((found, stat)) => {
                let entry = self.entry(&directory.original, path.clone(), found, &stat)?;
                let node = self.key(entry.node.unwrap_or(NodeId::ROOT));
                let step = Step::Found { parent: self.key(parent), node, path };
                self.shared.see(self.asked(caller, start), step);
                Ok(entry)
            }
            Err(Errno::NOENT) => {
                self.shared.see(self.asked(caller, start), Step::Absent { path });
                Err(Errno::NOENT)
            }
            Err(errno) => self.note(caller, start, Some(parent), Err(errno), |asked| {
                OwnedCall::new(asked, Call::Newfstatat, path)
            }),
        }
    }

    /// Gives the kernel a file that was found or made.
    pub(super) fn entry(
        &self,
        directory: &OwnedFd,
        path: Vec<u8>,
        found: OwnedFd,
        stat: &Stat,
    ) -> Result<Entry, Errno> {
        let node = self.nodes.add(path, found, stat, self.is_removable_from(directory));
        let attr = self.nodes.get(node).and_then(|(known, _)| self.attributes(&known))?;
        Ok(Entry { node: Some(node), name_valid: Validity::Never, attr_valid: Validity::Never, attr })
    }

    fn get_attributes(&self, node: NodeId, caller: Caller, start: Nanos) -> Result<Attr, Errno> {
        let (known, path) = self.nodes.get(node)?;
        let attr = self.attributes(&known)?;
        let step = Step::Attributes { node: self.key(node), path, is_open: self.nodes.is_open(node) };
        self.shared.see(self.asked(caller, start), step);
        Ok(attr)
    }

    fn read_link(&self, node: NodeId, caller: Caller, start: Nanos) -> Result<Vec<u8>, Errno> {
        let (known, path) = self.nodes.get(node)?;
        let target = rustix::fs::readlinkat(&known.original, "", Vec::new())?.into_bytes();
        let step = Step::Link { node: self.key(node), path, target: target.clone() };
        self.shared.see(self.asked(caller, start), step);
        Ok(target)
    }

    /// A check of permissions, as access(2) and chdir(2) make it.
    fn access(&self, node: NodeId, mask: u32, caller: Caller, start: Nanos) -> Result<(), Errno> {
        let (known, path) = self.nodes.get(node)?;
        let wanted = Access::from_bits_truncate(mask);
        // With the effective ids, which is what the kernel asks about by now.
        let outcome = self.act_as(caller, || {
            rustix::fs::accessat(CWD, place_of(&known.original), wanted, AtFlags::EACCESS)
        });
        self.note(caller, start, Some(node), outcome, |asked| OwnedCall {
            flags: mask.into(),
            ..OwnedCall::new(asked, Call::Faccessat, path)
        })
    }

    fn open(
        &self,
        node: NodeId,
        flags: u32,
        directory: bool,
        caller: Caller,
        start: Nanos,
    ) -> Result<abi::Opened, Errno> {
        let (known, path) = self.nodes.get(node)?;
        let executes = flags & FOR_EXECUTION != 0;
        let asked = OFlags::from_bits_retain(flags & !FOR_EXECUTION);
        let kept = if directory { OFlags::RDONLY | OFlags::DIRECTORY } else { asked & KEPT };
        let file = self.act_as(caller, || match executes {
            true => open_program(&known.original),
            false => reopen(&known.original, kept),
        });
        if executes && file.is_ok() {
            let step = Step::Executable { node: self.key(node), path: path.clone() };
            self.shared.see(self.asked(caller, start), step);
            let handle = self.nodes.open(node, file?, path, caller.pid as i32);
            // It has no descriptor, so no call closes it.
            self.nodes.handle(handle)?.closes();
            return Ok(abi::Opened { handle, flags: OpenFlags::empty() });
        }
        let is_directory = if directory { O_DIRECTORY } else { 0 };
        let opened = file.map(|file| {
            let facts = rustix::fs::fstat(&file).ok().map(|stat| identity(&stat));
            (self.nodes.open(node, file, path.clone(), caller.pid as i32), facts)
        });
        let (handle, facts) = opened.as_ref().map_or((0, None), |(handle, facts)| (*handle, *facts));
        let call = |asked| OwnedCall {
            outcome: self.descriptor(handle),
            flags: u64::from(flags) & !OFlags::LARGEFILE.bits() as u64 | is_directory | O_CLOEXEC,
            opened: facts,
            ..OwnedCall::new(asked, Call::Openat, path)
        };
        self.note(caller, start, Some(node), opened, call)?;
        Ok(abi::Opened { handle, flags: caching(asked) })
    }

    /// The descriptor that a handle has in the trace.
    pub(super) fn descriptor(&self, handle: u64) -> Outcome {
        Outcome::Success(self.nodes.handle(handle).map_or(0, |handle| handle.fd.into()))
    }

    fn read(&self, read: &Read, caller: Caller, start: Nanos, reply: Reply<'_>, scratch: &mut Vec<u8>) {
        let handle = self.nodes.handle(read.handle.0);
        let outcome = handle.clone().and_then(|handle| fill(&handle.file, read, scratch));
        match outcome {
            Ok(bytes) => reply.bytes(&scratch[..bytes]),
            Err(errno) => reply.error(errno),
        }
        // Only now: the thread may hold its memory until it is answered, and what `/proc` tells may wait for that.
        let Ok(handle) = handle else { return };
        let moved = outcome.unwrap_or(0);
        // The kernel may read on its own behalf.
        let caller = if caller.pid == 0 { Caller { pid: handle.thread as u32, ..caller } } else { caller };
        let call = |asked| OwnedCall {
            outcome: Outcome::Success(moved as i64),
            size: read.size.into(),
            offset: i64::try_from(read.offset).ok(),
            ..on(&handle, asked, Call::Pread64)
        };
        _ = self.note(caller, start, None, outcome, call);
    }

    fn list(
        &self,
        handle: FileHandle,
        offset: u64,
        size: u32,
        caller: Caller,
        start: Nanos,
    ) -> Result<Listing, Errno> {
        let handle = self.nodes.handle(handle.0)?;
        let mut listing = Listing::new(size);
        let outcome = hand_on(&handle.file, offset, &mut listing);
        let length = listing.bytes().len() as i64;
        self.note(caller, start, None, outcome, |asked| OwnedCall {
            outcome: Outcome::Success(length),
            size: size.into(),
            ..on(&handle, asked, Call::Getdents64)
        })?;
        Ok(listing)
    }

    /// A descriptor was closed: passes on the error that the original's file system gives then.
    fn flush(&self, handle: FileHandle, caller: Caller, start: Nanos, reply: Reply<'_>) {
        let Ok(handle) = self.nodes.handle(handle.0) else { return reply.done() };
        respond(flush(&handle), reply, done);
        // Only now: a program that is executed closes descriptors, and until it runs `/proc` tells nothing of its process.
        self.closed(&handle, caller, start);
    }

    fn closed(&self, handle: &Handle, caller: Caller, start: Nanos) {
        if handle.closes() {
            let call = |asked| OwnedCall { path: None, ..on(handle, asked, Call::Close) };
            _ = self.note(caller, start, None, Ok(()), call);
        }
    }

    fn file_system(&self, node: NodeId, caller: Caller, start: Nanos) -> Result<abi::Totals, Errno> {
        let (known, path) = self.nodes.get(node)?;
        let outcome = rustix::fs::fstatvfs(&known.original).map(|totals| encode_statfs(&totals));
        self.note(caller, start, Some(node), outcome, |asked| OwnedCall::new(asked, Call::Statfs, path))
    }

    fn get_xattr(&self, node: NodeId, name: &[u8], caller: Caller, start: Nanos) -> Result<Vec<u8>, Errno> {
        let (known, path) = self.nodes.get(node)?;
        let outcome = self.act_as(caller, || {
            whole(|buffer| rustix::fs::getxattr(place_of(&known.original), OsStr::from_bytes(name), buffer))
        });
        // The kernel asks for it before each write and execution.
        if name == b"security.capability" {
            return outcome;
        }
        self.note(caller, start, Some(node), outcome, |asked| OwnedCall::new(asked, Call::Lgetxattr, path))
    }

    fn list_xattr(&self, node: NodeId, caller: Caller, start: Nanos) -> Result<Vec<u8>, Errno> {
        let (known, path) = self.nodes.get(node)?;
        let outcome =
            self.act_as(caller, || whole(|buffer| rustix::fs::listxattr(place_of(&known.original), buffer)));
        self.note(caller, start, Some(node), outcome, |asked| OwnedCall::new(asked, Call::Llistxattr, path))
    }
}

/// Opens a file to execute it. One that may be executed and not read cannot be served.
fn open_program(original: &OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::fs::accessat(CWD, place_of(original), Access::EXEC_OK, AtFlags::EACCESS)?;
    reopen(original, OFlags::RDONLY)
}

/// A call on an open file.
pub(super) fn on(handle: &Handle, asked: super::walks::Asked, call: Call) -> OwnedCall {
    OwnedCall { fd: quell_trace::Fd(handle.fd), ..OwnedCall::new(asked, call, handle.path.clone()) }
}

/// The kernel's cache of an open file is dropped at each open. An append goes to where the file ends at that moment, of
/// which the cache knows nothing.
pub(super) fn caching(flags: OFlags) -> OpenFlags {
    if flags.contains(OFlags::APPEND) { OpenFlags::DIRECT_IO } else { OpenFlags::empty() }
}

pub(super) fn identity(stat: &Stat) -> Opened {
    Opened {
        device: stat.st_dev,
        inode: stat.st_ino,
        mode: stat.st_mode,
        size: stat.st_size.cast_unsigned(),
        modified: stat.st_mtime.saturating_mul(1_000_000_000) + stat.st_mtime_nsec as i64,
    }
}

/// Reads until the buffer is full or the file ends; returns the bytes that are in `scratch`.
fn fill(file: &OwnedFd, read: &Read, scratch: &mut Vec<u8>) -> Result<usize, Errno> {
    scratch.resize(read.size.min(abi::MAX_TRANSFER) as usize, 0);
    let mut filled = 0;
    while filled < scratch.len() {
        match rustix::io::pread(file, &mut scratch[filled..], read.offset + filled as u64) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(Errno::INTR) => {}
            // The program gets the bytes so far; its next read gets the error.
            Err(_) if filled > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}

fn hand_on(directory: &OwnedFd, offset: u64, listing: &mut Listing) -> Result<(), Errno> {
    // Names that did not fit into the last answer were read ahead.
    rustix::fs::seek(directory, SeekFrom::Start(offset))?;
    let mut space = vec![MaybeUninit::uninit(); LISTING_BUFFER];
    let mut names = RawDir::new(directory, &mut space);
    while let Some(name) = names.next() {
        let name = name?;
        let listed = ListedName {
            inode: name.ino(),
            next: name.next_entry_cookie(),
            kind: name.file_type().as_raw_mode() >> 12,
            name: name.file_name().to_bytes(),
        };
        if listing.push(&listed) == Pushed::Full {
            break;
        }
    }
    Ok(())
}

/// Closes a copy, which tells what the file system could not write.
fn flush(handle: &Handle) -> Result<(), Errno> {
    quell_fuse::descriptors::close(rustix::io::fcntl_dupfd_cloexec(&handle.file, 3)?)
}

/// Asks for something of unknown length with the room that the kernel allows it at most.
fn whole(ask: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; XATTR_MAX];
    let length = ask(&mut value)?;
    value.truncate(length);
    Ok(value)
}

/// Sends a value, or its length to a program that asks with no room. Source: getxattr(2).
fn reply_xattr(value: Result<Vec<u8>, Errno>, size: u32, reply: Reply<'_>) {
    match value {
        Ok(value) if size == 0 => {
            let length = u32::try_from(value.len()).unwrap_or(u32::MAX).to_ne_bytes();
            reply.bytes(&[length, [0; 4]].concat());
        }
        Ok(value) if value.len() > size as usize => reply.error(Errno::RANGE),
        Ok(value) => reply.bytes(&value),
        Err(errno) => reply.error(errno),
    }
}

pub(super) fn respond<'d, T>(outcome: Result<T, Errno>, reply: Reply<'d>, send: impl FnOnce(Reply<'d>, &T)) {
    match outcome {
        Ok(value) => send(reply, &value),
        Err(errno) => reply.error(errno),
    }
}

pub(super) fn done(reply: Reply<'_>, _: &()) {
    reply.done();
}

fn number(errno: Errno) -> quell_trace::Errno {
    quell_trace::Errno(errno.raw_os_error() as u16)
}
