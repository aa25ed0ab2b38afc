//! Unforeseen writes: what the program changes below a frozen root although the recording did not.
//!
//! Each goes to the original, is counted and named, and makes its directory live: later lookups and listings of it
//! come from the original, and the kernel is told to forget what it was told for ever. Modes come with the program's
//! umask beside them, see [`super::umasks`].

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quell_image::{Kind, Lookup, Nid};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps,
    UTIME_NOW, UTIME_OMIT, Uid,
};
use rustix::io::Errno;

use super::Server;
use super::fallthrough::validity_of;
use super::frozen::damaged;
use super::lessons::Event;
use super::nodes::{Access, Held, Node, below};
use super::notifier::Forget;
use super::originals::NO_FOLLOW;
use super::slots::{Attempt, Before};
use super::umasks::Bits;
use crate::counters::Refusal;
use crate::fuse::abi::{self, Attr, Entry, SetAttributes, Validity};
use crate::fuse::reply::Reply;
use crate::fuse::request::{Caller, Create, Operation, Request, SetAttr, Write};

impl Server {
    /// Answers a request that changes something.
    pub(crate) fn change(&self, request: &Request<'_>, node: Node, attempt: Attempt<'_>, reply: Reply<'_>) {
        if let Before::Complete(outcome) = attempt.before() {
            return self.answer_completed(request, node, outcome, reply);
        }
        let caller = request.caller;
        let making = |name| Making { parent: node, name, caller, attempt };
        match request.operation {
            Operation::Write(ref write) => {
                let outcome = completed(self.write(node, write, attempt), attempt);
                reply_with(outcome, reply, |(), reply| reply.bytes(&written(write)));
            }
            Operation::SetAttributes(ref change) => {
                let outcome = completed(self.set_attributes(node, change), attempt);
                reply_with(outcome, reply, |attr, reply| reply.attr(&attr, validity_of(&attr)));
            }
            Operation::Create(ref create) => {
                let outcome = completed(self.create(node, create, caller, attempt), attempt);
                reply_with(outcome, reply, |entry, reply| reply.parts(&[&entry.encode(), &UNOPENED]));
            }
            Operation::MakeNode { name, mode, umask, device } => {
                let made = self.make_node(making(name), Bits { mode, umask }, device);
                reply_entry(completed(made, attempt), reply);
            }
            Operation::MakeDirectory { name, mode, umask } => {
                let made = self.make_directory(making(name), Bits { mode, umask });
                reply_entry(completed(made, attempt), reply);
            }
            Operation::Symlink { name, target } => {
                reply_entry(completed(self.make_symlink(making(name), target), attempt), reply);
            }
            Operation::Link { old, name } => {
                let old = Node::decode(old, self.root);
                reply_entry(completed(self.make_link(node, old, name, attempt), attempt), reply);
            }
            _ => {
                let outcome = completed(self.change_quietly(request, node, attempt), attempt);
                reply_with(outcome, reply, |(), reply| reply.done());
            }
        }
    }

    /// Answers again what an earlier server had completed and perhaps answered: looks, and changes nothing.
    fn answer_completed(
        &self,
        request: &Request<'_>,
        node: Node,
        outcome: Result<(), Errno>,
        reply: Reply<'_>,
    ) {
        if let Err(errno) = outcome {
            return reply.error(errno);
        }
        match request.operation {
            Operation::Write(ref write) => reply.bytes(&written(write)),
            Operation::SetAttributes(_) => {
                reply_with(self.attributes(node), reply, |(attr, valid), reply| reply.attr(&attr, valid));
            }
            Operation::Create(ref create) => {
                let entry = self.original_lookup(node, create.name);
                reply_with(entry, reply, |entry, reply| reply.parts(&[&entry.encode(), &UNOPENED]));
            }
            Operation::MakeNode { name, .. }
            | Operation::MakeDirectory { name, .. }
            | Operation::Symlink { name, .. }
            | Operation::Link { name, .. } => reply_entry(self.original_lookup(node, name), reply),
            _ => reply.done(),
        }
    }

