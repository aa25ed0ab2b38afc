//! Writes files of containers under their names, with the bytes, modes and times that programs gave them.
//!
//! Each directory on the way is opened from the one before it, and no link is followed: a container cannot reach what lies outside
//! of the target. A file gets its times last, so one that a kill left half is not taken for a whole one. Attributes are set by
//! descriptors: other users may exchange names in the target meanwhile.

mod directories;
mod names;
mod same;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_base::lock;
use quell_base::parallel::in_parallel;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::SUFFIX;
use crate::container::ContainerError;
use crate::contents::{Entry, is_xattr};
use crate::ops::{Node, NodeKind, Time};
use crate::view::{Seen, View};

use names::{DIRECTORY, NAMED, Removed, is_newer, os, remove_older, replace, split};
use same::{GivenAttributes, UnreadableFile, is_same};

/// The way in which files are written.
#[derive(Debug, Clone, Copy)]
pub struct ExtractOptions {
    /// Files that are there.
    pub replacing: Replacing,
    /// Each file is on stable storage at the end.
    pub synchronises: bool,
    /// Threads that write at a time.
    pub threads: usize,
}

/// The treatment of what lies in the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacing {
    /// It stays, and names that it has are told.
    Nothing,
    /// Files take the place of others, directories get the attributes that programs gave them, and what programs removed is
    /// removed, but what has changed since.
    Everything,
}

/// The outcome.
#[derive(Debug, Default)]
pub struct Extracted {
    /// Names that were made, without those of directories.
    pub files: u64,
    /// Their content. Unit: bytes.
    pub bytes: u64,
    /// Names that were there already, with the same content and attributes.
    pub same: u64,
    /// Names that were removed.
    pub removed: u64,
    /// Paths at which something else lies, which stays. **Shape** sorted.
    pub occupied: Vec<Vec<u8>>,
    /// Directories that were there, to which programs gave other attributes, and which keep theirs. The top is empty. **Shape** sorted.
    pub unchanged: Vec<Vec<u8>>,
    /// Paths that programs removed, and that are still there. **Shape** sorted.
    pub remaining: Vec<Vec<u8>>,
    /// Paths that programs removed, at which something lies that has changed since. It stays. **Shape** sorted.
    pub newer: Vec<Vec<u8>>,
    /// Paths at the top that only containers may have. They are left out. **Shape** sorted.
    pub reserved: Vec<Vec<u8>>,
    /// Paths that failed, and why. **Shape** sorted by path.
    pub failed: Vec<(Vec<u8>, ExtractError)>,
}

/// A path that could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The target refuses.
    #[error("{0}")]
    Write(quell_base::Errno),
    /// The container does.
    #[error(transparent)]
    Read(#[from] ContainerError),
}

impl From<Errno> for ExtractError {
    fn from(errno: Errno) -> Self {
        Self::Write(quell_base::Errno(u16::try_from(errno.raw_os_error()).unwrap_or_default()))
    }
}

/// Writes all paths of `view` below `target`.
pub fn extract(view: &View, target: &OwnedFd, options: ExtractOptions) -> Extracted {
    let links = view.links();
    let extraction = Extraction {
        view,
        target,
        options,
        links: &links,
        outcome: Mutex::default(),
        written: Mutex::default(),
        removed: Mutex::default(),
        hidden: AtomicU64::new(0),
    };
    let (reserved, wanted): (Vec<_>, Vec<_>) = view.paths.iter().partition(|(path, _)| is_reserved(path));
    extraction.remove(view.removed.iter().map(|(path, place)| (path, *place)));
    let directories = extraction.directories(&wanted);
    let is_first = |path: &[u8], seen: &Seen| links.get(seen).is_none_or(|names| names[0] == path);
    let is_file = |seen: &Seen| view.entry(*seen).is_some_and(|entry| !entry.is_directory());
    let files: Vec<_> = wanted.iter().filter(|(path, seen)| is_file(seen) && is_first(path, seen)).collect();
    in_parallel(&files, options.threads, |(path, seen)| {
        extraction.settle(path, extraction.put_file(path, **seen));
        Vec::<()>::new()
    });
    let others = wanted.iter().filter(|(path, seen)| is_file(seen) && !is_first(path, seen));
    for (path, seen) in others {
        extraction.settle(path, extraction.put_other(path, **seen));
    }
    let top = view.changed_top();
    let top = match options.replacing {
        Replacing::Everything => top,
        Replacing::Nothing => {
            lock(&extraction.outcome).unchanged.extend(top.map(|_| Vec::new()));
            None
        }
    };
    let top = top.map(|seen| (&b""[..], seen));
    // New names in a directory change its times, and its mode may forbid them.
    for (path, seen) in directories.into_iter().rev().chain(top) {
        if let Err(error) = extraction.finish(path, seen) {
            extraction.fail(path, error);
        }
    }
    let mut outcome = extraction.outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    outcome.reserved = reserved.into_iter().map(|(path, _)| path.clone()).collect();
    outcome.occupied.sort();
    outcome.unchanged.sort();
    outcome.remaining.sort();
    outcome.newer.sort();
    outcome.failed.sort_by(|one, other| one.0.cmp(&other.0));
    outcome
}

