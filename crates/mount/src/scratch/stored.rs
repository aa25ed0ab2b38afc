//! A file of a store, which holds the content of one file of a scratch directory.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::descriptors::{Descriptors, KeptOpen};

/// A file of a store. It is removed when it is dropped.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) inode: u64,
    /// Of the store.
    pub(super) number: usize,
    /// Kept open while programs have the file open.
    file: KeptOpen,
}

impl Stored {
    pub(super) fn make(
        directory: Arc<OwnedFd>,
        inode: u64,
        number: usize,
        descriptors: &Arc<Descriptors>,
    ) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*directory, inode.to_string(), flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { directory, inode, number, file: KeptOpen::new(descriptors, file) })
    }

    pub(super) fn open(&self) -> Result<Arc<OwnedFd>, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.file.get(|| rustix::fs::openat(&*self.directory, self.inode.to_string(), flags, Mode::empty()))
    }

    /// No program has the file open.
    pub(super) fn close(&self) {
        self.file.close();
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        // It may have been renamed to its place, or been removed with the store.
        _ = rustix::fs::unlinkat(&*self.directory, self.inode.to_string(), AtFlags::empty());
    }
}