    /// The changes that are answered with success alone.
    fn change_quietly(&self, request: &Request<'_>, node: Node, attempt: Attempt<'_>) -> Result<(), Errno> {
        match request.operation {
            Operation::Unlink { name } => self.remove(node, name, AtFlags::empty(), attempt),
            Operation::RemoveDirectory { name } => self.remove(node, name, AtFlags::REMOVEDIR, attempt),
            Operation::Rename { name, new_parent, new_name, flags } => {
                let new_parent = Node::decode(new_parent, self.root);
                self.rename((node, name), (new_parent, new_name), flags, attempt)
            }
            Operation::Synchronise { data_only } => self.synchronise(node, data_only),
            Operation::Allocate { offset, length, mode } => self.allocate(node, offset, length, mode),
            Operation::SetXattr(ref change) => self.set_xattr(node, change, attempt),
            Operation::RemoveXattr { name } => self.remove_xattr(node, name, attempt),
            _ => Err(Errno::NOSYS),
        }
    }

    fn write(&self, node: Node, write: &Write<'_>, attempt: Attempt<'_>) -> Result<(), Errno> {
        let path = self.path(node)?;
        let held = self.writing(node, &path)?;
        if attempt.before() == Before::Nothing {
            self.verify_append(&held, &path, write)?;
            attempt.begin();
        } else {
            self.verify_append_again(&held, &path, write)?;
        }
        self.originals.write(&held, &path, write.data, write.offset)
    }

    /// An append comes with the offset that the kernel takes for the end. If somebody else has written meanwhile,
    /// that is the middle of the file: refuse, rather than overwrite.
    fn verify_append(&self, held: &Held, path: &Path, write: &Write<'_>) -> Result<(), Errno> {
        if !appends(write) {
            return Ok(());
        }
        let end = self.originals.stat(path, Some(held))?.st_size.cast_unsigned();
        if end == write.offset {
            return Ok(());
        }
        self.counters.refused(Refusal::Append, path);
        self.originals.note(path, &Event::Changed);
        Err(Errno::IO)
    }

    /// The same when an earlier server may have written some of it: what stands there must be that.
    fn verify_append_again(&self, held: &Held, path: &Path, write: &Write<'_>) -> Result<(), Errno> {
        if !appends(write) {
            return Ok(());
        }
        let end = self.originals.stat(path, Some(held))?.st_size.cast_unsigned();
        let there = usize::try_from(end.saturating_sub(write.offset)).unwrap_or(usize::MAX);
        let ours = end >= write.offset && there <= write.data.len() && {
            let read = self.originals.open(path, Access::Read);
            let mut standing = vec![0; there];
            read.and_then(|read| self.originals.read(&read, path, &mut standing, write.offset))
                .is_ok_and(|bytes| standing[..bytes] == write.data[..there])
        };
        if ours || end == write.offset {
            return Ok(());
        }
        self.counters.refused(Refusal::Append, path);
        self.originals.note(path, &Event::Changed);
        Err(Errno::IO)
    }

    /// The descriptor by which `node` is written to; opened at the first write and held.
    fn writing(&self, node: Node, path: &Path) -> Result<Arc<Held>, Errno> {
        if let Some(held) = self.held(node).filter(|held| held.access.allows(Access::Write)) {
            // It may be held for another reason: by a server that died before it noted this, or for a name that was
            // to be taken away.
            self.note_rewritten(node);
            return Ok(held);
        }
        let held = Arc::new(self.originals.open_widely(path, Access::Write)?);
        self.hold(node, Arc::clone(&held));
        self.note_rewritten(node);
        Ok(held)
    }

