//! Descriptors that are known by number, and what the system says when one is closed.

use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

/// Takes ownership of a descriptor that an earlier server left in the shared table.
///
/// The record that named the number is the only owner: each number is adopted once.
pub(crate) fn adopt(number: RawFd) -> OwnedFd {
    // SAFETY: the number was written down by the server that opened the descriptor, and that server is dead.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// close(2). The descriptor is gone whatever it says.
///
/// **Errors** What a network file system could not write: `EDQUOT`, `ENOSPC`, `EIO`.
pub(crate) fn close(descriptor: OwnedFd) -> Result<(), Errno> {
    let number = descriptor.into_raw_fd();
    // SAFETY: `into_raw_fd` gave up the only owner of the number.
    if unsafe { libc::close(number) } == 0 {
        return Ok(());
    }
    match Errno::from_io_error(&std::io::Error::last_os_error()) {
        // Linux has closed it.
        Some(Errno::INTR) | None => Ok(()),
        Some(errno) => Err(errno),
    }
}
