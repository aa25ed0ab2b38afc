//! Locks of flock(2) and fcntl(2) below a root: each is the original's.
//!
//! A lock has an owner, for which the kernel sends a number: a process for POSIX locks, an open file for the other kinds.
//! Each owner gets a descriptor of its own for each file, and holds its locks through it: so locks of two owners conflict
//! with each other, and with those of processes outside, as the original's file system says. When an owner is done with a
//! file, its descriptor is closed, and with it all its locks there.
//!
//! A lock that has to wait does not keep a thread: it is tried again until it is free, or until a signal reaches the program.
//! Owners and waiting locks are written down in memory that outlives the server.
//!
//! ```text
//! owner:   | node | owner | descriptor + 1 | handle | whole file | process | unused |
//! waiting: | request | node | handle | owner | start | end | kind, whole file << 31, process << 32 |
//! ```

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use quell_image::Nid;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::Server;
use super::nodes::Node;
use crate::fuse::abi::{self, NodeId};
use crate::fuse::reply::Reply;
use crate::fuse::request::{Caller, FileHandle, Lock, LockOwner, Unique};
use crate::lock;
use crate::sys::locks::{RangeLock, conflicting_range_lock, set_range_lock};
use crate::sys::process::adopt;
use crate::sys::shared::SharedMemory;
use crate::sys::table::{Index, SharedTable};

/// Records in shared memory, of owners and of waiting locks.
pub(crate) type LockRecords = SharedTable<7>;

/// The owners of locks, and the locks that wait.
#[derive(Debug)]
pub(crate) struct Locks {
    owners: LockRecords,
    waiting: LockRecords,
    root: Nid,
    state: Mutex<State>,
    /// Something may have become free, or waits now.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    owners: HashMap<OwnerKey, Owner>,
    /// By request.
    waiting: HashMap<u64, Waiting>,
    /// Requests that may come to wait, with whether a signal has reached their program meanwhile.
    arriving: HashMap<u64, bool>,
}

/// What became of a lock that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Locking {
    Done,
    Waits,
}

/// An owner's locks of one kind on one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct OwnerKey {
    node: Node,
    owner: LockOwner,
    whole_file: bool,
}

#[derive(Debug)]
struct Owner {
    index: Index,
    file: Arc<OwnedFd>,
    handle: FileHandle,
    pid: u32,
}

#[derive(Debug, Clone)]
struct Waiting {
    index: Index,
    lock: Lock,
    file: Arc<OwnedFd>,
}

/// How long a lock waits before it is tried again, at first and at most. An unlock by a process of this namespace is
/// noticed at once; the pauses bound how late one from outside is.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(50);

