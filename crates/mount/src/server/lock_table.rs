//! LockTable of flock(2) and fcntl(2) below a root: each is the original's.
//!
//! A lock has an owner, for which the kernel sends a number: a process for POSIX locks, an open file for the other kinds.
//! The number of an open file is that of another one soon after it is closed, and RELEASE is answered later than that. So for
//! flock(2) a file's handle stands for it, which is given once. Where there is only the number, as for locks of open files by
//! fcntl(2) and for packed files without a handle, a request waits until RELEASE has given up the locks of the closed file.
//! Each owner gets a [`LockFile`] for each file, and holds its locks through it: so locks of two owners conflict
//! with each other, and with those of processes outside, as the original's file system says. When an owner is done with a
//! file, its descriptor is closed, and with it all its locks there.
//!
//! A lock that has to wait does not keep a thread: it is tried again until it is free, or until a signal reaches the program.
//! Owners and waiting locks are written down in memory that outlives the server. The outcome of a wait is written down
//! before the program is told, and the record goes afterwards: the next server tells it again, and tries nothing again that the
//! program may have undone since.
//!
//! ```text
//! owner:   | node | owner | descriptor + 1, ledger + 1 << 32 | handle | whole file | process | unused |
//! waiting: | request | node | handle | owner | start | end | kind, (errno + 1) << 8 or 0, whole file << 31, process << 32 |
//! ```

use std::collections::{HashMap, HashSet};
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use quell_image::Nid;
use rustix::io::Errno;

use super::lock_files::{self, LockFile, UNLOCK};
use super::node::Node;
use super::slots::Attempt;
use crate::fuse::abi::NodeId;
use crate::fuse::request::{FileHandle, Lock, LockOwner, Unique};
use crate::lock;
use crate::sys::shared::SharedMemory;
use crate::sys::table::{SharedTable, TableIndex};

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
    /// Outcomes that an earlier server may not have told.
    untold: Vec<Settled>,
    /// Requests that may come to wait.
    arriving: HashSet<u64>,
    /// RELEASE requests that are being answered.
    leaving: HashMap<u64, LeavingFile>,
}

/// An open file that is being closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LeavingFile {
    node: Node,
    handle: FileHandle,
    /// The owner of its locks if it has no handle, until they are given up.
    owner: Option<OwnerKey>,
}

/// A RELEASE that is being answered.
#[derive(Debug)]
pub(crate) struct Leaving<'l> {
    locks: &'l LockTable,
    unique: Unique,
}

/// A request that may come to wait, until it is answered or waits.
#[derive(Debug)]
pub(crate) struct Arriving<'l> {
    locks: &'l LockTable,
    unique: Unique,
}

/// The outcome for a lock that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locking {
    Done,
    Waits,
    /// Its owner was done with the file meanwhile: it must be opened again.
    Again,
}

/// The outcome of a wait, which is to be told.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) unique: Unique,
    pub(crate) outcome: Result<(), Errno>,
    index: TableIndex,
}

/// An owner's locks of one kind on one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OwnerKey {
    node: Node,
    by: LockedBy,
}

/// The kernel does not tell the locks of open files by fcntl(2) from POSIX locks: both are a process' here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LockedBy {
    Process(LockOwner),
    /// An open file that has a handle.
    Handle(FileHandle),
    /// An open file that has none.
    OpenFile(LockOwner),
}

#[derive(Debug)]
struct Owner {
    index: TableIndex,
    file: LockFile,
    handle: FileHandle,
    pid: u32,
}

