//! LockTable of flock(2) and fcntl(2) below a root: each is the original's.
//!
//! A lock has an owner, for which the kernel sends a number: a process for POSIX locks, an open file for the other kinds.
//! Each owner gets a [`LockFile`] for each file, and holds its locks through it: so locks of two owners conflict
//! with each other, and with those of processes outside, as the original's file system says. When an owner is done with a
//! file, its descriptor is closed, and with it all its locks there.
//!
//! A lock that has to wait does not keep a thread: it is tried again until it is free, or until a signal reaches the program.
//! Owners and waiting locks are written down in memory that outlives the server.
//!
//! ```text
//! owner:   | node | owner | descriptor + 1, ledger + 1 << 32 | handle | whole file | process | unused |
//! waiting: | request | node | handle | owner | start | end | kind, whole file << 31, process << 32 |
//! ```

use std::collections::HashMap;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use quell_image::Nid;
use rustix::io::Errno;

use super::lock_files::{self, LockFile, UNLOCK};
use super::node::Node;
use crate::fuse::abi::NodeId;
use crate::fuse::request::{FileHandle, Lock, LockOwner, Unique};
use crate::lock;
use crate::sys::shared::SharedMemory;
use crate::sys::table::{Index, SharedTable};

/// Records in shared memory, of owners and of waiting locks.
pub(crate) type LockRecords = SharedTable<7>;

/// The owners of locks, and the locks that wait.
#[derive(Debug)]
pub(crate) struct LockTable {
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
    /// Files with the number of their RELEASE requests that are being answered.
    leaving: HashMap<Node, u32>,
}

/// A RELEASE that is being answered.
#[derive(Debug)]
pub(crate) struct Leaving<'l> {
    locks: &'l LockTable,
    node: Node,
}

/// The outcome for a lock that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locking {
    Done,
    Waits,
}

/// An owner's locks of one kind on one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OwnerKey {
    node: Node,
    owner: LockOwner,
    whole_file: bool,
}

#[derive(Debug)]
struct Owner {
    index: Index,
    file: LockFile,
    handle: FileHandle,
    pid: u32,
}

#[derive(Debug, Clone)]
struct Waiting {
    index: Index,
    lock: Lock,
    file: LockFile,
}

/// The time for which a lock that is in the way is given to leave with the file that it was set by. Closing that file may
/// take longer than a program that asks without waiting should.
const MOST_LEAVING: Duration = Duration::from_secs(1);

