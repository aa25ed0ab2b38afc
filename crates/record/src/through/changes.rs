//! Requests that change something: each is carried out on the original, under the name and with the rights that the
//! program has.

use super::nodes::{joined, place_of, reach, reopen};
use super::operations::{caching, done, identity, on, respond};
use super::service::Service;
use super::walks::OwnedCall;
use quell_fuse::abi::{self, Attr, Entry, NodeId, SetAttributes, Validity};
use quell_fuse::reply::Reply;
use quell_fuse::request::{Caller, Create, FileHandle, Operation, Request, SetAttr, Write};
use quell_trace::flags::{O_CLOEXEC, O_CREAT, O_TMPFILE};
use quell_trace::{Call, Nanos, Outcome};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW,
    UTIME_OMIT, Uid, XattrFlags,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// Flags of an open call that count when a file is made.
const CREATING: OFlags = OFlags::ACCMODE
    .union(OFlags::EXCL)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND)
    .union(OFlags::DSYNC)
    .union(OFlags::SYNC);

/// The program that asked, and when.
#[derive(Clone, Copy)]
struct Requester {
    caller: Caller,
    start: Nanos,
}

impl Service {
    /// Answers a request that changes something.
    pub(super) fn change(&self, request: &Request<'_>, start: Nanos, reply: Reply<'_>) {
        let (node, by) = (request.node, Requester { caller: request.caller, start });
        match request.operation {
            Operation::Write(ref write) => self.write(write, by, reply),
            Operation::SetAttributes(ref change) => {
                let attr = self.set_attributes(node, change, by);
                respond(attr, reply, |reply, attr| reply.attr(attr, Validity::Never));
            }
            Operation::Create(ref create) => reply_created(self.create(node, create, by), reply),
            Operation::MakeUnnamed(ref create) => reply_created(self.make_unnamed(node, create, by), reply),
            Operation::MakeNode { name, mode, umask, device } => {
                let kind = FileType::from_raw_mode(mode);
                let device = rustix::fs::makedev(device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
                let make = |directory: &OwnedFd| {
                    masked(umask, || {
                        rustix::fs::mknodat(directory, os(name), kind, permissions(mode), device)
                    })
                };
                respond(self.make(node, name, Call::Mknod, by, make), reply, Reply::entry);
            }
            Operation::MakeDirectory { name, mode, umask } => {
                let make = |directory: &OwnedFd| {
                    masked(umask, || rustix::fs::mkdirat(directory, os(name), permissions(mode)))
                };
                respond(self.make(node, name, Call::Mkdir, by, make), reply, Reply::entry);
            }
            Operation::Symlink { name, target } => {
                respond(self.symlink(node, name, target, by), reply, Reply::entry);
            }
            Operation::Link { old, name } => respond(self.link(node, name, old, by), reply, Reply::entry),
            Operation::Unlink { name } => {
                respond(self.remove(node, name, AtFlags::empty(), by), reply, done);
            }
            Operation::RemoveDirectory { name } => {
                respond(self.remove(node, name, AtFlags::REMOVEDIR, by), reply, done);
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                respond(self.rename((node, name), (new_parent, new_name), flags, by), reply, done);
            }
            Operation::Synchronise { handle, data_only } => {
                respond(self.synchronise(handle, data_only, by), reply, done);
            }
            Operation::Allocate { handle, offset, length, mode } => {
                respond(self.allocate(handle, offset, length, mode, by), reply, done);
            }
            Operation::SetXattr(ref change) => {
                let flags = XattrFlags::from_bits_retain(change.flags);
                let set = |place: &str| rustix::fs::setxattr(place, os(change.name), change.value, flags);
                respond(self.change_xattr(node, Call::Lsetxattr, by, set), reply, done);
            }
            Operation::RemoveXattr { name } => {
                let remove = |place: &str| rustix::fs::removexattr(place, os(name));
                respond(self.change_xattr(node, Call::Lremovexattr, by, remove), reply, done);
            }
            _ => reply.error(Errno::NOSYS),
        }
    }

    fn write(&self, write: &Write<'_>, by: Requester, reply: Reply<'_>) {
        let handle = self.nodes.handle(write.handle.0);
        let outcome = handle.clone().and_then(|handle| self.act_as(by.caller, || handle.write(write)));
        match outcome {
            Ok(bytes) => reply.bytes(&[(bytes as u32).to_ne_bytes(), [0; 4]].concat()),
            Err(errno) => reply.error(errno),
        }
        // Only now, for the reason that a read has.
        let Ok(handle) = handle else { return };
        let moved = outcome.unwrap_or(0);
        _ = self.note(by.caller, by.start, None, outcome, |asked| OwnedCall {
            outcome: Outcome::Success(moved as i64),
            size: write.data.len() as u64,
            offset: i64::try_from(write.offset).ok(),
            ..on(&handle, asked, Call::Pwrite64)
        });
    }

    fn create(
        &self,
        parent: NodeId,
        create: &Create<'_>,
        by: Requester,
    ) -> Result<(Entry, abi::Opened), Errno> {
        let (directory, within) = self.nodes.get(parent)?;
        let path = joined(&within, create.name);
        let asked = OFlags::from_bits_retain(create.flags);
        // Another process may have put a link, a pipe or a terminal there meanwhile.
        let safely = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let made = self.act_as(by.caller, || {
            masked(create.umask, || {
                let flags = asked & CREATING | safely;
                rustix::fs::openat(&directory.original, os(create.name), flags, permissions(create.mode))
            })
        });
        let flags = u64::from(create.flags) | O_CREAT;
        self.give_made(&directory.original, path, made, (asked, flags), by)
    }

    fn make_unnamed(
        &self,
        parent: NodeId,
        create: &Create<'_>,
        by: Requester,
    ) -> Result<(Entry, abi::Opened), Errno> {
        let (directory, path) = self.nodes.get(parent)?;
        let asked = OFlags::from_bits_retain(create.flags);
        let flags = asked & (CREATING - OFlags::TRUNC) | OFlags::TMPFILE | OFlags::CLOEXEC;
        let made = self.act_as(by.caller, || {
            let place = place_of(&directory.original);
            masked(create.umask, || rustix::fs::openat(CWD, place, flags, permissions(create.mode)))
        });
        let flags = u64::from(create.flags) | O_TMPFILE;
        self.give_made(&directory.original, path, made, (asked, flags), by)
    }

    /// Gives the kernel a file that was made and opened.
    fn give_made(
        &self,
        directory: &OwnedFd,
        path: Vec<u8>,
        made: Result<OwnedFd, Errno>,
        (asked, flags): (OFlags, u64),
        by: Requester,
    ) -> Result<(Entry, abi::Opened), Errno> {
        let given = made.and_then(|file| {
            let found = reopen(&file, OFlags::PATH)?;
            let stat = rustix::fs::fstat(&found)?;
            let entry = self.entry(directory, path.clone(), found, &stat)?;
            let node = entry.node.ok_or(Errno::IO)?;
            let handle = self.nodes.open(node, file, path.clone(), by.caller.pid as i32);
            Ok((entry, abi::Opened { handle, flags: caching(asked) }, identity(&stat)))
        });
        let opened = given.as_ref().ok().map(|(_, opened, identity)| (opened.handle, *identity));
        let outcome = opened.map_or(Outcome::Success(0), |(handle, _)| self.descriptor(handle));
        let node = given.as_ref().ok().and_then(|(entry, ..)| entry.node);
        let (entry, opened, _) = self.note(by.caller, by.start, node, given, |asked| OwnedCall {
            outcome,
            flags: flags | O_CLOEXEC,
            opened: opened.map(|(_, identity)| identity),
            ..OwnedCall::new(asked, Call::Openat, path)
        })?;
        Ok((entry, opened))
    }

    /// Makes a name of any other kind, and gives it to the kernel.
    fn make(
        &self,
        parent: NodeId,
        name: &[u8],
        call: Call,
        by: Requester,
        make: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<Entry, Errno> {
        let (directory, within) = self.nodes.get(parent)?;
        let path = joined(&within, name);
        let made = self.act_as(by.caller, || make(&directory.original));
        self.note(by.caller, by.start, None, made, |asked| OwnedCall::new(asked, call, path.clone()))?;
        let (found, stat) = reach(&directory.original, name)?;
        self.entry(&directory.original, path, found, &stat)
    }

    fn symlink(&self, parent: NodeId, name: &[u8], target: &[u8], by: Requester) -> Result<Entry, Errno> {
        let (directory, within) = self.nodes.get(parent)?;
        let path = joined(&within, name);
        let made =
            self.act_as(by.caller, || rustix::fs::symlinkat(os(target), &directory.original, os(name)));
        self.note(by.caller, by.start, None, made, |asked| OwnedCall {
            path2: Some(path.clone()),
            ..OwnedCall::new(asked, Call::Symlink, target.to_vec())
        })?;
        let (found, stat) = reach(&directory.original, name)?;
        self.entry(&directory.original, path, found, &stat)
    }

    fn link(&self, parent: NodeId, name: &[u8], old: NodeId, by: Requester) -> Result<Entry, Errno> {
        let (directory, within) = self.nodes.get(parent)?;
        let (original, from) = self.nodes.get(old)?;
        let path = joined(&within, name);
        let made = self.act_as(by.caller, || {
            let place = place_of(&original.original);
            rustix::fs::linkat(CWD, place, &directory.original, os(name), AtFlags::SYMLINK_FOLLOW)
        });
        self.note(by.caller, by.start, None, made, |asked| OwnedCall {
            path2: Some(path.clone()),
            ..OwnedCall::new(asked, Call::Link, from)
        })?;
        let (found, stat) = reach(&directory.original, name)?;
        self.entry(&directory.original, path, found, &stat)
    }

    fn remove(&self, parent: NodeId, name: &[u8], flags: AtFlags, by: Requester) -> Result<(), Errno> {
        let (directory, within) = self.nodes.get(parent)?;
        let removed = self.act_as(by.caller, || rustix::fs::unlinkat(&directory.original, os(name), flags));
        let call = if flags.is_empty() { Call::Unlink } else { Call::Rmdir };
        self.note(by.caller, by.start, None, removed, |asked| {
            OwnedCall::new(asked, call, joined(&within, name))
        })
    }

    fn rename(
        &self,
        (parent, name): (NodeId, &[u8]),
        (new_parent, new_name): (NodeId, &[u8]),
        flags: u32,
        by: Requester,
    ) -> Result<(), Errno> {
        let (from, within) = self.nodes.get(parent)?;
        let (to, new_within) = self.nodes.get(new_parent)?;
        let (path, new_path) = (joined(&within, name), joined(&new_within, new_name));
        let kind = RenameFlags::from_bits_retain(flags);
        let renamed = self.act_as(by.caller, || {
            rustix::fs::renameat_with(&from.original, os(name), &to.original, os(new_name), kind)
        });
        if renamed.is_ok() {
            self.nodes.renamed(&path, &new_path);
        }
        self.note(by.caller, by.start, None, renamed, |asked| OwnedCall {
            flags: flags.into(),
            path2: Some(new_path),
            ..OwnedCall::new(asked, Call::Renameat2, path)
        })
    }

    fn synchronise(&self, handle: FileHandle, data_only: bool, by: Requester) -> Result<(), Errno> {
        let Ok(handle) = self.nodes.handle(handle.0) else { return Ok(()) };
        let (call, outcome) = match data_only {
            true => (Call::Fdatasync, rustix::fs::fdatasync(&handle.file)),
            false => (Call::Fsync, rustix::fs::fsync(&handle.file)),
        };
        self.note(by.caller, by.start, None, outcome, |asked| on(&handle, asked, call))
    }

    fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: u32,
        by: Requester,
    ) -> Result<(), Errno> {
        let handle = self.nodes.handle(handle.0)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        let outcome = self.act_as(by.caller, || rustix::fs::fallocate(&handle.file, mode, offset, length));
        self.note(by.caller, by.start, None, outcome, |asked| on(&handle, asked, Call::Fallocate))
    }

    fn change_xattr(
        &self,
        node: NodeId,
        call: Call,
        by: Requester,
        change: impl FnOnce(&str) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (known, path) = self.nodes.get(node)?;
        let outcome = self.act_as(by.caller, || change(&place_of(&known.original)));
        self.note(by.caller, by.start, Some(node), outcome, |asked| OwnedCall::new(asked, call, path))
    }

    fn set_attributes(&self, node: NodeId, change: &SetAttr, by: Requester) -> Result<Attr, Errno> {
        let (known, path) = self.nodes.get(node)?;
        let original = &known.original;
        let valid = change.valid;
        let outcome = self.act_as(by.caller, || {
            if valid.contains(SetAttributes::SIZE) {
                self.set_size(original, change)?;
            }
            set_owner(original, change)?;
            if valid.contains(SetAttributes::MODE) {
                rustix::fs::chmod(place_of(original), permissions(change.mode))?;
            }
            set_times(original, change)
        });
        let call = match valid {
            valid if valid.contains(SetAttributes::SIZE) => Call::Truncate,
            valid if valid.contains(SetAttributes::MODE) => Call::Fchmodat,
            valid if valid.intersects(SetAttributes::UID | SetAttributes::GID) => Call::Fchownat,
            _ => Call::Utimensat,
        };
        self.note(by.caller, by.start, Some(node), outcome, |asked| OwnedCall::new(asked, call, path))?;
        self.attributes(&known)
    }

    /// Cuts or extends a file: by the program's open file if it has one, which may be allowed more than its mode says now.
    fn set_size(&self, original: &OwnedFd, change: &SetAttr) -> Result<(), Errno> {
        let open = change.valid.contains(SetAttributes::HANDLE).then(|| self.nodes.handle(change.handle.0));
        match open {
            Some(Ok(handle)) => rustix::fs::ftruncate(&handle.file, change.size),
            _ => {
                let place = std::ffi::CString::new(place_of(original)).map_err(|_| Errno::INVAL)?;
                quell_fuse::descriptors::truncate(&place, change.size)
            }
        }
    }
}

/// Everything that SETATTR can set beside owner and group.
const ANYTHING_ELSE: SetAttributes =
    SetAttributes::MODE.union(SetAttributes::SIZE).union(SetAttributes::ATIME).union(SetAttributes::MTIME);

/// Changes owner and group. A change of neither is one, too: it takes set-user-id away and sets the time of change.
fn set_owner(original: &OwnedFd, change: &SetAttr) -> Result<(), Errno> {
    let uid = change.valid.contains(SetAttributes::UID).then(|| Uid::from_raw(change.uid));
    let gid = change.valid.contains(SetAttributes::GID).then(|| Gid::from_raw(change.gid));
    if uid.is_none() && gid.is_none() && change.valid.intersects(ANYTHING_ELSE) {
        return Ok(());
    }
    rustix::fs::chownat(original, "", uid, gid, AtFlags::EMPTY_PATH)
}

fn set_times(original: &OwnedFd, change: &SetAttr) -> Result<(), Errno> {
    if !change.valid.intersects(SetAttributes::ATIME | SetAttributes::MTIME) {
        return Ok(());
    }
    let time = |set, now, time: abi::Time| match change.valid {
        valid if valid.contains(now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        valid if valid.contains(set) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
        _ => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    let times = Timestamps {
        last_access: time(SetAttributes::ATIME, SetAttributes::ATIME_NOW, change.atime),
        last_modification: time(SetAttributes::MTIME, SetAttributes::MTIME_NOW, change.mtime),
    };
    rustix::fs::utimensat(CWD, place_of(original), &times, AtFlags::empty())
}

fn reply_created(created: Result<(Entry, abi::Opened), Errno>, reply: Reply<'_>) {
    match created {
        Ok((entry, opened)) => reply.parts(&[&entry.encode(), &opened.encode()]),
        Err(errno) => reply.error(errno),
    }
}

/// Makes something with the mask of the process that asked, in this thread alone. A directory's default access control
/// list takes the mask's place, which the original's file system knows.
fn masked<T>(umask: u32, make: impl FnOnce() -> T) -> T {
    rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
    make()
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}

/// A name as the calls of rustix take it.
fn os(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}