#[derive(Debug, Clone)]
struct Waiting {
    index: TableIndex,
    key: OwnerKey,
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
            let handle = FileHandle(word(3));
            let by = LockedBy::of(LockOwner(word(1)), handle, word(4) != 0);
            let key = OwnerKey { node: Node::decode(NodeId(word(0)), root), by };
            let pid = u32::try_from(word(5)).unwrap_or(0);
            let owner = Owner { index, file, handle, pid };
            state.owners.insert(key, owner);
        }
        for index in waiting.used() {
            let words: [u64; 7] = std::array::from_fn(|number| waiting.get(index, number));
            if let Some(outcome) = read_outcome(words[6]) {
                state.untold.push(Settled { unique: Unique(words[0]), outcome, index });
                continue;
            }
            let (node, lock) = read_waiting(&words, root);
            let key = OwnerKey::of(node, &lock);
            let Some(file) = state.owners.get(&key).map(|owner| owner.file.clone()) else {
                state.untold.push(Settled { unique: Unique(words[0]), outcome: Err(Errno::NOLCK), index });
                continue;
            };
            state.waiting.insert(words[0], Waiting { index, key, lock, file });
        }
        Self { owners, waiting, root, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Notes that a request may come to wait, before any other request is read: a signal for it may be the next one.
    pub(crate) fn expect(&self, unique: Unique) -> Arriving<'_> {
        lock(&self.state).arriving.insert(unique.0);
        Arriving { locks: self, unique }
    }

    /// The same for a request that lies in a slot, before any thread answers. False if an earlier server had it wait: it is
    /// answered by its record, and must not be tried when that is gone.
    pub(crate) fn expect_left(&self, unique: Unique) -> bool {
        let state = lock(&self.state);
        let is_settled = state.untold.iter().any(|settled| settled.unique == unique);
        if is_settled || state.waiting.contains_key(&unique.0) {
            return false;
        }
        drop(state);
        std::mem::forget(self.expect(unique));
        true
    }

    /// Notes a RELEASE before any other request is read. The kernel does not let close(2) wait for it: the program may ask
    /// for a lock next that the closed file holds.
    pub(crate) fn expect_release(
        &self,
        unique: Unique,
        node: Node,
        handle: FileHandle,
        owner: Option<LockOwner>,
    ) -> Leaving<'_> {
        let owner = owner.map(|owner| OwnerKey { node, by: LockedBy::OpenFile(owner) });
        lock(&self.state).leaving.insert(unique.0, LeavingFile { node, handle, owner });
        Leaving { locks: self, unique }
    }

    /// The same for a RELEASE that lies in a slot, before any thread answers.
    pub(crate) fn expect_release_left(
        &self,
        unique: Unique,
        node: Node,
        handle: FileHandle,
        owner: Option<LockOwner>,
    ) {
        std::mem::forget(self.expect_release(unique, node, handle, owner));
    }

    /// The owner of a file without a handle has given up its locks: its number may stand for another file from now on.
    pub(crate) fn given_up(&self, unique: Unique) {
        if let Some(leaving) = lock(&self.state).leaving.get_mut(&unique.0) {
            leaving.owner = None;
        }
        self.changed.notify_all();
    }

    /// Waits until the owner's number is not that of a file which was closed before.
    pub(crate) fn await_namesake(&self, key: OwnerKey) {
        let is_leaving = |state: &mut State| {
            let handle = state.owners.get(&key).map(|owner| owner.handle).filter(|handle| handle.0 != 0);
            let mut leaving = state.leaving.values();
            leaving.any(|leaving| leaving.owner == Some(key) || Some(leaving.handle) == handle)
        };
        let _left = self.changed.wait_timeout_while(lock(&self.state), MOST_LEAVING, is_leaving);
    }

    /// Waits until the files are closed whose RELEASE came before. Returns whether there was any.
    pub(crate) fn await_releases(&self, node: Node) -> bool {
        let mut state = lock(&self.state);
        let is_leaving = |state: &mut State| state.leaving.values().any(|leaving| leaving.node == node);
        if !is_leaving(&mut state) {
            return false;
        }
        let _left = self.changed.wait_timeout_while(state, MOST_LEAVING, is_leaving);
        true
    }

    /// Lets no record, and no descriptor that one names, come or go until the guard is dropped.
    pub(crate) fn pause(&self) -> impl Sized + '_ {
        lock(&self.state)
    }

    /// A process is done with a file: all its POSIX locks there are gone.
    pub(crate) fn drop_process(&self, node: Node, process: LockOwner) {
        self.drop_owners(|key, _| *key == OwnerKey { node, by: LockedBy::Process(process) });
    }

    /// An open file without a handle is gone, and its locks with it.
    pub(crate) fn drop_open_file(&self, node: Node, owner: LockOwner) {
        self.drop_owners(|key, _| *key == OwnerKey { node, by: LockedBy::OpenFile(owner) });
    }

    /// The open file of a handle is gone, or the last one without a handle: so are the locks that were set by it and are left.
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
            let Some(owner) = state.owners.get(&key) else { continue };
            // Its descriptor may be a copy of the program's, with which the locks would live on.
            let _closed_soon = owner.file.apply(&everything(key.by));
            // A lock that waits is not given up with those that are held, and needs the owner when it is free.
            if !state.waiting.values().any(|waiting| waiting.key == key) {
                self.owners.free(owner.index);
                state.owners.remove(&key);
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
            lock_of.owner.0,
            file.word(),
            lock_of.handle.0,
            lock_of.whole_file.into(),
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
    /// **Errors** `ENOLCK` where there is no room.
    pub(crate) fn wait_for(
        &self,
        unique: Unique,
        node: Node,
        wanted: Lock,
        file: LockFile,
        attempt: Attempt<'_>,
    ) -> Result<Locking, Errno> {
        let key = OwnerKey::of(node, &wanted);
        let mut state = lock(&self.state);
        if !state.owners.contains_key(&key) {
            return Ok(Locking::Again);
        }
        state.arriving.remove(&unique.0);
        let words = waiting_words(unique, node, &wanted, self.root);
        let index = self.waiting.insert(words).ok_or(Errno::NOLCK)?;
        // Before it can be granted: the next server must not take it for one that was not tried yet. A server that is killed
        // before this leaves the record, see `expect_left`.
        attempt.begin();
        state.waiting.insert(unique.0, Waiting { index, key, lock: wanted, file });
        drop(state);
        self.changed.notify_all();
        Ok(Locking::Waits)
    }

    /// A signal reached the program that waits for `unique`. Returns the outcome to tell if its lock waited; one that is about to
    /// wait is waited for, so that a server which is killed meanwhile leaves both requests.
    pub(crate) fn interrupt(&self, unique: Unique) -> Option<Settled> {
        let is_arriving = |state: &mut State| state.arriving.contains(&unique.0);
        let state = lock(&self.state);
        let mut state = self.changed.wait_while(state, is_arriving).unwrap_or_else(PoisonError::into_inner);
        self.settle(&mut state, unique.0, Err(Errno::INTR))
    }

    /// Ends a wait, for this server and for later ones.
    fn settle(&self, state: &mut State, unique: u64, outcome: Result<(), Errno>) -> Option<Settled> {
        let index = state.waiting.remove(&unique)?.index;
        self.waiting.set(index, KIND, self.waiting.get(index, KIND) | outcome_bits(outcome));
        Some(Settled { unique: Unique(unique), outcome, index })
    }

    /// The program was told.
    pub(crate) fn told(&self, settled: &Settled) {
        self.waiting.free(settled.index);
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

    /// Tries every lock that waits once; returns the outcomes of those that need to wait no longer, to be told.
    pub(crate) fn try_all(&self) -> Vec<Settled> {
        let mut state = lock(&self.state);
        let tried =
            state.waiting.iter().map(|(unique, waiting)| (*unique, waiting.file.apply(&waiting.lock)));
        let ready: Vec<_> = tried.filter(|(_, outcome)| *outcome != Err(Errno::AGAIN)).collect();
        let mut settled = std::mem::take(&mut state.untold);
        settled.extend(
            ready.into_iter().filter_map(|(unique, outcome)| self.settle(&mut state, unique, outcome)),
        );
        settled
    }

    /// Sleeps until a lock waits, and then for a pause, or until something may have become free.
    pub(crate) fn rest(&self, pause: Duration) {
        let mut state = lock(&self.state);
        while state.waiting.is_empty() && state.untold.is_empty() {
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
        lock(&self.locks.state).leaving.remove(&self.unique.0);
        self.locks.changed.notify_all();
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.locks.settled(self.unique);
    }
}

impl OwnerKey {
    /// The owner of `lock` on the file of `node`.
    pub(crate) fn of(node: Node, lock: &Lock) -> Self {
        Self { node, by: LockedBy::of(lock.owner, lock.handle, lock.whole_file) }
    }
}

impl LockedBy {
    fn of(owner: LockOwner, handle: FileHandle, whole_file: bool) -> Self {
        match (whole_file, handle) {
            (false, _) => Self::Process(owner),
            (true, FileHandle(0)) => Self::OpenFile(owner),
            (true, handle) => Self::Handle(handle),
        }
    }
}

/// The numbers of all descriptors that the records of owners in `memory` name.
pub(crate) fn descriptors(memory: &Arc<SharedMemory>) -> Vec<RawFd> {
    let records = LockRecords::attach(Arc::clone(memory));
    records.used().flat_map(|index| lock_files::descriptors(records.get(index, 2))).collect()
}

/// The whole file, unlocked.
fn everything(by: LockedBy) -> Lock {
    let (owner, handle) = match by {
        LockedBy::Process(owner) | LockedBy::OpenFile(owner) => (owner, FileHandle(0)),
        LockedBy::Handle(handle) => (LockOwner(0), handle),
    };
    let whole_file = !matches!(by, LockedBy::Process(_));
    Lock { handle, owner, start: 0, end: Lock::TO_THE_END, kind: UNLOCK, pid: 0, whole_file }
}

fn waiting_words(unique: Unique, node: Node, lock: &Lock, root: Nid) -> [u64; 7] {
    let kind = u64::from(lock.kind) | u64::from(lock.whole_file) << 31 | u64::from(lock.pid) << 32;
    [unique.0, node.encode(root).0, lock.handle.0, lock.owner.0, lock.start, lock.end, kind]
}

/// The word of a waiting lock that has its outcome.
const KIND: usize = 6;

/// The outcome of a wait, as it is written down.
fn outcome_bits(outcome: Result<(), Errno>) -> u64 {
    let errno = outcome.err().map_or(0, |errno| errno.raw_os_error().unsigned_abs() & 0xffff);
    u64::from(errno + 1) << 8
}

/// The outcome in the last word of a record; `None` if the lock waits.
fn read_outcome(kind: u64) -> Option<Result<(), Errno>> {
    let errno = i32::try_from(kind >> 8 & 0x1_ffff).ok()?.checked_sub(1).filter(|errno| *errno >= 0)?;
    Some(if errno == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(errno)) })
}

