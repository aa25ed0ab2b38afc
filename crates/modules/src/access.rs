//! Access to a file: mode bits and the POSIX access control list, as sets of users that a module command can name.
//!
//! Source: acl(5), "access check algorithm". Lists of other kinds (NFSv4) appear as the mode bits that their server derives
//! from them.

use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::path::Path;

/// Owner, group, mode and list of a file or directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Permission bits, without the type.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The access control list, where it says more than the mode.
    pub acl: Option<Acl>,
}

/// The part of an access control list that mode bits do not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    /// Named users with their permissions, 0 to 7, the mask applied.
    pub users: Vec<(u32, u8)>,
    /// Named groups with their permissions, 0 to 7, the mask applied.
    pub groups: Vec<(u32, u8)>,
    /// Permissions of the owning group, the mask applied. A file with a list has the mask in the mode's middle bits.
    pub group: u8,
}

/// Something that a user may do with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Read a file.
    Read,
    /// List a directory and pass through it.
    List,
    /// Pass through a directory.
    Enter,
    /// Change what is in a file or directory.
    Write,
}

impl Permission {
    fn bits(self) -> u8 {
        match self {
            Self::Read => 4,
            Self::List => 5,
            Self::Enter => 1,
            Self::Write => 2,
        }
    }
}

/// The users other than root that have a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedUsers {
    /// Every user.
    Everybody,
    /// These users, and the members of these groups. With both empty: root alone.
    Only {
        /// Users by number.
        users: BTreeSet<u32>,
        /// Groups by number.
        groups: BTreeSet<u32>,
    },
    /// A set with exceptions: a group may, but not every member of it; or others may, but not the owner.
    Mixed,
}

impl AllowedUsers {
    /// Root alone.
    pub fn nobody() -> Self {
        Self::Only { users: BTreeSet::new(), groups: BTreeSet::new() }
    }
}

impl Access {
    /// The access to a directory. This process need not be able to list the directory.
    ///
    /// **Errors**: what the system says of the directory's mode. A list that cannot be read counts as no list.
    pub(crate) fn of_directory(path: &Path) -> std::io::Result<Self> {
        let stat = rustix::fs::stat(path)?;
        let acl = Acl::read(|value| rustix::fs::getxattr(path, ATTRIBUTE, value));
        Ok(Self { mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid, acl })
    }

    /// The users that have a permission.
    pub fn who(&self, permission: Permission) -> AllowedUsers {
        let needed = permission.bits();
        let may = |bits: u32| bits & u32::from(needed) == u32::from(needed);
        let list = self.acl.as_ref();
        let owner = may(self.mode >> 6);
        let group = list.map_or(may(self.mode >> 3), |list| may(list.group.into()));
        let other = may(self.mode);
        let named = |entries: &[(u32, u8)]| -> Vec<(u32, bool)> {
            entries.iter().map(|&(id, bits)| (id, may(bits.into()))).collect()
        };
        let users = list.map(|list| named(&list.users)).unwrap_or_default();
        let groups = list.map(|list| named(&list.groups)).unwrap_or_default();
        let mut everyone = users.iter().chain(&groups).map(|(_, may)| *may).chain([owner, group]);
        if other {
            return if everyone.all(|may| may) { AllowedUsers::Everybody } else { AllowedUsers::Mixed };
        }
        let any_group = group || groups.iter().any(|(_, may)| *may);
        // The entry of a named user, or of the owner, decides alone; the user's groups do not count.
        let owner_is_root = self.uid == 0;
        let excepted = (!owner && !owner_is_root) || users.iter().any(|(_, may)| !may);
        if any_group && excepted {
            return AllowedUsers::Mixed;
        }
        let allowed =
            |entries: Vec<(u32, bool)>| entries.into_iter().filter(|(_, may)| *may).map(|(id, _)| id);
        AllowedUsers::Only {
            users: allowed(users).chain(owner.then_some(self.uid)).filter(|uid| *uid != 0).collect(),
            groups: allowed(groups).chain(group.then_some(self.gid)).collect(),
        }
    }

