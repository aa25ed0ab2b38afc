//! Containers that lie in a directory when a run begins: their files are shown as if they lay there themselves.
//!
//! Of a container and the directory the later one counts: a file that was changed after the container was written is shown, and not
//! what the container has of its name.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use quell_base::files::is_anothers;
use quell_gather::{Container, DirectoryOrigin, Ending, Entry, NodeKind, OpenContainer, SUFFIX, Seen, View};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::fuse::abi::{Attr, Time};
use crate::fuse::listing::Pushed;
use crate::fuse::original::{list, os, reopen};
use crate::gathered::attr_of_entry;
use crate::scratch::originals::split;
use crate::scratch::request::GatherUnread;

/// The files of containers of earlier runs.
#[derive(Debug)]
pub(in crate::scratch) struct Earlier {
    view: View,
    /// The time at which each container was last written to.
    times: Vec<Time>,
    /// The paths in each directory.
    within: HashMap<Vec<u8>, BTreeMap<Vec<u8>, Option<Seen>>>,
    /// Containers that were not read.
    pub(in crate::scratch) unread: Vec<GatherUnread>,
}

impl Earlier {
    /// Reads the containers in `top`, but those that ranks of the same `job` are writing.
    pub(super) fn read(top: &OwnedFd, around: &Path, job: &str) -> Result<Self, Errno> {
        let directory = reopen(top, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        list(&directory, 0, &mut |entry| {
            if is_container(entry.name) {
                names.push(entry.name.to_vec());
            }
            Pushed::Yes
        })?;
        names.sort();
        let is_of_this_step = |container: &Container| {
            let is_written = container.ending != Ending::Whole;
            is_written && !job.is_empty() && container.contents.begin.job == job
        };
        let (mut containers, mut times, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            match open(&directory, &name, around) {
                Ok(Some((open, _))) if is_of_this_step(&open.container) => {}
                Ok(Some((open, time))) => {
                    containers.push(open);
                    times.push(time);
                }
                Ok(None) => {}
                Err(errno) => unread.push(GatherUnread {
                    name: quell_base::shown(Path::new(os(&name))),
                    is_anothers: matches!(errno, Errno::PERM | Errno::ACCESS),
                }),
            }
        }
        let view = View::new(containers);
        let mut within: HashMap<Vec<u8>, BTreeMap<_, _>> = HashMap::new();
        let removed = view.removed.keys().map(|path| (path, None));
        for (path, seen) in view.paths.iter().map(|(path, seen)| (path, Some(*seen))).chain(removed) {
            let (directory, name) = split(path);
            within.entry(directory.to_vec()).or_default().insert(name.to_vec(), seen);
        }
        Ok(Self { view, times, within, unread })
    }

    /// The containers, with the length of what was read.
    pub(super) fn seen(&self) -> Vec<([u8; 16], u64)> {
        let containers = self.view.containers.iter().map(|open| &open.container);
        containers.map(|container| (container.contents.begin.number, container.length)).collect()
    }

    /// Names in a directory, `None` for those that are gone.
    pub(in crate::scratch) fn names(&self, directory: &[u8]) -> Vec<(Vec<u8>, Option<Seen>)> {
        let names = self.within.get(directory).into_iter().flatten();
        names.map(|(name, seen)| (name.clone(), *seen)).collect()
    }

    pub(in crate::scratch) fn has_directory(&self, path: &[u8]) -> bool {
        let seen = self.view.paths.get(path);
        seen.is_some_and(|seen| self.view.entry(*seen).is_some_and(Entry::is_directory))
    }

    /// True where a file of the directory was changed after the container was written that has its path, or removed it.
    pub(in crate::scratch) fn is_older(&self, path: &[u8], seen: Option<Seen>, changed: Time) -> bool {
        let key = |time: Time| (time.seconds, time.nanoseconds);
        let container = seen.map(|seen| seen.container).or_else(|| self.view.removed.get(path).copied());
        let written = container.and_then(|container| self.times.get(container));
        written.is_none_or(|written| key(changed) > key(*written))
    }

    /// The attributes that programs of an earlier run gave a directory that was there, unless it was changed since.
    pub(in crate::scratch) fn changed_directory(&self, path: &[u8], changed: Time) -> Option<Seen> {
        let seen = *self.view.paths.get(path)?;
        let is_changed = self.view.entry(seen)?.origin() == Some(DirectoryOrigin::Changed);
        (is_changed && !self.is_older(path, Some(seen), changed)).then_some(seen)
    }

    /// Attributes, and the target of a link.
    pub(in crate::scratch) fn attr(&self, seen: Seen) -> Option<(Attr, Option<Vec<u8>>)> {
        let entry = self.view.entry(seen)?;
        let target = match &entry.node.kind {
            NodeKind::Link { target } => Some(target.clone()),
            _ => None,
        };
        // Containers are this user's or root's.
        Some((attr_of_entry(entry, true), target))
    }

    pub(in crate::scratch) fn xattrs(&self, seen: Seen) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.view.entry(seen).into_iter().flat_map(|entry| entry.node.xattrs.iter().cloned()).collect()
    }
}

/// A file of an earlier container.
#[derive(Debug)]
pub(in crate::scratch) struct EarlierFile(
    pub(in crate::scratch) std::sync::Arc<Earlier>,
    pub(in crate::scratch) Seen,
);

impl EarlierFile {
    /// Fills `buffer`.
    ///
    /// **Errors** `EIO` where the container is damaged.
    pub(in crate::scratch) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let Self(earlier, seen) = self;
        earlier.view.read(*seen, offset, buffer).map_err(|_| Errno::IO)
    }
}

/// True for the name of a container, which programs do not see.
pub(in crate::scratch) fn is_container(name: &[u8]) -> bool {
    name.ends_with(SUFFIX.as_bytes())
}

/// Opens a container that this user or root wrote; `None` for what is none.
///
/// **Errors** `EPERM` for a file of another user, who could show programs anything; `EIO` for a damaged container.
fn open(directory: &OwnedFd, name: &[u8], around: &Path) -> Result<Option<(OpenContainer, Time)>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = match rustix::fs::openat(directory, os(name), flags, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&opened)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    if is_anothers(&stat) {
        return Err(Errno::PERM);
    }
    let open = match OpenContainer::read(around.join(os(name)), File::from(opened)) {
        Err(quell_gather::ContainerError::NotOne | quell_gather::ContainerError::Empty) => return Ok(None),
        read => read.map_err(|_| Errno::IO)?,
    };
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
    Ok(Some((open, Time { seconds: stat.st_mtime, nanoseconds })))
}