    fn hold(&self, node: Node, held: Arc<Held>) {
        // What it had before is closed when the next server would not look for it any more.
        let _before = self.held(node);
        self.descriptors.keep(node, &held);
        let known = match node {
            Node::Found(number) => self.found.hold(number, Arc::clone(&held)),
            Node::Frozen(nid) => {
                self.alterations.note(nid, |alteration| alteration.held = Some(Arc::clone(&held)));
                true
            }
        };
        if !known {
            self.descriptors.give_up(node);
        }
        self.originals.close(node);
        for node in self.holders.add(node) {
            let _open_until_it_is_given_up = self.held(node);
            // One without a name keeps its descriptor: nothing else leads to it until the kernel forgets it.
            let released = match node {
                Node::Found(number) => self.found.release(number),
                Node::Frozen(nid) => self.alterations.release(nid),
            };
            if released {
                self.descriptors.give_up(node);
            }
        }
    }

    /// Takes over the descriptors that belonged to an earlier server's nodes.
    pub(crate) fn take_back(&self, kept: Vec<(Node, Held)>) {
        for (node, held) in kept {
            let held = Arc::new(held);
            let known = match node {
                Node::Found(number) => self.found.hold(number, Arc::clone(&held)),
                Node::Frozen(nid) => {
                    self.alterations.note(nid, |alteration| alteration.held = Some(Arc::clone(&held)));
                    true
                }
            };
            if known {
                self.holders.add(node);
            } else {
                self.descriptors.give_up(node);
            }
        }
    }

    /// From now on the node's original is asked, and its directory's.
    fn note_rewritten(&self, node: Node) {
        let Node::Frozen(nid) = node else {
            return;
        };
        self.alterations.note(nid, |alteration| alteration.rewritten = true);
        if let Ok(parent) = self.image.parent(nid) {
            self.go_live(Node::Frozen(parent));
        }
    }

    /// From now on attributes are the original's.
    pub(crate) fn note_changed(&self, node: Node) -> Result<(), Errno> {
        self.note_rewritten(node);
        if let Node::Frozen(nid) = node
            && self.image.attributes(nid).map_err(damaged)?.kind == Kind::Directory
        {
            self.go_live(node);
        }
        Ok(())
    }

    /// From now on `name` is there, and is new. The kernel learns that from the answer, and must not be told to forget it
    /// again: what is open under a name that it drops looks as if it were removed.
    fn note_made(&self, directory: Node, name: &[u8]) {
        if let Node::Frozen(nid) = directory {
            self.told_absences.revoke(nid, name);
        }
        self.go_live(directory);
    }

    /// Makes a directory live, once.
    fn go_live(&self, directory: Node) {
        let Node::Frozen(nid) = directory else {
            return;
        };
        let before = self.alterations.note(nid, |alteration| alteration.live = true);
        if !before.live {
            self.notifier.forget(Forget::Directory(nid));
        }
    }

    fn set_attributes(&self, node: Node, change: &SetAttr) -> Result<Attr, Errno> {
        let path = self.path(node)?;
        if change.valid.contains(SetAttributes::SIZE) {
            let held = self.writing(node, &path)?;
            self.originals.change(&path, || rustix::fs::ftruncate(&held.descriptor, change.size))?;
        }
        let held = self.opened(node);
        if change.valid.contains(SetAttributes::MODE) {
            let mode = Mode::from_raw_mode(change.mode & 0o7777);
            self.originals.change(&path, || match &held {
                Some(held) => rustix::fs::fchmod(&held.descriptor, mode),
                None => rustix::fs::chmod(&path, mode),
            })?;
        }
        self.set_owner(&path, change, held.as_deref())?;
        self.set_times(&path, change, held.as_deref())?;
        self.note_changed(node)?;
        let stat = self.originals.stat(&path, self.held(node).as_deref())?;
        Ok(self.original_attr(&path, &stat, self.may_write_beside(node)))
    }

