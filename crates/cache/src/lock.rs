//! The lock of an entry: one process of all nodes records, or packs.
//!
//! It is a file that link(2) gives its name, which is atomic on NFS and Lustre; flock(2) is not there on many of them. The file
//! names its holder. A holder on this node is dead when its process is gone. A living holder writes the time of its lock every
//! [`BEAT`], so a holder elsewhere is dead when its lock is older than [`SILENCE`] by the file server's clock: the age is the
//! difference to a file that was made just now.
//!
//! A lock that is broken too early does no harm. Two processes then do the same work, and the later result counts.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::CacheError;
use crate::identity::{ProcessIdentity, ProcessLife};

/// A holder notes that it lives this often.
const BEAT: Duration = Duration::from_secs(5);

/// A lock of another node that was silent for longer is that of a dead holder. A holder whose file system stands still for longer
/// loses its lock.
const SILENCE: Duration = Duration::from_secs(30);

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    /// Distinguishes this lock from all others.
    unique: String,
    /// For people who look into the file.
    job: String,
    process: ProcessIdentity,
}

/// A lock that this process holds. It is given back when it is dropped.
#[derive(Debug)]
pub struct EntryLock {
    path: PathBuf,
    unique: String,
    /// Ends when this is dropped.
    _pulse: Option<Pulse>,
}

const NAME: &str = "lock";

/// Files that wait to become a lock, and locks that were broken, begin so.
pub(crate) const ASIDE: &str = "lock.";

/// Holders that may have died one after the other while each replaced the lock of the one before.
const SUCCESSORS_MAX: u8 = 4;

/// More than any lock has.
const LENGTH_MAX: u64 = 4096;

impl EntryLock {
    /// Takes the lock of the entry at `directory`; `None` if another process has it.
    ///
    /// # Errors
    /// [`CacheError::Io`] where no file can be made.
    pub fn take(directory: &Path, job: &str) -> Result<Option<Self>, CacheError> {
        let path = directory.join(NAME);
        let process = ProcessIdentity::own();
        let unique = process.unique();
        let aside = directory.join(format!("{ASIDE}{unique}"));
        let holder = Holder { unique: unique.clone(), job: job.to_owned(), process };
        let made = write_new(&aside, &holder).map_err(CacheError::within("create", &aside))?;
        let taken = take(&path, &aside, &made, &holder, SUCCESSORS_MAX);
        _ = std::fs::remove_file(&aside);
        let taken = taken.map_err(CacheError::within("lock", directory))?;
        Ok(taken.then(|| Self { _pulse: Pulse::start(&path), path, unique }))
    }

    /// Tells whether a process has the lock of the entry at `directory`, as far as one look tells.
    pub fn is_taken(directory: &Path) -> bool {
        read(&directory.join(NAME)).is_some_and(|(holder, modified)| match holder.process.life() {
            ProcessLife::Alive => true,
            ProcessLife::Dead => false,
            // This node's clock is near enough: the lock is taken by the server's.
            ProcessLife::Unknown => SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .is_ok_and(|now| (now.as_secs() as i64).saturating_sub(modified) <= SILENCE.as_secs() as i64),
        })
    }

    /// The entry was moved to `directory`, and its lock with it.
    pub(crate) fn moved(&mut self, directory: &Path) {
        self.path = directory.join(NAME);
    }
}