    /// Tells whether this user, a member of these groups, has a permission. Root always has.
    pub fn allows(&self, user: u32, groups: &[u32], permission: Permission) -> bool {
        let may = |bits: u32| bits & u32::from(permission.bits()) == u32::from(permission.bits());
        if user == 0 {
            return true;
        }
        if user == self.uid {
            return may(self.mode >> 6);
        }
        let list = self.acl.as_ref();
        if let Some((_, bits)) = list.and_then(|list| list.users.iter().find(|(named, _)| *named == user)) {
            return may((*bits).into());
        }
        let own = list.map_or(self.mode >> 3, |list| list.group.into());
        let named =
            list.into_iter().flat_map(|list| &list.groups).map(|(group, bits)| (*group, u32::from(*bits)));
        let mut of_groups =
            named.chain([(self.gid, own)]).filter(|(group, _)| groups.contains(group)).peekable();
        // A single group must allow all of the permission.
        match of_groups.peek() {
            Some(_) => of_groups.any(|(_, bits)| may(bits)),
            None => may(self.mode),
        }
    }

    /// Tells whether every user has a permission.
    pub fn everybody(&self, permission: Permission) -> bool {
        self.who(permission) == AllowedUsers::Everybody
    }
}

/// Version of the attribute's format. Source: `linux/posix_acl_xattr.h`.
const VERSION: u32 = 2;

/// The attribute that holds the list of a file or directory.
pub(crate) const ATTRIBUTE: &CStr = c"system.posix_acl_access";

impl Acl {
    /// The list that `ask` puts into a buffer; `None` where the file system says that it has no lists.
    pub(crate) fn read(ask: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Option<Self> {
        let mut value = vec![0; 1024];
        let length = loop {
            match ask(value.as_mut_slice()) {
                Ok(length) => break length,
                Err(Errno::RANGE) if value.len() < 1 << 16 => value.resize(1 << 16, 0),
                Err(_) => return None,
            }
        };
        Self::parse(value.get(..length)?)
    }

    /// The value of `system.posix_acl_access` for a directory whose owner has all permissions, through which one user may
    /// pass, and which is closed to all others.
    pub(crate) fn passable(user: u32) -> Vec<u8> {
        let nobody = u32::MAX;
        let entries = [
            (1, 7, nobody),
            (USER, 1, user),
            (OWNING_GROUP, 0, nobody),
            (MASK, 1, nobody),
            (0x20, 0, nobody),
        ];
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, bits, id) in entries {
            value.extend((tag as u16).to_le_bytes());
            value.extend(u16::to_le_bytes(bits));
            value.extend(id.to_le_bytes());
        }
        value
    }

    /// Reads the value of `system.posix_acl_access`; `None` if it is no list.
    ///
    /// Layout, little-endian: `version: u32`, then for each entry `tag: u16, permissions: u16, id: u32`.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (version, entries) = value.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
            return None;
        }
        let entry = |bytes: &[u8]| {
            let number = |range: std::ops::Range<usize>| {
                bytes[range].iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
            };
            (number(0..2), (number(2..4) & 7) as u8, number(4..8))
        };
        let entries: Vec<(u32, u8, u32)> = entries.chunks_exact(8).map(entry).collect();
        let mask = entries.iter().find(|(tag, ..)| *tag == MASK).map_or(7, |(_, bits, _)| *bits);
        let of = |wanted: u32| {
            let entries = entries.iter().filter(move |(tag, ..)| *tag == wanted);
            entries.map(move |(_, bits, id)| (*id, bits & mask))
        };
        Some(Self {
            users: of(USER).collect(),
            groups: of(GROUP).collect(),
            group: of(OWNING_GROUP).map(|(_, bits)| bits).next()?,
        })
    }
}

/// Tags of entries. Source: `linux/posix_acl.h`.
const USER: u32 = 0x02;
const OWNING_GROUP: u32 = 0x04;
const GROUP: u32 = 0x08;
const MASK: u32 = 0x10;

#[cfg(test)]
mod tests {
    use super::*;

    fn access(mode: u32, acl: Option<Acl>) -> Access {
        Access { mode, uid: 7, gid: 8, acl }
    }

