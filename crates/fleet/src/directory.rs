//! A directory of the data set, held open. In a data set of a group, a member may exchange any name for a link at any time: so
//! every step is taken from a descriptor, and follows no link.

use crate::{FleetError, trust};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An open directory.
#[derive(Debug)]
pub(crate) struct Directory {
    descriptor: OwnedFd,
    /// For messages.
    path: PathBuf,
}

impl Directory {
    /// The directory that the user named. Links are followed.
    pub(crate) fn open(path: &Path) -> Result<Self, FleetError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let descriptor = opened.map_err(|errno| FleetError::io("open", path)(errno.into()))?;
        trust::refuse_unsafe_directory(&descriptor, path)?;
        Ok(Self { descriptor, path: path.to_owned() })
    }

    /// The directory `name` in this one; `None` where it is absent or something else, such as a link.
    pub(crate) fn below(&self, name: impl AsRef<OsStr>) -> Result<Option<Self>, FleetError> {
        let path = self.path_of(&name);
        match rustix::fs::openat(self, name.as_ref(), DIRECTORY, Mode::empty()) {
            Ok(descriptor) => {
                trust::refuse_unsafe_directory(&descriptor, &path)?;
                Ok(Some(Self { descriptor, path }))
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(FleetError::io("open", &path)(errno.into())),
        }
    }

    /// The directory `name`, which is made with the permissions of this one if it is absent, so that those who may write here may
    /// write there. It has them when it appears.
    pub(crate) fn made(&self, name: impl AsRef<OsStr>) -> Result<Self, FleetError> {
        let (name, path) = (name.as_ref(), self.path_of(&name));
        if let Some(there) = self.below(name)? {
            return Ok(there);
        }
        let (hidden, made) = self.make_hidden(name)?;
        let done = made.set_mode(self.stat()?.st_mode).and_then(|()| self.rename(&hidden, self, name));
        if let Err(error) = done {
            _ = self.remove_directory(&hidden);
            // Another writer was first.
            return self.below(name)?.ok_or(error);
        }
        Ok(Self { path, ..made })
    }

    /// A new directory that only this user may enter, and its name.
    pub(crate) fn make_hidden(&self, name: impl AsRef<OsStr>) -> Result<(OsString, Self), FleetError> {
        for attempt in 0..MOST_NAMES {
            let mut hidden = OsString::from(".");
            hidden.push(&name);
            hidden.push(format!(".{}.{attempt}", std::process::id()));
            let path = self.path_of(&hidden);
            match rustix::fs::mkdirat(self, &hidden, Mode::RWXU) {
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(FleetError::io("create", &path)(errno.into())),
                Ok(()) => {
                    let descriptor = open_own(self, &hidden).map_err(FleetError::io("create", &path))?;
                    return Ok((hidden, Self { descriptor, path }));
                }
            }
        }
        Err(FleetError::io("create", &self.path_of(name))(Errno::EXIST.into()))
    }

    /// The path of a name, for messages.
    pub(crate) fn path_of(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(name.as_ref())
    }

    /// Its own path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path by which this process and its children reach it, whatever its name has become.
    pub(crate) fn reached(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()).into()
    }

    pub(crate) fn stat(&self) -> Result<Stat, FleetError> {
        rustix::fs::fstat(self).map_err(|errno| FleetError::io("read", &self.path)(errno.into()))
    }

    /// The status of a name; `None` where it is absent.
    pub(crate) fn stat_of(&self, name: impl AsRef<OsStr>) -> Result<Option<Stat>, FleetError> {
        match rustix::fs::statat(self, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(FleetError::io("read", &self.path_of(name))(errno.into())),
        }
    }

    /// The names in it. Shape: sorted.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, FleetError> {
        let list = || -> Result<Vec<OsString>, Errno> {
            let mut names = Vec::new();
            for entry in Dir::read_from(self)? {
                let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
                names.extend((name != "." && name != "..").then_some(name));
            }
            names.sort();
            Ok(names)
        };
        list().map_err(|errno| FleetError::io("list", &self.path)(errno.into()))
    }

    /// Opens a regular file for reading. Neither a link is followed nor a pipe waited for.
    pub(crate) fn open_file(&self, name: impl AsRef<OsStr>) -> Result<File, FleetError> {
        self.open_with(&name, OFlags::RDONLY, Mode::empty())
            .map_err(FleetError::io("open", &self.path_of(name)))
    }

    /// The same with these flags. Only a regular file is given back.
    pub(crate) fn open_with(&self, name: impl AsRef<OsStr>, flags: OFlags, mode: Mode) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self, name.as_ref(), flags, mode)?;
        match is_regular(&rustix::fs::fstat(&file)?) {
            true => Ok(file.into()),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
        }
    }

    /// Makes a file that is open for reading and writing, with these permissions whatever the umask.
    pub(crate) fn create_file(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = self.open_with(name, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        Ok(file)
    }

    /// Sets its permissions. Bits of the file's type in `mode` are left out.
    pub(crate) fn set_mode(&self, mode: u32) -> Result<(), FleetError> {
        let set = rustix::fs::fchmod(self, Mode::from_raw_mode(mode & ALL_BITS));
        set.map_err(|errno| FleetError::io("change the permissions of", &self.path)(errno.into()))
    }

    /// Gives it to the group of `like`, where it has another.
    pub(crate) fn set_group(&self, like: &Stat) -> Result<(), FleetError> {
        if self.stat()?.st_gid == like.st_gid {
            return Ok(());
        }
        let given = rustix::fs::fchown(self, None, Some(rustix::fs::Gid::from_raw(like.st_gid)));
        given.map_err(|errno| FleetError::io("change the group of", &self.path)(errno.into()))
    }

    /// Renames `name` to `to` in `other`, and replaces what has that name.
    pub(crate) fn rename(&self, name: &OsStr, other: &Self, to: &OsStr) -> Result<(), FleetError> {
        let renamed = rustix::fs::renameat(self, name, other, to);
        renamed.map_err(|errno| FleetError::io("rename", &self.path_of(name))(errno.into()))
    }

    /// Renames `name` by renameat2(2), with its errors.
    pub(crate) fn rename_with(
        &self,
        name: &OsStr,
        (other, to): (&Self, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        rustix::fs::renameat_with(self, name, other, to, flags)
    }

    /// Removes a file or link, if it exists.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) -> Result<(), FleetError> {
        match rustix::fs::unlinkat(self, name.as_ref(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(FleetError::io("remove", &self.path_of(name))(errno.into())),
        }
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, name: impl AsRef<OsStr>) -> Result<(), FleetError> {
        let removed = rustix::fs::unlinkat(self, name.as_ref(), AtFlags::REMOVEDIR);
        removed.map_err(|errno| FleetError::io("remove", &self.path_of(name))(errno.into()))
    }

    /// Removes a directory of files. A compaction makes no other.
    pub(crate) fn remove_with_files(&self, name: impl AsRef<OsStr>) -> Result<(), FleetError> {
        let Some(directory) = self.below(&name)? else { return Ok(()) };
        for file in directory.names()? {
            directory.remove(file)?;
        }
        self.remove_directory(name)
    }

    /// Writes its names to disk.
    pub(crate) fn sync(&self) -> Result<(), FleetError> {
        rustix::fs::fsync(self).map_err(|errno| FleetError::io("write", &self.path)(errno.into()))
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

pub(crate) fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Opens a directory that was made just now. Another user may have replaced it, so only one that this user owns is accepted.
fn open_own(within: &Directory, name: &OsStr) -> io::Result<OwnedFd> {
    let directory = rustix::fs::openat(within, name, DIRECTORY, Mode::empty())?;
    match rustix::fs::fstat(&directory)?.st_uid == rustix::process::geteuid().as_raw() {
        true => Ok(directory),
        false => Err(Errno::ACCESS.into()),
    }
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Hidden names that are tried. Killed writers leave them, and processes of one number on other nodes.
const MOST_NAMES: u32 = 1000;
/// Every bit of chmod(2).
const ALL_BITS: u32 = 0o7777;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_name_that_became_a_link_is_neither_entered_nor_changed() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        std::fs::create_dir(path("set")).unwrap();
        std::fs::create_dir(path("elsewhere")).unwrap();
        std::fs::set_permissions(path("elsewhere"), PermissionsExt::from_mode(0o700)).unwrap();
        symlink("../elsewhere", path("set/jobs")).unwrap();
        std::fs::write(path("elsewhere/file"), "").unwrap();
        let set = Directory::open(&path("set")).unwrap();
        assert!(open_own(&set, OsStr::new("jobs")).is_err());
        assert!(set.below("jobs").unwrap().is_none());
        assert!(set.made("jobs").is_err());
        set.remove_with_files("jobs").unwrap();
        assert_eq!(path("elsewhere").metadata().unwrap().mode() & ALL_BITS, 0o700);
        assert!(path("elsewhere/file").exists());
        assert_eq!(set.names().unwrap(), ["jobs"], "no hidden directory stays");
    }

    #[test]
    fn a_directory_has_the_permissions_of_the_one_above() {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o1711)).unwrap();
        let set = Directory::open(place.path()).unwrap();
        let made = set.made("jobs").unwrap().made("day").unwrap();
        assert_eq!(made.stat().unwrap().st_mode & ALL_BITS, 0o1711);
        assert_eq!(set.made("jobs").unwrap().stat().unwrap().st_mode & ALL_BITS, 0o1711);
    }

    #[test]
    fn only_a_regular_file_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let set = Directory::open(place.path()).unwrap();
        rustix::fs::mknodat(&set, "pipe", FileType::Fifo, Mode::RWXU, 0).unwrap();
        std::fs::write(place.path().join("file"), "x").unwrap();
        symlink("file", place.path().join("link")).unwrap();
        for (name, is_opened) in [("file", true), ("pipe", false), ("link", false), (".", false)] {
            assert_eq!(set.open_file(name).is_ok(), is_opened, "{name}");
        }
    }
}