/// True for a name of a container, and for what is below it: a container must not replace or remove others.
pub fn is_reserved(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').next().is_some_and(|name| name.ends_with(SUFFIX.as_bytes()))
}

struct Extraction<'v> {
    view: &'v View,
    target: &'v OwnedFd,
    options: ExtractOptions,
    /// The names of each file that has several.
    links: &'v HashMap<Seen, Vec<&'v [u8]>>,
    outcome: Mutex<Extracted>,
    /// The name at which a file that has several lies, and its inode.
    written: Mutex<HashMap<Seen, (Vec<u8>, Identity)>>,
    removed: Mutex<Removed>,
    /// The number of names that no other file has, for files before they take their places.
    hidden: AtomicU64,
}

/// The device and number of an inode.
type Identity = (u64, u64);

/// The outcome for a name.
enum Put {
    Made { bytes: u64, identity: Identity },
    Same(Identity),
    Occupied,
}

impl<'v> Extraction<'v> {
    fn fail(&self, path: &[u8], error: ExtractError) {
        lock(&self.outcome).failed.push((path.to_vec(), error));
    }

    fn settle(&self, path: &[u8], outcome: Result<Put, ExtractError>) {
        let mut told = lock(&self.outcome);
        match outcome {
            Ok(Put::Made { bytes, .. }) => {
                told.files += 1;
                told.bytes += bytes;
            }
            Ok(Put::Same(_)) => told.same += 1,
            Ok(Put::Occupied) => told.occupied.push(path.to_vec()),
            Err(error) => told.failed.push((path.to_vec(), error)),
        }
    }