    fn only(users: &[u32], groups: &[u32]) -> AllowedUsers {
        AllowedUsers::Only {
            users: users.iter().copied().collect(),
            groups: groups.iter().copied().collect(),
        }
    }

    #[test]
    fn modes_are_sets_of_users() {
        for (mode, who) in [
            (0o644, AllowedUsers::Everybody),
            (0o444, AllowedUsers::Everybody),
            (0o600, only(&[7], &[])),
            (0o640, only(&[7], &[8])),
            (0o200, only(&[], &[])),
            (0o040, AllowedUsers::Mixed),
            (0o604, AllowedUsers::Mixed),
            (0o044, AllowedUsers::Mixed),
            (0o004, AllowedUsers::Mixed),
        ] {
            assert_eq!(access(mode, None).who(Permission::Read), who, "{mode:o}");
        }
        assert_eq!(access(0o754, None).who(Permission::List), only(&[7], &[8]));
        assert!(access(0o755, None).everybody(Permission::List));
        let roots = Access { uid: 0, ..access(0o040, None) };
        assert_eq!(roots.who(Permission::Read), only(&[], &[8]), "root reads everything");
    }

    #[test]
    fn lists_add_and_deny() {
        let list = |users: &[(u32, u8)], groups: &[(u32, u8)], group| {
            Some(Acl { users: users.to_vec(), groups: groups.to_vec(), group })
        };
        let denied = access(0o644, list(&[(9, 0)], &[], 4));
        assert_eq!(denied.who(Permission::Read), AllowedUsers::Mixed);
        let added = access(0o640, list(&[(9, 4)], &[(10, 4)], 0));
        assert_eq!(added.who(Permission::Read), only(&[7, 9], &[10]));
        assert_eq!(access(0o640, list(&[(9, 0)], &[], 4)).who(Permission::Read), AllowedUsers::Mixed);
        assert_eq!(access(0o600, list(&[(9, 0)], &[], 0)).who(Permission::Read), only(&[7], &[]));
    }

    #[test]
    fn one_user_is_judged_as_the_kernel_does() {
        let read = |mode, acl: Option<Acl>, user, groups: &[u32]| {
            access(mode, acl).allows(user, groups, Permission::Read)
        };
        assert!(read(0o640, None, 0, &[]) && read(0o640, None, 7, &[]) && read(0o640, None, 5, &[8]));
        assert!(!read(0o640, None, 5, &[5]));
        // The first class that fits decides, even if a later one would allow more.
        assert!(!read(0o044, None, 7, &[8]) && !read(0o604, None, 5, &[8]));
        assert!(access(0o754, None).allows(5, &[8], Permission::List));
        assert!(!access(0o754, None).allows(5, &[], Permission::List));
        let list = || Some(Acl { users: vec![(9, 0)], groups: vec![(300, 0), (301, 1)], group: 4 });
        assert!(!read(0o644, list(), 9, &[8]) && !read(0o644, list(), 5, &[300]));
        assert!(read(0o644, list(), 5, &[]) && read(0o644, list(), 5, &[8, 300]));
        // Read by one group and search by another is not both.
        assert!(!access(0o755, list()).allows(5, &[8, 301], Permission::List));
    }

    #[test]
    fn the_attribute_is_read_and_masked() {
        let mut value = VERSION.to_le_bytes().to_vec();
        for (tag, bits, id) in [
            (1_u16, 6_u16, u32::MAX),
            (2, 7, 9),
            (4, 6, u32::MAX),
            (8, 1, 10),
            (0x10, 4, u32::MAX),
            (0x20, 0, u32::MAX),
        ] {
            value.extend(tag.to_le_bytes());
            value.extend(bits.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        let expected = Acl { users: vec![(9, 4)], groups: vec![(10, 0)], group: 4 };
        assert_eq!(Acl::parse(&value), Some(expected));
        assert_eq!(Acl::parse(&value[..value.len() - 1]), None);
        assert_eq!(Acl::parse(b"\x01\0\0\0"), None);
        assert_eq!(Acl::parse(b""), None);
    }
}
