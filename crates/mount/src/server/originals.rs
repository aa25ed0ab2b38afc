//! Operations on the original file system: each is counted, with its path, before it is sent on.
//!
//! The server lives outside the namespace. An original is reached by a descriptor of its own, opened with `O_PATH`, or by
//! its name in the descriptor of its directory; no symbolic link is followed, and nothing blocks on a pipe. For a complete
//! image no operation is sent on; [`Originals::send_on`] enforces that.

use std::collections::{HashMap, HashSet};
use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quell_fuse::original;
pub(crate) use quell_fuse::original::{place_of, reach};
use quell_image::Beyond;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::acl;
use super::lessons::{Lessons, OriginalEvent};
use super::slots::{Attempt, EarlierProgress};
use crate::counters::{Counters, SentOn};
pub(crate) use crate::fuse::abi::{BLOCK_SIZE, attr_of, device_number};
use crate::fuse::abi::{StatfsBytes, encode_statfs};
use crate::fuse::listing::{ListedName, Pushed};
use crate::lock;

/// The original file system, as seen from outside the namespace.
#[derive(Debug)]
pub(crate) struct Originals {
    beyond: Beyond,
    counters: Arc<Counters>,
    totals: Mutex<HashMap<u64, (Instant, StatfsBytes)>>,
    lessons: Lessons,
    /// Devices whose file systems know no POSIX access control lists.
    without_acl: Mutex<HashSet<u64>>,
}

impl Originals {
    pub(crate) fn new(beyond: Beyond, counters: Arc<Counters>, lessons: Lessons) -> Self {
        Self { beyond, counters, lessons, totals: Mutex::default(), without_acl: Mutex::default() }
    }

    /// Counts an operation that is about to be sent on; refuses it where there are no originals.
    ///
    /// **Errors** `ENOENT` for a name, `EROFS` for a change, `EIO` for content, which is noted.
    pub(crate) fn send_on(&self, what: SentOn, path: &Path) -> Result<(), Errno> {
        if self.beyond == Beyond::Originals {
            self.counters.sent_on(what, path);
            return Ok(());
        }
        match what {
            SentOn::Lookup | SentOn::Stat => Err(Errno::NOENT),
            SentOn::Write => Err(Errno::ROFS),
            SentOn::Open | SentOn::List | SentOn::Read => {
                self.counters.missed(path);
                Err(Errno::IO)
            }
        }
    }

    /// Notes what happened to `path`, for the image that is made anew of it.
    pub(crate) fn note(&self, path: &Path, event: &OriginalEvent) {
        self.lessons.note(path, event);
    }

    /// Looks `name` up in `directory`; returns the file that it leads to, opened with `O_PATH`.
    pub(crate) fn find(&self, directory: &OwnedFd, name: &[u8]) -> Result<(OwnedFd, Stat), Errno> {
        let path = path_of(directory).join(OsStr::from_bytes(name));
        self.send_on(SentOn::Lookup, &path)?;
        let outcome = reach(directory, name);
        match outcome {
            Ok(_) => self.note(&path, &OriginalEvent::Found),
            Err(Errno::NOENT) => self.note(&path, &OriginalEvent::Absent),
            Err(_) => {}
        }
        outcome
    }

    /// Attributes.
    pub(crate) fn stat(&self, original: &OwnedFd) -> Result<Stat, Errno> {
        let path = path_of(original);
        self.send_on(SentOn::Stat, &path)?;
        rustix::fs::fstat(original).inspect(|_| self.note(&path, &OriginalEvent::Found))
    }

    /// The access control list of the original that `stat` is of, if its file system has such lists.
    pub(crate) fn acl(&self, original: &OwnedFd, stat: &Stat) -> Option<Vec<u8>> {
        if FileType::from_raw_mode(stat.st_mode).is_symlink()
            || lock(&self.without_acl).contains(&stat.st_dev)
        {
            return None;
        }
        let outcome = self.xattr(original, acl::ACCESS);
        if outcome == Err(Errno::OPNOTSUPP) {
            lock(&self.without_acl).insert(stat.st_dev);
        }
        outcome.ok()
    }

    /// The value of an extended attribute.
    pub(crate) fn xattr(&self, original: &OwnedFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let path = path_of(original);
        self.send_on(SentOn::Stat, &path)?;
        let outcome = original::xattr(original, name);
        // Only files that were looked at have their attributes packed.
        if matches!(outcome, Ok(_) | Err(Errno::NODATA)) {
            self.note(&path, &OriginalEvent::Found);
        }
        outcome
    }

    /// The names of all extended attributes, each with a zero byte behind it.
    pub(crate) fn xattr_names(&self, original: &OwnedFd) -> Result<Vec<u8>, Errno> {
        let path = path_of(original);
        self.send_on(SentOn::Stat, &path)?;
        self.note(&path, &OriginalEvent::Found);
        original::xattr_names(original)
    }

