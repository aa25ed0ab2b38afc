//! The rule of public images: they show only what every user may read in the original.
//!
//! An image is judged when it is made, once for all who will read it. So every user must have a permission: the owner's group and all
//! other users by the mode, and each user and group that an access control list names. Any of them may be denied what others have.
//! Not seen: lists of NFSv4, which no client shows by the same attribute, and rules of a security module.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quell_image::original::{OriginalDirectory, OriginalError, attributes_of};
use quell_image::{Attributes, NamedValues};

/// To read a file.
pub(crate) const READ: u16 = 0o4;

/// To look names up in a directory.
pub(crate) const SEARCH: u16 = 0o1;

/// To list a directory and look names up in it. An image with some of its names shows them all.
pub(crate) const LIST_AND_SEARCH: u16 = READ | SEARCH;

/// True if every user has `permission` for a name with these attributes and extended attributes.
pub(crate) fn all_may(permission: u16, attributes: &Attributes, xattrs: &NamedValues) -> bool {
    let mode = attributes.permissions;
    let list = xattrs.iter().find(|(name, _)| name == ACCESS_LIST);
    mode & (mode >> 3) & permission == permission
        && list.is_none_or(|(_, list)| all_entries_give(permission, list))
}

/// True if every user may read an extended attribute of a file. Source: `xattr(7)`.
pub(crate) fn is_public_xattr(name: &[u8], all_may_read: bool) -> bool {
    !name.starts_with(b"trusted.") && (all_may_read || !name.starts_with(b"user."))
}

/// The nearest to `/` of a root and the directories above it that some user may not list or go through; `None` where every user may.
pub(crate) fn closed_directory(root: &[u8]) -> Result<Option<&Path>, OriginalError> {
    let root = Path::new(OsStr::from_bytes(root));
    let mut way: Vec<&Path> = root.ancestors().collect();
    way.reverse();
    for path in way {
        let permission = if path == root { LIST_AND_SEARCH } else { SEARCH };
        let name = path.file_name().unwrap_or(OsStr::new(".")).as_bytes();
        let above = OriginalDirectory::open(path.parent().unwrap_or(path))?;
        if !all_may(permission, &attributes_of(path)?, &above.xattrs(name)?) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Tags of entries that the mask limits, and that of the mask. Source: `linux/posix_acl.h`.
const USER: u16 = 0x02;
const GROUP_OBJECT: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;

/// True if no entry of an access control list lacks `permission`. A list that cannot be read gives nothing.
///
/// A version, and entries of tag, permissions and id. Source: `linux/posix_acl_xattr.h`.
fn all_entries_give(permission: u16, list: &[u8]) -> bool {
    let Some(entries) = list.strip_prefix(&2_u32.to_le_bytes()) else { return false };
    let entry = |entry: &[u8; 8]| {
        (u16::from_le_bytes([entry[0], entry[1]]), u16::from_le_bytes([entry[2], entry[3]]))
    };
    let (entries, rest) = entries.as_chunks::<8>();
    let mask =
        entries.iter().map(entry).find(|(tag, _)| *tag == MASK).map_or(0o7, |(_, permissions)| permissions);
    let gives = |(tag, permissions): (u16, u16)| {
        !matches!(tag, USER | GROUP_OBJECT | GROUP) || permissions & mask & permission == permission
    };
    rest.is_empty() && entries.iter().map(entry).all(gives)
}