    /// Opens the directory of a path, name by name.
    fn parent<'p>(&self, path: &'p [u8]) -> Result<(OwnedFd, &'p [u8]), Errno> {
        let mut directory = rustix::io::fcntl_dupfd_cloexec(self.target, 3)?;
        let (above, name) = split(path);
        for name in above.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            directory = rustix::fs::openat(&directory, os(name), DIRECTORY, Mode::empty())?;
        }
        Ok((directory, name))
    }

    /// Removes paths, or tells that they are there.
    ///
    /// **Parameters** `paths`: with the places of the containers of which the programs removed them.
    fn remove<'p>(&self, paths: impl IntoIterator<Item = (&'p Vec<u8>, usize)>) {
        let mut removed = lock(&self.removed);
        for (path, place) in paths.into_iter().filter(|(path, _)| !is_reserved(path)) {
            let Ok((parent, name)) = self.parent(path) else { continue };
            let Ok(there) = rustix::fs::statat(&parent, os(name), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let written = self.view.containers[place].written;
            if self.options.replacing == Replacing::Nothing {
                let mut told = lock(&self.outcome);
                let list = if is_newer(&there, written) { &mut told.newer } else { &mut told.remaining };
                list.push(path.clone());
                continue;
            }
            match remove_older(&parent, name, written, &mut removed) {
                Ok(true) => lock(&self.outcome).removed += 1,
                Ok(false) => lock(&self.outcome).newer.push(path.clone()),
                Err(errno) => self.fail(path, errno.into()),
            }
        }
    }

    fn put_file(&self, path: &[u8], seen: Seen) -> Result<Put, ExtractError> {
        let outcome = self.put(path, seen)?;
        if let Put::Made { identity, .. } | Put::Same(identity) = outcome
            && self.links.contains_key(&seen)
        {
            lock(&self.written).insert(seen, (path.to_vec(), identity));
        }
        Ok(outcome)
    }

    fn put(&self, path: &[u8], seen: Seen) -> Result<Put, ExtractError> {
        let (parent, name) = self.parent(path)?;
        let Some(entry) = self.view.entry(seen) else { return Err(Errno::STALE.into()) };
        let bytes = entry.node.size;
        match self.make(&parent, name, entry, seen) {
            Err(ExtractError::Write(errno)) if i32::from(errno.0) == Errno::EXIST.raw_os_error() => {}
            outcome => return outcome.map(|identity| Put::Made { bytes, identity }),
        }
        let there = rustix::fs::statat(&parent, os(name), AtFlags::SYMLINK_NOFOLLOW)?;
        let given = GivenAttributes {
            mode: self.mode(&entry.node, seen).as_raw_mode(),
            owner: self.sets_owners(seen).then_some((entry.node.uid, entry.node.gid)),
        };
        let unreadable = match self.options.replacing {
            Replacing::Nothing => UnreadableFile::Same,
            Replacing::Everything => UnreadableFile::Different,
        };
        let source = &self.view.containers[seen.container].file;
        if is_same((&parent, name), &there, (entry, &given, unreadable), source)? {
            return Ok(Put::Same((there.st_dev, there.st_ino)));
        }
        if !self.may_replace(&parent, name, &there, seen)? {
            return Ok(Put::Occupied);
        }
        let hidden = self.hidden_name();
        let identity = self.make(&parent, &hidden, entry, seen)?;
        self.replace(&parent, &hidden, name, &there)?;
        Ok(Put::Made { bytes, identity })
    }

    /// True where a file may be moved to a name at which another lies. A directory is removed for that.
    fn may_replace(&self, parent: &OwnedFd, name: &[u8], there: &Stat, seen: Seen) -> Result<bool, Errno> {
        if self.options.replacing == Replacing::Nothing {
            return Ok(false);
        }
        let is_directory = FileType::from_raw_mode(there.st_mode) == FileType::Directory;
        let written = self.view.containers[seen.container].written;
        Ok(!is_directory || remove_older(parent, name, written, &mut lock(&self.removed))?)
    }

    /// Moves a file to its name. What had the name loses one, which changes its time and must not keep its other names. They may be
    /// removed at the same time, so it is noted first.
    fn replace(&self, parent: &OwnedFd, hidden: &[u8], name: &[u8], there: &Stat) -> Result<(), Errno> {
        let identity = (there.st_dev, there.st_ino);
        let is_first = lock(&self.removed).insert(identity);
        let replaced = replace(parent, hidden, name);
        if replaced.is_err() && is_first {
            lock(&self.removed).remove(&identity);
        }
        replaced
    }

    /// A name that no other file has, for a file before it takes its place: the old file or the new one lies there at any time.
    fn hidden_name(&self) -> Vec<u8> {
        let number = self.hidden.fetch_add(1, Ordering::Relaxed);
        format!(".quell-extract-{}-{number}", std::process::id()).into_bytes()
    }

    /// Makes a name with all that it has. None is left where that fails.
    fn make(
        &self,
        parent: &OwnedFd,
        name: &[u8],
        entry: &Entry,
        seen: Seen,
    ) -> Result<Identity, ExtractError> {
        let path = os(name);
        let (made, kind) = match &entry.node.kind {
            NodeKind::Directory { .. } => return Err(Errno::ISDIR.into()),
            NodeKind::Link { target } => {
                rustix::fs::symlinkat(os(target), parent, path)?;
                (rustix::fs::openat(parent, path, NAMED, Mode::empty())?, FileType::Symlink)
            }
            NodeKind::Fifo => {
                rustix::fs::mknodat(parent, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
                (rustix::fs::openat(parent, path, NAMED, Mode::empty())?, FileType::Fifo)
            }
            NodeKind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mode = Mode::RUSR | Mode::WUSR;
                (rustix::fs::openat(parent, path, flags, mode)?, FileType::RegularFile)
            }
        };
        let stat = rustix::fs::fstat(&made)?;
        // A file of another type, or with another name, was put there by another user.
        if FileType::from_raw_mode(stat.st_mode) != kind || stat.st_nlink > 1 {
            return Err(Errno::STALE.into());
        }
        let outcome = match kind {
            FileType::RegularFile => self.fill(&File::from(made), entry, seen),
            _ => self.complete(&made, &entry.node, seen).map_err(ExtractError::from),
        };
        if outcome.is_err() {
            _ = rustix::fs::unlinkat(parent, path, AtFlags::empty());
        }
        outcome.map(|()| (stat.st_dev, stat.st_ino))
    }

    /// Gives a link or a pipe its attributes.
    ///
    /// **Parameters** `made`: a descriptor that only names it.
    fn complete(&self, made: &OwnedFd, node: &Node, seen: Seen) -> Result<(), Errno> {
        if self.sets_owners(seen) {
            let (uid, gid) = (Some(Uid::from_raw(node.uid)), Some(Gid::from_raw(node.gid)));
            _ = rustix::fs::chownat(made, c"", uid, gid, AtFlags::EMPTY_PATH);
        }
        // The kernel follows this to what is open, and no further, a symbolic link included.
        let path = format!("/proc/self/fd/{}", made.as_raw_fd());
        if node.kind == NodeKind::Fifo {
            rustix::fs::chmod(&*path, self.mode(node, seen))?;
        }
        rustix::fs::utimensat(CWD, &*path, &times_of(node), AtFlags::empty())
    }

    fn fill(&self, made: &File, entry: &Entry, seen: Seen) -> Result<(), ExtractError> {
        let failed = |error: io::Error| ExtractError::from(Errno::from_io_error(&error).unwrap_or(Errno::IO));
        let source = &self.view.containers[seen.container].file;
        let mut refused = None;
        let mut end = 0;
        let read = entry.each_part(source, |at, bytes| {
            end = at + bytes.len() as u64;
            made.write_all_at(bytes, at).map_err(|error| {
                let told = io::Error::from(error.kind());
                refused = Some(error);
                told
            })
        });
        match (refused, read) {
            (Some(error), _) => return Err(failed(error)),
            (None, read) => read?,
        }
        let node = &entry.node;
        if end != node.size {
            made.set_len(node.size).map_err(failed)?;
        }
        self.own(made, node, seen)?;
        for (name, value) in node.xattrs.iter().filter(|(name, _)| is_xattr(name)) {
            match rustix::fs::fsetxattr(made, os(name), value, XattrFlags::empty()) {
                // A file system without extended attributes keeps the rest, as with cp.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        rustix::fs::fchmod(made, self.mode(node, seen))?;
        rustix::fs::futimens(made, &times_of(node))?;
        if self.options.synchronises {
            rustix::fs::fsync(made)?;
        }
        Ok(())
    }

    /// A container of others gives no owners, and no set-user-ID and set-group-ID bits.
    fn is_trusted(&self, seen: Seen) -> bool {
        self.view.containers[seen.container].is_trusted
    }

    fn mode(&self, node: &Node, seen: Seen) -> Mode {
        Mode::from_raw_mode(node.mode & if self.is_trusted(seen) { 0o7777 } else { 0o1777 })
    }

    /// Owners are root's to set; files of others stay this user's, as with cp and tar.
    fn sets_owners(&self, seen: Seen) -> bool {
        rustix::process::geteuid().is_root() && self.is_trusted(seen)
    }

    fn own(&self, made: impl std::os::fd::AsFd, node: &Node, seen: Seen) -> Result<(), Errno> {
        if !self.sets_owners(seen) {
            return Ok(());
        }
        rustix::fs::fchown(made, Some(Uid::from_raw(node.uid)), Some(Gid::from_raw(node.gid)))
    }

    /// Another name of a file. Its first name that was written counts: at others may lie something else.
    fn put_other(&self, path: &[u8], seen: Seen) -> Result<Put, ExtractError> {
        let written = lock(&self.written).get(&seen).cloned();
        match written {
            Some((first, identity)) => self.link(path, seen, &first, identity),
            None => self.put_file(path, seen),
        }
    }

    fn link(&self, path: &[u8], seen: Seen, first: &[u8], identity: Identity) -> Result<Put, ExtractError> {
        let (parent, name) = self.parent(path)?;
        let (others, other) = self.parent(first)?;
        let linked = |name: &[u8]| {
            rustix::fs::linkat(&others, os(other), &parent, os(name), AtFlags::empty())?;
            let stat = rustix::fs::statat(&parent, os(name), AtFlags::SYMLINK_NOFOLLOW)?;
            if (stat.st_dev, stat.st_ino) == identity {
                return Ok(());
            }
            // Another user or program has exchanged the first name.
            _ = rustix::fs::unlinkat(&parent, os(name), AtFlags::empty());
            Err(Errno::NOENT)
        };
        match linked(name) {
            Ok(()) => return Ok(Put::Made { bytes: 0, identity }),
            Err(Errno::NOENT) => return self.put_file(path, seen),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let there = rustix::fs::statat(&parent, os(name), AtFlags::SYMLINK_NOFOLLOW)?;
        if (there.st_dev, there.st_ino) == identity {
            return Ok(Put::Same(identity));
        }
        if !self.may_replace(&parent, name, &there, seen)? {
            return Ok(Put::Occupied);
        }
        let hidden = self.hidden_name();
        linked(&hidden)?;
        self.replace(&parent, &hidden, name, &there)?;
        Ok(Put::Made { bytes: 0, identity })
    }
}

fn times_of(node: &Node) -> Timestamps {
    let time =
        |time: Time| Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.min(999_999_999).into() };
    Timestamps { last_access: time(node.atime), last_modification: time(node.mtime) }
}
