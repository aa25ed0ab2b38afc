//! Changes: each goes to the original, by descriptors, is counted and named.
//!
//! A change of names makes its directory live before it is carried out: from then on names come from the original. Frozen
//! files that lose or change a name are tied to their originals first. A change of a file leaves its image behind. Modes
//! come with the program's umask beside them, see [`super::umasks`].

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::Server;
use super::evidence::is_same;
use super::files::opened_as;
use super::lookup::validity_of;
use super::nodes::{Node, key_of};
use super::notifier::Forget;
use super::originals::{path_of, place_of, reach};
use super::slots::{Attempt, Before, Note};
use super::umasks::Bits;
use crate::fuse::abi::{Entry, Opened};
use crate::fuse::reply::Reply;
use crate::fuse::request::{Caller, Create, Operation, Request, Unique};
use crate::sys::credentials::Identity;

impl Server {
    /// Answers a request that changes something.
    pub(crate) fn change(&self, request: &Request<'_>, node: Node, attempt: Attempt<'_>, reply: Reply<'_>) {
        if let Before::Complete(outcome) = attempt.before() {
            return self.answer_completed(request, node, attempt, outcome, reply);
        }
        let (caller, unique) = (request.caller, request.unique);
        let making = |name| Making { parent: node, name, caller, attempt };
        match request.operation {
            Operation::Write(ref write) => {
                let outcome = completed(self.write(node, write, caller, attempt), attempt);
                reply_with(outcome, reply, |bytes, reply| reply.bytes(&written(bytes)));
            }
            Operation::SetAttributes(ref change) => {
                let outcome = completed(self.set_attributes(node, change, caller), attempt);
                reply_with(outcome, reply, |attr, reply| reply.attr(&attr, validity_of(&attr)));
            }
            Operation::Create(ref create) => {
                let outcome = completed(self.create(making(create.name), create, unique), attempt);
                reply_created(outcome, reply);
            }
            Operation::MakeUnnamed(ref create) => {
                let outcome = completed(self.make_unnamed(making(create.name), create, unique), attempt);
                reply_created(outcome, reply);
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
                reply_entry(completed(self.make_link(making(name), old), attempt), reply);
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
        attempt: Attempt<'_>,
        outcome: Result<(), Errno>,
        reply: Reply<'_>,
    ) {
        if let Err(errno) = outcome {
            return reply.error(errno);
        }
        match request.operation {
            Operation::Write(_) => {
                let bytes = usize::try_from(attempt.remembered(Note::Written)).unwrap_or(usize::MAX);
                reply.bytes(&written(bytes));
            }
            Operation::SetAttributes(_) => {
                let attributes = self.attributes(node, None);
                reply_with(attributes, reply, |(attr, valid), reply| reply.attr(&attr, valid));
            }
            Operation::Create(ref create) => {
                let caller = request.caller;
                reply_created(self.created_before(node, create, caller, request.unique), reply);
            }
            // It is open, and has no name by which it could be found again.
            Operation::MakeUnnamed(_) => reply.error(Errno::INTR),
            Operation::MakeNode { name, .. }
            | Operation::MakeDirectory { name, .. }
            | Operation::Symlink { name, .. }
            | Operation::Link { name, .. } => reply_entry(self.lookup(node, name), reply),
            _ => reply.done(),
        }
    }

    /// The changes that are answered with success alone.
    fn change_quietly(&self, request: &Request<'_>, node: Node, attempt: Attempt<'_>) -> Result<(), Errno> {
        let caller = request.caller;
        let making = |name| Making { parent: node, name, caller, attempt };
        match request.operation {
            Operation::Unlink { name } => self.remove(making(name), AtFlags::empty()),
            Operation::RemoveDirectory { name } => self.remove(making(name), AtFlags::REMOVEDIR),
            Operation::Rename { name, new_parent, new_name, flags } => {
                let new_parent = Node::decode(new_parent, self.root);
                self.rename(making(name), (new_parent, new_name), RenameFlags::from_bits_retain(flags))
            }
            Operation::Synchronise { handle, data_only } => self.synchronise(handle, data_only),
            Operation::Allocate { handle, offset, length, mode } => {
                self.allocate(handle, offset, length, mode, caller)
            }
            Operation::SetXattr(ref change) => self.set_xattr(node, change, caller, attempt),
            Operation::RemoveXattr { name } => self.remove_xattr(node, name, caller, attempt),
            _ => Err(Errno::NOSYS),
        }
    }

    /// Carries out what a request asks with the rights of the process that asked. Where the namespace has one user, the
    /// server is that user.
    pub(crate) fn as_caller<T>(&self, caller: Caller, action: impl FnOnce() -> T) -> Result<T, Errno> {
        if !self.viewer.acts_for_others() || (caller.uid, caller.gid) == (0, 0) {
            return Ok(action());
        }
        Identity::of_caller(caller.uid, caller.gid, caller.pid).assume(action)
    }

    /// CREATE: makes a regular file and opens it.
    fn create(
        &self,
        making: Making<'_>,
        create: &Create<'_>,
        unique: Unique,
    ) -> Result<(Entry, Opened), Errno> {
        let Making { parent, name, caller, attempt } = making;
        let directory = self.expect_name(parent, name)?;
        let asked = OFlags::from_bits_retain(create.flags);
        let flags = asked & CREATING | OFlags::CREATE | SAFELY;
        let bits = Bits { mode: create.mode, umask: create.umask };
        let mode = Mode::from_raw_mode(create.mode & !create.umask & 0o7777);
        let name_of = os(name);
        let made = self.originals.change_once(
            &path_of(&directory).join(name_of),
            attempt,
            || {
                verify_regular(&directory, name)?;
                let open = |mode| rustix::fs::openat(&*directory, name_of, flags, mode);
                self.as_caller(caller, || self.umasks.apply(bits, open))?
            },
            |failed| match failed {
                Some(errno) if errno != Errno::EXIST && errno != Errno::ACCESS => Err(errno),
                Some(errno) if !self.is_our_file(&directory, name, caller, attempt) => Err(errno),
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
    ) -> Result<(Entry, Opened), Errno> {
        let found = rustix::fs::openat(CWD, place_of(&file), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&found)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Err(Errno::STALE);
        }
        if flags.contains(OFlags::EXCL) {
            self.note_fresh(&stat);
        }
        let entry = self.entry_of(parent, name, found, &stat)?;
        let node = entry.node.map(|id| Node::decode(id, self.root)).ok_or(Errno::IO)?;
        self.note_written(node);
        let opened = self.opened(node, file, flags, unique)?;
        Ok((entry, opened))
    }

    /// The second answer to a CREATE: the file by its name, open by the handle that an earlier server made or by another one.
    fn created_before(
        &self,
        parent: Node,
        create: &Create<'_>,
        caller: Caller,
        unique: Unique,
    ) -> Result<(Entry, Opened), Errno> {
        let entry = self.lookup(parent, create.name)?;
        let node = entry.node.map(|id| Node::decode(id, self.root)).ok_or(Errno::STALE)?;
        if let Some((handle, open)) = self.handles.opened_by(unique)
            && open.node == node
        {
            return Ok((entry, opened_as(handle, open.flags)));
        }
        let opened = self.open(node, create.flags & !CREATION_ONLY, caller, unique)?;
        Ok((entry, opened))
    }

    /// TMPFILE: makes a file without a name.
    fn make_unnamed(
        &self,
        making: Making<'_>,
        create: &Create<'_>,
        unique: Unique,
    ) -> Result<(Entry, Opened), Errno> {
        let directory = self.pin(making.parent)?;
        let asked = OFlags::from_bits_retain(create.flags);
        let flags = asked & (CREATING - OFlags::TRUNC) | OFlags::TMPFILE | OFlags::CLOEXEC;
        let bits = Bits { mode: create.mode, umask: create.umask };
        let file = self.originals.change(&directory, || {
            let open = |mode| rustix::fs::openat(CWD, place_of(&*directory), flags, mode);
            self.as_caller(making.caller, || self.umasks.apply(bits, open))?
        })?;
        let found = rustix::fs::openat(CWD, place_of(&file), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&found)?;
        self.note_fresh(&stat);
        let entry = self.entry_of(making.parent, making.name, found, &stat)?;
        let node = entry.node.map(|id| Node::decode(id, self.root)).ok_or(Errno::IO)?;
        let opened = self.opened(node, file, asked, unique)?;
        Ok((entry, opened))
    }

    fn make_node(&self, making: Making<'_>, bits: Bits, device: u32) -> Result<Entry, Errno> {
        let kind = FileType::from_raw_mode(bits.mode);
        let device = rustix::fs::makedev(device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xfff00);
        self.make(making, kind, |directory, name| {
            self.umasks.apply(bits, |mode| rustix::fs::mknodat(directory, os(name), kind, mode, device))
        })
    }

    fn make_directory(&self, making: Making<'_>, bits: Bits) -> Result<Entry, Errno> {
        self.make(making, FileType::Directory, |directory, name| {
            self.umasks.apply(bits, |mode| rustix::fs::mkdirat(directory, os(name), mode))
        })
    }

    fn make_symlink(&self, making: Making<'_>, target: &[u8]) -> Result<Entry, Errno> {
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
    ) -> Result<Entry, Errno> {
        let Making { parent, name, caller, attempt } = making;
        let directory = self.expect_name(parent, name)?;
        let made = self.originals.change_once(
            &path_of(&directory).join(os(name)),
            attempt,
            || self.as_caller(caller, || action(&directory, name))?,
            |failed| match failed {
                None => Ok(()),
                Some(Errno::EXIST) if self.is_ours(&directory, name, kind, caller, attempt) => Ok(()),
                Some(errno) => Err(errno),
            },
        );
        self.notice_failure(parent, name, made.is_err());
        made?;
        let (found, stat) = reach(&directory, name)?;
        self.note_fresh(&stat);
        self.entry_of(parent, name, found, &stat)
    }

    fn make_link(&self, making: Making<'_>, old: Node) -> Result<Entry, Errno> {
        let Making { parent, name, caller, attempt } = making;
        let directory = self.expect_name(parent, name)?;
        let original = self.pin(old)?;
        if let Node::Frozen(nid) = old {
            self.alter(nid);
        }
        let made = self.originals.change_once(
            &path_of(&directory).join(os(name)),
            attempt,
            || self.as_caller(caller, || link(&original, &directory, name))?,
            |failed| match failed {
                None => Ok(()),
                Some(Errno::EXIST) if is_same(&directory, name, &original) => Ok(()),
                Some(errno) => Err(errno),
            },
        );
        self.notice_failure(parent, name, made.is_err());
        made?;
        let stat = self.originals.stat(&original)?;
        self.nodes.count_lookup(old);
        self.nodes.mark_named(old);
        let attr = self.original_attr(&original, &stat, self.may_write_in(parent));
        Ok(Entry {
            node: Some(old.encode(self.root)),
            name_valid: self.name_validity(parent, name, None, &attr),
            attr_valid: validity_of(&attr),
            attr,
        })
    }

    /// UNLINK and RMDIR.
    fn remove(&self, making: Making<'_>, flags: AtFlags) -> Result<(), Errno> {
        let Making { parent, name, caller, attempt } = making;
        let directory = self.go_live(parent)?;
        let victim = attempt.node(0, self.root, || self.hold_victim(parent, &directory, name));
        self.originals.change_once(
            &path_of(&directory).join(os(name)),
            attempt,
            || {
                if attempt.before() == Before::Begun && self.leads_to(&directory, name, victim) == Some(false)
                {
                    // Another process may have made something by that name meanwhile.
                    return Ok(());
                }
                self.as_caller(caller, || rustix::fs::unlinkat(&*directory, os(name), flags))?
            },
            // The kernel knew the name a moment ago.
            |failed| failed.filter(|errno| *errno != Errno::NOENT).map_or(Ok(()), Err),
        )?;
        self.note_nameless(victim);
        Ok(())
    }

    fn rename(&self, from: Making<'_>, to: (Node, &[u8]), flags: RenameFlags) -> Result<(), Errno> {
        let Making { parent, name, caller, attempt } = from;
        let (old, new) = (self.go_live(parent)?, self.expect_name(to.0, to.1)?);
        let moved = attempt.node(0, self.root, || self.hold_moved(parent, &old, name));
        let victim = attempt.node(1, self.root, || match flags.contains(RenameFlags::EXCHANGE) {
            true => self.hold_moved(to.0, &new, to.1),
            false => self.hold_victim(to.0, &new, to.1),
        });
        self.originals.change_once(
            &path_of(&new).join(os(to.1)),
            attempt,
            || {
                if attempt.before() == Before::Begun && self.leads_to(&new, to.1, moved) == Some(true) {
                    return Ok(());
                }
                self.as_caller(caller, || rename((&old, name), (&new, to.1), flags))?
            },
            |failed| match failed {
                None => Ok(()),
                // The kernel did not know the name, so it is not known what was moved.
                Some(Errno::NOENT) if moved.is_none() && reach(&new, to.1).is_ok() => Ok(()),
                Some(errno) => Err(errno),
            },
        )?;
        if !flags.contains(RenameFlags::EXCHANGE) {
            self.note_nameless(victim.filter(|victim| Some(*victim) != moved));
        }
        // The kernel moves names with the time for which the old ones were valid, which may be for ever.
        for (parent, name) in [(parent, name), to] {
            self.notifier.forget(Forget::Moved { parent, name: name.to_vec() });
        }
        Ok(())
    }

    /// Ties what `name` leads to its node before the name changes. A name that the kernel does not know has no node.
    fn hold_moved(&self, parent: Node, directory: &OwnedFd, name: &[u8]) -> Option<Node> {
        let (found, stat) = reach(directory, name).ok()?;
        let Some(nid) = self.counterpart(parent, name, &stat) else {
            return self.nodes.node_of(key_of(&stat));
        };
        self.nodes.bind(nid, key_of(&stat), found);
        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
            // Its time of change is another one afterwards.
            self.keep_readable(nid);
            self.alter(nid);
        }
        Some(Node::Frozen(nid))
    }

    /// The same for a name that is taken away. On file systems that rename a file that is in use instead of removing it, a
    /// file that no program has open is let go.
    fn hold_victim(&self, parent: Node, directory: &OwnedFd, name: &[u8]) -> Option<Node> {
        let victim = self.hold_moved(parent, directory, name)?;
        if !self.is_open(victim) && renames_what_is_in_use(directory) {
            self.nodes.release_original(victim);
        }
        self.readers.remove(victim);
        Some(victim)
    }

    /// A name of the node was taken away: whether it was the last one, its original says.
    fn note_nameless(&self, node: Option<Node>) {
        let Some(node) = node else { return };
        match self.nodes.original(node).map(|original| rustix::fs::fstat(&*original)) {
            Some(Ok(stat)) if stat.st_nlink > 0 => {}
            Some(_) => self.nodes.mark_gone(node),
            // Another name leads to it again.
            None => self.nodes.detach(node),
        }
    }

    /// Makes a directory live in which `name` is about to appear. The kernel learns of the name from the answer, and must not
    /// be told to drop it as one that was absent: what is open under a dropped name looks as if it were removed.
    fn expect_name(&self, directory: Node, name: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        if let Node::Frozen(nid) = directory {
            self.told_absences.revoke(nid, name);
        }
        self.go_live(directory)
    }

    /// A name that was to appear did not, so what the kernel believes of it may be wrong: another process may have made it.
    fn notice_failure(&self, parent: Node, name: &[u8], failed: bool) {
        if failed {
            self.notifier.forget(Forget::Name { parent, name: name.to_vec() });
        }
    }
}

/// A name that is to be changed.
#[derive(Debug, Clone, Copy)]
struct Making<'a> {
    parent: Node,
    name: &'a [u8],
    caller: Caller,
    attempt: Attempt<'a>,
}

/// Flags of an open call that count when a file is made.
const CREATING: OFlags = OFlags::ACCMODE
    .union(OFlags::EXCL)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND)
    .union(OFlags::DSYNC)
    .union(OFlags::SYNC);

