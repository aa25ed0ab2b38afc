//! The one place that chooses the tier for a request.
//!
//! ```text
//! request --> frozen tier (image, for ever) --> live tier (original by descriptor, counted, for a second)
//!         \-> change: the live tier, which from then on answers for the directory and the file
//! ```

use quell_image::{Beyond, FileKind as Kind, Nid};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::frozen::{FrozenAnswer, FrozenPatience};
use super::node::Node;
use super::open_flags::{CREATION_ONLY, opened_as};
use super::packed::damaged;
use super::replies::{completed, reply_created, reply_entry, reply_with, reply_xattr, written};
use super::serving::Server;
use super::slots::{Attempt, EarlierProgress, SlotNote};
use crate::fuse::abi::{Attr, EntryReply, NodeId, OpenFlags, OpenReply, Validity};
use crate::fuse::listing::Listing;
use crate::fuse::reply::Reply;
use crate::fuse::request::{Caller, Create, FileHandle, Operation, Read, Request, Unique};
use crate::memory::HeldPart;

impl Server {
    /// Answers from the image alone. Returns the reply if the request takes more than that.
    pub(crate) fn answer_at_once<'d>(&self, request: &Request<'_>, reply: Reply<'d>) -> Option<Reply<'d>> {
        match (&request.operation, Node::decode(request.node, self.packed.root)) {
            // Python asks whether a file is a terminal each time it opens one.
            (Operation::Ioctl, _) => reply.error(Errno::NOTTY),
            (Operation::Lookup { name }, Node::Frozen(nid)) if !self.bindings.is_live(nid) => {
                match self.frozen.lookup(nid, name, FrozenPatience::None) {
                    Ok(FrozenAnswer::Known(entry)) => reply.entry(&entry),
                    Ok(FrozenAnswer::AskOriginal) => return Some(reply),
                    Err(errno) => reply.error(errno),
                }
            }
            (Operation::GetAttributes { .. }, Node::Frozen(nid))
                if self.bindings.is_frozen(nid) && !self.frozen.awaits_list(nid) =>
            {
                match self.frozen.attr(nid) {
                    Ok(attr) => reply.attr(&attr, Validity::Forever),
                    Err(errno) => reply.error(errno),
                }
            }
            (Operation::GetXattr { name, size }, Node::Frozen(nid)) if self.frozen.has_xattrs(nid) => {
                let value = self.packed.xattr(nid, name).and_then(|value| value.ok_or(Errno::NODATA));
                reply_xattr(value, *size, reply);
            }
            (Operation::Open { flags, directory: false }, Node::Frozen(nid)) if !self.frozen.is_due(nid) => {
                match self.frozen.open(nid, *flags, FrozenPatience::None) {
                    Some(opened) => reply.bytes(&opened.encode()),
                    None => return Some(reply),
                }
            }
            (Operation::Release { handle: FileHandle(0), owner: None }, Node::Frozen(nid)) => {
                reply.done();
                self.live.release_packed(nid);
            }
            (Operation::Read(read), Node::Frozen(nid)) if !self.bindings.is_altered(nid) => {
                match self.packed.present_content(nid, read) {
                    Some(held) => {
                        self.counters.answered(held.len() as u64);
                        self.frozen.note_read(nid, read);
                        reply.bytes(&held);
                        self.note_given(read, held);
                    }
                    None => return Some(reply),
                }
            }
            _ => return Some(reply),
        }
        None
    }

