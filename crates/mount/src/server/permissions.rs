//! The owner that the kernel is told a file has, where the namespace knows one user only.
//!
//! In a user namespace all other users and groups are unmapped. The kernel then judges an inode of theirs by the
//! "other" bits alone, and refuses every write to it, although the user may be in its group. So the user's real
//! rights are worked out here, from the bits and the supplementary groups, and put where the kernel looks:
//!
//! - the user's own file in a foreign group: shown in the user's group, so that it can be written to;
//! - another user's that the user may write to, or that lies in a directory that the user may write to (the kernel
//!   removes and renames nothing of unmapped owners): shown as the user's own, with what the user may do;
//! - anything else: what the user may do becomes the "other" bits, owner and group stay unmapped (65534).
//!
//! With real administrator rights every user is mapped and nothing changes.

use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};

use super::acl;
use crate::fuse::abi::Attr;
use crate::fuse::request::Caller;
use crate::namespace::Privilege;
use quell_fuse::credentials::Identity;

/// The user of the server, with privileges.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    uid: u32,
    gid: u32,
    /// Primary and supplementary.
    groups: Vec<u32>,
    privilege: Privilege,
}

/// Evidence of another user's file beside its bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Evidence<'a> {
    /// Its access control list, as getxattr(2) gives it.
    pub(crate) acl: Option<&'a [u8]>,
    /// The user's own image holds its content: whatever bits say, it could be read (a list of another kind may say so).
    pub(crate) held: bool,
    /// The user may write to its directory.
    pub(crate) removable: bool,
}

impl Viewer {
    /// The user of this process.
    pub(crate) fn of_this_process(privilege: Privilege) -> Self {
        let gid = getegid().as_raw();
        let supplementary = getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw());
        let groups = [gid].into_iter().chain(supplementary).collect();
        Self { uid: geteuid().as_raw(), gid, groups, privilege }
    }

    /// Tells whether [`Self::present`] needs evidence for a file of this owner.
    pub(crate) fn judges(&self, owner: u32) -> bool {
        self.privilege == Privilege::User && owner != self.uid
    }

    /// Tells whether an access control list could allow more of another user's file than its bits do. The rights that
    /// a list gives to users and groups are bounded by its mask, which lies in the bits of the group.
    pub(crate) fn may_gain_by_list(&self, attr: &Attr) -> bool {
        self.judges(attr.uid) && attr.mode >> 3 & 0o7 & !self.allowed(attr, None) != 0
    }

    /// Tells whether the kernel lets the user write to a file with the presented attributes.
    pub(crate) fn may_write(&self, presented: &Attr) -> bool {
        let shift = match presented {
            attr if attr.uid == self.uid => 6,
            attr if attr.gid == self.gid => 3,
            _ => 0,
        };
        presented.mode >> shift & WRITE != 0
    }

    /// Tells whether the user could write to a file with the presented attributes, if need be after changing its mode.
    pub(crate) fn could_write(&self, presented: &Attr) -> bool {
        self.privilege == Privilege::Administrator || presented.uid == self.uid || self.may_write(presented)
    }

    /// Tells whether the server carries out changes for callers that are other users.
    pub(crate) fn acts_for_others(&self) -> bool {
        self.privilege == Privilege::Administrator
    }

    /// Carries out an action with the rights of the process that asked. In a namespace with one user, the server is that user.
    pub(crate) fn act_as<T>(&self, caller: Caller, action: impl FnOnce() -> T) -> Result<T, Errno> {
        if !self.acts_for_others() || (caller.uid, caller.gid) == (0, 0) {
            return Ok(action());
        }
        Identity::of_caller(caller.uid, caller.gid, caller.pid).assume(action)
    }

    /// Changes `attr` to what the kernel must see, so that this user can do what the original allows.
    pub(crate) fn present(&self, attr: &mut Attr, evidence: &Evidence<'_>) {
        if self.privilege == Privilege::Administrator || (attr.uid == self.uid && attr.gid == self.gid) {
            return;
        }
        if attr.uid == self.uid {
            attr.gid = self.gid;
            return;
        }
        let mut allowed = self.allowed(attr, evidence.acl);
        if evidence.held {
            allowed |= READ;
        }
        if allowed & WRITE != 0 || evidence.removable {
            (attr.uid, attr.gid) = (self.uid, self.gid);
            attr.mode = attr.mode & !0o700 | allowed << 6;
        } else if attr.gid == self.gid {
            attr.mode = attr.mode & !0o070 | allowed << 3;
        } else {
            attr.mode = attr.mode & !0o007 | allowed;
        }
    }

    /// Read, write and execute as three bits, by the rules of path_resolution(7) and acl(5), for another user's
    /// file.
    fn allowed(&self, attr: &Attr, acl: Option<&[u8]>) -> u32 {
        let subject = acl::AclSubject { uid: self.uid, groups: &self.groups, owning_group: attr.gid };
        acl.and_then(|list| acl::allowed(list, &subject)).unwrap_or_else(|| {
            let shift = if self.groups.contains(&attr.gid) { 3 } else { 0 };
            attr.mode >> shift & 0o7
        })
    }
}

