//! Makes a root file system for a complete image whose directories the node does not have.
//!
//! In a small tmpfs every name of the node's own root is put in place again, by recursive binds, and the missing
//! directories are made. Directories on the way to a missing one that the node has (`/home` for `/home/u/env`) are
//! made too, with their names bound. New directories are read-only. Bound ones are unchanged: `/proc`, `/dev`, `/tmp`
//! and the working directory. Mounts that come later still arrive, as the originals are slaves of their masters.
//!
//! ```text
//! /            tmpfs, read-only         /home          directory in it
//! /usr, ..     bind of the node's       /home/other    bind of the node's
//! /lib         the node's link          /home/u/env    directory in it, for the image
//! ```
//!
//! Source: pivot_root(2), mount_namespaces(7).

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, readlinkat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change, mount_move,
    mount_remount, unmount,
};

use crate::error::{SetupStep, Unavailable};
use crate::mount_points::{PLACE, at, magic};

/// Gives this process' mount namespace a root in which each of `roots` is a directory.
pub(crate) fn make(roots: &[PathBuf]) -> Result<(), Unavailable> {
    let staging = STAGING.iter().map(Path::new).find(|path| path.is_dir() && !path.is_symlink());
    let staging = staging.ok_or(Unavailable::new(SetupStep::OwnRoot, Errno::NOENT))?;
    let failed = |errno| at(SetupStep::OwnRoot, errno, staging);
    let node = openat(CWD, "/", PLACE, Mode::empty()).map_err(failed)?;
    let covered = openat(CWD, staging, PLACE, Mode::empty()).map_err(failed)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("quell-root", staging, "tmpfs", flags, c"mode=0755").map_err(failed)?;
    // So that the recursive bind of what it covers does not bring it along.
    mount_change(staging, MountPropagationFlags::UNBINDABLE).map_err(failed)?;
    let root = openat(CWD, staging, PLACE, Mode::empty()).map_err(failed)?;
    let missing = roots.iter().filter(|root| !is_directory(&node, root)).map(PathBuf::as_path).collect();
    let mut builder = Builder { covered: (staging, covered), names: 0 };
    builder.fill(&Level { old: Some(node), new: root, path: PathBuf::from("/") }, missing)?;
    turn_to(staging).map_err(failed)
}

/// Tells whether the node has a directory at `path`, under the tmpfs too.
fn is_directory(node: &OwnedFd, path: &Path) -> bool {
    let relative = path.strip_prefix("/").unwrap_or(path);
    openat(node, relative, PLACE, Mode::empty()).is_ok()
}

/// Makes the tmpfs at `staging` read-only and the root, and lets go of the old one.
fn turn_to(staging: &Path) -> Result<(), Errno> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount(staging, flags, c"")?;
    rustix::process::chdir(staging)?;
    match rustix::process::pivot_root(".", ".") {
        // The old root lies over the new one now.
        Ok(()) => unmount(".", UnmountFlags::DETACH)?,
        // The old root is the kernel's first one, as on nodes without a disk: it can be covered, and a process
        // that enters the namespace gets the cover.
        Err(Errno::INVAL) => {
            mount_move(".", "/")?;
            rustix::process::chroot(".")?;
        }
        Err(errno) => return Err(errno),
    }
    rustix::process::chdir("/")?;
    mount_change("/", MountPropagationFlags::PRIVATE)
}

/// A directory of the new root that is being filled.
struct Level {
    /// The node's directory, if it has one.
    old: Option<OwnedFd>,
    new: OwnedFd,
    path: PathBuf,
}

struct Builder<'s> {
    /// The directory over which the new root is mounted meanwhile, by path and as the node's own.
    covered: (&'s Path, OwnedFd),
    /// Names put in place so far.
    names: usize,
}

