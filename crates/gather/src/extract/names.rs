//! Names in directories that are open. What has changed since a container was written is never removed: it speaks of an earlier state.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::ops::Time;

pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens what has a name, for its attributes alone.
pub(super) const NAMED: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// True for what has changed since a container was written.
pub(super) fn is_newer(there: &Stat, written: Time) -> bool {
    let nanoseconds = u32::try_from(there.st_ctime_nsec).unwrap_or_default();
    Time { seconds: there.st_ctime, nanoseconds } > written
}

/// Device and inode of files of which a name was removed. That changes a file's time, which must not keep its other names.
pub(super) type Removed = HashSet<(u64, u64)>;

/// Removes a name and all that is in it, but what has changed since `written`. True where nothing is left.
pub(super) fn remove_older(
    parent: &OwnedFd,
    name: &[u8],
    written: Time,
    removed: &mut Removed,
) -> Result<bool, Errno> {
    let there = rustix::fs::statat(parent, os(name), AtFlags::SYMLINK_NOFOLLOW)?;
    let identity = (there.st_dev, there.st_ino);
    let is_newer = is_newer(&there, written) && !removed.contains(&identity);
    if FileType::from_raw_mode(there.st_mode) != FileType::Directory {
        if !is_newer {
            rustix::fs::unlinkat(parent, os(name), AtFlags::empty())?;
            removed.insert(identity);
        }
        return Ok(!is_newer);
    }
    let directory = rustix::fs::openat(parent, os(name), DIRECTORY, Mode::empty())?;
    let mut is_empty = true;
    for entry in rustix::fs::Dir::read_from(&directory)? {
        let entry = entry?;
        let below = entry.file_name().to_bytes();
        if !matches!(below, b"." | b"..") {
            is_empty &= remove_older(&directory, below, written, removed)?;
        }
    }
    if is_newer || !is_empty {
        return Ok(false);
    }
    rustix::fs::unlinkat(parent, os(name), AtFlags::REMOVEDIR).map(|()| true)
}

/// Moves a file that is whole to its name.
pub(super) fn replace(parent: &OwnedFd, hidden: &[u8], name: &[u8]) -> Result<(), Errno> {
    let moved = rustix::fs::renameat(parent, os(hidden), parent, os(name));
    if moved.is_err() {
        _ = rustix::fs::unlinkat(parent, os(hidden), AtFlags::empty());
    }
    moved
}

pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/');
    slash.map_or((b"", path), |slash| (&path[..slash], &path[slash + 1..]))
}

pub(super) fn os(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}