/// Flags that mean something while a file is made alone.
pub(crate) const CREATION_ONLY: u32 = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::TRUNC).bits();

/// The kernel looked at the name before. Another process may have put a link, a pipe or a terminal there meanwhile, which
/// must neither be followed nor be waited for.
const SAFELY: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// **Errors** `ESTALE` where something else than a regular file has the name, so that the kernel looks again.
fn verify_regular(directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match reach(directory, name) {
        Ok((_, stat)) if !FileType::from_raw_mode(stat.st_mode).is_file() => Err(Errno::STALE),
        _ => Ok(()),
    }
}

fn os(name: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name)
}

/// A new name for what an `O_PATH` descriptor leads to.
fn link(original: &OwnedFd, directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    rustix::fs::linkat(CWD, place_of(original), directory, os(name), AtFlags::SYMLINK_FOLLOW)
}

/// renameat(2), or renameat2(2) where its flags are needed, which not every file system has.
fn rename(from: (&OwnedFd, &[u8]), to: (&OwnedFd, &[u8]), flags: RenameFlags) -> Result<(), Errno> {
    if flags.is_empty() {
        rustix::fs::renameat(from.0, os(from.1), to.0, os(to.1))
    } else {
        rustix::fs::renameat_with(from.0, os(from.1), to.0, os(to.1), flags)
    }
}

