//! One at a time: conversions of a modulepath, builders of caches in a directory.

use crate::ModulesError;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Keeps others away from a directory until it is dropped. Without a descriptor the file system has no such locks.
#[derive(Debug)]
pub(crate) struct Lock(Option<OwnedFd>);

impl Lock {
    /// **Errors**: [`ModulesError::Busy`] while somebody else has it; [`ModulesError::Write`] without the directory.
    pub(crate) fn take(directory: &Path) -> Result<Self, ModulesError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(directory, flags, Mode::empty());
        let opened = opened.map_err(|errno| ModulesError::write(directory)(errno.into()))?;
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(Some(opened))),
            Err(Errno::WOULDBLOCK) => Err(ModulesError::Busy { path: directory.to_owned() }),
            Err(_) => Ok(Self(None)),
        }
    }

    /// Whether there is nobody else.
    pub(crate) fn is_held(&self) -> bool {
        self.0.is_some()
    }
}

/// A child that another thread is about to start has the descriptor, too, until it becomes its program: closing ours would
/// leave the lock with it.
impl Drop for Lock {
    fn drop(&mut self) {
        if let Some(directory) = &self.0 {
            let _ = rustix::fs::flock(directory, FlockOperation::Unlock);
        }
    }
}
