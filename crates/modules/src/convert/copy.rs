//! A copy of a modulepath with a plan's changes: modes, owners, times and access control lists are kept, links stay links.

use super::plan::{Basis, Change, TreePlan};
use crate::ModulesError;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// Makes the new modulepath at `target`, which is not there.
///
/// **Errors**: [`ModulesError::Read`] for a file that cannot be read nor linked, [`ModulesError::Write`].
pub(super) fn copy(plan: &TreePlan, target: &Path) -> Result<(), ModulesError> {
    let source = fs::canonicalize(&plan.source).map_err(ModulesError::read(&plan.source))?;
    let metadata = fs::metadata(&source).map_err(ModulesError::read(&source))?;
    fs::create_dir(target).map_err(ModulesError::write(target))?;
    if plan.basis == Basis::Copy {
        Copying { root: &source, plan }.below(&source, target, b"")?;
    }
    for (path, change) in &plan.changes {
        let place = target.join(std::ffi::OsStr::from_bytes(path));
        let done = match change {
            Change::Write { new, .. } => write(&place, new, &metadata),
            Change::Link { to } => symlink(to, &place),
            Change::Remove { .. } => Ok(()),
        };
        done.map_err(ModulesError::write(&place))?;
    }
    attributes(&source, target, &metadata).map_err(ModulesError::write(target))
}

/// An rc file of the plan: readable by everybody, owned by whoever owns the modulepath.
fn write(path: &Path, content: &[u8], root: &Metadata) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write(path, content)?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(path, Some(root.uid()), Some(root.gid()))?;
    }
    fs::set_permissions(path, PermissionsExt::from_mode(0o644))
}

struct Copying<'a> {
    root: &'a Path,
    plan: &'a TreePlan,
}

impl Copying<'_> {
    /// Copies what is in a directory. `path` is its place below the modulepath.
    fn below(&self, from: &Path, to: &Path, path: &[u8]) -> Result<(), ModulesError> {
        let mut names: Vec<_> = fs::read_dir(from)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<_>>()
            })
            .map_err(ModulesError::read(from))?;
        names.sort();
        for name in names {
            let path = match path {
                b"" => name.as_bytes().to_vec(),
                path => [path, b"/", name.as_bytes()].concat(),
            };
            if !matches!(self.plan.changes.get(&path), Some(Change::Remove { .. })) {
                self.one(&from.join(&name), &to.join(&name), &path)?;
            }
        }
        Ok(())
    }

    fn one(&self, from: &Path, to: &Path, path: &[u8]) -> Result<(), ModulesError> {
        let metadata = fs::symlink_metadata(from).map_err(ModulesError::read(from))?;
        let kind = metadata.file_type();
        if kind.is_symlink() {
            let link = fs::read_link(from).map_err(ModulesError::read(from))?;
            symlink(self.destination(from, &link), to).map_err(ModulesError::write(to))?;
            return times(to, &metadata).map_err(ModulesError::write(to));
        }
        if kind.is_dir() {
            fs::create_dir(to).map_err(ModulesError::write(to))?;
            match self.below(from, to, path) {
                // Of a directory that we may not list nobody will see less in the copy than we do.
                Err(ModulesError::Read { path, source })
                    if path == from && source.kind() == io::ErrorKind::PermissionDenied => {}
                outcome => outcome?,
            }
        } else {
            match fs::copy(from, to) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    // An owner who may not read a file may still give it a second name.
                    return fs::hard_link(from, to).map_err(|_| ModulesError::read(from)(error));
                }
                outcome => outcome.map_err(ModulesError::write(to))?,
            };
        }
        attributes(from, to, &metadata).map_err(ModulesError::write(to))
    }

    /// Where a link leads in the copy: as before within the modulepath, and to the same place outside of it.
    fn destination(&self, from: &Path, link: &Path) -> PathBuf {
        let directory = from.parent().unwrap_or(self.root);
        let mut place = directory.to_owned();
        for component in link.components() {
            match component {
                Component::ParentDir => _ = place.pop(),
                Component::Normal(name) => place.push(name),
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => return link.to_owned(),
            }
            if !place.starts_with(self.root) {
                return directory.join(link);
            }
        }
        link.to_owned()
    }
}

/// Owner, mode, lists and times, in the order in which they do not undo each other.
fn attributes(from: &Path, to: &Path, metadata: &Metadata) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(to, Some(metadata.uid()), Some(metadata.gid()))?;
    }
    fs::set_permissions(to, PermissionsExt::from_mode(metadata.mode() & 0o7777))?;
    for name in [c"system.posix_acl_access", c"system.posix_acl_default"] {
        list(from, to, name)?;
    }
    times(to, metadata)
}

/// Those of the file or link itself.
fn times(to: &Path, metadata: &Metadata) -> io::Result<()> {
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    Ok(rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn list(from: &Path, to: &Path, name: &CStr) -> io::Result<()> {
    let mut value = vec![0; 1 << 16];
    match rustix::fs::getxattr(from, name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(rustix::fs::setxattr(to, name, &value, XattrFlags::empty())?)
        }
        // No list, or a file system or kind of file without lists.
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
