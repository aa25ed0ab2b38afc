//! Requests that change something: each is carried out on the original, under the name and with the rights that the
//! program has.

use super::operations::{identity, on};
use super::served::joined;
use super::service::{MountService, Requester};
use super::walks::OwnedCall;
use quell_fuse::abi::{Attr, EntryReply, NodeId, OpenReply, SetAttributes, Validity};
use quell_fuse::open_flags::opened_as;
use quell_fuse::original::{self, os, place_of, reach, reopen};
use quell_fuse::passage::changes;
use quell_fuse::reply::{Reply, reply_created, reply_done, reply_entry, reply_with, written};
use quell_fuse::request::{Create, FileHandle, Operation, Request, SetAttr, Write};
use quell_trace::flags::{O_CLOEXEC, O_CREAT, O_TMPFILE};
use quell_trace::{Call, Outcome};
use rustix::fs::{AtFlags, FallocateFlags, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

impl MountService {
    /// Answers a request that changes something.
    pub(super) fn change(&self, request: &Request<'_>, by: Requester, reply: Reply<'_>) {
        let node = request.node;
        match request.operation {
            Operation::Write(ref write) => self.write(write, by, reply),
            Operation::SetAttributes(ref change) => {
                let attr = self.set_attributes(node, change, by);
                reply_with(attr, reply, |attr, reply| reply.attr(&attr, Validity::Never));
            }
            Operation::Create(ref create) => reply_created(self.create(node, create, by), reply),
            Operation::MakeUnnamed(ref create) => reply_created(self.make_unnamed(node, create, by), reply),
            Operation::MakeNode { name, mode, umask, device } => {
                let make = |directory: &OwnedFd| changes::make_node(directory, name, mode, umask, device);
                reply_entry(self.make(node, name, Call::Mknod, by, make), reply);
            }
            Operation::MakeDirectory { name, mode, umask } => {
                let make = |directory: &OwnedFd| changes::make_directory(directory, name, mode, umask);
                reply_entry(self.make(node, name, Call::Mkdir, by, make), reply);
            }
            Operation::Symlink { name, target } => {
                reply_entry(self.symlink(node, name, target, by), reply);
            }
            Operation::Link { old, name } => reply_entry(self.link(node, name, old, by), reply),
            Operation::Unlink { name } => {
                reply_done(self.remove(node, name, AtFlags::empty(), by), reply);
            }
            Operation::RemoveDirectory { name } => {
                reply_done(self.remove(node, name, AtFlags::REMOVEDIR, by), reply);
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                reply_done(self.rename((node, name), (new_parent, new_name), flags, by), reply);
            }
            Operation::Synchronise { handle, data_only } => {
                reply_done(self.synchronise(handle, data_only, by), reply);
            }
            Operation::Allocate { handle, offset, length, mode } => {
                reply_done(self.allocate(handle, offset, length, mode, by), reply);
            }
            Operation::SetXattr(ref change) => {
                let flags = XattrFlags::from_bits_retain(change.flags);
                let set = |place: &str| rustix::fs::setxattr(place, os(change.name), change.value, flags);
                reply_done(self.change_xattr(node, Call::Lsetxattr, by, set), reply);
            }
            Operation::RemoveXattr { name } => {
                let remove = |place: &str| rustix::fs::removexattr(place, os(name));
                reply_done(self.change_xattr(node, Call::Lremovexattr, by, remove), reply);
            }
            _ => reply.error(Errno::NOSYS),
        }
    }

    fn write(&self, write: &Write<'_>, by: Requester, reply: Reply<'_>) {
        let handle = self.nodes.handle(write.handle);
        let outcome = handle.clone().and_then(|handle| self.act_as(by.caller, || handle.write(write)));
        match outcome {
            Ok(bytes) => reply.bytes(&written(bytes)),
            Err(errno) => reply.error(errno),
        }
        // Only now, for the reason that a read has.
        let Ok(handle) = handle else { return };
        let moved = outcome.unwrap_or(0);
        _ = self.note(by, None, outcome, |asked| OwnedCall {
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
    ) -> Result<(EntryReply, OpenReply), Errno> {
        let (directory, within) = self.known(parent)?;
        let path = joined(&within, create.name);
        let asked = OFlags::from_bits_retain(create.flags);
        let made = self.act_as(by.caller, || changes::create(&directory.original, create));
        let flags = u64::from(create.flags) | O_CREAT;
        self.give_made(&directory.original, path, made, (asked, flags), by)
    }

    fn make_unnamed(
        &self,
        parent: NodeId,
        create: &Create<'_>,
        by: Requester,
    ) -> Result<(EntryReply, OpenReply), Errno> {
        let (directory, path) = self.known(parent)?;
        let asked = OFlags::from_bits_retain(create.flags);
        let made = self.act_as(by.caller, || changes::make_unnamed(&directory.original, create));
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
    ) -> Result<(EntryReply, OpenReply), Errno> {
        let given = made.and_then(|file| {
            let found = reopen(&file, OFlags::PATH)?;
            let stat = rustix::fs::fstat(&found)?;
            let entry = self.entry(directory, path.clone(), found, &stat)?;
            let node = entry.node.ok_or(Errno::IO)?;
            let handle = self.open_handle(node, file, path.clone(), by);
            Ok((entry, opened_as(handle, asked), identity(&stat)))
        });
        let opened = given.as_ref().ok().map(|(_, opened, identity)| (opened.handle, *identity));
        let outcome = opened.map_or(Outcome::Success(0), |(handle, _)| self.descriptor(FileHandle(handle)));
        let node = given.as_ref().ok().and_then(|(entry, ..)| entry.node);
        let (entry, opened, _) = self.note(by, node, given, |asked| OwnedCall {
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
    ) -> Result<EntryReply, Errno> {
        let (directory, within) = self.known(parent)?;
        let path = joined(&within, name);
        let made = self.act_as(by.caller, || make(&directory.original));
        self.note(by, None, made, |asked| OwnedCall::new(asked, call, path.clone()))?;
        self.made(&directory.original, name, path)
    }

    /// Gives the kernel a name that was made.
    fn made(&self, directory: &OwnedFd, name: &[u8], path: Vec<u8>) -> Result<EntryReply, Errno> {
        let (found, stat) = reach(directory, name)?;
        self.entry(directory, path, found, &stat)
    }

    fn symlink(
        &self,
        parent: NodeId,
        name: &[u8],
        target: &[u8],
        by: Requester,
    ) -> Result<EntryReply, Errno> {
        let (directory, within) = self.known(parent)?;
        let path = joined(&within, name);
        let made =
            self.act_as(by.caller, || rustix::fs::symlinkat(os(target), &directory.original, os(name)));
        self.note(by, None, made, |asked| OwnedCall {
            path2: Some(path.clone()),
            ..OwnedCall::new(asked, Call::Symlink, target.to_vec())
        })?;
        self.made(&directory.original, name, path)
    }

    fn link(&self, parent: NodeId, name: &[u8], old: NodeId, by: Requester) -> Result<EntryReply, Errno> {
        let (directory, within) = self.known(parent)?;
        let (original, from) = self.known(old)?;
        let path = joined(&within, name);
        let made = self.act_as(by.caller, || original::link(&original.original, &directory.original, name));
        self.note(by, None, made, |asked| OwnedCall {
            path2: Some(path.clone()),
            ..OwnedCall::new(asked, Call::Link, from)
        })?;
        self.made(&directory.original, name, path)
    }

    fn remove(&self, parent: NodeId, name: &[u8], flags: AtFlags, by: Requester) -> Result<(), Errno> {
        let (directory, within) = self.known(parent)?;
        let removed = self.act_as(by.caller, || rustix::fs::unlinkat(&directory.original, os(name), flags));
        let call = if flags.is_empty() { Call::Unlink } else { Call::Rmdir };
        self.note(by, None, removed, |asked| OwnedCall::new(asked, call, joined(&within, name)))
    }

    fn rename(
        &self,
        (parent, name): (NodeId, &[u8]),
        (new_parent, new_name): (NodeId, &[u8]),
        flags: u32,
        by: Requester,
    ) -> Result<(), Errno> {
        let (from, within) = self.known(parent)?;
        let (to, new_within) = self.known(new_parent)?;
        let (path, new_path) = (joined(&within, name), joined(&new_within, new_name));
        let kind = RenameFlags::from_bits_retain(flags);
        let renamed = self.act_as(by.caller, || {
            rustix::fs::renameat_with(&from.original, os(name), &to.original, os(new_name), kind)
        });
        if renamed.is_ok() {
            self.nodes.all().iter().for_each(|known| known.data.renamed(&path, &new_path));
        }
        self.note(by, None, renamed, |asked| OwnedCall {
            flags: flags.into(),
            path2: Some(new_path),
            ..OwnedCall::new(asked, Call::Renameat2, path)
        })
    }

    fn synchronise(&self, handle: FileHandle, data_only: bool, by: Requester) -> Result<(), Errno> {
        let Ok(handle) = self.nodes.handle(handle) else { return Ok(()) };
        let (call, outcome) = match data_only {
            true => (Call::Fdatasync, rustix::fs::fdatasync(&handle.file)),
            false => (Call::Fsync, rustix::fs::fsync(&handle.file)),
        };
        self.note(by, None, outcome, |asked| on(&handle, asked, call))
    }

    fn allocate(
        &self,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: u32,
        by: Requester,
    ) -> Result<(), Errno> {
        let handle = self.nodes.handle(handle)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        let outcome = self.act_as(by.caller, || rustix::fs::fallocate(&handle.file, mode, offset, length));
        self.note(by, None, outcome, |asked| on(&handle, asked, Call::Fallocate))
    }

    fn change_xattr(
        &self,
        node: NodeId,
        call: Call,
        by: Requester,
        change: impl FnOnce(&str) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let (known, path) = self.known(node)?;
        let outcome = self.act_as(by.caller, || change(&place_of(&known.original)));
        self.note(by, Some(node), outcome, |asked| OwnedCall::new(asked, call, path))
    }

    fn set_attributes(&self, node: NodeId, change: &SetAttr, by: Requester) -> Result<Attr, Errno> {
        let (known, path) = self.known(node)?;
        let valid = change.valid;
        let open =
            valid.contains(SetAttributes::HANDLE).then(|| self.nodes.handle(change.handle).ok()).flatten();
        let outcome = self.act_as(by.caller, || {
            changes::set_attributes(&known.original, change, open.as_ref().map(|handle| &handle.file))
        });
        let call = match valid {
            valid if valid.contains(SetAttributes::SIZE) => Call::Truncate,
            valid if valid.contains(SetAttributes::MODE) => Call::Fchmodat,
            valid if valid.intersects(SetAttributes::UID | SetAttributes::GID) => Call::Fchownat,
            _ => Call::Utimensat,
        };
        self.note(by, Some(node), outcome, |asked| OwnedCall::new(asked, call, path))?;
        self.attributes(&known)
    }
}