    /// Decides what a request means, and answers it. `scratch` is memory that a thread reuses.
    pub(crate) fn answer(
        &self,
        request: &Request<'_>,
        reply: Reply<'_>,
        attempt: Attempt<'_>,
        scratch: &mut Vec<u8>,
    ) {
        let node = Node::decode(request.node, self.packed.root);
        let (caller, unique) = (request.caller, request.unique);
        match request.operation {
            Operation::Lookup { name } => {
                reply_with(self.lookup(node, name), reply, |entry, reply| reply.entry(&entry));
            }
            Operation::GetAttributes { handle } => {
                let attributes = self.attributes(node, handle);
                reply_with(attributes, reply, |(attr, valid), reply| reply.attr(&attr, valid));
            }
            Operation::Open { flags, directory } => {
                let opened = match attempt.before() {
                    // The program may have gone on: the file must not be cut again.
                    EarlierProgress::Complete(outcome) => {
                        outcome.and_then(|()| self.opened_before(node, flags, request))
                    }
                    _ if directory => self.open_directory_handle(node, caller, unique),
                    _ => self.open(node, flags, caller, unique),
                };
                let opened = completed(opened, attempt);
                reply_with(opened, reply, |opened, reply| reply.bytes(&opened.encode()));
            }
            Operation::Release { handle: FileHandle(0), owner } => {
                if attempt.before() == EarlierProgress::Nothing {
                    if let Some(owner) = owner {
                        self.live.locks.drop_open_file(node, owner);
                    }
                    // In this order: locks are dropped again by the next server only while no other file may have the number.
                    attempt.begin();
                    self.live.locks.given_up(unique);
                    if let Node::Frozen(nid) = node {
                        self.live.release_packed(nid);
                    }
                }
                reply.done();
            }
            Operation::Release { handle, .. } => {
                self.live.release(node, handle);
                reply.done();
            }
            Operation::Flush { handle, owner } => {
                // Not again once the program may have gone on, and may have set other locks.
                let outcome = match attempt.before() {
                    EarlierProgress::Complete(outcome) => outcome,
                    _ => completed(self.live.flush(node, handle, owner), attempt),
                };
                reply_with(outcome, reply, |(), reply| reply.done());
            }
            Operation::Read(read) => self.read(node, &read, reply, scratch),
            Operation::ListDirectory { handle, offset, size, plus } => {
                let listing = self.list(node, handle, offset, size, plus);
                reply_with(listing, reply, |listing, reply| reply.bytes(listing.bytes()));
            }
            Operation::ReadLink => self.read_link(node, reply),
            Operation::Ioctl => reply.error(Errno::NOTTY),
            Operation::ForgetOne { lookups } => {
                reply.none();
                self.forget_all([(request.node, lookups)].into_iter(), attempt);
            }
            Operation::BatchForget { nodes } => {
                reply.none();
                self.forget_all(nodes.iter(), attempt);
            }
            Operation::FileSystem => self.file_system(node, reply),
            Operation::GetXattr { name, size } => self.get_xattr(node, name, size, reply),
            Operation::ListXattr { size } => self.list_xattr(node, size, reply),
            Operation::Lock { lock, waits } => self.live.lock(node, lock, request, waits, attempt, reply),
            Operation::GetLock { lock } => self.live.conflicting_lock(node, lock, caller, reply),
            Operation::Init { .. } => self.init(&request.operation, reply),
            Operation::Interrupt { unique } => {
                reply.none();
                self.live.interrupt(unique);
            }
            Operation::Destroy => reply.done(),
            Operation::Access { .. } | Operation::Other => reply.error(Errno::NOSYS),
            _ => match attempt.before() {
                EarlierProgress::Complete(outcome) => {
                    self.answer_completed(request, node, attempt, outcome, reply)
                }
                _ => self.live.change(request, node, attempt, reply),
            },
        }
    }

    /// LOOKUP.
    fn lookup(&self, directory: Node, name: &[u8]) -> Result<EntryReply, Errno> {
        if let Node::Frozen(nid) = directory
            && !self.bindings.is_live(nid)
            && let FrozenAnswer::Known(entry) = self.frozen.lookup(nid, name, FrozenPatience::ForOriginal)?
        {
            return Ok(entry);
        }
        self.live.lookup(directory, name)
    }

