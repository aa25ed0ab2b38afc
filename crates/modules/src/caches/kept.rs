//! Files that a build of a cache replaces: they keep a second name until the build is undone. Directories are held by descriptors, and no
//! link is followed.

use super::format::{CacheOrigin, content_digest};
use crate::ModulesError;
use crate::cookie::CACHE_NAME;
use crate::scan::CACHE_LIMIT;
use crate::{trust, walk};
use rustix::fs::{AtFlags, FileType, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The suffix of a kept file's name. Both tools ignore names that end in `~`.
const BEFORE: &str = ".quell-before~";

/// The result of undoing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoneCache {
    /// Files that are removed.
    pub removed: Vec<PathBuf>,
    /// Files that are again what they were before.
    pub restored: Vec<PathBuf>,
}

/// Undo, or only tell the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UndoStep {
    Do,
    Tell,
}

impl UndoStep {
    pub(super) fn take(self, work: impl FnOnce() -> Result<(), ModulesError>) -> Result<(), ModulesError> {
        if self == Self::Do { work() } else { Ok(()) }
    }
}

/// A directory that is held open, and the names of one file in it.
pub(super) struct Place {
    directory: OwnedFd,
    path: PathBuf,
}

/// A file in a [`Place`].
pub(super) struct Found {
    stat: Stat,
    pub(super) content: Vec<u8>,
}

impl Found {
    pub(super) fn digest(&self) -> String {
        content_digest(&self.content)
    }
}

impl Place {
    /// **Errors**: [`ModulesError::Write`]; ELOOP behind another user's link.
    pub(super) fn open(path: &Path) -> Result<Self, ModulesError> {
        let directory = walk::open_plain(path, OFlags::RDONLY | OFlags::DIRECTORY);
        Ok(Self { directory: directory.map_err(ModulesError::write(path))?, path: path.to_owned() })
    }

    /// A regular file; `None` without that name.
    pub(super) fn find(&self, name: &str) -> Result<Option<Found>, ModulesError> {
        let read = || -> io::Result<Option<Found>> {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
            let file = match walk::open_in(&self.directory, &CString::new(name)?, flags) {
                Err(Errno::NOENT) => return Ok(None),
                file => file?,
            };
            let stat = rustix::fs::fstat(&file)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
            }
            let mut content = Vec::new();
            File::from(file).take(CACHE_LIMIT as u64).read_to_end(&mut content)?;
            Ok(Some(Found { stat, content }))
        };
        read().map_err(ModulesError::read(&self.path.join(name)))
    }

    /// Gives a file a second name. One of a process that was killed before is replaced.
    pub(super) fn keep(&self, name: &str, found: &Option<Found>, kept: &str) -> Result<(), ModulesError> {
        let other = self.find(kept)?;
        if is_same(&other, found) {
            return Ok(());
        }
        if let Some(other) = other {
            if trust::refuse_file(&other.stat, rustix::process::geteuid().as_raw()).is_err() {
                return Err(ModulesError::Occupied { path: self.path.join(kept) });
            }
            self.remove(kept)?;
        }
        let linked = rustix::fs::linkat(&self.directory, name, &self.directory, kept, AtFlags::empty());
        linked.map_err(ModulesError::write(&self.path.join(kept)))
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), ModulesError> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed.map_err(ModulesError::write(&self.path.join(name))),
        }
    }

    /// Gives a kept file its name back, in one step.
    pub(super) fn put_back(&self, kept: &str, name: &str) -> Result<(), ModulesError> {
        let renamed = rustix::fs::renameat(&self.directory, kept, &self.directory, name);
        renamed.map_err(ModulesError::write(&self.path.join(name)))
    }
}

/// Tells whether two names lead to one file.
pub(super) fn is_same(one: &Option<Found>, other: &Option<Found>) -> bool {
    let inode = |found: &Found| (found.stat.st_dev, found.stat.st_ino);
    one.is_some() && one.as_ref().map(inode) == other.as_ref().map(inode)
}

/// The name under which a file is kept.
pub(super) fn kept(name: &str) -> String {
    format!("{name}{BEFORE}")
}

/// Keeps the cache that the tool alone made, under a second name, before ours replaces it; returns its digest. Where ours is there
/// already, that of the file before it.
///
/// **Errors**: [`ModulesError::Write`], [`ModulesError::Occupied`].
pub(super) fn keep(cache: &Path) -> Result<Option<String>, ModulesError> {
    let place = Place::open(cache.parent().unwrap_or(Path::new("/")))?;
    let found = place.find(CACHE_NAME)?;
    match found.as_ref().map(|found| CacheOrigin::of(&found.content)) {
        None => Ok(None),
        Some(CacheOrigin::Ours(before) | CacheOrigin::Changed(before)) => Ok(before),
        Some(CacheOrigin::Foreign) => {
            place.keep(CACHE_NAME, &found, &kept(CACHE_NAME))?;
            Ok(found.map(|found| found.digest()))
        }
    }
}
