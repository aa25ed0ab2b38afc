//! Whose file the kernel is told a file is, where the namespace knows one user only.
//!
//! In a user namespace all other users and groups are unmapped. The kernel then judges an inode of theirs by the
//! "other" bits alone, and refuses every write to it, although the user may be in its group. So what the user may
//! really do is worked out here, from the bits and the supplementary groups, and put where the kernel looks:
//!
//! - the user's own file in a foreign group: shown in the user's group, so that it can be written to;
//! - somebody else's that the user may write to: shown as the user's own, with what the user may do;
//! - anything else: what the user may do becomes the "other" bits, owner and group stay unmapped (65534).
//!
//! With real administrator rights every user is mapped and nothing changes.

use rustix::process::{getegid, geteuid, getgroups};

use crate::fuse::abi::Attr;
use crate::namespace::Privilege;

/// What the server's user is.
#[derive(Debug, Clone)]
pub(crate) struct Viewer {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    privilege: Privilege,
}

/// What is known of a file beside its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Nothing.
    BitsOnly,
    /// The image holds its content, so the user who packed it could read it (an ACL may say so).
    Readable,
}

impl Viewer {
    /// The user of this process.
    pub(crate) fn of_this_process(privilege: Privilege) -> Self {
        let groups = getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw()).collect();
        Self { uid: geteuid().as_raw(), gid: getegid().as_raw(), groups, privilege }
    }

    /// Whether what the kernel creates must be given to the caller afterwards, because the server is somebody else.
    pub(crate) fn acts_for_others(&self) -> bool {
        self.privilege == Privilege::Administrator
    }

    /// Changes `attr` to what the kernel must see, so that this user can do what the original allows.
    pub(crate) fn present(&self, attr: &mut Attr, evidence: Evidence) {
        if self.privilege == Privilege::Administrator || (attr.uid == self.uid && attr.gid == self.gid) {
            return;
        }
        if attr.uid == self.uid {
            attr.gid = self.gid;
            return;
        }
        let mut allowed = self.allowed(attr);
        if evidence == Evidence::Readable {
            allowed |= READ;
        }
        if allowed & WRITE != 0 {
            (attr.uid, attr.gid) = (self.uid, self.gid);
            attr.mode = attr.mode & !0o700 | allowed << 6;
        } else if attr.gid == self.gid {
            attr.mode = attr.mode & !0o070 | allowed << 3;
        } else {
            attr.mode = attr.mode & !0o007 | allowed;
        }
    }

    /// Read, write and execute as three bits, by the rules of path_resolution(7), for a file of somebody else.
    fn allowed(&self, attr: &Attr) -> u32 {
        let in_group = attr.gid == self.gid || self.groups.contains(&attr.gid);
        let shift = if in_group { 3 } else { 0 };
        attr.mode >> shift & 0o7
    }
}

const READ: u32 = 0o4;
const WRITE: u32 = 0o2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_files_show_what_the_user_may_do() {
        let viewer = Viewer { uid: 1000, gid: 1000, groups: vec![50], privilege: Privilege::User };
        // uid, gid, mode, evidence -> uid, gid, mode
        let cases = [
            ((1000, 1000, 0o640), Evidence::BitsOnly, (1000, 1000, 0o640)),
            ((1000, 50, 0o640), Evidence::BitsOnly, (1000, 1000, 0o640)),
            ((0, 50, 0o640), Evidence::BitsOnly, (0, 50, 0o644)),
            ((0, 0, 0o644), Evidence::BitsOnly, (0, 0, 0o644)),
            ((0, 0, 0o600), Evidence::BitsOnly, (0, 0, 0o600)),
            ((0, 0, 0o600), Evidence::Readable, (0, 0, 0o604)),
            ((0, 1000, 0o640), Evidence::BitsOnly, (0, 1000, 0o640)),
            ((0, 50, 0o775), Evidence::BitsOnly, (1000, 1000, 0o775)),
            ((0, 50, 0o065), Evidence::BitsOnly, (1000, 1000, 0o665)),
            ((0, 50, 0o745), Evidence::BitsOnly, (0, 50, 0o744)),
        ];
        for ((uid, gid, mode), evidence, (shown_uid, shown_gid, shown_mode)) in cases {
            let mut attr = Attr { uid, gid, mode, ..Attr::default() };
            viewer.present(&mut attr, evidence);
            assert_eq!(
                (attr.uid, attr.gid, attr.mode),
                (shown_uid, shown_gid, shown_mode),
                "{uid} {gid} {mode:o}"
            );
        }
    }

    #[test]
    fn an_administrator_sees_everything_as_it_is() {
        let viewer = Viewer { uid: 0, gid: 0, groups: vec![], privilege: Privilege::Administrator };
        let mut attr = Attr { uid: 7, gid: 8, mode: 0o600, ..Attr::default() };
        viewer.present(&mut attr, Evidence::Readable);
        assert_eq!((attr.uid, attr.gid, attr.mode), (7, 8, 0o600));
    }
}
