//! The operations that a load issues, one metadata operation or one read each, relative to an open directory: a path
//! of one component, so that no walk through other directories is counted with it.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatxFlags};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::time::Instant;

/// One kind of operation. The order is that of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum LoadOperation {
    /// Makes an empty file that is not there yet, and closes it.
    Create,
    /// Attributes of a name that is there.
    Stat,
    /// Attributes of a name that is not there.
    StatAbsent,
    /// Attributes of a file whose name is resolved already, asked of the server (`AT_STATX_FORCE_SYNC`).
    Getattr,
    /// Opens a name for reading, then closes it: two times.
    Open,
    /// Opens a file once more whose name is resolved already, then closes it: two times.
    Reopen,
    /// Lists a directory whose name is resolved already: open, all of `getdents64`, close.
    Readdir,
    /// Gives a file another name in its directory.
    Rename,
    /// Removes a file.
    Unlink,
    /// Makes a directory. Preparation only.
    MakeDirectory,
}

impl LoadOperation {
    /// The name in tables and errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Stat => "stat",
            Self::StatAbsent => "stat absent",
            Self::Getattr => "getattr",
            Self::Open => "open",
            Self::Reopen => "open again",
            Self::Readdir => "readdir",
            Self::Rename => "rename",
            Self::Unlink => "unlink",
            Self::MakeDirectory => "mkdir",
        }
    }

    /// True if the name is resolved before the clock runs.
    pub(crate) const fn is_by_descriptor(self) -> bool {
        matches!(self, Self::Getattr | Self::Reopen | Self::Readdir)
    }
}

/// The time of an operation. Unit: nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OperationTime {
    /// The operation itself.
    pub(crate) operation: u64,
    /// The close behind an open.
    pub(crate) close: Option<u64>,
}

/// The object of an operation.
#[derive(Debug)]
pub(crate) struct OperationTarget<'a> {
    /// The directory of the name.
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a CStr,
    /// The other name of a rename.
    pub(crate) other: &'a CStr,
    /// The resolved name, of operations by descriptor.
    pub(crate) resolved: Option<&'a OwnedFd>,
}

impl OperationTarget<'_> {
    /// Does `operation` once.
    ///
    /// **Errors**: what the system says; `EEXIST` for an absent name that is there.
    pub(crate) fn apply(&self, operation: LoadOperation) -> Result<OperationTime> {
        let began = Instant::now();
        match operation {
            LoadOperation::Create => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                rustix::fs::openat(self.directory, self.name, flags, Mode::from_raw_mode(0o644))?;
            }
            LoadOperation::Stat => drop(rustix::fs::statat(self.directory, self.name, AtFlags::empty())?),
            LoadOperation::StatAbsent => {
                match rustix::fs::statat(self.directory, self.name, AtFlags::empty()) {
                    Err(Errno::NOENT) => {}
                    Ok(_) => return Err(Errno::EXIST),
                    Err(errno) => return Err(errno),
                }
            }
            LoadOperation::Getattr => force_attributes(self.resolved()?)?,
            LoadOperation::Open => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                return timed_close(
                    began,
                    rustix::fs::openat(self.directory, self.name, flags, Mode::empty())?,
                );
            }
            LoadOperation::Reopen => return timed_close(began, reopen(self.resolved()?)?),
            LoadOperation::Readdir => list(self.resolved()?)?,
            LoadOperation::Rename => {
                rustix::fs::renameat(self.directory, self.name, self.directory, self.other)?
            }
            LoadOperation::Unlink => rustix::fs::unlinkat(self.directory, self.name, AtFlags::empty())?,
            LoadOperation::MakeDirectory => {
                rustix::fs::mkdirat(self.directory, self.name, Mode::from_raw_mode(0o755))?;
            }
        }
        Ok(OperationTime { operation: elapsed(began), close: None })
    }

    fn resolved(&self) -> Result<BorrowedFd<'_>> {
        self.resolved.map(AsFd::as_fd).ok_or(Errno::BADF)
    }
}

/// The suffix that a rename adds to a name.
pub(crate) const RENAMED: &str = ".renamed";

/// A descriptor that stands for a name and has not opened it (`O_PATH`).
pub(crate) fn resolve(directory: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    rustix::fs::openat(directory, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Attributes as the server has them now. Source: `statx(2)`, `AT_STATX_FORCE_SYNC`.
fn force_attributes(file: BorrowedFd<'_>) -> Result<()> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    rustix::fs::statx(file, c"", flags, StatxFlags::BASIC_STATS).map(drop)
}

/// Opens what an `O_PATH` descriptor stands for, without a lookup of its name. Source: `proc_pid_fd(5)`.
pub(crate) fn reopen(file: BorrowedFd<'_>) -> Result<OwnedFd> {
    let name = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&file));
    rustix::fs::open(name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

fn timed_close(began: Instant, file: OwnedFd) -> Result<OperationTime> {
    let operation = elapsed(began);
    let closing = Instant::now();
    drop(file);
    Ok(OperationTime { operation, close: Some(elapsed(closing)) })
}

fn list(directory: BorrowedFd<'_>) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    entries(rustix::fs::openat(directory, c".", flags, Mode::empty())?.as_fd())
}

/// Lists an open directory from where it stands.
pub(crate) fn entries(directory: BorrowedFd<'_>) -> Result<()> {
    let mut buffer = [MaybeUninit::uninit(); LISTING];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        entry?;
    }
    Ok(())
}

/// The buffer of glibc's `readdir(3)`, in bytes.
const LISTING: usize = 32 << 10;

pub(crate) fn elapsed(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
