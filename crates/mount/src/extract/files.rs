//! Files of an extraction: made anew, written whole.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use quell_image::Nid;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// Makes a file that was not there.
pub(crate) fn create(at: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(at, name, flags, Mode::from_raw_mode(0o600))
}

/// Writes all of `bytes` at `at`.
pub(crate) fn write_at(file: &OwnedFd, bytes: &[u8], at: u64) -> Result<(), Errno> {
    let mut written = 0;
    while written < bytes.len() {
        written += rustix::io::pwrite(file, &bytes[written..], at + written as u64)?;
    }
    Ok(())
}

/// The name in the store of a file that was made whole: its number in the image.
pub(crate) fn name_of(nid: Nid) -> String {
    nid.value().to_string()
}
