//! Mount points as descriptors, by which every path is walked once, and failures that name them.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::error::{SetupStep, Unavailable};

/// Opens the directory `path`, to be bound or looked into.
pub(crate) fn open_path(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, PLACE, Mode::empty())
}

/// Opens a directory below another one.
pub(crate) fn open_below(directory: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    openat(directory, path, PLACE, Mode::empty())
}

/// A directory to be bound or looked into, not read.
pub(crate) const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The path by which mount(2) takes a descriptor, without walking to it again.
pub(crate) fn magic(descriptor: impl AsFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())
}

/// The failure of `step` at `path`.
pub(crate) fn at(step: SetupStep, errno: Errno, path: &Path) -> Unavailable {
    Unavailable { step, errno, path: Some(path.to_owned()), then: None }
}