    fn set_owner(&self, path: &Path, change: &SetAttr, held: Option<&Held>) -> Result<(), Errno> {
        let uid = change.valid.contains(SetAttributes::UID).then(|| Uid::from_raw(change.uid));
        let gid = change.valid.contains(SetAttributes::GID).then(|| Gid::from_raw(change.gid));
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        self.originals.change(path, || match held {
            Some(held) => rustix::fs::fchown(&held.descriptor, uid, gid),
            None => rustix::fs::chownat(CWD, path, uid, gid, NO_FOLLOW),
        })
    }

    fn set_times(&self, path: &Path, change: &SetAttr, held: Option<&Held>) -> Result<(), Errno> {
        let time = |set, now, time: abi::Time| match change.valid {
            valid if valid.contains(now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            valid if valid.contains(set) => {
                Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() }
            }
            _ => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        };
        let times = Timestamps {
            last_access: time(SetAttributes::ATIME, SetAttributes::ATIME_NOW, change.atime),
            last_modification: time(SetAttributes::MTIME, SetAttributes::MTIME_NOW, change.mtime),
        };
        if !change.valid.intersects(SetAttributes::ATIME | SetAttributes::MTIME) {
            return Ok(());
        }
        self.originals.change(path, || match held {
            Some(held) => rustix::fs::futimens(&held.descriptor, &times),
            None => rustix::fs::utimensat(CWD, path, &times, NO_FOLLOW),
        })
    }

    /// CREATE: makes a regular file and keeps it open, since no OPEN will follow.
    fn create(
        &self,
        directory: Node,
        create: &Create<'_>,
        caller: Caller,
        attempt: Attempt<'_>,
    ) -> Result<Entry, Errno> {
        let path = below(&self.path(directory)?, create.name);
        let asked = OFlags::from_bits_retain(create.flags);
        let mut flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
        flags |= asked & (OFlags::EXCL | OFlags::TRUNC);
        if self.viewer.acts_for_others() {
            // An existing file could be one that the caller may not open.
            flags |= OFlags::EXCL;
        }
        let bits = Bits { mode: create.mode, umask: create.umask };
        let mode = Mode::from_raw_mode(create.mode & !create.umask & 0o7777);
        let made = self.originals.change_once(
            &path,
            attempt,
            || self.umasks.apply(bits, |mode| rustix::fs::openat(CWD, &path, flags, mode)),
            |failed| match failed {
                None => open_made(&path, mode),
                Some(Errno::EXIST) if is_ours(&path, FileType::RegularFile, attempt) => {
                    open_made(&path, mode)
                }
                Some(Errno::ACCESS) if !flags.contains(OFlags::EXCL) => open_made(&path, mode),
                Some(errno) => Err(errno),
            },
        );
        self.notice_unknown_name(directory, create.name, made.as_ref().err());
        let descriptor = made?;
        self.give_to(&path, caller)?;
        self.note_made(directory, create.name);
        let stat = rustix::fs::fstat(&descriptor)?;
        let entry = self.original_entry(directory, create.name, path, &stat)?;
        if let Some(id) = entry.node {
            let held = Held { descriptor, access: Access::Both };
            self.hold(Node::decode(id, self.root), Arc::new(held));
        }
        Ok(entry)
    }

