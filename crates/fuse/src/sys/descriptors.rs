//! close(2) with its error, and truncate(2), which rustix does not have.

use std::ffi::CStr;
use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::io::Errno;

/// close(2). The descriptor is gone whatever it says.
///
/// **Errors** What a network file system could not write: `EDQUOT`, `ENOSPC`, `EIO`.
pub fn close(descriptor: OwnedFd) -> Result<(), Errno> {
    let number = descriptor.into_raw_fd();
    // SAFETY: `into_raw_fd` gave up the only owner of the number.
    if unsafe { libc::close(number) } == 0 {
        return Ok(());
    }
    match last_errno() {
        // Linux has closed it.
        Errno::INTR => Ok(()),
        errno => Err(errno),
    }
}

/// truncate(2), which unlike ftruncate(2) leaves the times of a file alone that has this size already.
pub fn truncate(path: &CStr, size: u64) -> Result<(), Errno> {
    let size = i64::try_from(size).map_err(|_| Errno::INVAL)?;
    // SAFETY: `path` ends with a zero byte and outlives the call.
    if unsafe { libc::truncate(path.as_ptr(), size) } == 0 { Ok(()) } else { Err(last_errno()) }
}

/// The error of the last call of this thread through libc.
pub(super) fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
