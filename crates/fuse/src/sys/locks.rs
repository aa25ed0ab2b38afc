//! Locks of an open file description: fcntl(2) with `F_OFD_SETLK`, which rustix does not have.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use super::descriptors::last_errno;

/// A range of a file with the wanted lock, or the conflicting one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeLock {
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: u32,
    pub start: u64,
    /// Bytes; 0 for all that follow.
    pub length: u64,
    /// The process that holds it, in this process's namespace; negative where it belongs to an open file.
    pub pid: i32,
}

/// Sets a lock, or takes it away, without waiting.
///
/// **Errors** `EAGAIN` where another lock is in the way.
pub fn set_range_lock(file: impl AsFd, lock: RangeLock) -> Result<(), Errno> {
    control(file, libc::F_OFD_SETLK, lock).map(|_set| ())
}

/// The lock that would be in the way of `lock`, or `lock` with `F_UNLCK`.
pub fn conflicting_range_lock(file: impl AsFd, lock: RangeLock) -> Result<RangeLock, Errno> {
    control(file, libc::F_OFD_GETLK, lock)
}

fn control(file: impl AsFd, command: libc::c_int, lock: RangeLock) -> Result<RangeLock, Errno> {
    let invalid = |_| Errno::INVAL;
    // SAFETY: all bytes zero are a valid `struct flock`, which has only integers.
    let mut raw: libc::flock = unsafe { MaybeUninit::zeroed().assume_init() };
    raw.l_type = i16::try_from(lock.kind).map_err(invalid)?;
    raw.l_whence = i16::try_from(libc::SEEK_SET).map_err(invalid)?;
    raw.l_start = i64::try_from(lock.start).map_err(invalid)?;
    raw.l_len = i64::try_from(lock.length).map_err(invalid)?;
    // SAFETY: these commands read and write one `struct flock`, which outlives the call.
    if unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &raw mut raw) } != 0 {
        return Err(last_errno());
    }
    Ok(RangeLock {
        kind: u32::try_from(raw.l_type).unwrap_or(0),
        start: raw.l_start.cast_unsigned(),
        length: raw.l_len.cast_unsigned(),
        pid: raw.l_pid,
    })
}
