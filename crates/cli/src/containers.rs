//! Containers of `quell run --gather` in a directory to which other users may write.

use quell_gather::{ContainerError, OpenContainer, SUFFIX};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The flags by which a container is opened: no pipe makes this wait for its other end, and no terminal becomes that of the process.
pub(crate) const WITHOUT_WAITING: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The names of containers in a directory. **Shape** sorted.
pub(crate) fn containers_in(directory: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name.ends_with(SUFFIX.as_bytes()) {
            found.push(OsStr::from_bytes(name).to_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// Reads the container of a name in a directory. A link of that name is none: another user could choose the file by it.
///
/// **Parameters** `around`: the path of the directory, for messages.
pub(crate) fn container_in(
    directory: &OwnedFd,
    around: &Path,
    name: &OsStr,
) -> Result<OpenContainer, ContainerError> {
    let flags = WITHOUT_WAITING.union(OFlags::NOFOLLOW);
    let opened = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Err(Errno::LOOP) => return Err(ContainerError::NotAFile),
        opened => opened.map_err(io::Error::from)?,
    };
    OpenContainer::read(around.join(name), opened.into())
}