    /// GETATTR.
    fn attributes(&self, node: Node, handle: Option<FileHandle>) -> Result<(Attr, Validity), Errno> {
        match node {
            Node::Frozen(nid) if self.bindings.is_frozen(nid) => {
                Ok((self.frozen.attr(nid)?, Validity::Forever))
            }
            Node::Frozen(nid) => match self.live.attributes(node, handle) {
                Err(Errno::STALE) if self.outlasts_original(nid) => {
                    Ok((self.frozen.attr(nid)?, Validity::Brief))
                }
                answer => answer,
            },
            Node::Found(_) => self.live.attributes(node, handle),
        }
    }

    /// Tells whether the image answers for a node that others took away before its original was needed: a program may have
    /// it open. The name of a directory that cannot expire is asked for again only after `ESTALE`.
    fn outlasts_original(&self, nid: Nid) -> bool {
        !self.bindings.is_altered(nid)
            && self.packed.is_uncovered(nid) == Ok(false)
            && (self.can_expire()
                || self.packed.attributes(nid).is_ok_and(|packed| packed.kind != Kind::Directory))
    }

    /// READLINK.
    fn read_link(&self, node: Node, reply: Reply<'_>) {
        if let Node::Frozen(nid) = node
            && !self.bindings.is_altered(nid)
        {
            return match self.packed.image.link_target(nid) {
                Ok(target) => reply.bytes(target),
                Err(corrupt) => reply.error(damaged(corrupt)),
            };
        }
        match self.bindings.original(node).and_then(|original| self.bindings.originals.read_link(&original)) {
            Ok(target) => reply.bytes(&target),
            Err(errno) => reply.error(errno),
        }
    }

    /// STATFS: the totals of the original's file system; of the image if there are no originals.
    fn file_system(&self, node: Node, reply: Reply<'_>) {
        if self.packed.beyond == Beyond::Nothing {
            return reply.bytes(&self.packed.totals());
        }
        match self.bindings.original_totals(node) {
            Ok(totals) => reply.bytes(&totals),
            Err(errno) => reply.error(errno),
        }
    }

    /// READDIR and READDIRPLUS. A listing that began with the image's goes on with it.
    fn list(
        &self,
        node: Node,
        handle: FileHandle,
        offset: u64,
        size: u32,
        plus: bool,
    ) -> Result<Listing, Errno> {
        let open = self.bindings.handles.get(handle)?;
        match node {
            Node::Frozen(nid) if open.file().is_none() && (offset != 0 || !self.bindings.is_live(nid)) => {
                self.frozen.listing(nid, offset, size, plus)
            }
            _ => self.live.list(node, &open, offset, size, plus),
        }
    }

    /// FORGET and BATCH_FORGET, at most once: to take lookups back twice would take a node away that is in use.
    fn forget_all(&self, nodes: impl Iterator<Item = (NodeId, u64)>, attempt: Attempt<'_>) {
        if attempt.before() != EarlierProgress::Nothing {
            return;
        }
        attempt.begin();
        for (id, lookups) in nodes {
            let node = Node::decode(id, self.packed.root);
            if self.bindings.nodes.forget(node, lookups)
                && let Node::Frozen(nid) = node
            {
                self.frozen.forget_part(nid);
            }
        }
    }

    /// OPEN of a file.
    fn open(&self, node: Node, flags: u32, caller: Caller, unique: Unique) -> Result<OpenReply, Errno> {
        if let Node::Frozen(nid) = node
            && let Some(opened) = self.frozen.open(nid, flags, FrozenPatience::ForOriginal)
        {
            self.frozen.push_first(nid);
            return Ok(opened);
        }
        self.live.open(node, flags, caller, unique)
    }

    /// The second answer to an OPEN or OPENDIR that an earlier server completed.
    fn opened_before(&self, node: Node, flags: u32, request: &Request<'_>) -> Result<OpenReply, Errno> {
        match self.bindings.handles.opened_by(request.unique) {
            Some((handle, open)) if open.node == node => Ok(opened_as(handle, open.flags)),
            _ => self.open(node, flags & !CREATION_ONLY, request.caller, request.unique),
        }
    }