    fn make_node(&self, making: Making<'_>, bits: Bits, device: u32) -> Result<Entry, Errno> {
        let kind = FileType::from_raw_mode(bits.mode);
        if kind.is_file() {
            let Bits { mode, umask } = bits;
            let create = Create { name: making.name, flags: OFlags::EXCL.bits(), mode, umask };
            return self.create(making.parent, &create, making.caller, making.attempt);
        }
        let device = rustix::fs::makedev(device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
        self.make(making, kind, |path| {
            self.umasks.apply(bits, |mode| rustix::fs::mknodat(CWD, path, kind, mode, device))
        })
    }

    fn make_directory(&self, making: Making<'_>, bits: Bits) -> Result<Entry, Errno> {
        self.make(making, FileType::Directory, |path| {
            self.umasks.apply(bits, |mode| rustix::fs::mkdir(path, mode))
        })
    }

    fn make_symlink(&self, making: Making<'_>, target: &[u8]) -> Result<Entry, Errno> {
        let target = OsStr::from_bytes(target);
        self.make(making, FileType::Symlink, |path| rustix::fs::symlink(target, path))
    }

    /// Makes something of this kind, and looks at it.
    fn make(
        &self,
        Making { parent, name, caller, attempt }: Making<'_>,
        kind: FileType,
        action: impl FnOnce(&Path) -> Result<(), Errno>,
    ) -> Result<Entry, Errno> {
        let path = below(&self.path(parent)?, name);
        let made = self.originals.change_once(
            &path,
            attempt,
            || action(&path),
            |failed| match failed {
                None => Ok(()),
                Some(Errno::EXIST) if is_ours(&path, kind, attempt) => Ok(()),
                Some(errno) => Err(errno),
            },
        );
        self.notice_unknown_name(parent, name, made.as_ref().err());
        made?;
        self.give_to(&path, caller)?;
        self.note_made(parent, name);
        let stat = self.originals.lookup(&path)?;
        self.original_entry(parent, name, path, &stat)
    }

    fn make_link(&self, parent: Node, old: Node, name: &[u8], attempt: Attempt<'_>) -> Result<Entry, Errno> {
        let (from, to) = (self.path(old)?, below(&self.path(parent)?, name));
        self.originals.change_once(
            &to,
            attempt,
            || rustix::fs::linkat(CWD, &from, CWD, &to, AtFlags::empty()),
            |failed| match failed {
                None => Ok(()),
                Some(Errno::EXIST) if is_same(&from, &to) => Ok(()),
                Some(errno) => Err(errno),
            },
        )?;
        self.go_live(parent);
        self.note_rewritten(old);
        let stat = self.originals.lookup(&to)?;
        if let Node::Found(number) = old {
            self.found.count_lookup(number);
        }
        let attr = self.original_attr(&to, &stat, self.may_write_beside(old));
        Ok(Entry {
            node: Some(old.encode(self.root)),
            name_valid: Validity::Brief,
            attr_valid: validity_of(&attr),
            attr,
        })
    }

    fn remove(&self, parent: Node, name: &[u8], flags: AtFlags, attempt: Attempt<'_>) -> Result<(), Errno> {
        let path = below(&self.path(parent)?, name);
        let victim = attempt.node(0, self.root, || self.keep_open(parent, name, &path));
        self.originals.change_once(
            &path,
            attempt,
            || rustix::fs::unlinkat(CWD, &path, flags),
            // The kernel knew the name a moment ago.
            |failed| failed.filter(|errno| *errno != Errno::NOENT).map_or(Ok(()), Err),
        )?;
        self.note_nameless(victim);
        self.go_live(parent);
        Ok(())
    }

    fn rename(
        &self,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: u32,
        attempt: Attempt<'_>,
    ) -> Result<(), Errno> {
        let flags = RenameFlags::from_bits_retain(flags);
        if !(flags - RenameFlags::NOREPLACE).is_empty() {
            return Err(Errno::INVAL);
        }
        let (old, new) = (below(&self.path(from.0)?, from.1), below(&self.path(to.0)?, to.1));
        let moved = attempt.node(0, self.root, || self.known(from.0, from.1, &old));
        let victim = attempt.node(1, self.root, || self.keep_open(to.0, to.1, &new));
        self.originals.change_once(
            &new,
            attempt,
            || rename_original(&old, &new, flags),
            |failed| match failed {
                None => Ok(()),
                Some(Errno::NOENT) if rustix::fs::lstat(&new).is_ok() => Ok(()),
                Some(errno) => Err(errno),
            },
        )?;
        self.note_nameless(victim.filter(|victim| Some(*victim) != moved));
        if let Some(Node::Frozen(nid)) = moved {
            self.alterations.displace(nid, &old, &new);
        }
        self.found.rename(&old, &new);
        self.go_live(from.0);
        self.go_live(to.0);
        Ok(())
    }

    /// The node that the kernel may know for `name` in `parent`.
    fn known(&self, parent: Node, name: &[u8], path: &Path) -> Option<Node> {
        if let Node::Frozen(directory) = parent
            && let Ok(Lookup::Found(nid)) = self.image.lookup(directory, name)
            && !self.alterations.of(nid).is_some_and(|alteration| alteration.displaced)
        {
            return Some(Node::Frozen(nid));
        }
        let stat = self.originals.lookup(path).ok()?;
        self.found.number((stat.st_dev, stat.st_ino)).map(Node::Found)
    }

    /// Before a name is taken away: if the kernel may have the file open, its original is held open too, so that the
    /// program can go on with it.
    fn keep_open(&self, parent: Node, name: &[u8], path: &Path) -> Option<Node> {
        let node = self.known(parent, name, path)?;
        let needless = match node {
            Node::Frozen(nid) => !self.is_original_file(nid),
            Node::Found(_) => false,
        };
        if needless || self.held(node).is_some() {
            return Some(node);
        }
        let regular = rustix::fs::lstat(path).is_ok_and(|stat| is_file(&stat));
        let held = if regular {
            self.originals.open_widely(path, Access::Read)
        } else {
            self.originals.open(path, Access::Neither)
        };
        if let Ok(held) = held {
            self.hold(node, Arc::new(held));
        }
        Some(node)
    }

    /// Whether a frozen node is a regular file whose content must come from the original, or some of it.
    fn is_original_file(&self, nid: Nid) -> bool {
        self.is_rewritten(nid) || !matches!(self.image.content(nid), Ok(quell_image::Content::Held(_)))
    }

    /// A node has lost its name.
    fn note_nameless(&self, node: Option<Node>) {
        match node {
            Some(Node::Frozen(nid)) => {
                self.alterations.note(nid, |alteration| {
                    (alteration.displaced, alteration.nameless) = (true, true);
                });
            }
            Some(Node::Found(number)) => self.found.detach(number),
            None => {}
        }
    }

    fn synchronise(&self, node: Node, data_only: bool) -> Result<(), Errno> {
        let Some(held) = self.opened(node) else {
            return Ok(());
        };
        let path = self.path(node)?;
        self.originals.change(&path, || {
            if data_only {
                rustix::fs::fdatasync(&held.descriptor)
            } else {
                rustix::fs::fsync(&held.descriptor)
            }
        })
    }

    fn allocate(&self, node: Node, offset: u64, length: u64, mode: u32) -> Result<(), Errno> {
        let path = self.path(node)?;
        let held = self.writing(node, &path)?;
        let mode = FallocateFlags::from_bits_retain(mode);
        self.originals.change(&path, || rustix::fs::fallocate(&held.descriptor, mode, offset, length))
    }

    /// What an administrator's server makes belongs to whoever asked for it.
    fn give_to(&self, path: &Path, caller: Caller) -> Result<(), Errno> {
        if !self.viewer.acts_for_others() || caller.uid == 0 && caller.gid == 0 {
            return Ok(());
        }
        // A group that is not the server's own was inherited from a set-group-id directory.
        let own = rustix::fs::lstat(path)?.st_gid == rustix::process::getegid().as_raw();
        let gid = own.then(|| Gid::from_raw(caller.gid));
        rustix::fs::chownat(CWD, path, Some(Uid::from_raw(caller.uid)), gid, NO_FOLLOW)
    }

    /// The kernel believed a name to be absent that is there: somebody else made it.
    fn notice_unknown_name(&self, parent: Node, name: &[u8], error: Option<&Errno>) {
        if error == Some(&Errno::EXIST) {
            self.go_live(parent);
            self.notifier.forget(Forget::Name { parent, name: name.to_vec() });
        }
    }
}

/// What is to be made.
#[derive(Debug, Clone, Copy)]
struct Making<'a> {
    parent: Node,
    name: &'a [u8],
    caller: Caller,
    attempt: Attempt<'a>,
}

