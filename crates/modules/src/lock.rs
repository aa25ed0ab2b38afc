//! Locks: one conversion of a modulepath at a time, one builder of caches in a directory.
//!
//! Any user that may read a directory could lock it for ever. Root therefore locks a file that no other user can open,
//! beside the locked path, and removes the file with the lock.

use crate::ModulesError;
use crate::trust;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The suffix of a lock's name.
const LOCK: &str = ".quell-lock";

/// Keeps other processes away from a directory until it is dropped. Without a descriptor the file system has no locks.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    held: Option<OwnedFd>,
    /// Root's file, which is removed with the lock.
    file: Option<PathBuf>,
}

impl DirectoryLock {
    /// Locks a directory for what is made in it. As root the directory must be root's.
    ///
    /// **Errors**: [`ModulesError::Busy`] while another process has it; [`ModulesError::Write`] without the directory.
    pub(crate) fn inside(directory: &Path) -> Result<Self, ModulesError> {
        Self::take(directory, directory.join(LOCK))
    }

    /// Locks the name of a directory, whatever name the directory itself has now. As root the lock lies beside the name, in
    /// a directory that must be root's.
    ///
    /// **Errors**: as [`DirectoryLock::inside`].
    pub(crate) fn beside(directory: &Path, now: &Path) -> Result<Self, ModulesError> {
        let mut name = directory.file_name().unwrap_or_default().to_owned();
        name.push(LOCK);
        Self::take(now, directory.with_file_name(name))
    }

    fn take(directory: &Path, file: PathBuf) -> Result<Self, ModulesError> {
        match trust::is_root() {
            true => loop {
                if let Some(lock) = of_file(&file, directory)? {
                    return Ok(lock);
                }
            },
            false => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let opened = rustix::fs::open(directory, flags, Mode::empty());
                let opened = opened.map_err(ModulesError::write(directory))?;
                Ok(Self { held: locked(opened, directory)?, file: None })
            }
        }
    }

    /// Tells whether no other process can hold the lock: `false` on a file system without locks.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }
}

/// Locks root's file; `None` if its last holder removed it meanwhile.
fn of_file(file: &Path, directory: &Path) -> Result<Option<DirectoryLock>, ModulesError> {
    let failed = |errno: Errno| ModulesError::write(file)(errno);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(file, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let stat = rustix::fs::fstat(&opened).map_err(failed)?;
    if trust::refuse_file(&stat, 0).is_err() || stat.st_mode & 0o077 != 0 {
        return Err(ModulesError::Untrusted { path: directory.to_owned(), place: file.to_owned() });
    }
    let held = locked(opened, directory)?;
    let now = rustix::fs::statat(CWD, file, AtFlags::SYMLINK_NOFOLLOW);
    let is_same = now.is_ok_and(|now| (now.st_dev, now.st_ino) == (stat.st_dev, stat.st_ino));
    Ok(is_same.then(|| DirectoryLock { held, file: Some(file.to_owned()) }))
}

fn locked(opened: OwnedFd, directory: &Path) -> Result<Option<OwnedFd>, ModulesError> {
    match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(opened)),
        Err(Errno::WOULDBLOCK) => Err(ModulesError::Busy { path: directory.to_owned() }),
        Err(_) => Ok(None),
    }
}

/// A child that another thread is about to start shares the descriptor until it executes its program. Closing ours would
/// leave the lock with the child, so it is unlocked.
impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Removed before it is unlocked: a process that opens the path from here on finds another file, or none.
        self.file.iter().for_each(|file| _ = rustix::fs::unlink(file));
        if let Some(held) = &self.held {
            let _ = rustix::fs::flock(held, FlockOperation::Unlock);
        }
    }
}
