//! Applies the program's umask to files that are made for it.
//!
//! A directory with a default access control list gives that instead, and only the original's file system knows. So the
//! program's umask becomes that of the thread that acts for it. Source: umask(2), acl(5), unshare(2) for `CLONE_FS`.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::Mode;
use rustix::process::umask;

use crate::sys::process::unshare_umask;

/// The mode that the kernel sends for a new file, and the program's umask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bits {
    /// Type and permissions, umask not applied.
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

/// The umasks of the threads: each has its own, where the kernel allows that.
#[derive(Debug, Default)]
pub(crate) struct Umasks {
    shared: AtomicBool,
}

impl Umasks {
    /// Gives the calling thread, which serves, a umask of its own.
    pub(crate) fn separate(&self) {
        if unshare_umask().is_err() {
            self.shared.store(true, Ordering::Release);
        }
    }

    /// Makes something by `action`, which gets the mode to ask for. The server's own umask is zero.
    pub(crate) fn apply<T>(&self, bits: Bits, action: impl FnOnce(Mode) -> T) -> T {
        let (mode, mask) = (bits.mode & 0o7777, bits.umask & 0o777);
        if self.shared.load(Ordering::Acquire) {
            // Without the original's default list, but never more than was asked for.
            return action(Mode::from_raw_mode(mode & !mask));
        }
        let before = umask(Mode::from_raw_mode(mask));
        let made = action(Mode::from_raw_mode(mode));
        umask(before);
        made
    }
}
