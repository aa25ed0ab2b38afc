//! Refuses places that root must not work in and files that another user made, and opens directories to one user.

use super::hands::is_root;
use super::inquiry::Inquiry;
use crate::ModulesError;
use crate::access::{ATTRIBUTE, Acl};
use crate::tools::User;
use rustix::fs::FileType;
use std::path::Path;

/// Refuses, as root, a directory to work in that another user can exchange, or in which another user's entries could be.
///
/// **Errors**: [`ModulesError::Untrusted`].
pub fn refuse_place(directory: &Path) -> Result<(), ModulesError> {
    if !is_root() {
        return Ok(());
    }
    let mut inquiry = Inquiry::new();
    inquiry.path(directory);
    match inquiry.hands().place() {
        None => Ok(()),
        Some(place) => Err(ModulesError::Untrusted { path: directory.to_owned(), place: place.to_owned() }),
    }
}

/// Refuses, as root, what a FUSE server of an ordinary user shows: its owners and modes are that user's invention, and a copy would
/// make them real.
///
/// **Errors**: [`ModulesError::Untrusted`].
pub(crate) fn refuse_foreign(device: u64, path: &Path) -> Result<(), ModulesError> {
    match is_root() && Inquiry::new().is_foreign(device) {
        true => Err(ModulesError::Untrusted { path: path.to_owned(), place: path.to_owned() }),
        false => Ok(()),
    }
}

/// Lets a user pass through a directory of ours, and no other user: its owner stays who it is.
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

/// Tells whether what was opened is a regular file of this user, or of root: a process of another user had its way in between else.
///
/// **Errors**: what the system says; [`std::io::ErrorKind::InvalidInput`].
pub(crate) fn refuse_file(stat: &rustix::fs::Stat, owner: u32) -> std::io::Result<()> {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    match is_file && [owner, 0].contains(&stat.st_uid) {
        true => Ok(()),
        false => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no file of its maker")),
    }
}
