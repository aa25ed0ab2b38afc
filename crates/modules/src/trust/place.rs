//! Refuses places in which root must not work, and files that another user made; lets one user pass through a directory.

use super::changers::is_root;
use super::inquiry::TrustInquiry;
use crate::ModulesError;
use crate::access::{ATTRIBUTE, Acl};
use crate::tools::User;
use rustix::fs::FileType;
use std::path::Path;

/// As root, refuses a working directory that another user can exchange or write in.
///
/// **Errors**: [`ModulesError::Untrusted`].
pub fn refuse_place(directory: &Path) -> Result<(), ModulesError> {
    if !is_root() {
        return Ok(());
    }
    let mut inquiry = TrustInquiry::new();
    inquiry.path(directory);
    match inquiry.changers().place() {
        None => Ok(()),
        Some(place) => Err(ModulesError::Untrusted { path: directory.to_owned(), place: place.to_owned() }),
    }
}

/// As root, refuses what a FUSE server of an ordinary user shows: the user invents owners and modes, and a copy would make
/// them real.
///
/// **Errors**: [`ModulesError::Untrusted`].
pub(crate) fn refuse_foreign(device: u64, path: &Path) -> Result<(), ModulesError> {
    match is_root() && TrustInquiry::new().is_foreign(device) {
        true => Err(ModulesError::Untrusted { path: path.to_owned(), place: path.to_owned() }),
        false => Ok(()),
    }
}

/// Lets one user pass through a directory of this process, and no other user. The directory keeps its owner.
///
/// **Errors**: what the system says.
pub fn let_pass(directory: &Path, user: &User) -> std::io::Result<()> {
    let set =
        |mode: u32| std::fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(mode));
    set(0o700)?;
    let Some(credentials) = user.credentials.as_ref().filter(|credentials| credentials.user != 0) else {
        return Ok(());
    };
    let list = Acl::passable(credentials.user);
    match rustix::fs::setxattr(directory, ATTRIBUTE, &list, rustix::fs::XattrFlags::empty()) {
        Err(rustix::io::Errno::OPNOTSUPP) => {
            std::os::unix::fs::chown(directory, None, Some(credentials.group))?;
            set(0o710)
        }
        outcome => Ok(outcome?),
    }
}

/// Refuses an open file that is no regular file of this user or of root: another user's process has put it there.
///
/// **Errors**: what the system says; [`std::io::ErrorKind::InvalidInput`].
pub(crate) fn refuse_file(stat: &rustix::fs::Stat, owner: u32) -> std::io::Result<()> {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    match is_file && [owner, 0].contains(&stat.st_uid) {
        true => Ok(()),
        false => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no file of its maker")),
    }
}
