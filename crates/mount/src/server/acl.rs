//! POSIX access control lists, as far as they say what one user may do with another user's file.
//!
//! ```text
//! version u32 = 2
//! entry: tag u16, permissions u16, uid or gid u32
//! ```
//!
//! All integers are little-endian. Source: acl(5), "ACCESS CHECK ALGORITHM", and
//! `include/uapi/linux/posix_acl_xattr.h`.

/// Name of the list that decides on access.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";

const VERSION: [u8; 4] = 2_u32.to_le_bytes();
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The user whose rights are asked for, who is not the file's owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AclSubject<'a> {
    pub(crate) uid: u32,
    /// Primary and supplementary.
    pub(crate) groups: &'a [u32],
    /// The file's group.
    pub(crate) owning_group: u32,
}

/// Read, write and execute as three bits; `None` if `list` is none.
///
/// Several groups of the subject may be named: each permission that one of them gives counts, though the kernel wants
/// one entry that gives all that is asked for at once. Three bits cannot tell the difference.
pub(crate) fn allowed(list: &[u8], subject: &AclSubject<'_>) -> Option<u32> {
    let entries = list.strip_prefix(&VERSION)?;
    if entries.len() % ENTRY != 0 {
        return None;
    }
    let (mut user, mut group, mut mask, mut other) = (None, None, 0o7, 0);
    for entry in entries.chunks_exact(ENTRY) {
        let &[t0, t1, p0, p1, i0, i1, i2, i3] = entry else { return None };
        let (tag, id) = (u16::from_le_bytes([t0, t1]), u32::from_le_bytes([i0, i1, i2, i3]));
        let permissions = u32::from(u16::from_le_bytes([p0, p1])) & 0o7;
        match tag {
            USER if id == subject.uid => user = Some(permissions),
            GROUP_OBJ if subject.groups.contains(&subject.owning_group) => {
                group = Some(group.unwrap_or(0) | permissions);
            }
            GROUP if subject.groups.contains(&id) => group = Some(group.unwrap_or(0) | permissions),
            MASK => mask = permissions,
            OTHER => other = permissions,
            _ => {}
        }
    }
    Some(user.or(group).map_or(other, |permissions| permissions & mask))
}

/// Length of an entry.
const ENTRY: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = VERSION.to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn the_most_specific_entry_decides() {
        let subject = |uid, groups| AclSubject { uid, groups, owning_group: 50 };
        let full = list(&[
            (0x01, 7, 0),
            (USER, 6, 1000),
            (USER, 0, 1001),
            (GROUP_OBJ, 4, 0),
            (GROUP, 1, 60),
            (MASK, 5, 0),
            (OTHER, 2, 0),
        ]);
        let cases: [(u32, &[u32], u32); 7] = [
            (1000, &[9], 4),
            (1001, &[50], 0),
            (1002, &[50], 4),
            (1002, &[60], 1),
            (1002, &[50, 60], 5),
            (1002, &[9], 2),
            (1000, &[50, 60], 4),
        ];
        for (uid, groups, expected) in cases {
            assert_eq!(allowed(&full, &subject(uid, groups)), Some(expected), "{uid} {groups:?}");
        }
        let unmasked = list(&[(0x01, 7, 0), (GROUP_OBJ, 6, 0), (OTHER, 0, 0)]);
        assert_eq!(allowed(&unmasked, &subject(1002, &[50])), Some(6));
    }

    #[test]
    fn what_is_no_list_says_nothing() {
        let subject = AclSubject { uid: 1, groups: &[], owning_group: 0 };
        let cut = list(&[(OTHER, 7, 0)]);
        for bytes in [&b""[..], b"\x02", b"\x03\0\0\0", &cut[..cut.len() - 1]] {
            assert_eq!(allowed(bytes, &subject), None, "{bytes:?}");
        }
    }
}
