//! The users other than root who can change something, by owner, mode and access control list.

use crate::access::{Access, AllowedUsers, Permission};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The user without rights: `nobody` of most systems. Its group has the same number.
pub const NOBODY: u32 = 65534;

/// Tells whether this process is root. Other users may then try to make use of its rights.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Users other than root who can change something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changers {
    users: BTreeSet<u32>,
    /// Members of a group, or every user, can.
    many: bool,
    /// The first place that they can change.
    place: Option<PathBuf>,
}

/// The users that can change a tree. The tree may be evaluated as the one user that can; as any other user it would misuse
/// that user's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangedBy {
    /// Root alone.
    Roots,
    /// One user, and root.
    Of(u32),
    /// Several users, or members of a group.
    Many,
}

impl Changers {
    /// A place that a user other than root can change; `None` where there is none.
    pub(crate) fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    pub(crate) fn changed_by(&self) -> ChangedBy {
        match (self.many, self.users.len(), self.users.first()) {
            (false, 0, _) => ChangedBy::Roots,
            (false, 1, Some(user)) => ChangedBy::Of(*user),
            _ => ChangedBy::Many,
        }
    }

    pub(super) fn owner(&mut self, user: u32, place: &Path) {
        if user != 0 {
            self.users.insert(user);
            self.at(place);
        }
    }

    pub(super) fn writers(&mut self, access: &Access, place: &Path) {
        let before = (self.users.len(), self.many);
        match access.who(Permission::Write) {
            AllowedUsers::Only { users, groups } => {
                self.users.extend(users);
                self.many |= groups.iter().any(|group| *group != 0);
            }
            AllowedUsers::Everybody | AllowedUsers::Mixed => self.many = true,
        }
        if before != (self.users.len(), self.many) {
            self.at(place);
        }
    }

    fn at(&mut self, place: &Path) {
        self.place.get_or_insert_with(|| place.to_owned());
    }

    pub(super) fn every_user(&mut self, place: &Path) {
        self.many = true;
        self.at(place);
    }
}

/// Tells whether a file belongs to root, and no other user may write in it.
pub(crate) fn is_roots(access: &Access) -> bool {
    let mut changers = Changers::default();
    changers.owner(access.uid, Path::new("/"));
    changers.writers(access, Path::new("/"));
    changers.changed_by() == ChangedBy::Roots
}