/// Opens a file that an earlier server made with `mode`, which may bar its maker from opening it again.
fn reopen_made(directory: &OwnedFd, name: &[u8], asked: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let (found, _) = reach(directory, name)?;
    let flags = asked & (CREATING - OFlags::EXCL) | OFlags::CLOEXEC | OFlags::NOCTTY;
    let open = || rustix::fs::openat(CWD, place_of(&found), flags, Mode::empty());
    match open() {
        Err(Errno::ACCESS) => {}
        outcome => return outcome,
    }
    rustix::fs::chmod(place_of(&found), mode | Mode::RUSR | Mode::WUSR)?;
    let opened = open();
    rustix::fs::chmod(place_of(&found), mode)?;
    opened
}

/// Tells whether a file system renames a file that is in use instead of removing it, so that its directory cannot be removed: NFS
/// and AFS. Source: statfs(2) for the numbers.
fn renames_what_is_in_use(directory: &OwnedFd) -> bool {
    const NFS: i64 = 0x6969;
    const AFS: [i64; 2] = [0x5346_414F, 0x6B41_4653];
    rustix::fs::fstatfs(directory).is_ok_and(|stat| {
        let kind = stat.f_type;
        kind == NFS || AFS.contains(&kind)
    })
}

/// The answer to a WRITE: `struct fuse_write_out`.
fn written(bytes: usize) -> [u8; 8] {
    let mut written = [0; 8];
    written[..4].copy_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_ne_bytes());
    written
}

/// Notes that everything is done but the answer. A program that has it goes on at once, so another server must not do
/// any of it again.
pub(crate) fn completed<T>(outcome: Result<T, Errno>, attempt: Attempt<'_>) -> Result<T, Errno> {
    attempt.complete(outcome.as_ref().map(|_| ()).map_err(|errno| *errno));
    outcome
}

pub(crate) fn reply_with<T>(outcome: Result<T, Errno>, reply: Reply<'_>, success: impl FnOnce(T, Reply<'_>)) {
    match outcome {
        Ok(answer) => success(answer, reply),
        Err(errno) => reply.error(errno),
    }
}

fn reply_entry(outcome: Result<Entry, Errno>, reply: Reply<'_>) {
    reply_with(outcome, reply, |entry, reply| reply.entry(&entry));
}

fn reply_created(outcome: Result<(Entry, Opened), Errno>, reply: Reply<'_>) {
    reply_with(outcome, reply, |(entry, opened), reply| reply.parts(&[&entry.encode(), &opened.encode()]));
}