    /// OPENDIR.
    fn open_directory_handle(&self, node: Node, caller: Caller, unique: Unique) -> Result<OpenReply, Errno> {
        if let Node::Frozen(nid) = node
            && !self.bindings.is_live(nid)
            && self.packed.is_listed(nid)?
        {
            let handle = self.bindings.handles.open(node, None, OFlags::RDONLY, unique)?;
            // Another thread may have changed the directory before it could see that it is open.
            if !self.bindings.is_live(nid) {
                return Ok(OpenReply {
                    handle: handle.0,
                    flags: OpenFlags::KEEP_CACHE | OpenFlags::CACHE_DIR,
                });
            }
            self.bindings.handles.release(handle);
        }
        self.live.open_directory_handle(node, caller, unique)
    }

    /// READ.
    fn read(&self, node: Node, read: &Read, reply: Reply<'_>, scratch: &mut Vec<u8>) {
        if let Node::Frozen(nid) = node
            && !self.bindings.is_altered(nid)
        {
            match self.packed.content(nid, read) {
                Ok(Some(held)) => {
                    self.counters.answered(held.len() as u64);
                    self.frozen.note_read(nid, read);
                    reply.bytes(&held);
                    return self.note_given(read, held);
                }
                Ok(None) if self.frozen.is_needless(nid, read) => {
                    reply.error(Errno::IO);
                    return self.frozen.push_window(nid, read);
                }
                Ok(None) => {}
                Err(errno) => return reply.error(errno),
            }
        }
        match self.live.read(node, read, scratch) {
            Ok(bytes) => {
                if let Node::Frozen(nid) = node {
                    self.frozen.note_read(nid, read);
                }
                reply.bytes(&scratch[..bytes]);
            }
            Err(errno) => reply.error(errno),
        }
    }

    /// A READ was answered with these bytes. The kernel keeps none that bypass its cache.
    fn note_given(&self, read: &Read, held: HeldPart<'_>) {
        if !read.direct {
            held.give_to_kernel();
        }
    }

    /// GETXATTR from the original.
    fn get_xattr(&self, node: Node, name: &[u8], size: u32, reply: Reply<'_>) {
        reply_xattr(self.original_xattr(node, name), size, reply);
    }

    fn original_xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let original = self.bindings.original(node)?;
        self.bindings.originals.xattr(&original, name)
    }

    /// LISTXATTR.
    fn list_xattr(&self, node: Node, size: u32, reply: Reply<'_>) {
        let names = match node {
            Node::Frozen(nid) if self.frozen.has_xattrs(nid) => self.packed.xattr_names(nid),
            _ => self
                .bindings
                .original(node)
                .and_then(|original| self.bindings.originals.xattr_names(&original)),
        };
        reply_xattr(names, size, reply);
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
                let bytes = usize::try_from(attempt.remembered(SlotNote::Written)).unwrap_or(usize::MAX);
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

    /// The second answer to a CREATE: the file by its name, open by the handle that an earlier server made or by another one.
    fn created_before(
        &self,
        parent: Node,
        create: &Create<'_>,
        caller: Caller,
        unique: Unique,
    ) -> Result<(EntryReply, OpenReply), Errno> {
        let entry = self.lookup(parent, create.name)?;
        let node = entry.node.map(|id| Node::decode(id, self.packed.root)).ok_or(Errno::STALE)?;
        if let Some((handle, open)) = self.bindings.handles.opened_by(unique)
            && open.node == node
        {
            return Ok((entry, opened_as(handle, open.flags)));
        }
        let opened = self.open(node, create.flags & !CREATION_ONLY, caller, unique)?;
        Ok((entry, opened))
    }
}
