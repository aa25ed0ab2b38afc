//! The users that may read a modulefile.

use crate::access::{AllowedUsers, Permission};
use crate::rc::OLDEST;
use crate::scan::{ModuleTree, TreeEntry};
use std::collections::BTreeSet;

/// Tells whether a file is a modulefile for every user and version.
pub(super) fn is_plainly_there(tree: &ModuleTree, entry: &TreeEntry) -> bool {
    tree.is_for_everybody(entry) && entry.cookie().is_some_and(|cookie| cookie.accepted_by(OLDEST))
}

/// The users that may read a modulefile.
pub(super) enum Readers {
    Everybody,
    /// Root alone.
    Root,
    /// Users, and members of groups.
    Only(BTreeSet<u32>, BTreeSet<u32>),
    Mixed,
}

pub(super) fn readers(entry: &TreeEntry) -> Readers {
    let Some(access) = &entry.access else { return Readers::Root };
    match access.who(Permission::Read) {
        AllowedUsers::Everybody => Readers::Everybody,
        AllowedUsers::Only { users, groups } if users.is_empty() && groups.is_empty() => Readers::Root,
        AllowedUsers::Only { users, groups } => Readers::Only(users, groups),
        AllowedUsers::Mixed => Readers::Mixed,
    }
}
