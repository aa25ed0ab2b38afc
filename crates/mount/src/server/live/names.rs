//! Names that are made: files, directories, links.
//!
//! A directory in which a name appears goes live first, and a name that was told to be absent is taken back.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use quell_fuse::original::{link, os, reopen};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{LiveTier, validity_of};
use crate::fuse::abi::{EntryReply, OpenReply, device_of};
use crate::fuse::request::{Caller, Create, Unique};
use crate::server::node::Node;
use crate::server::notifier::Forget;
use crate::server::open_flags::{CREATING, SAFELY};
use crate::server::originals::{path_of, place_of, reach};
use crate::server::slots::Attempt;
use crate::server::takeover::is_same;
use crate::server::umasks::Bits;

/// A name that is to be changed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Making<'a> {
    pub(crate) parent: Node,
    pub(crate) name: &'a [u8],
    pub(crate) caller: Caller,
    pub(crate) attempt: Attempt<'a>,
}

impl LiveTier {
    /// CREATE: makes a regular file and opens it.
    pub(crate) fn create(
        &self,
        making: Making<'_>,
        create: &Create<'_>,
        unique: Unique,
    ) -> Result<(EntryReply, OpenReply), Errno> {
        let Making { parent, name, caller, attempt } = making;
        let directory = self.expect_name(parent, name)?;
        let asked = OFlags::from_bits_retain(create.flags);
        let flags = asked & CREATING | OFlags::CREATE | SAFELY;
        let bits = Bits { mode: create.mode, umask: create.umask };
        let mode = Mode::from_raw_mode(create.mode & !create.umask & 0o7777);
        let name_of = os(name);
        let made = self.bindings.originals.change_once(
            &path_of(&directory).join(name_of),
            attempt,
            || {
                verify_regular(&directory, name)?;
                let open = |mode| rustix::fs::openat(&*directory, name_of, flags, mode);
                self.packed.viewer.act_as(caller, || self.umasks.apply(bits, open))?
            },
            |failed| match failed {
                Some(errno) if errno != Errno::EXIST && errno != Errno::ACCESS => Err(errno),
                Some(errno) if !self.takeover.is_our_file(&directory, name, caller, attempt) => Err(errno),
                _ => reopen_made(&directory, name, asked, mode),
            },
        );
        self.notice_failure(parent, name, made.is_err());
        self.created(parent, name, made?, asked, unique)
    }