impl Drop for EntryLock {
    fn drop(&mut self) {
        // A lock that was broken is not ours any more.
        if read(&self.path).is_some_and(|(holder, _)| holder.unique == self.unique) {
            _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A thread that writes the time of a lock every [`BEAT`]. The lock may be renamed meanwhile.
#[derive(Debug)]
struct Pulse {
    thread: std::thread::Thread,
    ended: Arc<AtomicBool>,
}

impl Pulse {
    /// `None` where the lock is gone again or the user may start no thread: the lock then lasts for [`SILENCE`] on other nodes.
    fn start(path: &Path) -> Option<Self> {
        let lock = File::open(path).ok()?;
        let ended = Arc::new(AtomicBool::new(false));
        let its = Arc::clone(&ended);
        let beat = move || {
            // The process may fork meanwhile, so nothing here allocates.
            while !its.load(Ordering::Relaxed) {
                std::thread::park_timeout(BEAT);
                let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
                _ = rustix::fs::futimens(&lock, &Timestamps { last_access: now, last_modification: now });
            }
        };
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(beat).ok()?;
        Some(Self { thread: thread.thread().clone(), ended })
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

/// Makes `aside` the lock at `path`. Replaces the lock of a dead holder: only the process that has made [`successor`], a lock with
/// that holder's name in its own, may replace it, so there is one. `depth`: dead successors that may still be replaced.
fn take(path: &Path, aside: &Path, made: &File, own: &Holder, depth: u8) -> io::Result<bool> {
    if link(path, aside, made, own)? {
        return Ok(true);
    }
    let Some(dead) = dead_holder(path, made)?.filter(|_| depth > 0) else { return Ok(false) };
    let successor = successor(path, &dead);
    if !take(&successor, aside, made, own, depth - 1)? {
        return Ok(false);
    }
    // An earlier successor may have replaced the lock before this one was made.
    if dead_holder(path, made)?.is_some_and(|now| now == dead) {
        std::fs::rename(&successor, path)?;
        return Ok(true);
    }
    std::fs::remove_file(&successor)?;
    Ok(false)
}

/// The unique name of the lock's holder, if it is dead; an empty one for the remainder of a full disk, which no version of quell
/// would leave there.
fn dead_holder(path: &Path, made: &File) -> io::Result<Option<String>> {
    Ok(match read(path) {
        Some((holder, modified)) => is_dead(&holder, modified, made)?.then_some(holder.unique),
        None => match path.symlink_metadata() {
            Ok(found) => is_older(found.mtime(), made)?.then(String::new),
            Err(_) => None,
        },
    })
}

/// The lock of the one that replaces the lock of `dead` at `path`.
fn successor(path: &Path, dead: &str) -> PathBuf {
    let dead: String =
        dead.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
    path.with_file_name(format!("{ASIDE}after-{dead}"))
}

fn link(path: &Path, aside: &Path, made: &File, own: &Holder) -> io::Result<bool> {
    match rustix::fs::link(aside, path) {
        Ok(()) => Ok(true),
        // A server may have answered a repeated request, so the count of names decides. Source: open(2), O_EXCL.
        Err(Errno::EXIST) => Ok(made.metadata()?.nlink() == 2),
        Err(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::XDEV | Errno::MLINK) => {
            match write_new(path, own) {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
            }
        }
        Err(errno) => Err(errno.into()),
    }
}

fn is_dead(holder: &Holder, modified: i64, made: &File) -> io::Result<bool> {
    match holder.process.life() {
        ProcessLife::Alive => Ok(false),
        ProcessLife::Dead => Ok(true),
        ProcessLife::Unknown => is_older(modified, made),
    }
}

/// Tells whether a file is older than a living holder lets its lock become, by its server's clock.
fn is_older(modified: i64, made: &File) -> io::Result<bool> {
    Ok(made.metadata()?.mtime().saturating_sub(modified) > SILENCE.as_secs() as i64)
}

fn write_new(path: &Path, holder: &Holder) -> io::Result<File> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let text = serde_json::to_vec(holder)?;
    match file.write_all(&text) {
        Ok(()) => Ok(file),
        Err(error) => {
            _ = std::fs::remove_file(path);
            Err(error)
        }
    }
}

/// The holder that a lock names, and the lock's time; `None` if there is none.
fn read(path: &Path) -> Option<(Holder, i64)> {
    let file = File::open(path).ok()?;
    let modified = file.metadata().ok()?.mtime();
    let mut text = Vec::new();
    file.take(LENGTH_MAX).read_to_end(&mut text).ok()?;
    Some((serde_json::from_slice(&text).ok()?, modified))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(directory: &Path) -> Option<EntryLock> {
        EntryLock::take(directory, "7").unwrap()
    }

    fn plant(directory: &Path, change: impl Fn(&mut ProcessIdentity)) {
        let mut process = ProcessIdentity::own();
        change(&mut process);
        let holder = Holder { unique: "other".into(), job: String::new(), process };
        std::fs::write(directory.join(NAME), serde_json::to_vec(&holder).unwrap()).unwrap();
    }

    fn names(directory: &Path) -> Vec<String> {
        let names = std::fs::read_dir(directory).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn one_process_has_the_lock_until_it_gives_it_back() {
        let directory = tempfile::tempdir().unwrap();
        let lock = take(directory.path()).unwrap();
        assert!(EntryLock::is_taken(directory.path()));
        assert!(take(directory.path()).is_none());
        drop(lock);
        assert!(!EntryLock::is_taken(directory.path()));
        assert!(take(directory.path()).is_some());
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn of_many_that_come_at_once_one_gets_the_lock_of_a_dead_holder() {
        for _ in 0..200 {
            let directory = tempfile::tempdir().unwrap();
            plant(directory.path(), |process| process.start += 1);
            let together = std::sync::Barrier::new(8);
            let winners = std::thread::scope(|scope| {
                let come = || {
                    together.wait();
                    take(directory.path())
                };
                let all: Vec<_> = (0..8).map(|_| scope.spawn(come)).collect();
                all.into_iter().filter_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(winners.len(), 1, "{winners:?}");
            drop(winners);
            assert_eq!(names(directory.path()), [""; 0]);
        }
    }

    #[test]
    fn a_holder_elsewhere_is_dead_when_its_file_is_old() {
        let directory = tempfile::tempdir().unwrap();
        plant(directory.path(), |process| process.host = "elsewhere".into());
        assert!(take(directory.path()).is_none());
        let path = directory.path().join(NAME);
        let old = SystemTime::now() - SILENCE - Duration::from_secs(5);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        let lock = take(directory.path()).unwrap();
        drop(lock);
        std::fs::write(&path, "").unwrap();
        assert!(take(directory.path()).is_none(), "it may be about to be written");
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        assert!(take(directory.path()).is_some(), "the remainder of a full disk");
    }

    #[test]
    fn a_living_holder_keeps_its_lock_young() {
        let directory = tempfile::tempdir().unwrap();
        let _lock = take(directory.path()).unwrap();
        let file = File::open(directory.path().join(NAME)).unwrap();
        let old = SystemTime::now() - 2 * SILENCE;
        file.set_modified(old).unwrap();
        while file.metadata().unwrap().modified().unwrap() < old + SILENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_successor_that_died_is_succeeded() {
        let directory = tempfile::tempdir().unwrap();
        plant(directory.path(), |process| process.start += 1);
        let lock = directory.path().join(NAME);
        let second = std::fs::read_to_string(&lock).unwrap().replace("other", "second");
        std::fs::write(successor(&lock, "other"), second).unwrap();
        drop(take(directory.path()).expect("both holders are dead"));
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn a_lock_that_another_has_taken_over_is_left_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let lock = take(directory.path()).unwrap();
        plant(directory.path(), |_| {});
        drop(lock);
        assert!(directory.path().join(NAME).exists());
    }
}