impl Builder<'_> {
    /// Puts the names of a directory in place; of those on the way to a `missing` directory, their own names.
    fn fill(&mut self, level: &Level, missing: Vec<&Path>) -> Result<(), Unavailable> {
        let mut ways: Vec<CString> = missing.iter().filter_map(|path| next_name(&level.path, path)).collect();
        ways.sort_unstable();
        ways.dedup();
        if let Some(old) = &level.old {
            for name in names(old).map_err(|errno| at(SetupStep::OwnRoot, errno, &level.path))? {
                if ways.binary_search(&name).is_err() {
                    self.put(level, old, &name)?;
                }
            }
        }
        for name in ways {
            let path = level.path.join(OsStr::from_bytes(name.as_bytes()));
            let below = missing.iter().copied().filter(|missing| missing.starts_with(&path)).collect();
            let inner = self.enter(level, &name, path)?;
            self.fill(&inner, below)?;
        }
        Ok(())
    }

    /// Makes a directory on the way, and opens the node's.
    fn enter(&self, level: &Level, name: &CStr, path: PathBuf) -> Result<Level, Unavailable> {
        let made = mkdirat(&level.new, name, Mode::from_raw_mode(0o755));
        made.map_err(|errno| at(SetupStep::OwnRoot, errno, &path))?;
        let open = |directory: &OwnedFd| openat(directory, name, PLACE, Mode::empty());
        let new = open(&level.new).map_err(|errno| at(SetupStep::OwnRoot, errno, &path))?;
        let old = match &level.old {
            Some(_) if path == self.covered.0 => {
                rustix::io::fcntl_dupfd_cloexec(&self.covered.1, 0).map(Some)
            }
            Some(old) => open(old).map(Some),
            None => Ok(None),
        };
        match old {
            Ok(old) => Ok(Level { old, new, path }),
            Err(Errno::NOENT) => Ok(Level { old: None, new, path }),
            Err(errno) => Err(at(SetupStep::OwnRoot, errno, &path)),
        }
    }

    /// Puts one name of the node in its place: a directory or file by a bind, a link as it is.
    fn put(&mut self, level: &Level, old: &OwnedFd, name: &CStr) -> Result<(), Unavailable> {
        let path = level.path.join(OsStr::from_bytes(name.to_bytes()));
        let failed = |errno| at(SetupStep::OwnRoot, errno, &path);
        self.names += 1;
        if self.names > NAMES_MAX {
            return Err(at(SetupStep::OwnRoot, Errno::TOOBIG, &level.path));
        }
        // Without following a link, and without asking an automounter to mount.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let original = match openat(old, name, flags, Mode::empty()) {
            Ok(_) if path == self.covered.0 => {
                rustix::io::fcntl_dupfd_cloexec(&self.covered.1, 0).map_err(failed)?
            }
            Ok(original) => original,
            // Gone since the directory was listed, or of a file system that is out of order: as if it were not there.
            Err(_) => return Ok(()),
        };
        let Ok(stat) = fstat(&original) else { return Ok(()) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let target = readlinkat(&original, c"", Vec::new()).map_err(failed)?;
                symlinkat(&target, &level.new, name).map_err(failed)
            }
            FileType::Directory => {
                mkdirat(&level.new, name, Mode::from_raw_mode(0o755)).map_err(failed)?;
                bind(&original, &level.new, name).map_err(failed)
            }
            _ => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
                openat(&level.new, name, flags, Mode::RUSR).map_err(failed)?;
                bind(&original, &level.new, name).map_err(failed)
            }
        }
    }
}

fn bind(original: &OwnedFd, directory: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let place = openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    mount_bind_recursive(magic(original.as_fd()), magic(place.as_fd()))
}

/// The name by which one goes on from `path` to `target`, if that lies below it.
fn next_name(path: &Path, target: &Path) -> Option<CString> {
    let name = target.strip_prefix(path).ok()?.iter().next()?;
    CString::new(name.as_bytes()).ok()
}

/// The names in a directory, sorted, without the dots.
fn names(directory: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let readable =
        openat(directory, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(readable)? {
        let name = entry?.file_name().to_owned();
        if name.as_bytes() != b"." && name.as_bytes() != b".." {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Directories at the top of which one exists on every node, to build the new root over.
const STAGING: [&str; 5] = ["/tmp", "/mnt", "/run", "/var", "/usr"];

/// Most names that are put in place, some microseconds and a mount each. A directory of so many users or projects is
/// no place for a program's files either.
const NAMES_MAX: usize = 4096;
