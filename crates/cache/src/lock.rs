//! The lock of an entry: one process of all nodes records, or packs.
//!
//! It is a file that link(2) gives its name, which is atomic on NFS and Lustre; flock(2) is not there on many of them. The file
//! names its holder. A holder on this node is dead when its process is gone. A holder elsewhere is dead when its file is older
//! than its work may take, by the file server's clock: the age is the difference to a file that was made just now.
//!
//! A lock that is broken too early does no harm. Two processes then do the same work, and the later result counts.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::CacheError;
use crate::identity::{Life, ProcessIdentity};

/// The work under a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// A recording of a start.
    Record,
    /// An image is made or removed.
    Pack,
}

impl Phase {
    /// The longest that the work may take before others may break the lock. A start on a busy file system takes up to an hour.
    pub fn limit(self) -> Duration {
        match self {
            Self::Record => Duration::from_secs(2 * 3600),
            Self::Pack => Duration::from_secs(3600),
        }
    }
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    phase: Phase,
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
}

const NAME: &str = "lock";

/// Files that wait to become a lock, and locks that were broken, begin so.
pub(crate) const ASIDE: &str = "lock.";

/// More than any lock has.
const LENGTH_MAX: u64 = 4096;

impl EntryLock {
    /// Takes the lock of the entry at `directory`; `None` if another process has it.
    ///
    /// # Errors
    /// [`CacheError::Io`] where no file can be made.
    pub fn take(directory: &Path, phase: Phase, job: &str) -> Result<Option<Self>, CacheError> {
        let path = directory.join(NAME);
        let process = ProcessIdentity::own();
        let unique = process.unique();
        let aside = directory.join(format!("{ASIDE}{unique}"));
        let holder = Holder { phase, unique: unique.clone(), job: job.to_owned(), process };
        let made = write_new(&aside, &holder).map_err(CacheError::of("create", &aside))?;
        let taken = take(&path, &aside, &made, &holder);
        _ = std::fs::remove_file(&aside);
        let taken = taken.map_err(CacheError::of("lock", directory))?;
        Ok(taken.then_some(Self { path, unique }))
    }

    /// Tells whether a process has the lock of the entry at `directory`, as far as one look tells.
    pub fn is_taken(directory: &Path) -> bool {
        read(&directory.join(NAME)).is_some_and(|(holder, _)| holder.process.life() != Life::Dead)
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

/// Makes `aside` the lock; breaks the lock of a dead holder once.
fn take(path: &Path, aside: &Path, made: &File, own: &Holder) -> io::Result<bool> {
    for _ in 0..2 {
        if link(path, aside, made, own)? {
            return Ok(true);
        }
        let dead = match read(path) {
            Some((holder, modified)) => is_dead(&holder, modified, made)?.then_some(holder.unique),
            // It was given back just now, or is no lock of ours: an empty one is the remainder of a full disk.
            None if is_remainder(path, made)? => Some(String::new()),
            None => return Ok(false),
        };
        match dead {
            Some(unique) => break_lock(path, &unique, &own.unique)?,
            None => return Ok(false),
        }
    }
    Ok(false)
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
        Life::Alive => Ok(false),
        Life::Dead => Ok(true),
        Life::Unknown => Ok(age(modified, made)? > holder.phase.limit().as_secs() as i64),
    }
}

/// A file under the lock's name that no version of quell would leave there.
fn is_remainder(path: &Path, made: &File) -> io::Result<bool> {
    let Ok(found) = path.symlink_metadata() else { return Ok(false) };
    Ok(age(found.mtime(), made)? > Phase::Pack.limit().as_secs() as i64)
}

/// The age of a file by its server's clock. Unit: seconds.
fn age(modified: i64, made: &File) -> io::Result<i64> {
    Ok(made.metadata()?.mtime().saturating_sub(modified))
}

/// Takes the name from the lock `unique`. If another process was faster and a living lock was moved, it gets its name back.
fn break_lock(path: &Path, unique: &str, own: &str) -> io::Result<()> {
    let broken = path.with_file_name(format!("{ASIDE}{own}.broken"));
    match rustix::fs::rename(path, &broken) {
        Ok(()) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno.into()),
    }
    if read(&broken).is_some_and(|(holder, _)| holder.unique != unique) {
        _ = rustix::fs::link(&broken, path);
    }
    _ = std::fs::remove_file(&broken);
    Ok(())
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
        EntryLock::take(directory, Phase::Pack, "7").unwrap()
    }

    fn plant(directory: &Path, change: impl Fn(&mut ProcessIdentity)) {
        let mut process = ProcessIdentity::own();
        change(&mut process);
        let holder = Holder { phase: Phase::Pack, unique: "other".into(), job: String::new(), process };
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
        for _ in 0..20 {
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
            assert!(winners.len() <= 1, "{winners:?}");
        }
    }

    #[test]
    fn a_holder_elsewhere_is_dead_when_its_file_is_old() {
        let directory = tempfile::tempdir().unwrap();
        plant(directory.path(), |process| process.host = "elsewhere".into());
        assert!(take(directory.path()).is_none());
        let path = directory.path().join(NAME);
        let old = std::time::SystemTime::now() - Phase::Pack.limit() - Duration::from_secs(60);
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        let lock = take(directory.path()).unwrap();
        drop(lock);
        std::fs::write(&path, "").unwrap();
        assert!(take(directory.path()).is_none(), "it may be about to be written");
        File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        assert!(take(directory.path()).is_some(), "the remainder of a full disk");
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