/// Whether a write comes from a program that appends.
fn appends(write: &Write<'_>) -> bool {
    write.open_flags & OFlags::APPEND.bits() != 0 && write.write_flags & abi::WRITE_CACHE == 0
}

/// Whether what is found at `path` is what an earlier server made when it was killed: of this kind, ours, not in use
/// yet, and not older than that. A lock file that somebody else has for longer is none.
fn is_ours(path: &Path, kind: FileType, attempt: Attempt<'_>) -> bool {
    rustix::fs::lstat(path).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == kind
            && stat.st_uid == rustix::process::geteuid().as_raw()
            && (kind != FileType::RegularFile || stat.st_size == 0)
            && stat.st_ctime >= attempt.begun_at() - CLOCKS_APART
    })
}

/// Seconds by which the clock of a file server may be behind ours.
const CLOCKS_APART: i64 = 5;

/// Whether two paths lead to the same original.
fn is_same(one: &Path, other: &Path) -> bool {
    let key = |path: &Path| rustix::fs::lstat(path).map(|stat| (stat.st_dev, stat.st_ino));
    key(one).is_ok_and(|one| key(other) == Ok(one))
}

/// Opens a file that an earlier server made with `mode`, which may bar its maker from opening it again.
fn open_made(path: &Path, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOCTTY;
    match rustix::fs::openat(CWD, path, flags | OFlags::RDWR, Mode::empty()) {
        Err(Errno::ACCESS) => {}
        outcome => return outcome,
    }
    let place = rustix::fs::openat(CWD, path, flags | OFlags::PATH, Mode::empty())?;
    // Not /proc/self: the first thread, which that shows, has a table of descriptors of its own.
    let place = format!("/proc/thread-self/fd/{}", place.as_raw_fd());
    rustix::fs::chmod(&place, mode | Mode::RUSR | Mode::WUSR)?;
    let opened = rustix::fs::openat(CWD, &place, OFlags::CLOEXEC | OFlags::RDWR, Mode::empty());
    rustix::fs::chmod(&place, mode)?;
    opened
}

