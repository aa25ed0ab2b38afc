//! Locks, which are taken on the originals: other nodes see them.
//!
//! A lock of flock(2) belongs to an open file, as each handle has one. A lock of fcntl(2) belongs to a process, which has
//! an open file of its own here for its locks on each file, until it closes a descriptor of the file.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quell_base::lock;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::PassedNodes;
use crate::abi::{self, NodeId};
use crate::device::Device;
use crate::locks::{RangeLock, conflicting_range_lock, set_range_lock};
use crate::original::reopen;
use crate::reply::{Reply, reply_done, reply_with};
use crate::request::{FileHandle, Lock, LockOwner, Operation, Request, Unique};

/// The time between two tries of a lock that another process has.
const AGAIN: Duration = Duration::from_millis(5);

/// The locks of one connection.
#[derive(Debug, Default)]
pub struct PassedLocks {
    files: Mutex<HashMap<(NodeId, LockOwner), LockFile>>,
    /// Requests that wait, until they are interrupted.
    waiting: Mutex<HashSet<u64>>,
}

/// The open file for the locks of one owner on one file.
#[derive(Debug)]
struct LockFile {
    file: Arc<OwnedFd>,
    /// The program's open files by which it asked for locks.
    handles: HashSet<FileHandle>,
}

impl PassedLocks {
    /// A process closed a descriptor of a file, which ends all its locks on it.
    pub fn closed(&self, node: NodeId, owner: LockOwner) {
        let closed = lock(&self.files).remove(&(node, owner));
        // A copy of the program's own open file keeps its locks until that is closed.
        let all = RangeLock { kind: UNLOCK, start: 0, length: 0, pid: 0 };
        _ = closed.map(|closed| set_range_lock(closed.file, all));
    }

    /// The last descriptor of an open file is gone. The kernel gives up no lock that belongs to an open file by itself, because it keeps
    /// none of them; a process that locked by this open file has closed a descriptor of it.
    pub fn released(&self, node: NodeId, handle: FileHandle) {
        lock(&self.files).retain(|(of, _), lock| *of != node || !lock.handles.contains(&handle));
    }
}

const UNLOCK: u32 = libc::F_UNLCK as u32;

/// True for a lock that is taken, not given up.
pub fn is_taken(lock: &Lock) -> bool {
    lock.kind != UNLOCK
}

/// A server of locks.
pub trait LockServer: Send + Sync + 'static {
    type File: Send + Sync;
    type Open: Send + Sync;

    fn device(&self) -> &Device;
    fn nodes(&self) -> &PassedNodes<Self::File, Self::Open>;
    fn locks(&self) -> &PassedLocks;

    /// Requests about locks are carried out by threads of their own, because what [`Self::before`] and [`Self::after`] do may wait
    /// for other requests.
    const IS_APART: bool = false;
    /// Is called before a lock is taken or given up.
    fn before(&self, _node: NodeId, _lock: &Lock) {}
    /// Is called when a lock is taken, before the program knows.
    fn after(&self, _node: NodeId, _lock: &Lock) {}
}

/// Answers a request about locks.
pub fn answer<S: LockServer>(server: &Arc<S>, request: &Request<'_>, reply: Reply<'_>) {
    let node = request.node;
    match request.operation {
        Operation::Interrupt { unique } => {
            if lock(&server.locks().waiting).remove(&unique.0) {
                return reply.none();
            }
            // The lock that it is about may be on its way in another thread: the kernel sends the interrupt again, unless the
            // request was answered. Source: fuse(4), `fuse_dev_do_write` of the kernel.
            std::thread::sleep(AGAIN);
            reply.error(Errno::AGAIN);
        }
        Operation::GetLock { lock } => {
            let found = range_file(&**server, node, &lock)
                .and_then(|file| conflicting_range_lock(file, range(&lock)));
            reply_with(found, reply, |found, reply| {
                let end = match found.length {
                    0 => Lock::TO_THE_END,
                    length => found.start + length - 1,
                };
                let holder = u32::try_from(found.pid).unwrap_or(0);
                reply.bytes(&abi::encode_lock(found.start, end, found.kind, holder));
            });
        }
        Operation::Lock { lock, waits } if S::IS_APART => {
            wait(server, node, (lock, waits), request.unique, reply)
        }
        Operation::Lock { lock, waits } => match try_lock(&**server, node, &lock) {
            Err(Errno::AGAIN) if waits => wait(server, node, (lock, waits), request.unique, reply),
            outcome => reply_done(outcome, reply),
        },
        _ => reply.error(Errno::NOSYS),
    }
}

