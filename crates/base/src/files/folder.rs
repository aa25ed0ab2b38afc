//! A directory that is created and then written through its descriptor. A later change of its name has no effect.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::output::{Durability, first_free, sync_directory};
use super::way::Way;

/// A new directory that the caller created.
#[derive(Debug)]
pub struct Folder {
    directory: OwnedFd,
    /// The directory in which it was created, and its name there.
    within: OwnedFd,
    name: OsString,
    /// The requested path, for messages.
    path: PathBuf,
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Folder {
    /// Creates the directory `path` with access for its owner only.
    ///
    /// # Errors
    /// `EEXIST` when the name exists, also as a link; [`Refused`](super::Refused); the error of mkdir(2).
    pub fn create(path: &Path) -> io::Result<Self> {
        let way = Way::walk(path)?;
        way.refuse_links_of_others()?;
        if way.found.is_some() {
            return Err(Errno::EXIST.into());
        }
        rustix::fs::mkdirat(&way.directory, &way.name, Mode::RWXU)?;
        Self::opened(way.directory, way.name, path)
    }

    /// Creates a directory with a hidden name beside `path`, to be [published](Self::publish) there.
    ///
    /// # Errors
    /// As [`Folder::create`].
    pub fn beside(path: &Path) -> io::Result<Self> {
        let way = Way::walk(path)?;
        way.refuse_links_of_others()?;
        let make = |hidden: &OsStr| rustix::fs::mkdirat(&way.directory, hidden, Mode::RWXU);
        let ((), hidden) = first_free(&way.name, make)?;
        Self::opened(way.directory, hidden, path)
    }

    fn opened(within: OwnedFd, name: OsString, path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::openat(&within, &name, DIRECTORY, Mode::empty())?;
        // In a directory where other users may rename, the name may refer to another file by now.
        if rustix::fs::fstat(&directory)?.st_uid != rustix::process::geteuid().as_raw() {
            return Err(Errno::ACCESS.into());
        }
        Ok(Self { directory, within, name, path: path.to_owned() })
    }

    /// The path of a file in the directory, for messages.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates a file that only its owner may read and write.
    ///
    /// # Errors
    /// The error of open(2); `EEXIST` when the name exists.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Opens a file of the directory for reading.
    ///
    /// # Errors
    /// The error of open(2).
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.directory, name, flags, Mode::empty())?.into())
    }

    /// Renames a file of the directory and replaces a file that has the new name.
    ///
    /// # Errors
    /// The error of rename(2).
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.directory, from, &self.directory, to)?)
    }

    /// Removes a file of the directory.
    ///
    /// # Errors
    /// The error of unlink(2).
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    /// Renames the directory to `path`, within the directory where it was created. An empty directory at `path` is
    /// replaced.
    ///
    /// # Errors
    /// The error of rename(2).
    pub fn publish(self, durability: Durability) -> io::Result<()> {
        let name = self.path.file_name().ok_or(Errno::INVAL)?;
        rustix::fs::renameat(&self.within, &self.name, &self.within, name)?;
        if durability == Durability::Durable {
            sync_directory(&self.within)?;
        }
        Ok(())
    }

    /// Removes the directory and its content.
    ///
    /// # Errors
    /// The error of the first entry that could not be removed.
    pub fn discard(self) -> io::Result<()> {
        empty(self.directory.as_fd())?;
        Ok(rustix::fs::unlinkat(&self.within, &self.name, AtFlags::REMOVEDIR)?)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Removes the content of a directory of ours. Links are removed and never followed.
fn empty(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                let below = rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())?;
                empty(below.as_fd())?;
                rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?;
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_written_lands_in_the_folder_whatever_its_name_has_become() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let folder = Folder::create(&path("folder")).unwrap();
        std::fs::rename(path("folder"), path("moved")).unwrap();
        std::fs::create_dir(path("other")).unwrap();
        std::os::unix::fs::symlink("other", path("folder")).unwrap();
        folder.create_file("new").unwrap().write_all(b"content").unwrap();
        folder.rename("new", "name").unwrap();
        assert_eq!(std::fs::read(path("moved/name")).unwrap(), b"content");
        assert_eq!(std::fs::read_dir(path("other")).unwrap().count(), 0);
        let taken = Folder::create(&path("folder")).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_folder_is_published_or_discarded_with_all_that_is_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("folder");
        let folder = Folder::beside(&path).unwrap();
        rustix::fs::mkdirat(&folder, "deep", Mode::RWXU).unwrap();
        folder.create_file("deep/file").unwrap();
        folder.discard().unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let folder = Folder::beside(&path).unwrap();
        folder.create_file("file").unwrap();
        folder.publish(Durability::Durable).unwrap();
        assert!(path.join("file").is_file());
    }
}
