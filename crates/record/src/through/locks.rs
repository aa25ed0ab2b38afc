//! Locks, which are taken on the originals: other nodes see them.
//!
//! A lock of flock(2) belongs to an open file, as each handle has one. A lock of fcntl(2) belongs to a process, which has
//! an open file of its own here for its locks on each file, until it closes a descriptor of the file.

use super::operations::on;
use super::service::{MountService, Requester};
use super::walks::OwnedCall;
use quell_base::lock;
use quell_fuse::abi::{self, NodeId};
use quell_fuse::locks::{RangeLock, conflicting_range_lock, set_range_lock};
use quell_fuse::original::reopen;
use quell_fuse::reply::{Reply, reply_done, reply_with};
use quell_fuse::request::{Lock, Operation, Request, Unique};
use quell_trace::Call;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// The time between two tries of a lock that another process has.
const AGAIN: Duration = Duration::from_millis(5);
/// `F_SETLK` and `F_GETLK` of fcntl(2), as the trace has them.
const SET: u64 = 6;
const GET: u64 = 5;

impl MountService {
    pub(super) fn lock_operation(self: &Arc<Self>, request: &Request<'_>, reply: Reply<'_>) {
        let (node, by) = (request.node, Requester { caller: request.caller, start: self.shared.now() });
        match request.operation {
            Operation::Interrupt { unique } => {
                if lock(&self.locks.waiting).remove(&unique.0) {
                    return reply.none();
                }
                // The lock that it is about may be on its way in another thread: the kernel sends the interrupt again, unless the
                // request was answered. Source: fuse(4), `fuse_dev_do_write` of the kernel.
                std::thread::sleep(AGAIN);
                reply.error(Errno::AGAIN);
            }
            Operation::GetLock { lock } => {
                let found =
                    self.range_file(node, &lock).and_then(|file| conflicting_range_lock(file, range(&lock)));
                self.note_lock(&lock, GET, by);
                reply_with(found, reply, |found, reply| {
                    let end = match found.length {
                        0 => Lock::TO_THE_END,
                        length => found.start + length - 1,
                    };
                    let holder = u32::try_from(found.pid).unwrap_or(0);
                    reply.bytes(&abi::encode_lock(found.start, end, found.kind, holder));
                });
            }
            Operation::Lock { lock, waits } => {
                self.note_lock(&lock, SET, by);
                match self.try_lock(node, &lock) {
                    Err(Errno::AGAIN) if waits => self.wait(node, lock, request.unique, reply),
                    outcome => reply_done(outcome, reply),
                }
            }
            _ => reply.error(Errno::NOSYS),
        }
    }

    /// Tries again in a thread of its own until the lock is free or the program is interrupted.
    fn wait(self: &Arc<Self>, node: NodeId, wanted: Lock, unique: Unique, reply: Reply<'_>) {
        lock(&self.locks.waiting).insert(unique.0);
        let service = Arc::clone(self);
        let again = move || {
            let reply = Reply::new(service.device(), unique);
            loop {
                let outcome = match service.try_lock(node, &wanted) {
                    Err(Errno::AGAIN) if lock(&service.locks.waiting).contains(&unique.0) => {
                        std::thread::sleep(AGAIN);
                        continue;
                    }
                    Err(Errno::AGAIN) => Err(Errno::INTR),
                    outcome => outcome,
                };
                lock(&service.locks.waiting).remove(&unique.0);
                return reply_done(outcome, reply);
            }
        };
        match std::thread::Builder::new().name("record-lock".to_owned()).spawn(again) {
            Ok(_detached) => reply.none(),
            Err(_) => reply.error(Errno::NOLCK),
        }
    }

    fn try_lock(&self, node: NodeId, wanted: &Lock) -> Result<(), Errno> {
        if !wanted.whole_file {
            return set_range_lock(self.range_file(node, wanted)?, range(wanted));
        }
        let handle = self.nodes.handle(wanted.handle.0)?;
        let operation = match i32::try_from(wanted.kind) {
            Ok(libc::F_RDLCK) => FlockOperation::NonBlockingLockShared,
            Ok(libc::F_WRLCK) => FlockOperation::NonBlockingLockExclusive,
            _ => FlockOperation::NonBlockingUnlock,
        };
        rustix::fs::flock(&handle.file, operation)
    }

    /// The open file that a process has for its locks on `node`.
    fn range_file(&self, node: NodeId, wanted: &Lock) -> Result<Arc<OwnedFd>, Errno> {
        let mut files = lock(&self.locks.files);
        if let Some(file) = files.get(&(node, wanted.owner)) {
            return Ok(Arc::clone(file));
        }
        let (known, _) = self.nodes.get(node)?;
        let open = |flags| reopen(&known.original, flags);
        let opened = open(OFlags::RDWR).or_else(|_| open(OFlags::RDONLY)).or_else(|_| open(OFlags::WRONLY));
        // The mode was changed after the program opened the file: its own open file may still lock.
        let of_program = || self.nodes.handle(wanted.handle.0).ok();
        let file = opened.or_else(|errno| {
            let copied =
                of_program().and_then(|handle| rustix::io::fcntl_dupfd_cloexec(&handle.file, 3).ok());
            copied.ok_or(errno)
        })?;
        let file = Arc::new(file);
        files.insert((node, wanted.owner), Arc::clone(&file));
        Ok(file)
    }

    fn note_lock(&self, wanted: &Lock, command: u64, by: Requester) {
        let Ok(handle) = self.nodes.handle(wanted.handle.0) else { return };
        // A process that ends lets its locks go without a call.
        if i32::try_from(wanted.kind) == Ok(libc::F_UNLCK) {
            return;
        }
        let call = |asked| match wanted.whole_file {
            true => on(&handle, asked, Call::Flock),
            false => OwnedCall { flags: command, ..on(&handle, asked, Call::Fcntl) },
        };
        _ = self.note(by, None, Ok(()), call);
    }
}

fn range(wanted: &Lock) -> RangeLock {
    let length = if wanted.end >= Lock::TO_THE_END { 0 } else { wanted.end - wanted.start + 1 };
    RangeLock { kind: wanted.kind, start: wanted.start, length, pid: 0 }
}