/// Tries again in a thread of its own until the lock is free or the program is interrupted.
fn wait<S: LockServer>(
    server: &Arc<S>,
    node: NodeId,
    (wanted, waits): (Lock, bool),
    unique: Unique,
    reply: Reply<'_>,
) {
    lock(&server.locks().waiting).insert(unique.0);
    let server = Arc::clone(server);
    let again = move || {
        let reply = Reply::new(server.device(), unique);
        let waiting = &server.locks().waiting;
        let mut is_first = true;
        loop {
            let outcome = match try_lock(&*server, node, &wanted) {
                // Another process may have closed its open file before, of which this server learns soon.
                Err(Errno::AGAIN) if is_first || waits && lock(waiting).contains(&unique.0) => {
                    is_first = false;
                    std::thread::sleep(AGAIN);
                    continue;
                }
                Err(Errno::AGAIN) if waits => Err(Errno::INTR),
                outcome => outcome,
            };
            lock(waiting).remove(&unique.0);
            return reply_done(outcome, reply);
        }
    };
    match std::thread::Builder::new().name("lock".to_owned()).spawn(again) {
        Ok(_detached) => reply.none(),
        Err(_) => reply.error(Errno::NOLCK),
    }
}

fn try_lock<S: LockServer>(server: &S, node: NodeId, wanted: &Lock) -> Result<(), Errno> {
    server.before(node, wanted);
    if wanted.whole_file {
        let handle = server.nodes().handle(wanted.handle)?;
        let operation = match i32::try_from(wanted.kind) {
            Ok(libc::F_RDLCK) => FlockOperation::NonBlockingLockShared,
            Ok(libc::F_WRLCK) => FlockOperation::NonBlockingLockExclusive,
            _ => FlockOperation::NonBlockingUnlock,
        };
        rustix::fs::flock(&handle.file, operation)?;
    } else {
        set_range_lock(range_file(server, node, wanted)?, range(wanted))?;
    }
    if is_taken(wanted) {
        server.after(node, wanted);
    }
    Ok(())
}

/// The open file that a process has for its locks on `node`.
fn range_file<S: LockServer>(server: &S, node: NodeId, wanted: &Lock) -> Result<Arc<OwnedFd>, Errno> {
    let mut files = lock(&server.locks().files);
    if let Some(known) = files.get_mut(&(node, wanted.owner)) {
        known.handles.insert(wanted.handle);
        return Ok(Arc::clone(&known.file));
    }
    let known = server.nodes().get(node)?;
    let open = |flags| reopen(&known.original, flags);
    // The program's own open file may lock what the mode does not let be opened now.
    let of_program = |_| {
        let handle = server.nodes().handle(wanted.handle)?;
        rustix::io::fcntl_dupfd_cloexec(&handle.file, 3)
    };
    let file = open(OFlags::RDWR).or_else(of_program).or_else(|_| open(OFlags::RDONLY))?;
    let file = Arc::new(file);
    let handles = HashSet::from([wanted.handle]);
    files.insert((node, wanted.owner), LockFile { file: Arc::clone(&file), handles });
    Ok(file)
}

fn range(wanted: &Lock) -> RangeLock {
    let length = if wanted.end >= Lock::TO_THE_END { 0 } else { wanted.end - wanted.start + 1 };
    RangeLock { kind: wanted.kind, start: wanted.start, length, pid: 0 }
}
