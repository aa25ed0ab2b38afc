//! The users whose answers may differ: one for each way in which permissions of a tree treat somebody.

use crate::access::{Access, Permission};
use crate::scan::Tree;
use crate::tools::User;
use std::collections::BTreeSet;

/// Where the search for a number that no file names begins: `nobody` and `nogroup` of most systems.
const NOBODY: u32 = 65534;

/// Who is to ask, when root verifies: root; somebody to whom no file is special; an owner, a member of a group, somebody
/// whom an access control list names, for each of these to whom something is open, or closed, that is not so to the
/// others.
pub(super) fn of(trees: &[&Tree]) -> Vec<User> {
    let guarded: Vec<Guarded<'_>> = trees.iter().flat_map(|tree| guarded(tree)).collect();
    let accesses = || guarded.iter().map(|(access, _)| *access);
    let lists = || accesses().filter_map(|access| access.acl.as_ref());
    let named = |entries: &[(u32, u8)]| entries.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    let mut users: BTreeSet<u32> = accesses().map(|access| access.uid).collect();
    let mut groups: BTreeSet<u32> = accesses().map(|access| access.gid).collect();
    users.extend(lists().flat_map(|list| named(&list.users)));
    groups.extend(lists().flat_map(|list| named(&list.groups)));
    let nobody = unused(&users);
    let nogroup = unused(&groups);
    let mut classes = vec![User::new("root", 0, 0, Vec::new())];
    classes.push(User::new("others", nobody, nogroup, Vec::new()));
    let special = users.iter().filter(|user| **user != 0);
    classes.extend(special.map(|&user| User::new(format!("user {user}"), user, nogroup, Vec::new())));
    classes.extend(
        groups
            .iter()
            .map(|&group| User::new(format!("a member of group {group}"), nobody, group, Vec::new())),
    );
    distinct(classes, &guarded)
}

/// What permissions guard, and what one needs of them.
type Guarded<'a> = (&'a Access, Permission);

/// The modulepath itself, and every file and directory in it.
fn guarded(tree: &Tree) -> impl Iterator<Item = Guarded<'_>> {
    let entries = tree.entries.iter().filter_map(|entry| Some((entry.access.as_ref()?, entry.permission()?)));
    std::iter::once((&tree.access, Permission::List)).chain(entries)
}

fn unused(numbers: &BTreeSet<u32>) -> u32 {
    (1..=NOBODY).rev().find(|number| !numbers.contains(number)).unwrap_or(NOBODY)
}

/// The first of those to whom the same is open.
fn distinct(users: Vec<User>, guarded: &[Guarded<'_>]) -> Vec<User> {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for user in users {
        let Some(credentials) = &user.credentials else { continue };
        let is_open = |(access, permission): &Guarded<'_>| {
            access.allows(credentials.user, &[credentials.group], *permission)
        };
        let open: Vec<bool> = guarded.iter().map(is_open).collect();
        // Root reads everything, but modulefiles can tell that it is root.
        if credentials.user == 0 || seen.insert(open) {
            kept.push(user);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::{Entry, Kind};
    use std::path::PathBuf;

    fn access(uid: u32, gid: u32, mode: u32) -> Access {
        Access { mode, uid, gid, acl: None }
    }

    fn tree(files: &[(u32, u32, u32)]) -> Tree {
        let entry = |&(uid, gid, mode): &(u32, u32, u32)| Entry {
            path: b"a/1".to_vec(),
            is_link: false,
            access: Some(access(uid, gid, mode)),
            identity: None,
            modified: 0,
            kind: Kind::File(Vec::new()),
        };
        let entries = files.iter().map(entry).collect();
        Tree { root: PathBuf::from("/m"), access: access(0, 0, 0o755), entries }
    }

    #[test]
    fn only_classes_that_permissions_tell_apart_are_asked() {
        let names = |files: &[(u32, u32, u32)]| {
            of(&[&tree(files)]).into_iter().map(|user| user.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[(0, 0, 0o644)]), ["root", "others"]);
        assert_eq!(names(&[(0, 50, 0o640), (9, 9, 0o644)]), ["root", "others", "a member of group 50"]);
        assert_eq!(names(&[(9, 0, 0o600)]), ["root", "others", "user 9"]);
        // Nobody's own number is somebody's here.
        let users = of(&[&tree(&[(NOBODY, 0, 0o600)])]);
        assert_eq!(users[1].credentials.as_ref().map(|credentials| credentials.user), Some(NOBODY - 1));
        assert_eq!(users[2].name, "user 65534");
    }
}
