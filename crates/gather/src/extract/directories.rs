//! Directories of containers: made first, open to this user, with their attributes last.

use std::os::fd::OwnedFd;

use quell_base::lock;
use rustix::fs::{AtFlags, FileType, Mode, XattrFlags};
use rustix::io::Errno;

use super::names::{DIRECTORY, os};
use super::{ExtractError, Extraction, Replacing, times_of};
use crate::contents::{below, is_xattr};
use crate::ops::{DirectoryOrigin, NodeKind};
use crate::view::Seen;

impl Extraction<'_> {
    /// Paths in a directory that programs removed before they made it anew.
    fn left_in(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let directory = self.parent(path).and_then(|(parent, name)| {
            rustix::fs::Dir::new(rustix::fs::openat(&parent, os(name), DIRECTORY, Mode::empty())?)
        });
        let names =
            directory.into_iter().flatten().flatten().map(|entry| entry.file_name().to_bytes().to_vec());
        let paths = names.filter(|name| !matches!(&**name, b"." | b"..")).map(|name| below(path, &name));
        paths.filter(|path| !self.view.paths.contains_key(path)).collect()
    }

    /// Makes directories, open to this user until the end. Returns those that get their attributes then: new ones, and those that
    /// programs made where they take the place of others.
    pub(super) fn directories<'p>(&self, wanted: &[(&'p Vec<u8>, &Seen)]) -> Vec<(&'p [u8], Seen)> {
        let mut made = Vec::new();
        for (path, seen) in wanted {
            let Some(NodeKind::Directory { origin }) = self.view.entry(**seen).map(|entry| &entry.node.kind)
            else {
                continue;
            };
            let outcome = self.parent(path).and_then(|(parent, name)| self.make_directory(&parent, name));
            match outcome {
                Ok(is_made) => {
                    if *origin == DirectoryOrigin::Replacing && !is_made {
                        self.remove(self.left_in(path).iter().map(|path| (path, seen.container)));
                    }
                    let replaces = self.options.replacing == Replacing::Everything;
                    if is_made || replaces && *origin != DirectoryOrigin::There {
                        made.push((&***path, **seen));
                    } else if *origin == DirectoryOrigin::Changed {
                        lock(&self.outcome).unchanged.push((*path).clone());
                    }
                }
                Err(Errno::NOTDIR) => lock(&self.outcome).occupied.push((*path).clone()),
                Err(errno) => self.fail(path, errno.into()),
            }
        }
        made
    }

    /// True where it is new. **Errors** `ENOTDIR` for something else, which stays.
    fn make_directory(&self, parent: &OwnedFd, name: &[u8]) -> Result<bool, Errno> {
        let make = || rustix::fs::mkdirat(parent, os(name), Mode::RWXU);
        match make() {
            Err(Errno::EXIST) => {}
            outcome => return outcome.map(|()| true),
        }
        let there = rustix::fs::statat(parent, os(name), AtFlags::SYMLINK_NOFOLLOW)?;
        match (FileType::from_raw_mode(there.st_mode), self.options.replacing) {
            (FileType::Directory, _) => Ok(false),
            (_, Replacing::Nothing) => Err(Errno::NOTDIR),
            (_, Replacing::Everything) => {
                rustix::fs::unlinkat(parent, os(name), AtFlags::empty())?;
                make().map(|()| true)
            }
        }
    }

    /// Gives a directory its attributes.
    pub(super) fn finish(&self, path: &[u8], seen: Seen) -> Result<(), ExtractError> {
        let Some(entry) = self.view.entry(seen) else { return Ok(()) };
        let (parent, name) = self.parent(path)?;
        let name = if name.is_empty() { b"." } else { name };
        let directory = rustix::fs::openat(&parent, os(name), DIRECTORY, Mode::empty())?;
        self.own(&directory, &entry.node, seen)?;
        for (name, value) in entry.node.xattrs.iter().filter(|(name, _)| is_xattr(name)) {
            _ = rustix::fs::fsetxattr(&directory, os(name), value, XattrFlags::empty());
        }
        for name in own_xattrs(&directory) {
            if !entry.node.xattrs.iter().any(|(kept, _)| *kept == name) {
                _ = rustix::fs::fremovexattr(&directory, os(&name));
            }
        }
        let (there, mode) = (rustix::fs::fstat(&directory)?, self.mode(&entry.node, seen));
        if Mode::from_raw_mode(there.st_mode) != mode {
            rustix::fs::fchmod(&directory, mode)?;
        }
        match rustix::fs::futimens(&directory, &times_of(&entry.node)) {
            // Another user's directory has the times of the extraction: this user may not set others.
            Err(Errno::PERM) if there.st_uid != rustix::process::geteuid().as_raw() => {}
            outcome => outcome?,
        }
        if self.options.synchronises {
            rustix::fs::fsync(&directory)?;
            rustix::fs::fsync(&parent)?;
        }
        Ok(())
    }
}

/// The names of the extended attributes that programs give.
fn own_xattrs(directory: &OwnedFd) -> Vec<Vec<u8>> {
    let mut list = vec![0; XATTRS_MOST];
    let length = rustix::fs::flistxattr(directory, &mut list[..]).unwrap_or(0);
    let names = list[..length].split(|byte| *byte == 0);
    names.filter(|name| is_xattr(name)).map(<[u8]>::to_vec).collect()
}

/// Longest list of names. Source: `XATTR_LIST_MAX`.
const XATTRS_MOST: usize = 64 << 10;
