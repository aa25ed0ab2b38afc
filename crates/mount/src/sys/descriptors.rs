//! What the system says when a descriptor is closed.

use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::io::Errno;

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
