//! The open file through which an owner holds its locks.
//!
//! Most owners have one of their own, and the original's file system judges what conflicts. Where the mode bars opening the
//! file again, several owners share the program's open file, and the original takes their locks for those of one owner. A
//! *ledger* judges conflicts among them: an empty file in memory, which each of them has open for itself.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{CWD, FlockOperation, MemfdFlags, Mode, OFlags};
use rustix::io::Errno;

use super::originals::place_of;
use crate::fuse::request::Lock;
use crate::lock;
use crate::sys::process::adopt;
use crate::sys::table::{name_of, named_by};
use quell_fuse::locks::{RangeLock, conflicting_range_lock, set_range_lock};

/// `F_UNLCK`, and the other kinds, as FUSE carries them.
pub(crate) const UNLOCK: u32 = libc::F_UNLCK as u32;
const READ_LOCK: u32 = libc::F_RDLCK as u32;
const WRITE_LOCK: u32 = libc::F_WRLCK as u32;

/// An owner's open file.
#[derive(Debug, Clone)]
pub(crate) struct LockFile {
    file: Arc<OwnedFd>,
    ledger: Option<Arc<OwnedFd>>,
}

/// Held while a lock goes into a ledger and to the original.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl LockFile {
    /// The file of an owner alone.
    pub(crate) fn own(file: OwnedFd) -> Self {
        Self { file: Arc::new(file), ledger: None }
    }

    /// A copy of the program's open file. `other` is one that another owner has.
    pub(crate) fn shared(file: OwnedFd, other: Option<&Self>) -> Result<Self, Errno> {
        let ledger = match other.and_then(|other| other.ledger.as_ref()) {
            Some(ledger) => {
                rustix::fs::openat(CWD, place_of(ledger), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?
            }
            None => rustix::fs::memfd_create("quell-locks", MemfdFlags::CLOEXEC)?,
        };
        Ok(Self { file: Arc::new(file), ledger: Some(Arc::new(ledger)) })
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.ledger.is_some()
    }

    /// The descriptors as a word of a record.
    pub(crate) fn word(&self) -> u64 {
        name_of(Some(&*self.file)) | name_of(self.ledger.as_deref()) << 32
    }

    /// The file that an earlier server left.
    pub(crate) fn restore(word: u64) -> Option<Self> {
        let open = |word| named_by(word).and_then(adopt).map(Arc::new);
        Some(Self { file: open(word)?, ledger: open(word >> 32) })
    }

    /// Sets a lock without waiting.
    ///
    /// **Errors** `EAGAIN` where another lock is in the way.
    pub(crate) fn apply(&self, wanted: &Lock) -> Result<(), Errno> {
        let Some(ledger) = &self.ledger else {
            return match wanted.whole_file {
                true => rustix::fs::flock(&*self.file, operation(wanted.kind)),
                false => set(&self.file, range_of(wanted)),
            };
        };
        let _one_at_a_time = lock(&ONE_AT_A_TIME);
        match (wanted.whole_file, wanted.kind) {
            (true, UNLOCK) => self.unlock_whole(ledger),
            (true, kind) => {
                rustix::fs::flock(ledger, operation(kind))?;
                let outcome = rustix::fs::flock(&*self.file, operation(kind));
                outcome.or_else(|errno| rustix::fs::flock(ledger, operation(UNLOCK)).and(Err(errno)))
            }
            (false, UNLOCK) => {
                set(ledger, range_of(wanted))?;
                self.unlock_unheld(ledger, range_of(wanted))
            }
            (false, _) => {
                let range = range_of(wanted);
                if conflicting_range_lock(ledger, range)?.kind != UNLOCK {
                    return Err(Errno::AGAIN);
                }
                set(&self.file, range)?;
                set(ledger, range)
            }
        }
    }

    /// The lock that would be in the way of `wanted`, or one of kind [`UNLOCK`].
    pub(crate) fn conflict(&self, wanted: &Lock) -> Result<RangeLock, Errno> {
        if let Some(ledger) = &self.ledger {
            let found = conflicting_range_lock(ledger, range_of(wanted))?;
            if found.kind != UNLOCK {
                return Ok(found);
            }
        }
        conflicting_range_lock(&*self.file, range_of(wanted))
    }

    fn unlock_whole(&self, ledger: &OwnedFd) -> Result<(), Errno> {
        let alone = rustix::fs::flock(ledger, FlockOperation::NonBlockingLockExclusive).is_ok();
        rustix::fs::flock(ledger, operation(UNLOCK))?;
        if alone { rustix::fs::flock(&*self.file, operation(UNLOCK)) } else { Ok(()) }
    }

    /// Unlocks the bytes of a range that no other owner holds. Only shared locks of several owners can meet on a byte, so the
    /// lock of the others stays as it is.
    fn unlock_unheld(&self, ledger: &OwnedFd, range: RangeLock) -> Result<(), Errno> {
        let mut parts = vec![(range.start, last_of(range))];
        while let Some((start, last)) = parts.pop() {
            let held = conflicting_range_lock(ledger, between(WRITE_LOCK, start, last))?;
            if held.kind == UNLOCK {
                set(&self.file, between(UNLOCK, start, last))?;
                continue;
            }
            if held.start > start {
                parts.push((start, held.start - 1));
            }
            if last_of(held) < last {
                parts.push((last_of(held) + 1, last));
            }
        }
        Ok(())
    }
}

