//! Owner, mode, access control lists and times of a copy.

use super::original::Original;
use crate::ModulesError;
use rustix::fs::{AtFlags, CWD, FileType, Stat, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;

/// The purpose of a copy, which decides how much it must be like its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A copy beside the tree, for users. An unreadable file gets a second name; a pipe or socket is made anew. What not every user may
    /// read keeps its owner and group, or the copy is refused.
    Use,
    /// A copy in the tree's place. Everything keeps its owner and group, and links stay as they are.
    Replace,
    /// A copy for tools to look at. An unreadable file is empty and keeps its permissions; what is neither file nor directory is left
    /// out; what is longer than [`super::LONGEST`] is cut there.
    Trial,
}

/// POSIX access control lists: the file's own, and the one that new entries of a directory get.
const LISTS: [&CStr; 2] = [c"system.posix_acl_access", c"system.posix_acl_default"];

const NFS_LIST: &CStr = c"system.nfs4_acl";

/// Gives a copy the owner, mode, lists and times of the original.
///
/// **Errors**: what the system says.
pub(crate) fn attributes(from: &Original, to: &Path) -> io::Result<()> {
    permissions(from, to)?;
    times(to, &from.stat)
}

/// Gives a file the owner, mode and lists of another, in the order in which they do not undo each other.
///
/// A process that is not root can give a file to no other user; see [`refuse_other_owner`].
///
/// **Errors**: what the system says.
pub(crate) fn permissions(from: &Original, to: &Path) -> io::Result<()> {
    own(to, &from.stat)?;
    further(from, to)?;
    for name in LISTS {
        match from.list(name)? {
            Some(value) => rustix::fs::setxattr(to, name, &value, XattrFlags::empty())?,
            None => no_list(to, name)?,
        }
    }
    fs::set_permissions(to, PermissionsExt::from_mode(mode(from)))?;
    // An NFSv4 list decides what the mode is, and every file on NFS has one. Other file systems have the mode alone.
    if let Some(value) = from.list(NFS_LIST)? {
        match rustix::fs::setxattr(to, NFS_LIST, &value, XattrFlags::empty()) {
            Err(errno) if errno != Errno::OPNOTSUPP => return Err(errno.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Gives a copy the security label and the users' own attributes of the original. Others belong to a file system, or grant rights.
fn further(from: &Original, to: &Path) -> io::Result<()> {
    let is_kept = |name: &&CString| KEPT.iter().any(|kept| name.to_bytes().starts_with(kept));
    for name in from.attribute_names().iter().filter(is_kept) {
        let Some(value) = from.list(name)? else { continue };
        match rustix::fs::setxattr(to, name.as_c_str(), &value, XattrFlags::empty()) {
            // The place of the copy has no such attributes, or this user may not set them.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// The beginnings of the names of attributes that a copy keeps.
const KEPT: [&[u8]; 3] = [b"security.selinux", b"security.SMACK64", b"user."];

/// The mode of a copy, without set-user-ID bits on files: the original's file system may be mounted `nosuid`, and no modulefile needs
/// them.
fn mode(from: &Original) -> u32 {
    from.stat.st_mode & if from.kind() == FileType::Directory { 0o7777 } else { 0o777 }
}

/// Sets owner and group, as far as this process can.
pub(super) fn own(to: &Path, stat: &Stat) -> io::Result<()> {
    let (user, group) = (Some(stat.st_uid), Some(stat.st_gid));
    match lchown(to, user, group) {
        Err(error)
            if error.kind() == io::ErrorKind::PermissionDenied && !rustix::process::geteuid().is_root() =>
        {
            // The group can be set if it is one of ours; else it stays.
            _ = lchown(to, None, group);
            Ok(())
        }
        outcome => outcome,
    }
}

/// Refuses a copy with another owner or group than the original, where that decides which users may read it, or which may change
/// what takes the original's place.
///
/// **Errors**: [`ModulesError::Owner`].
pub(crate) fn refuse_other_owner(from: &Original, to: &Path, purpose: Purpose) -> Result<(), ModulesError> {
    let stat = &from.stat;
    let is_same = |copy: Metadata| (copy.uid(), copy.gid()) == (stat.st_uid, stat.st_gid);
    let may_differ = match purpose {
        Purpose::Trial => true,
        Purpose::Use => is_open_to_all(from)?,
        Purpose::Replace => false,
    };
    match may_differ || is_same(fs::symlink_metadata(to).map_err(ModulesError::read(to))?) {
        true => Ok(()),
        false => Err(ModulesError::Owner { path: from.path.clone() }),
    }
}

/// Tells whether every user may read the original, without regard to its owner.
fn is_open_to_all(from: &Original) -> Result<bool, ModulesError> {
    let bits = if from.kind() == FileType::Directory { 0o555 } else { 0o444 };
    let list = from.list(LISTS[0]).map_err(ModulesError::read(&from.path))?;
    Ok(list.is_none() && from.stat.st_mode & bits == bits)
}

/// Sets the times of the file, or of the link itself.
pub(super) fn times(to: &Path, stat: &Stat) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ },
    };
    Ok(rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Removes the lists that a new file inherited from its directory.
///
/// **Errors**: what the system says.
pub(crate) fn no_lists(of: &Path) -> io::Result<()> {
    LISTS.into_iter().try_for_each(|name| no_list(of, name))
}

fn no_list(of: &Path, name: &CStr) -> io::Result<()> {
    match rustix::fs::removexattr(of, name) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