/// rename(2), or renameat2(2) where its flags are needed, which not every file system has.
fn rename_original(old: &PathBuf, new: &PathBuf, flags: RenameFlags) -> Result<(), Errno> {
    if flags.is_empty() {
        rustix::fs::rename(old, new)
    } else {
        rustix::fs::renameat_with(CWD, old, CWD, new, flags)
    }
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_file()
}

/// The answer to a WRITE: `struct fuse_write_out`.
fn written(write: &Write<'_>) -> [u8; 8] {
    let mut written = [0; 8];
    written[..4].copy_from_slice(&u32::try_from(write.data.len()).unwrap_or(u32::MAX).to_ne_bytes());
    written
}

/// `struct fuse_open_out` behind the entry that CREATE gives. The handle is zero: without OPEN there is no RELEASE
/// either.
const UNOPENED: [u8; 16] = [0; 16];

/// Notes that everything is done but the answer. A program that has it goes on at once, so another server must not do
/// any of it again.
fn completed<T>(outcome: Result<T, Errno>, attempt: Attempt<'_>) -> Result<T, Errno> {
    attempt.complete(outcome.as_ref().map(|_| ()).map_err(|errno| *errno));
    outcome
}

fn reply_with<T>(outcome: Result<T, Errno>, reply: Reply<'_>, success: impl FnOnce(T, Reply<'_>)) {
    match outcome {
        Ok(answer) => success(answer, reply),
        Err(errno) => reply.error(errno),
    }
}

fn reply_entry(outcome: Result<Entry, Errno>, reply: Reply<'_>) {
    reply_with(outcome, reply, |entry, reply| reply.entry(&entry));
}