impl Locks {
    /// The locks that an earlier server left.
    pub(crate) fn attach(owners: Arc<SharedMemory>, waiting: Arc<SharedMemory>, root: Nid) -> Self {
        let (owners, waiting) = (LockRecords::attach(owners), LockRecords::attach(waiting));
        let mut state = State::default();
        for index in owners.used() {
            let word = |number| owners.get(index, number);
            let Some(file) = number_of(word(2)).and_then(adopt) else { continue };
            let key = OwnerKey {
                node: Node::decode(NodeId(word(0)), root),
                owner: LockOwner(word(1)),
                whole_file: word(4) != 0,
            };
            let pid = u32::try_from(word(5)).unwrap_or(0);
            let owner = Owner { index, file: Arc::new(file), handle: FileHandle(word(3)), pid };
            state.owners.insert(key, owner);
        }
        for index in waiting.used() {
            let words: [u64; 7] = std::array::from_fn(|number| waiting.get(index, number));
            let (node, lock) = read_waiting(&words, root);
            if let Some(owner) = state.owners.get(&OwnerKey::of(node, &lock)) {
                let file = Arc::clone(&owner.file);
                state.waiting.insert(words[0], Waiting { index, lock, file });
            }
        }
        Self { owners, waiting, root, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Notes that a request may come to wait, before any other request is read: a signal for it may be the next one.
    pub(crate) fn expect(&self, unique: Unique) {
        lock(&self.state).arriving.insert(unique.0, false);
    }

    /// Lets no record, and no descriptor that one names, come or go until the guard is dropped.
    pub(crate) fn pause(&self) -> impl Sized + '_ {
        lock(&self.state)
    }

    /// An owner is done with a file: all its locks of one kind there are gone.
    pub(crate) fn drop_owner(&self, node: Node, owner: LockOwner, whole_file: bool) {
        self.drop_owners(|key, _| *key == OwnerKey { node, owner, whole_file });
    }

    /// An open file is gone: so are the locks that were set by it and are left.
    pub(crate) fn drop_handle(&self, node: Node, handle: FileHandle) {
        self.drop_owners(|key, owner| key.node == node && owner.handle == handle);
    }

    fn drop_owners(&self, is_done: impl Fn(&OwnerKey, &Owner) -> bool) {
        let mut state = lock(&self.state);
        if state.owners.is_empty() {
            return;
        }
        let done: Vec<OwnerKey> =
            state.owners.iter().filter(|(key, owner)| is_done(key, owner)).map(|(key, _)| *key).collect();
        for key in done {
            if let Some(owner) = state.owners.remove(&key) {
                self.owners.free(owner.index);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    fn owner_of(&self, key: OwnerKey) -> Option<Arc<OwnedFd>> {
        lock(&self.state).owners.get(&key).map(|owner| Arc::clone(&owner.file))
    }

    fn add_owner(&self, key: OwnerKey, lock_of: &Lock, file: OwnedFd) -> Result<Arc<OwnedFd>, Errno> {
        let mut state = lock(&self.state);
        if let Some(owner) = state.owners.get(&key) {
            return Ok(Arc::clone(&owner.file));
        }
        let number = u64::from(file.as_raw_fd().unsigned_abs()) + 1;
        let words = [
            key.node.encode(self.root).0,
            key.owner.0,
            number,
            lock_of.handle.0,
            key.whole_file.into(),
            lock_of.pid.into(),
            0,
        ];
        let index = self.owners.insert(words).ok_or(Errno::NOLCK)?;
        let file = Arc::new(file);
        let owner = Owner { index, file: Arc::clone(&file), handle: lock_of.handle, pid: lock_of.pid };
        state.owners.insert(key, owner);
        Ok(file)
    }

    /// Has a lock wait.
    ///
    /// **Errors** `EINTR` if a signal came first; `ENOLCK` where there is no room.
    fn wait_for(
        &self,
        unique: Unique,
        node: Node,
        wanted: Lock,
        file: Arc<OwnedFd>,
    ) -> Result<Locking, Errno> {
        let mut state = lock(&self.state);
        if state.arriving.remove(&unique.0) == Some(true) {
            return Err(Errno::INTR);
        }
        if state.waiting.contains_key(&unique.0) {
            // An earlier server had it wait, and was killed before it took the next request.
            return Ok(Locking::Waits);
        }
        let words = waiting_words(unique, node, &wanted, self.root);
        let index = self.waiting.insert(words).ok_or(Errno::NOLCK)?;
        state.waiting.insert(unique.0, Waiting { index, lock: wanted, file });
        drop(state);
        self.changed.notify_all();
        Ok(Locking::Waits)
    }

    /// A signal reached the program that waits for `unique`. Whether its lock waited.
    pub(crate) fn interrupt(&self, unique: Unique) -> bool {
        let mut state = lock(&self.state);
        if let Some(interrupted) = state.arriving.get_mut(&unique.0) {
            *interrupted = true;
            return false;
        }
        match state.waiting.remove(&unique.0) {
            Some(waiting) => {
                self.waiting.free(waiting.index);
                true
            }
            None => false,
        }
    }

    /// The request was answered without waiting.
    fn settled(&self, unique: Unique) {
        lock(&self.state).arriving.remove(&unique.0);
        self.changed.notify_all();
    }

    /// The process of the one other owner of locks on a file, if there is exactly one.
    fn other_owner(&self, key: OwnerKey) -> Option<u32> {
        let state = lock(&self.state);
        let mut others = state.owners.iter().filter(|(other, _)| other.node == key.node && **other != key);
        let first = others.next().map(|(_, owner)| owner.pid);
        first.filter(|_| others.next().is_none())
    }

    /// Tries every lock that waits once; returns those that need to wait no longer.
    fn try_all(&self) -> Vec<(Unique, Result<(), Errno>)> {
        let mut state = lock(&self.state);
        let tried =
            state.waiting.iter().map(|(unique, waiting)| (*unique, apply(&waiting.file, &waiting.lock)));
        let ready: Vec<_> = tried.filter(|(_, outcome)| *outcome != Err(Errno::AGAIN)).collect();
        for (unique, _) in &ready {
            if let Some(waiting) = state.waiting.remove(unique) {
                self.waiting.free(waiting.index);
            }
        }
        ready.into_iter().map(|(unique, outcome)| (Unique(unique), outcome)).collect()
    }

    /// Sleeps until a lock waits, and then for a pause, or until something may have become free.
    fn rest(&self, pause: Duration) {
        let mut state = lock(&self.state);
        while state.waiting.is_empty() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let _woken = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
    }
}

impl OwnerKey {
    fn of(node: Node, lock: &Lock) -> Self {
        Self { node, owner: lock.owner, whole_file: lock.whole_file }
    }
}

impl Server {
    /// SETLK and SETLKW.
    pub(crate) fn lock(
        &self,
        node: Node,
        wanted: Lock,
        unique: Unique,
        caller: Caller,
        waits: bool,
        reply: Reply<'_>,
    ) {
        let outcome = self.try_lock(node, wanted, unique, caller, waits);
        if outcome == Ok(Locking::Waits) {
            return reply.none();
        }
        self.locks.settled(unique);
        match outcome {
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
    ) -> Result<Locking, Errno> {
        let Some(file) = self.locking_file(node, &wanted, caller)? else {
            // An owner that has no descriptor has no lock to give up.
            return Ok(Locking::Done);
        };
        match apply(&file, &wanted) {
            Err(Errno::AGAIN) if waits => self.locks.wait_for(unique, node, wanted, file),
            outcome => outcome.map(|()| Locking::Done),
        }
    }

    /// GETLK.
    pub(crate) fn conflicting_lock(&self, node: Node, wanted: Lock, caller: Caller, reply: Reply<'_>) {
        let key = OwnerKey::of(node, &wanted);
        let conflict = self
            .locking_file(node, &wanted, caller)
            .and_then(|file| file.ok_or(Errno::BADF))
            .and_then(|file| conflicting_range_lock(&*file, range_of(&wanted)));
        match conflict {
            Ok(found) => {
                let end = match found.length {
                    0 => Lock::TO_THE_END,
                    length => found.start + length - 1,
                };
                let pid = u32::try_from(found.pid).ok().or_else(|| self.locks.other_owner(key));
                reply.bytes(&abi::encode_lock(found.start, end, found.kind, pid.unwrap_or(0)));
            }
            Err(Errno::NOSYS) => reply.error(Errno::NOLCK),
            Err(errno) => reply.error(errno),
        }
    }

    /// The descriptor through which an owner holds its locks on a file; `None` if it has none and wants to unlock.
    fn locking_file(&self, node: Node, wanted: &Lock, caller: Caller) -> Result<Option<Arc<OwnedFd>>, Errno> {
        let key = OwnerKey::of(node, wanted);
        if let Some(file) = self.locks.owner_of(key) {
            return Ok(Some(file));
        }
        if wanted.kind == UNLOCK {
            return Ok(None);
        }
        let file = self.open_for_locks(node, wanted, caller)?;
        self.locks.add_owner(key, wanted, file).map(Some)
    }

    /// Opens the original for an owner: for writing where that is possible, as network file systems want it for exclusive
    /// locks. Where the mode was changed after the program opened the file, the program's own open file serves.
    fn open_for_locks(&self, node: Node, wanted: &Lock, caller: Caller) -> Result<OwnedFd, Errno> {
        let original = self.pin(node)?;
        let open = |flags| self.as_caller(caller, || self.originals.open(&original, flags)).flatten();
        let refused = match open(OFlags::RDWR) {
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY | Errno::ISDIR)) => errno,
            outcome => return outcome,
        };
        let of_program = self.handles.get(wanted.handle).ok().and_then(|handle| handle.file());
        if let Some(file) = of_program.filter(|_| refused != Errno::ISDIR) {
            return rustix::io::fcntl_dupfd_cloexec(&*file, 3);
        }
        open(OFlags::RDONLY).or_else(|errno| {
            let reader = self.nodes.reader(node).ok_or(errno)?;
            rustix::io::fcntl_dupfd_cloexec(&*reader, 3)
        })
    }

    /// INTERRUPT.
    pub(crate) fn interrupt(&self, unique: Unique) {
        if self.locks.interrupt(unique) {
            Reply::new(&self.device, unique).error(Errno::INTR);
        }
    }
}

/// The work of the thread that tries waiting locks again. Ends with the process.
pub(crate) fn grant_locks(server: &Server) {
    let mut pause = FIRST_PAUSE;
    loop {
        server.locks.rest(pause);
        let ready = server.locks.try_all();
        pause = if ready.is_empty() { (pause * 2).min(LAST_PAUSE) } else { FIRST_PAUSE };
        for (unique, outcome) in ready {
            let reply = Reply::new(&server.device, unique);
            match outcome {
                Ok(()) => reply.done(),
                Err(errno) => reply.error(errno),
            }
        }
    }
}

/// `F_UNLCK`, and the other kinds, as FUSE carries them.
const UNLOCK: u32 = libc::F_UNLCK as u32;
const READ_LOCK: u32 = libc::F_RDLCK as u32;

/// Sets a lock without waiting.
///
/// **Errors** `EAGAIN` where another lock is in the way.
fn apply(file: &OwnedFd, wanted: &Lock) -> Result<(), Errno> {
    if !wanted.whole_file {
        return match set_range_lock(file, range_of(wanted)) {
            Err(Errno::ACCESS) => Err(Errno::AGAIN),
            outcome => outcome,
        };
    }
    let operation = match wanted.kind {
        UNLOCK => FlockOperation::NonBlockingUnlock,
        READ_LOCK => FlockOperation::NonBlockingLockShared,
        _ => FlockOperation::NonBlockingLockExclusive,
    };
    rustix::fs::flock(file, operation)
}

/// The numbers of all descriptors that the records of owners in `memory` name.
pub(crate) fn descriptors(memory: &Arc<SharedMemory>) -> Vec<RawFd> {
    let records = LockRecords::attach(Arc::clone(memory));
    records.used().filter_map(|index| number_of(records.get(index, 2))).collect()
}

fn number_of(word: u64) -> Option<RawFd> {
    RawFd::try_from(word.checked_sub(1)?).ok()
}

fn range_of(lock: &Lock) -> RangeLock {
    let length = if lock.end >= Lock::TO_THE_END { 0 } else { lock.end - lock.start.min(lock.end) + 1 };
    RangeLock { kind: lock.kind, start: lock.start, length, pid: 0 }
}

fn waiting_words(unique: Unique, node: Node, lock: &Lock, root: Nid) -> [u64; 7] {
    let kind = u64::from(lock.kind) | u64::from(lock.whole_file) << 31 | u64::from(lock.pid) << 32;
    [unique.0, node.encode(root).0, lock.handle.0, lock.owner.0, lock.start, lock.end, kind]
}

fn read_waiting(words: &[u64; 7], root: Nid) -> (Node, Lock) {
    let [_, node, handle, owner, start, end, kind] = *words;
    let lock = Lock {
        handle: FileHandle(handle),
        owner: LockOwner(owner),
        start,
        end,
        kind: u32::try_from(kind & 0x7fff_ffff).unwrap_or(0),
        pid: u32::try_from(kind >> 32).unwrap_or(0),
        whole_file: kind >> 31 & 1 != 0,
    };
    (Node::decode(NodeId(node), root), lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_lock_is_known_to_the_next_server() {
        let root = Nid::new(1);
        let lock = Lock {
            handle: FileHandle(3),
            owner: LockOwner(u64::MAX),
            start: 5,
            end: Lock::TO_THE_END,
            kind: libc::F_WRLCK as u32,
            pid: 77,
            whole_file: true,
        };
        let words = waiting_words(Unique(9), Node::Found(4), &lock, root);
        assert_eq!(read_waiting(&words, root), (Node::Found(4), lock));
    }

    #[test]
    fn a_range_ends_where_the_kernel_says() {
        let lock = |start, end| {
            let (handle, owner) = (FileHandle(0), LockOwner(0));
            range_of(&Lock { handle, owner, start, end, kind: READ_LOCK, pid: 0, whole_file: false })
        };
        assert_eq!((lock(5, 5).length, lock(0, Lock::TO_THE_END).length, lock(7, 9).length), (1, 0, 3));
    }
}
