//! A file or directory that is copied, held open: its attributes are those of the file whose content is read.

use crate::ModulesError;
use crate::walk;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Flags for opening an original: a pipe that has taken a file's place must not block, and a terminal must not become ours.
pub(super) const OPENING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A file or directory that is copied.
#[derive(Debug)]
pub(crate) struct Original {
    pub(super) path: PathBuf,
    /// `None` for one that this process may not open, which is never so for root.
    pub(super) descriptor: Option<OwnedFd>,
    pub(crate) stat: Stat,
}

impl Original {
    /// A file or directory without links in its path.
    ///
    /// **Errors**: [`ModulesError::Read`], also for a link that has taken its place, or that of a directory above.
    pub(crate) fn open(path: &Path) -> Result<Self, ModulesError> {
        Self::of(walk::open_plain(path, OPENING), path)
    }

    pub(super) fn of(opened: Result<OwnedFd, Errno>, path: &Path) -> Result<Self, ModulesError> {
        let descriptor = opened.map_err(ModulesError::read(path))?;
        let stat = rustix::fs::fstat(&descriptor).map_err(ModulesError::read(path))?;
        Ok(Self { descriptor: Some(descriptor), ..Self::closed(path, stat) })
    }

    /// One that is not opened.
    pub(super) fn closed(path: &Path, stat: Stat) -> Self {
        Self { path: path.to_owned(), descriptor: None, stat }
    }

    pub(super) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Names of extended attributes; none where they cannot be listed.
    pub(super) fn attribute_names(&self) -> Vec<CString> {
        let mut names = vec![0_u8; 1 << 16];
        let listed = self
            .descriptor
            .as_ref()
            .map(|descriptor| rustix::fs::flistxattr(descriptor, names.as_mut_slice()));
        names.truncate(listed.and_then(Result::ok).unwrap_or(0));
        names.split(|byte| *byte == 0).filter_map(|name| CString::new(name).ok()).collect()
    }

    /// An access control list; `None` where there is none, or where the file system or kind of file has no lists.
    pub(super) fn list(&self, name: &CStr) -> io::Result<Option<Vec<u8>>> {
        let mut value = vec![0; 1 << 16];
        let asked = match &self.descriptor {
            Some(descriptor) => rustix::fs::fgetxattr(descriptor, name, value.as_mut_slice()),
            None => rustix::fs::lgetxattr(&self.path, name, value.as_mut_slice()),
        };
        match asked {
            Ok(length) => {
                value.truncate(length);
                Ok(Some(value))
            }
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}
