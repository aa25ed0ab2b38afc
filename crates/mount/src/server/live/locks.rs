//! Requests for locks: each is tried on the original by the open file of its owner, see [`super::super::lock_table`].

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::LiveTier;
use crate::fuse::abi;
use crate::fuse::reply::Reply;
use crate::fuse::request::{Caller, Lock, Request, Unique};
use crate::server::lock_files::{LockFile, UNLOCK, last_of};
use crate::server::lock_table::{Locking, OpenedForLocks, OwnerKey, Settled};
use crate::server::node::Node;
use crate::server::replies::completed;
use crate::server::slots::{Attempt, EarlierProgress};

impl LiveTier {
    /// SETLK and SETLKW.
    pub(crate) fn lock(
        &self,
        node: Node,
        wanted: Lock,
        request: &Request<'_>,
        waits: bool,
        attempt: Attempt<'_>,
        reply: Reply<'_>,
    ) {
        let (unique, caller) = (request.unique, request.caller);
        let outcome = match attempt.before() {
            // The program may have gone on, and may have changed its locks since.
            EarlierProgress::Complete(outcome) => outcome.map(|()| Locking::Done),
            // It waits, or has waited: the table of locks answers.
            EarlierProgress::Begun => return reply.none(),
            _ => self.try_lock(node, wanted, unique, caller, waits, attempt),
        };
        if outcome == Ok(Locking::Waits) {
            return reply.none();
        }
        self.locks.settled(unique);
        match completed(outcome, attempt) {
            Ok(_) => reply.done(),
            // The kernel would take ENOSYS for a file system that has it keep locks by itself, unseen by others.
            Err(Errno::NOSYS) => reply.error(Errno::NOLCK),
            Err(errno) => reply.error(errno),
        }
    }

    fn try_lock(
        &self,
        node: Node,
        wanted: Lock,
        unique: Unique,
        caller: Caller,
        waits: bool,
        attempt: Attempt<'_>,
    ) -> Result<Locking, Errno> {
        loop {
            let Some(file) = self.locking_file(node, &wanted, caller)? else {
                // An owner that has no descriptor has no lock to give up.
                return Ok(Locking::Done);
            };
            let outcome = match file.apply(&wanted) {
                Err(Errno::AGAIN) if waits => self.locks.wait_for(unique, node, wanted, file, attempt)?,
                Err(Errno::AGAIN) if self.locks.await_releases(node) => {
                    file.apply(&wanted).map(|()| Locking::Done)?
                }
                outcome => outcome.map(|()| Locking::Done)?,
            };
            if outcome != Locking::Again {
                return Ok(outcome);
            }
        }
    }

    /// GETLK.
    pub(crate) fn conflicting_lock(&self, node: Node, wanted: Lock, caller: Caller, reply: Reply<'_>) {
        let key = OwnerKey::of(node, &wanted);
        let conflict = self
            .locking_file(node, &wanted, caller)
            .and_then(|file| file.ok_or(Errno::BADF))
            .and_then(|file| match file.conflict(&wanted) {
                Ok(found) if found.kind != UNLOCK && self.locks.await_releases(node) => {
                    file.conflict(&wanted)
                }
                found => found,
            });
        match conflict {
            Ok(found) => {
                let pid = u32::try_from(found.pid).ok().or_else(|| self.locks.other_owner(key));
                reply.bytes(&abi::encode_lock(found.start, last_of(found), found.kind, pid.unwrap_or(0)));
            }
            Err(Errno::NOSYS) => reply.error(Errno::NOLCK),
            Err(errno) => reply.error(errno),
        }
    }

    /// The descriptor through which an owner holds its locks on a file; `None` if it has none and wants to unlock.
    fn locking_file(&self, node: Node, wanted: &Lock, caller: Caller) -> Result<Option<LockFile>, Errno> {
        let key = OwnerKey::of(node, wanted);
        self.locks.await_namesake(key);
        if let Some(file) = self.locks.owner_of(key) {
            return Ok(Some(file));
        }
        if wanted.kind == UNLOCK {
            return Ok(None);
        }
        let opened = self.open_for_locks(node, wanted, caller)?;
        self.locks.add_owner(key, wanted, opened).map(Some)
    }

    /// Opens the original for an owner: for writing where that is possible, as network file systems want it for exclusive
    /// locks. Where the mode was changed after the program opened the file, the program's own open file serves.
    fn open_for_locks(&self, node: Node, wanted: &Lock, caller: Caller) -> Result<OpenedForLocks, Errno> {
        let original = self.bindings.pin(node)?;
        let open = |flags| {
            self.packed.viewer.act_as(caller, || self.bindings.originals.open(&original, flags)).flatten()
        };
        let copied =
            |file: Arc<OwnedFd>| rustix::io::fcntl_dupfd_cloexec(&*file, 3).map(OpenedForLocks::Copied);
        let refused = match open(OFlags::RDWR) {
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY | Errno::ISDIR)) => errno,
            outcome => return outcome.map(OpenedForLocks::Anew),
        };
        let of_program = self.bindings.handles.get(wanted.handle).ok().and_then(|handle| handle.file());
        if let Some(file) = of_program.filter(|_| refused != Errno::ISDIR) {
            return copied(file);
        }
        match open(OFlags::RDONLY) {
            Err(errno) => copied(self.bindings.nodes.reader(node).ok_or(errno)?),
            outcome => outcome.map(OpenedForLocks::Anew),
        }
    }

    /// INTERRUPT.
    pub(crate) fn interrupt(&self, unique: Unique) {
        if let Some(settled) = self.locks.interrupt(unique) {
            self.tell(&settled);
        }
    }

    /// Answers a request that has waited.
    fn tell(&self, settled: &Settled) {
        let reply = Reply::new(&self.bindings.device, settled.unique);
        match settled.outcome {
            Ok(()) => reply.done(),
            Err(errno) => reply.error(errno),
        }
        self.locks.told(settled);
    }
}

/// The work of the thread that tries waiting locks again. Ends with the process.
pub(crate) fn grant_locks(tier: &LiveTier) {
    let mut pause = FIRST_PAUSE;
    loop {
        tier.locks.rest(pause);
        let settled = tier.locks.try_all();
        pause = if settled.is_empty() { (pause * 2).min(LAST_PAUSE) } else { FIRST_PAUSE };
        settled.iter().for_each(|settled| tier.tell(settled));
    }
}

/// The pauses before a waiting lock is tried again, at first and at most. An unlock by a process of this namespace is
/// noticed at once; the pauses bound how late one from outside is.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(50);
