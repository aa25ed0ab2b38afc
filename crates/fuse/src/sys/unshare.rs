//! unshare(2), without the flag that is dangerous.

use rustix::io::Errno;
use rustix::thread::UnshareFlags;

/// unshare(2) for a new mount namespace, and a new user namespace if `flags` says so.
pub fn unshare_namespaces(flags: UnshareFlags) -> Result<(), Errno> {
    debug_assert!(
        (UnshareFlags::NEWNS | UnshareFlags::NEWUSER).contains(flags),
        "descriptor tables stay shared"
    );
    // SAFETY: the flags never contain CLONE_FILES, the one that is dangerous.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// unshare(2) for working directory, root and umask: the calling thread has its own from then on.
pub fn unshare_umask() -> Result<(), Errno> {
    // SAFETY: the flags do not contain CLONE_FILES, the one that is dangerous.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }
}