fn read_waiting(words: &[u64; 7], root: Nid) -> (Node, Lock) {
    let [_, node, handle, owner, start, end, kind] = *words;
    let lock = Lock {
        handle: FileHandle(handle),
        owner: LockOwner(owner),
        start,
        end,
        kind: u32::try_from(kind & 0xff).unwrap_or(0),
        pid: u32::try_from(kind >> 32).unwrap_or(0),
        whole_file: kind >> 31 & 1 != 0,
    };
    (Node::decode(NodeId(node), root), lock)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::server::slots::{EarlierProgress, Slot, slot_memory};

    /// The memory of a table, and a file that is locked through two descriptors.
    struct Scene {
        memories: [Arc<SharedMemory>; 2],
        file: tempfile::NamedTempFile,
        slot: Slot,
    }

    const NODE: Node = Node::Found(4);

    impl Scene {
        fn new() -> Self {
            let memory = || LockRecords::memory(10).unwrap();
            let slot = Slot::take(&slot_memory().unwrap()).unwrap();
            Self { memories: [memory(), memory()], file: tempfile::NamedTempFile::new().unwrap(), slot }
        }

        fn table(&self) -> LockTable {
            let [owners, waiting] = self.memories.clone();
            LockTable::attach(owners, waiting, Nid::new(1))
        }

        fn open(&self) -> OwnedFd {
            std::fs::File::options().read(true).write(true).open(self.file.path()).unwrap().into()
        }

        fn is_free(&self) -> bool {
            LockFile::own(self.open()).apply(&exclusive(9)).is_ok()
        }

        /// Has the lock of request 6 wait behind another one, which is returned.
        fn wait(&mut self, locks: &LockTable) -> LockFile {
            let other = LockFile::own(self.open());
            other.apply(&exclusive(9)).unwrap();
            let key = OwnerKey::of(NODE, &exclusive(1));
            let file = locks.add_owner(key, &exclusive(1), OpenedForLocks::Anew(self.open())).unwrap();
            let _arriving = locks.expect(Unique(6));
            let attempt = self.slot.parts().0.of(Unique(6));
            assert_eq!(locks.wait_for(Unique(6), NODE, exclusive(1), file, attempt), Ok(Locking::Waits));
            other
        }
    }

    /// A lock of the whole file by an open file of its own.
    fn exclusive(owner: u64) -> Lock {
        Lock { kind: libc::F_WRLCK as u32, ..everything(LockedBy::OpenFile(LockOwner(owner))) }
    }

    fn outcomes(settled: &[Settled]) -> Vec<(u64, Result<(), Errno>)> {
        settled.iter().map(|settled| (settled.unique.0, settled.outcome)).collect()
    }

    #[test]
    fn a_grant_that_was_not_told_is_told_by_the_next_server() {
        let mut scene = Scene::new();
        let locks = scene.table();
        drop(scene.wait(&locks));
        assert_eq!(outcomes(&locks.try_all()), [(6, Ok(()))]);
        // It is killed before it tells, or before it notes that it did; the program has gone on, and unlocked.
        let key = OwnerKey::of(NODE, &exclusive(1));
        locks.owner_of(key).unwrap().apply(&everything(key.by)).unwrap();
        std::mem::forget(locks);
        let next = scene.table();
        assert!(!next.expect_left(Unique(6)));
        let settled = next.try_all();
        assert_eq!(outcomes(&settled), [(6, Ok(()))]);
        assert!(scene.is_free(), "nothing is locked again");
        next.told(&settled[0]);
        std::mem::forget(next);
        assert!(scene.table().try_all().is_empty());
    }

    #[test]
    fn an_interruption_that_was_not_told_is_told_by_the_next_server() {
        let mut scene = Scene::new();
        let locks = scene.table();
        let other = scene.wait(&locks);
        assert!(locks.interrupt(Unique(6)).is_some() && locks.interrupt(Unique(6)).is_none());
        std::mem::forget(locks);
        drop(other);
        let next = scene.table();
        assert_eq!(outcomes(&next.try_all()), [(6, Err(Errno::INTR))]);
        assert!(scene.is_free(), "nothing is granted to a program that was interrupted");
    }

    #[test]
    fn a_signal_ends_a_wait_that_an_earlier_server_began_or_was_about_to_begin() {
        let mut scene = Scene::new();
        let locks = scene.table();
        let other = scene.wait(&locks);
        std::mem::forget(locks);
        let next = scene.table();
        assert!(next.expect_left(Unique(8)));
        let outcome = |settled: Option<Settled>| settled.map(|settled| settled.outcome);
        std::thread::scope(|threads| {
            let signal = threads.spawn(|| outcome(next.interrupt(Unique(8))));
            let _arriving = next.expect(Unique(8));
            let file = LockFile::own(scene.open());
            let attempt = scene.slot.parts().0.of(Unique(8));
            let waits = next.wait_for(Unique(8), NODE, exclusive(1), file, attempt);
            assert_eq!((waits, signal.join().unwrap()), (Ok(Locking::Waits), Some(Err(Errno::INTR))));
        });
        assert_eq!(outcome(next.interrupt(Unique(6))), Some(Err(Errno::INTR)));
        drop(other);
        assert!(next.try_all().is_empty() && scene.is_free());
    }

    #[test]
    fn a_request_that_waits_is_answered_by_its_record_though_the_slot_has_it_without_a_note() {
        let mut scene = Scene::new();
        let locks = scene.table();
        // Killed between the two.
        let other = scene.wait(&locks);
        std::mem::forget(locks);
        let next = scene.table();
        assert!(!next.expect_left(Unique(6)));
        next.told(&next.interrupt(Unique(6)).unwrap());
        drop(other);
        assert!(next.try_all().is_empty() && scene.is_free());
    }

    #[test]
    fn a_closed_file_takes_no_lock_along_of_one_with_the_same_number() {
        let scene = Scene::new();
        let locks = scene.table();
        let set = |handle| {
            let wanted = Lock { handle: FileHandle(handle), ..exclusive(1) };
            let key = OwnerKey::of(NODE, &wanted);
            let file = locks
                .owner_of(key)
                .map_or_else(|| locks.add_owner(key, &wanted, OpenedForLocks::Anew(scene.open())), Ok);
            file.unwrap().apply(&wanted)
        };
        // The first file is closed, and the kernel gives its number away before it is.
        assert_eq!((set(7), set(8)), (Ok(()), Err(Errno::AGAIN)));
        locks.drop_handle(NODE, FileHandle(7));
        assert_eq!(set(8), Ok(()));
        locks.drop_handle(NODE, FileHandle(7));
        assert!(!scene.is_free());
        locks.drop_handle(NODE, FileHandle(8));
        assert!(scene.is_free());
    }

    #[test]
    fn a_number_without_a_handle_is_used_when_the_closed_file_that_had_it_gave_up_its_locks() {
        let scene = Scene::new();
        let locks = scene.table();
        let _leaving = locks.expect_release(Unique(3), NODE, FileHandle(0), Some(LockOwner(1)));
        let gives_up = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let later = threads.spawn(|| {
                locks.await_namesake(OwnerKey::of(NODE, &exclusive(1)));
                gives_up.load(Ordering::Relaxed)
            });
            locks.await_namesake(OwnerKey::of(NODE, &exclusive(2)));
            gives_up.store(true, Ordering::Relaxed);
            locks.given_up(Unique(3));
            assert!(later.join().unwrap());
        });
    }

    #[test]
    fn a_number_is_used_when_the_closed_file_whose_handle_it_locked_by_gave_up_its_locks() {
        let scene = Scene::new();
        let locks = scene.table();
        let of = |handle| Lock { handle: FileHandle(handle), whole_file: false, ..exclusive(1) };
        let key = OwnerKey::of(NODE, &of(7));
        assert_eq!(key, OwnerKey::of(NODE, &of(8)));
        locks.add_owner(key, &of(7), OpenedForLocks::Anew(scene.open())).unwrap();
        let _leaving = locks.expect_release(Unique(3), NODE, FileHandle(7), None);
        std::thread::scope(|threads| {
            let later = threads.spawn(|| {
                locks.await_namesake(key);
                locks.owner_of(key).is_none()
            });
            locks.drop_handle(NODE, FileHandle(7));
            assert!(later.join().unwrap());
        });
    }

    #[test]
    fn a_wait_outlasts_what_its_owner_gives_up_and_its_lock_is_held_then() {
        let mut scene = Scene::new();
        let locks = scene.table();
        let other = scene.wait(&locks);
        locks.drop_open_file(NODE, LockOwner(1));
        drop(other);
        let settled = locks.try_all();
        assert_eq!(outcomes(&settled), [(6, Ok(()))]);
        locks.told(&settled[0]);
        assert!(!scene.is_free());
        locks.drop_open_file(NODE, LockOwner(1));
        assert!(scene.is_free());
    }

    #[test]
    fn an_owner_that_was_given_up_meanwhile_is_made_anew() {
        let mut scene = Scene::new();
        let locks = scene.table();
        let (file, attempt) = (LockFile::own(scene.open()), scene.slot.parts().0.of(Unique(6)));
        let _arriving = locks.expect(Unique(6));
        assert_eq!(locks.wait_for(Unique(6), NODE, exclusive(1), file, attempt), Ok(Locking::Again));
        assert_eq!(attempt.before(), EarlierProgress::Nothing);
    }

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