    /// Gives a file that was made and opened to the kernel.
    fn created(
        &self,
        parent: Node,
        name: &[u8],
        file: OwnedFd,
        flags: OFlags,
        unique: Unique,
    ) -> Result<(EntryReply, OpenReply), Errno> {
        let found = reopen(&file, OFlags::PATH)?;
        let stat = rustix::fs::fstat(&found)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Errno::STALE);
        }
        if flags.contains(OFlags::EXCL) {
            self.bindings.note_fresh(&stat);
        }
        let entry = self.entry_of(parent, name, found, &stat)?;
        let node = entry.node.map(|id| Node::decode(id, self.packed.root)).ok_or(Errno::IO)?;
        self.bindings.note_written(node);
        let opened = self.opened(node, file, flags, unique)?;
        Ok((entry, opened))
    }

    /// TMPFILE: makes a file without a name.
    pub(crate) fn make_unnamed(
        &self,
        making: Making<'_>,
        create: &Create<'_>,
        unique: Unique,
    ) -> Result<(EntryReply, OpenReply), Errno> {
        let directory = self.bindings.pin(making.parent)?;
        let asked = OFlags::from_bits_retain(create.flags);
        let flags = asked & (CREATING - OFlags::TRUNC) | OFlags::TMPFILE | OFlags::CLOEXEC;
        let bits = Bits { mode: create.mode, umask: create.umask };
        let file = self.bindings.originals.change(&directory, || {
            let open = |mode| rustix::fs::openat(CWD, place_of(&*directory), flags, mode);
            self.packed.viewer.act_as(making.caller, || self.umasks.apply(bits, open))?
        })?;
        let found = reopen(&file, OFlags::PATH)?;
        let stat = rustix::fs::fstat(&found)?;
        self.bindings.note_fresh(&stat);
        let entry = self.entry_of(making.parent, making.name, found, &stat)?;
        let node = entry.node.map(|id| Node::decode(id, self.packed.root)).ok_or(Errno::IO)?;
        let opened = self.opened(node, file, asked, unique)?;
        Ok((entry, opened))
    }

    /// MKNOD.
    pub(crate) fn make_node(&self, making: Making<'_>, bits: Bits, device: u32) -> Result<EntryReply, Errno> {
        let kind = FileType::from_raw_mode(bits.mode);
        let device = device_of(device);
        self.make(making, kind, |directory, name| {
            self.umasks.apply(bits, |mode| rustix::fs::mknodat(directory, os(name), kind, mode, device))
        })
    }

    /// MKDIR.
    pub(crate) fn make_directory(&self, making: Making<'_>, bits: Bits) -> Result<EntryReply, Errno> {
        self.make(making, FileType::Directory, |directory, name| {
            self.umasks.apply(bits, |mode| rustix::fs::mkdirat(directory, os(name), mode))
        })
    }

    /// SYMLINK.
    pub(crate) fn make_symlink(&self, making: Making<'_>, target: &[u8]) -> Result<EntryReply, Errno> {
        self.make(making, FileType::Symlink, |directory, name| {
            rustix::fs::symlinkat(os(target), directory, os(name))
        })
    }

    /// Makes something of this kind, and looks at it.
    fn make(
        &self,
        making: Making<'_>,
        kind: FileType,
        action: impl FnOnce(&OwnedFd, &[u8]) -> Result<(), Errno>,
    ) -> Result<EntryReply, Errno> {
        let Making { parent, name, caller, attempt } = making;
        let directory = self.expect_name(parent, name)?;
        let made = self.bindings.originals.change_once(
            &path_of(&directory).join(os(name)),
            attempt,
            || self.packed.viewer.act_as(caller, || action(&directory, name))?,
            |failed| match failed {
                None => Ok(()),
                Some(Errno::EXIST) if self.takeover.is_ours(&directory, name, kind, caller, attempt) => {
                    Ok(())
                }
                Some(errno) => Err(errno),
            },
        );
        self.notice_failure(parent, name, made.is_err());
        made?;
        let (found, stat) = reach(&directory, name)?;
        self.bindings.note_fresh(&stat);
        self.entry_of(parent, name, found, &stat)
    }

    /// LINK.
    pub(crate) fn make_link(&self, making: Making<'_>, old: Node) -> Result<EntryReply, Errno> {
        let Making { parent, name, caller, attempt } = making;
        let directory = self.expect_name(parent, name)?;
        let original = self.bindings.pin(old)?;
        if let Node::Frozen(nid) = old {
            self.bindings.alter(nid);
        }
        let made = self.bindings.originals.change_once(
            &path_of(&directory).join(os(name)),
            attempt,
            || self.packed.viewer.act_as(caller, || link(&*original, &directory, name))?,
            |failed| match failed {
                None => Ok(()),
                Some(Errno::EXIST) if is_same(&directory, name, &original) => Ok(()),
                Some(errno) => Err(errno),
            },
        );
        self.notice_failure(parent, name, made.is_err());
        made?;
        let stat = self.bindings.originals.stat(&original)?;
        self.bindings.nodes.count_lookup(old);
        self.bindings.nodes.mark_named(old);
        let attr = self.original_attr(&original, &stat, self.may_write_in(parent));
        Ok(EntryReply {
            node: Some(old.encode(self.packed.root)),
            name_valid: self.name_validity(parent, name, None, &attr),
            attr_valid: validity_of(&attr),
            attr,
        })
    }

    /// Makes a directory live in which `name` is about to appear. The kernel learns of the name from the answer, and must not
    /// be told to drop it as one that was absent: a file that is open under a dropped name looks as if it were removed.
    pub(crate) fn expect_name(&self, directory: Node, name: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        if let Node::Frozen(nid) = directory {
            self.frozen.told_absences.revoke(nid, name);
        }
        self.bindings.go_live(directory)
    }

    /// A name could not be made. The kernel's entry for it may be wrong: another process may have made the name.
    pub(crate) fn notice_failure(&self, parent: Node, name: &[u8], failed: bool) {
        if failed {
            self.bindings.notifier.forget(Forget::Name { parent, name: name.to_vec() });
        }
    }
}

/// **Errors** `ESTALE` where something else than a regular file has the name, so that the kernel looks again.
fn verify_regular(directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match reach(directory, name) {
        Ok((_, stat)) if !FileType::from_raw_mode(stat.st_mode).is_file() => Err(Errno::STALE),
        _ => Ok(()),
    }
}

/// Opens a file that an earlier server made with `mode`, which may bar its maker from opening it again.
fn reopen_made(directory: &OwnedFd, name: &[u8], asked: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let (found, _) = reach(directory, name)?;
    let open = || reopen(&found, asked & (CREATING - OFlags::EXCL));
    match open() {
        Err(Errno::ACCESS) => {}
        outcome => return outcome,
    }
    rustix::fs::chmod(place_of(&found), mode | Mode::RUSR | Mode::WUSR)?;
    let opened = open();
    rustix::fs::chmod(place_of(&found), mode)?;
    opened
}