impl LockTable {
    /// The locks that an earlier server left.
    pub(crate) fn attach(owners: Arc<SharedMemory>, waiting: Arc<SharedMemory>, root: Nid) -> Self {
        let (owners, waiting) = (LockRecords::attach(owners), LockRecords::attach(waiting));
        let mut state = State::default();
        for index in owners.used() {
            let word = |number| owners.get(index, number);
            let Some(file) = LockFile::restore(word(2)) else { continue };
            let key = OwnerKey {
                node: Node::decode(NodeId(word(0)), root),
                owner: LockOwner(word(1)),
                whole_file: word(4) != 0,
            };
            let pid = u32::try_from(word(5)).unwrap_or(0);
            let owner = Owner { index, file, handle: FileHandle(word(3)), pid };
            state.owners.insert(key, owner);
        }
        for index in waiting.used() {
            let words: [u64; 7] = std::array::from_fn(|number| waiting.get(index, number));
            let (node, lock) = read_waiting(&words, root);
            if let Some(owner) = state.owners.get(&OwnerKey::of(node, &lock)) {
                let file = owner.file.clone();
                state.waiting.insert(words[0], Waiting { index, lock, file });
            }
        }
        Self { owners, waiting, root, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Notes that a request may come to wait, before any other request is read: a signal for it may be the next one.
    pub(crate) fn expect(&self, unique: Unique) {
        lock(&self.state).arriving.insert(unique.0, false);
    }

    /// Notes a RELEASE before any other request is read. The kernel does not let close(2) wait for it: the program may ask
    /// for a lock next that the closed file holds.
    pub(crate) fn expect_release(&self, node: Node) -> Leaving<'_> {
        *lock(&self.state).leaving.entry(node).or_default() += 1;
        Leaving { locks: self, node }
    }

    /// Waits until the files are closed whose RELEASE came before. Returns whether there was any.
    pub(crate) fn await_releases(&self, node: Node) -> bool {
        let state = lock(&self.state);
        if !state.leaving.contains_key(&node) {
            return false;
        }
        let is_leaving = |state: &mut State| state.leaving.contains_key(&node);
        let _left = self.changed.wait_timeout_while(state, MOST_LEAVING, is_leaving);
        true
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
                // Its descriptor may be a copy of the program's, with which the locks would live on.
                let _closed_soon = owner.file.apply(&everything(key));
                self.owners.free(owner.index);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn owner_of(&self, key: OwnerKey) -> Option<LockFile> {
        lock(&self.state).owners.get(&key).map(|owner| owner.file.clone())
    }

    pub(crate) fn add_owner(
        &self,
        key: OwnerKey,
        lock_of: &Lock,
        opened: OpenedForLocks,
    ) -> Result<LockFile, Errno> {
        let mut state = lock(&self.state);
        if let Some(owner) = state.owners.get(&key) {
            return Ok(owner.file.clone());
        }
        let file = match opened {
            OpenedForLocks::Anew(file) => LockFile::own(file),
            OpenedForLocks::Copied(file) => LockFile::shared(file, state.sharer(key.node, lock_of.handle))?,
        };
        let words = [
            key.node.encode(self.root).0,
            key.owner.0,
            file.word(),
            lock_of.handle.0,
            key.whole_file.into(),
            lock_of.pid.into(),
            0,
        ];
        let index = self.owners.insert(words).ok_or(Errno::NOLCK)?;
        let owner = Owner { index, file: file.clone(), handle: lock_of.handle, pid: lock_of.pid };
        state.owners.insert(key, owner);
        Ok(file)
    }

    /// Has a lock wait.
    ///
    /// **Errors** `EINTR` if a signal came first; `ENOLCK` where there is no room.
    pub(crate) fn wait_for(
        &self,
        unique: Unique,
        node: Node,
        wanted: Lock,
        file: LockFile,
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

    /// A signal reached the program that waits for `unique`. Returns whether its lock waited.
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
    pub(crate) fn settled(&self, unique: Unique) {
        lock(&self.state).arriving.remove(&unique.0);
        self.changed.notify_all();
    }

    /// The process of the one other owner of locks on a file, if there is exactly one.
    pub(crate) fn other_owner(&self, key: OwnerKey) -> Option<u32> {
        let state = lock(&self.state);
        let mut others = state.owners.iter().filter(|(other, _)| other.node == key.node && **other != key);
        let first = others.next().map(|(_, owner)| owner.pid);
        first.filter(|_| others.next().is_none())
    }

    /// Tries every lock that waits once; returns those that need to wait no longer.
    pub(crate) fn try_all(&self) -> Vec<(Unique, Result<(), Errno>)> {
        let mut state = lock(&self.state);
        let tried =
            state.waiting.iter().map(|(unique, waiting)| (*unique, waiting.file.apply(&waiting.lock)));
        let ready: Vec<_> = tried.filter(|(_, outcome)| *outcome != Err(Errno::AGAIN)).collect();
        for (unique, _) in &ready {
            if let Some(waiting) = state.waiting.remove(unique) {
                self.waiting.free(waiting.index);
            }
        }
        ready.into_iter().map(|(unique, outcome)| (Unique(unique), outcome)).collect()
    }

    /// Sleeps until a lock waits, and then for a pause, or until something may have become free.
    pub(crate) fn rest(&self, pause: Duration) {
        let mut state = lock(&self.state);
        while state.waiting.is_empty() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let _woken = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
    }
}

/// An owner's open file, before it is one.
#[derive(Debug)]
pub(crate) enum OpenedForLocks {
    Anew(OwnedFd),
    /// The program's own open file, which other owners may use as well.
    Copied(OwnedFd),
}

impl State {
    /// The file of another owner that uses the same open file of the program.
    fn sharer(&self, node: Node, handle: FileHandle) -> Option<&LockFile> {
        let mut owners = self.owners.iter().filter(|(key, owner)| key.node == node && owner.handle == handle);
        owners.find(|(_, owner)| owner.file.is_shared()).map(|(_, owner)| &owner.file)
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.locks.state);
        if let Some(count) = state.leaving.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                state.leaving.remove(&self.node);
            }
        }
        drop(state);
        self.locks.changed.notify_all();
    }
}

impl OwnerKey {
    /// The owner of `lock` on the file of `node`.
    pub(crate) fn of(node: Node, lock: &Lock) -> Self {
        Self { node, owner: lock.owner, whole_file: lock.whole_file }
    }
}

/// The numbers of all descriptors that the records of owners in `memory` name.
pub(crate) fn descriptors(memory: &Arc<SharedMemory>) -> Vec<RawFd> {
    let records = LockRecords::attach(Arc::clone(memory));
    records.used().flat_map(|index| lock_files::descriptors(records.get(index, 2))).collect()
}

/// The whole file, unlocked.
fn everything(key: OwnerKey) -> Lock {
    let OwnerKey { owner, whole_file, .. } = key;
    Lock { handle: FileHandle(0), owner, start: 0, end: Lock::TO_THE_END, kind: UNLOCK, pid: 0, whole_file }
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
}