const READ: u32 = 0o4;
const WRITE: u32 = 0o2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_show_what_the_user_may_do() {
        let viewer = Viewer { uid: 1000, gid: 1000, groups: vec![1000, 50], privilege: Privilege::User };
        let nothing = Evidence::default();
        let held = Evidence { held: true, ..nothing };
        let removable = Evidence { removable: true, ..nothing };
        // Owner r, user 1000 w, group -, mask rwx, other r.
        let list = b"\x02\0\0\0\x01\0\x04\0\0\0\0\0\x02\0\x02\0\xe8\x03\0\0\x04\0\0\0\0\0\0\0\x10\0\x07\0\0\0\0\0\x20\0\x04\0\0\0\0\0";
        let listed = Evidence { acl: Some(list), ..nothing };
        // uid, gid, mode, evidence -> uid, gid, mode
        let cases = [
            ((1000, 1000, 0o640), nothing, (1000, 1000, 0o640)),
            ((1000, 50, 0o640), nothing, (1000, 1000, 0o640)),
            ((0, 50, 0o640), nothing, (0, 50, 0o644)),
            ((0, 0, 0o644), nothing, (0, 0, 0o644)),
            ((0, 0, 0o600), nothing, (0, 0, 0o600)),
            ((0, 0, 0o600), held, (0, 0, 0o604)),
            ((0, 1000, 0o640), nothing, (0, 1000, 0o640)),
            ((0, 50, 0o775), nothing, (1000, 1000, 0o775)),
            ((0, 50, 0o065), nothing, (1000, 1000, 0o665)),
            ((0, 50, 0o745), nothing, (0, 50, 0o744)),
            ((0, 0, 0o640), removable, (1000, 1000, 0o040)),
            ((0, 0, 0o474), listed, (1000, 1000, 0o274)),
        ];
        for ((uid, gid, mode), evidence, (shown_uid, shown_gid, shown_mode)) in cases {
            let mut attr = Attr { uid, gid, mode, ..Attr::default() };
            viewer.present(&mut attr, &evidence);
            assert_eq!(
                (attr.uid, attr.gid, attr.mode),
                (shown_uid, shown_gid, shown_mode),
                "{uid} {gid} {mode:o}"
            );
            assert_eq!(
                viewer.may_write(&attr),
                viewer.allowed(&attr, None) & WRITE != 0 || attr.mode & 0o200 != 0 && attr.uid == 1000
            );
        }
    }

    #[test]
    fn a_list_is_asked_for_where_it_could_give_more() {
        let viewer = Viewer { uid: 1000, gid: 1000, groups: vec![1000, 50], privilege: Privilege::User };
        let cases = [
            ((0, 0, 0o644), false),
            ((0, 0, 0o755), false),
            ((0, 0, 0o600), false),
            ((0, 0, 0o640), true),
            ((0, 0, 0o664), true),
            ((0, 0, 0o750), true),
            ((0, 50, 0o640), false),
            ((1000, 0, 0o640), false),
            ((0, 0, 0o777), false),
        ];
        for ((uid, gid, mode), expected) in cases {
            let attr = Attr { uid, gid, mode, ..Attr::default() };
            assert_eq!(viewer.may_gain_by_list(&attr), expected, "{uid} {gid} {mode:o}");
        }
        let administrator = Viewer { privilege: Privilege::Administrator, ..viewer };
        assert!(!administrator.may_gain_by_list(&Attr { mode: 0o640, ..Attr::default() }));
    }

    #[test]
    fn an_administrator_sees_everything_as_it_is() {
        let viewer = Viewer { uid: 0, gid: 0, groups: vec![], privilege: Privilege::Administrator };
        let mut attr = Attr { uid: 7, gid: 8, mode: 0o600, ..Attr::default() };
        viewer.present(&mut attr, &Evidence { held: true, removable: true, acl: None });
        assert_eq!((attr.uid, attr.gid, attr.mode), (7, 8, 0o600));
        assert!(!viewer.judges(7));
    }
}
