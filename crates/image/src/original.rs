//! Reading the originals: directory by directory, by descriptor, never through a link.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;
use thiserror::Error;

use crate::erofs::xattr::is_expressible;
use crate::model::{Attributes, DeviceNumber, FileKind, NamedValues, Timestamp};

/// An original directory, open as a place to look names up in: permission to list it is not needed for that.
#[derive(Debug)]
pub struct OriginalDirectory {
    /// Opened with `O_PATH`.
    fd: OwnedFd,
    path: PathBuf,
}

/// An original could not be read.
#[derive(Debug, Error)]
#[error("cannot {action} `{}`", .path.display())]
pub struct OriginalError {
    /// The attempted action.
    pub action: &'static str,
    /// The original's path.
    pub path: PathBuf,
    /// The error of the system.
    #[source]
    pub source: io::Error,
}

impl OriginalError {
    /// Tells whether the original is absent.
    pub fn is_absence(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }

    /// Tells whether permission was denied.
    pub fn is_forbidden(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }
}

impl OriginalDirectory {
    /// Opens the directory at `path`, which must not be a link.
    pub fn open(path: &Path) -> Result<Self, OriginalError> {
        let fd = rustix::fs::openat(CWD, path, DIRECTORY, Mode::empty());
        let fd = fd.map_err(|errno| failure("open", path.to_path_buf(), errno))?;
        Ok(Self { fd, path: path.to_path_buf() })
    }

    /// Opens the directory `name` in this one, which must not be a link.
    pub fn open_child(&self, name: &[u8]) -> Result<Self, OriginalError> {
        let path = self.join(name);
        let fd = rustix::fs::openat(&self.fd, name, DIRECTORY, Mode::empty());
        Ok(Self { fd: fd.map_err(|errno| failure("open", path.clone(), errno))?, path })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names in it without `.` and `..`, sorted.
    pub fn names(&self) -> Result<Vec<Vec<u8>>, OriginalError> {
        let failed = |errno| failure("list", self.path.clone(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.fd, ".", flags, Mode::empty()).map_err(failed)?;
        let mut names = Vec::new();
        for entry in Dir::new(fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The result of `lstat` for `name`. Triggers no automount.
    pub fn attributes(&self, name: &[u8]) -> Result<Attributes, OriginalError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let stat = rustix::fs::statat(&self.fd, name, flags);
        let stat = stat.map_err(|errno| failure("stat", self.join(name), errno))?;
        attributes_from(&stat).ok_or_else(|| failure("stat", self.join(name), Errno::INVAL))
    }

    /// The result of `lstat` for each of `names`, in their order, some at a time.
    pub fn all_attributes(&self, names: &[Vec<u8>]) -> Vec<Result<Attributes, OriginalError>> {
        let share = names.len().div_ceil(LANES).max(NAMES_PER_LANE);
        if names.len() <= share {
            return names.iter().map(|name| self.attributes(name)).collect();
        }
        std::thread::scope(|scope| {
            let ask = |names: &[Vec<u8>]| names.iter().map(|name| self.attributes(name)).collect::<Vec<_>>();
            let lanes: Vec<_> = names.chunks(share).map(|names| scope.spawn(move || ask(names))).collect();
            let answers = lanes.into_iter().map(|lane| lane.join());
            answers
                .flat_map(|answer| answer.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    /// The target of the link `name`.
    pub fn link_target(&self, name: &[u8]) -> Result<Vec<u8>, OriginalError> {
        let target = rustix::fs::readlinkat(&self.fd, name, Vec::new());
        target.map(CString::into_bytes).map_err(|errno| failure("read the link", self.join(name), errno))
    }

    /// Tells whether the caller may read the file `name`.
    pub fn is_readable(&self, name: &[u8]) -> bool {
        rustix::fs::accessat(&self.fd, name, Access::READ_OK, AtFlags::EACCESS).is_ok()
    }

    /// At most `len` bytes from the start of the regular file `name`; what could be read, if anything.
    pub fn head(&self, name: &[u8], len: usize) -> Vec<u8> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut head = Vec::new();
        if let Ok(fd) = rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            // The later read of the whole file reports the failure.
            let _partial = File::from(fd).take(len as u64).read_to_end(&mut head);
        }
        head
    }

    /// The extended attributes of `name` that EROFS can express, sorted by name. Empty where there are none.
    pub fn xattrs(&self, name: &[u8]) -> Result<NamedValues, OriginalError> {
        let path =
            Path::new("/proc/self/fd").join(self.fd.as_raw_fd().to_string()).join(OsStr::from_bytes(name));
        let failed = |errno| failure("read the attributes of", self.join(name), errno);
        let Some(list) = whole(|buffer| rustix::fs::llistxattr(&path, buffer)).map_err(failed)? else {
            return Ok(Vec::new());
        };
        let mut xattrs = Vec::new();
        for name in list.split_inclusive(|&byte| byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            let value = whole(|buffer| rustix::fs::lgetxattr(&path, name, buffer)).map_err(failed)?;
            let name = name.to_bytes().to_vec();
            if let Some(value) = value.filter(|value| is_expressible(&name, value.len())) {
                xattrs.push((name, value));
            }
        }
        xattrs.sort_unstable();
        Ok(xattrs)
    }

    fn join(&self, name: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(name))
    }
}

/// The result of `lstat` for a whole path.
pub fn attributes_of(path: &Path) -> Result<Attributes, OriginalError> {
    let stat = rustix::fs::lstat(path).map_err(|errno| failure("stat", path.to_path_buf(), errno))?;
    attributes_from(&stat).ok_or_else(|| failure("stat", path.to_path_buf(), Errno::INVAL))
}

/// Flags to open a directory as a place to look names up in.
const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Requests for attributes in flight at a time: enough to hide a network's round trip, too few to be a storm.
const LANES: usize = 8;

/// Names that a lane is worth starting for.
const NAMES_PER_LANE: usize = 16;

/// Most bytes of a list or value of extended attributes. Source: `XATTR_LIST_MAX`, `XATTR_SIZE_MAX` of Linux.
const XATTR_MAX: usize = 65_536;

/// The value that `read` puts into a buffer; `None` if there is none or it may not be read.
fn whole(mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Option<Vec<u8>>, Errno> {
    let mut buffer = vec![0; 256];
    loop {
        match read(&mut buffer[..]) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(Some(buffer));
            }
            Err(Errno::RANGE) if buffer.len() < XATTR_MAX => buffer.resize(XATTR_MAX, 0),
            Err(Errno::OPNOTSUPP | Errno::NODATA | Errno::ACCESS | Errno::PERM | Errno::NOSYS) => {
                return Ok(None);
            }
            Err(errno) => return Err(errno),
        }
    }
}

/// The attributes that `stat` shows; `None` for a type of file that Linux does not have.
#[allow(
    clippy::useless_conversion,
    reason = "the number of links has 64 bits on some machines, 32 on others"
)]
pub fn attributes_from(stat: &Stat) -> Option<Attributes> {
    Some(Attributes {
        kind: FileKind::from_mode(stat.st_mode)?,
        permissions: (stat.st_mode & 0o7777) as u16,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size as u64,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        rdev: DeviceNumber { major: rustix::fs::major(stat.st_rdev), minor: rustix::fs::minor(stat.st_rdev) },
        mtime: Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 },
        ctime: Timestamp { seconds: stat.st_ctime, nanoseconds: stat.st_ctime_nsec as u32 },
        inode: stat.st_ino,
        device: stat.st_dev,
    })
}

fn failure(action: &'static str, path: PathBuf, errno: Errno) -> OriginalError {
    OriginalError { action, path, source: errno.into() }
}
