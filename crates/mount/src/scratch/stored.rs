//! A file of a store, which holds the content of one file of a scratch directory.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::descriptors::{Descriptors, KeptOpen};
use crate::fuse::original;

/// A file of a store. It is removed when it is dropped, unless it is to stay.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) inode: u64,
    /// Of the store.
    pub(super) number: usize,
    /// Kept open while programs have the file open.
    file: KeptOpen,
    stays: bool,
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
        Ok(Self { directory, inode, number, file: KeptOpen::new(descriptors, file), stays: false })
    }

    pub(super) fn open(&self) -> Result<Arc<OwnedFd>, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.file.get(|| rustix::fs::openat(&*self.directory, self.inode.to_string(), flags, Mode::empty()))
    }

    /// It is the only copy of what was to be kept.
    pub(super) fn stay(&mut self) {
        self.stays = true;
    }

    /// No program has the file open.
    pub(super) fn close(&self) {
        self.file.close();
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        // It may have been renamed to its place, or been removed with the store.
        _ = rustix::fs::unlinkat(&*self.directory, self.inode.to_string(), AtFlags::empty());
    }
}

/// Makes a range of a file read as zeros.
///
/// **Errors** `EOPNOTSUPP` where the file system punches no holes, as the program would have met there.
pub(super) fn zero(file: &OwnedFd, offset: u64, length: u64) -> Result<(), Errno> {
    if length == 0 {
        return Ok(());
    }
    rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)
}

/// Writes all of `data`.
///
/// **Errors** `ENOSPC` where only a part of it could be written.
pub(super) fn write_all(file: &OwnedFd, data: &[u8], offset: u64) -> Result<(), Errno> {
    match original::write_at(file, data, offset)? {
        written if written == data.len() => Ok(()),
        written => match original::write_at(file, &data[written..], offset + written as u64)? {
            rest if rest == data.len() - written => Ok(()),
            _ => Err(Errno::NOSPC),
        },
    }
}