/// The numbers of the descriptors that a word of a record names.
pub(crate) fn descriptors(word: u64) -> impl Iterator<Item = RawFd> {
    [named_by(word), named_by(word >> 32)].into_iter().flatten()
}

fn set(file: &OwnedFd, range: RangeLock) -> Result<(), Errno> {
    match set_range_lock(file, range) {
        Err(Errno::ACCESS) => Err(Errno::AGAIN),
        outcome => outcome,
    }
}

fn operation(kind: u32) -> FlockOperation {
    match kind {
        UNLOCK => FlockOperation::NonBlockingUnlock,
        READ_LOCK => FlockOperation::NonBlockingLockShared,
        _ => FlockOperation::NonBlockingLockExclusive,
    }
}

fn range_of(lock: &Lock) -> RangeLock {
    between(lock.kind, lock.start, lock.end.max(lock.start))
}

fn between(kind: u32, start: u64, last: u64) -> RangeLock {
    let length = if last >= Lock::TO_THE_END { 0 } else { last - start + 1 };
    RangeLock { kind, start, length, pid: 0 }
}

/// The last byte of a range.
pub(crate) fn last_of(range: RangeLock) -> u64 {
    match range.length {
        0 => Lock::TO_THE_END,
        length => range.start + length - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuse::request::{FileHandle, LockOwner};

    fn wanted(kind: u32, start: u64, end: u64) -> Lock {
        Lock { handle: FileHandle(0), owner: LockOwner(0), start, end, kind, pid: 0, whole_file: false }
    }

    fn whole(kind: u32) -> Lock {
        Lock { whole_file: true, ..wanted(kind, 0, Lock::TO_THE_END) }
    }

    /// Two owners of one open file, and a third one that has opened it for itself.
    fn owners() -> (LockFile, LockFile, LockFile) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || std::fs::File::options().read(true).write(true).open(file.path()).unwrap();
        let shared = open();
        let one = LockFile::shared(shared.try_clone().unwrap().into(), None).unwrap();
        let other = LockFile::shared(shared.into(), Some(&one)).unwrap();
        (one, other, LockFile::own(open().into()))
    }

    #[test]
    fn a_range_ends_where_the_kernel_says() {
        let length = |start, end| range_of(&wanted(READ_LOCK, start, end)).length;
        assert_eq!((length(5, 5), length(0, Lock::TO_THE_END), length(7, 9)), (1, 0, 3));
    }

    #[test]
    fn owners_that_share_an_open_file_lock_each_other_out() {
        let (one, other, _) = owners();
        one.apply(&wanted(WRITE_LOCK, 0, 49)).unwrap();
        assert_eq!(other.apply(&wanted(READ_LOCK, 40, 60)), Err(Errno::AGAIN));
        let found = other.conflict(&wanted(READ_LOCK, 40, 60)).unwrap();
        assert_eq!((found.kind, found.start, last_of(found)), (WRITE_LOCK, 0, 49));
        other.apply(&wanted(READ_LOCK, 50, 60)).unwrap();
        one.apply(&wanted(UNLOCK, 0, Lock::TO_THE_END)).unwrap();
        other.apply(&wanted(WRITE_LOCK, 0, 10)).unwrap();
    }

    #[test]
    fn a_lock_stays_for_outside_until_the_last_owner_gave_it_up() {
        let (one, other, outside) = owners();
        one.apply(&wanted(READ_LOCK, 0, Lock::TO_THE_END)).unwrap();
        other.apply(&wanted(READ_LOCK, 10, 19)).unwrap();
        one.apply(&wanted(UNLOCK, 0, Lock::TO_THE_END)).unwrap();
        assert_eq!(outside.apply(&wanted(WRITE_LOCK, 19, 30)), Err(Errno::AGAIN));
        outside.apply(&wanted(WRITE_LOCK, 0, 9)).unwrap();
        outside.apply(&wanted(WRITE_LOCK, 20, Lock::TO_THE_END)).unwrap();
        other.apply(&wanted(UNLOCK, 10, 19)).unwrap();
        outside.apply(&wanted(WRITE_LOCK, 0, Lock::TO_THE_END)).unwrap();
    }

    #[test]
    fn locks_of_whole_files_are_each_owners() {
        let (one, other, outside) = owners();
        one.apply(&whole(READ_LOCK)).unwrap();
        other.apply(&whole(READ_LOCK)).unwrap();
        one.apply(&whole(UNLOCK)).unwrap();
        assert_eq!(outside.apply(&whole(WRITE_LOCK)), Err(Errno::AGAIN));
        assert_eq!(one.apply(&whole(WRITE_LOCK)), Err(Errno::AGAIN));
        other.apply(&whole(UNLOCK)).unwrap();
        outside.apply(&whole(WRITE_LOCK)).unwrap();
        assert_eq!(one.apply(&whole(READ_LOCK)), Err(Errno::AGAIN));
    }
}