    /// The target of a symbolic link.
    pub(crate) fn read_link(&self, original: &OwnedFd) -> Result<Vec<u8>, Errno> {
        let path = path_of(original);
        self.send_on(SentOn::Stat, &path)?;
        self.note(&path, &OriginalEvent::Found);
        rustix::fs::readlinkat(original, "", Vec::new()).map(CString::into_bytes)
    }

    /// Totals of the original's file system `device`, not older than a second, as the answer to STATFS.
    pub(crate) fn file_system(&self, original: &OwnedFd, device: u64) -> Result<StatfsBytes, Errno> {
        let mut totals = lock(&self.totals);
        if let Some((asked, stat)) = totals.get(&device)
            && asked.elapsed() < TOTALS_VALID
        {
            return Ok(*stat);
        }
        self.send_on(SentOn::Stat, &path_of(original))?;
        let stat = encode_statfs(&rustix::fs::fstatvfs(original)?);
        totals.insert(device, (Instant::now(), stat));
        Ok(stat)
    }

    /// Opens what an `O_PATH` descriptor leads to, for ourselves.
    pub(crate) fn open(&self, original: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
        self.send_on(SentOn::Open, &path_of(original))?;
        original::reopen(original, flags)
    }

    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    pub(crate) fn read(&self, file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let path = path_of(file);
        self.send_on(SentOn::Read, &path)?;
        let filled = original::read_at(file, buffer, offset)?;
        self.note(&path, &OriginalEvent::Read(offset..offset + filled as u64));
        Ok(filled)
    }

    /// Writes `data`; returns how much of it was written, which is less than all only where the original wrote less.
    pub(crate) fn write(&self, file: &OwnedFd, data: &[u8], offset: u64) -> Result<usize, Errno> {
        self.change(file, || original::write_at(file, data, offset))
    }

    /// Appends `data` by a descriptor that appends, with one write(2): other processes' bytes never lie within it, and the
    /// descriptor stands behind it afterwards. Returns how much of it was written.
    pub(crate) fn append(&self, file: &OwnedFd, data: &[u8]) -> Result<usize, Errno> {
        self.change(file, || rustix::io::retry_on_intr(|| rustix::io::write(file, data)))
    }

    /// Carries out something that changes what `original` leads to.
    pub(crate) fn change<T>(
        &self,
        original: &OwnedFd,
        action: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.change_at(&path_of(original), action)
    }

    /// Carries out something that changes the name `path`.
    pub(crate) fn change_at<T>(
        &self,
        path: &Path,
        action: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.send_on(SentOn::Write, path)?;
        self.note(path, &OriginalEvent::Changed);
        action()
    }

    /// Carries out something that changes the name `path` and must not be done twice.
    ///
    /// If an earlier server began with it, `already` judges that server's attempt: by the error of the second attempt, or by
    /// `None` if the first one is known to have succeeded.
    pub(crate) fn change_once<T>(
        &self,
        path: &Path,
        attempt: Attempt<'_>,
        action: impl FnOnce() -> Result<T, Errno>,
        already: impl FnOnce(Option<Errno>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let before = attempt.before();
        match before {
            EarlierProgress::Done(Ok(())) | EarlierProgress::Complete(Ok(())) => return already(None),
            EarlierProgress::Done(Err(errno)) | EarlierProgress::Complete(Err(errno)) => return Err(errno),
            EarlierProgress::Begun => {}
            EarlierProgress::Nothing => attempt.begin(),
        }
        let outcome = match self.change_at(path, action) {
            Err(errno) if before == EarlierProgress::Begun => already(Some(errno)),
            outcome => outcome,
        };
        attempt.finish(outcome.as_ref().map(|_| ()).map_err(|errno| *errno));
        outcome
    }

    /// Hands the names of an open directory from `offset` on to `push`, until it has no room.
    pub(crate) fn list(
        &self,
        directory: &OwnedFd,
        offset: u64,
        push: &mut dyn FnMut(&ListedName<'_>) -> Pushed,
    ) -> Result<(), Errno> {
        let path = path_of(directory);
        self.send_on(SentOn::List, &path)?;
        self.note(&path, &OriginalEvent::Listed);
        original::list(directory, offset, push)
    }
}

/// The path of an original, for statistics and lessons alone: nothing is ever reached by it.
pub(crate) fn path_of(original: impl AsFd) -> PathBuf {
    let path = rustix::fs::readlink(place_of(original), Vec::new()).unwrap_or_default();
    PathBuf::from(std::ffi::OsString::from_vec(path.into_bytes()))
}

/// The time for which a file system's totals are kept: tools that walk trees ask for them in every directory, and on a parallel
/// file system each answer takes all its servers.
const TOTALS_VALID: Duration = Duration::from_secs(1);
