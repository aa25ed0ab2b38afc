//! The users whose answers may differ: one for each way in which permissions of a tree treat somebody.

use super::Side;
use crate::ModulesError;
use crate::access::{Access, Permission, Who};
use crate::scan::{Entry, Tree};
use crate::tools::User;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the search for a number that no file names begins: `nobody` and `nogroup` of most systems.
const NOBODY: u32 = 65534;

/// So many sets of groups are asked for as one: each costs as much time as a group of its own.
const TOGETHER: usize = 32;

/// Who is to ask, when root verifies: root, where nobody else could have written what is evaluated; somebody to whom no
/// file is special; an owner, a member of a group, somebody whom an access control list names, for each of these to whom
/// something is open, or closed, that is not so to the others.
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
    let mut classes = Vec::new();
    if trees.iter().all(|tree| is_roots(tree)) {
        classes.push(User::new("root", 0, 0, Vec::new()));
    }
    classes.push(User::new("others", nobody, nogroup, Vec::new()));
    let special = users.iter().filter(|user| **user != 0);
    classes.extend(special.map(|&user| User::new(format!("user {user}"), user, nogroup, Vec::new())));
    classes.extend(
        groups
            .iter()
            .map(|&group| User::new(format!("a member of group {group}"), nobody, group, Vec::new())),
    );
    classes.extend(together(trees, nobody, nogroup).into_iter().take(TOGETHER).map(|groups| {
        let names: Vec<String> = groups.iter().map(u32::to_string).collect();
        let name = format!("a member of groups {}", names.join(" and "));
        User::new(name, nobody, groups[0], groups[1..].to_vec())
    }));
    distinct(classes, &guarded)
}

/// Groups of which one must be a member at once, to come through closed directories to what another group may read.
///
/// Shape: two or more each, sorted.
fn together(trees: &[&Tree], nobody: u32, nogroup: u32) -> BTreeSet<Vec<u32>> {
    // The groups that open something which is closed to others.
    let openers = |(access, permission): Guarded<'_>| -> Vec<u32> {
        let listed = access.acl.iter().flat_map(|list| &list.groups).map(|(group, _)| *group);
        let may = |group: u32| access.allows(nobody, &[group], permission);
        std::iter::once(access.gid).chain(listed).filter(|group| may(*group) && !may(nogroup)).collect()
    };
    // A group, with those that its members need on the way.
    let with_way = |tree: &Tree, entry: &Entry, group: u32| {
        let mut groups = vec![group];
        let above = tree.directories(&entry.path).filter_map(|directory| directory.access.as_ref());
        for directory in std::iter::once(&tree.access).chain(above) {
            if !directory.allows(nobody, &groups, Permission::List) {
                groups.extend(openers((directory, Permission::List)).first());
            }
        }
        groups.sort_unstable();
        groups
    };
    let mut found = BTreeSet::new();
    for tree in trees {
        for entry in &tree.entries {
            let guarded = entry.access.as_ref().zip(entry.permission());
            let sets = guarded.map(openers).into_iter().flatten().map(|group| with_way(tree, entry, group));
            found.extend(sets.filter(|groups| groups.len() > 1));
        }
    }
    found
}

/// Whether nobody but root may write anything in a tree: what others wrote must not be evaluated as root.
pub fn is_roots(tree: &Tree) -> bool {
    let is_roots = |access: &Access| match access.who(Permission::Write) {
        Who::Only { users, groups } => users.is_empty() && groups.iter().all(|group| *group == 0),
        Who::Everybody | Who::Mixed => false,
    };
    let accesses = tree.entries.iter().filter_map(|entry| entry.access.as_ref());
    is_roots(&tree.access)
        && tree.access.uid == 0
        && accesses.into_iter().all(|it| it.uid == 0 && is_roots(it))
}

/// Refuses modulepaths on one side that a user cannot reach where they reach those on the other: a directory above may be
/// closed, such as one for temporary files, and every answer would differ.
///
/// **Errors**: [`ModulesError::OutOfReach`]; [`ModulesError::Run`] for a user as whom we cannot act.
pub(super) fn refuse_unreachable(user: &User, sides: [&Side; 2]) -> Result<(), ModulesError> {
    let is_closed = |path: &Path| match path.metadata() {
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
        Ok(_) => false,
    };
    let pairs = || sides[0].modulepaths.iter().zip(&sides[1].modulepaths);
    let closed = user.act(|| {
        let one_of = |(old, new): (&PathBuf, &PathBuf)| match (is_closed(old), is_closed(new)) {
            (false, true) => Some(new.clone()),
            (true, false) => Some(old.clone()),
            _ => None,
        };
        Ok(pairs().find_map(one_of))
    });
    let user = user.name.clone();
    match closed {
        Ok(None) => Ok(()),
        Ok(Some(modulepath)) => Err(ModulesError::OutOfReach { modulepath, user }),
        Err(source) => Err(ModulesError::Run { tool: "anything".into(), user, source }),
    }
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
        let groups = [&[credentials.group], credentials.groups.as_slice()].concat();
        let is_open =
            |(access, permission): &Guarded<'_>| access.allows(credentials.user, &groups, *permission);
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
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::scan::Kind;

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
            size: 0,
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
        assert_eq!(names(&[(0, 50, 0o640), (0, 0, 0o644)]), ["root", "others", "a member of group 50"]);
        assert_eq!(names(&[(9, 0, 0o600)]), ["others", "user 9"]);
        // Nobody's own number is somebody's here.
        let users = of(&[&tree(&[(NOBODY, 0, 0o600)])]);
        assert_eq!(users[0].credentials.as_ref().map(|credentials| credentials.user), Some(NOBODY - 1));
        assert_eq!(users[1].name, "user 65534");
    }

    #[test]
    fn who_must_be_in_two_groups_asks_as_a_member_of_both() {
        let entry = |path: &str, gid, mode, kind| Entry {
            path: path.into(),
            is_link: false,
            access: Some(access(0, gid, mode)),
            identity: None,
            modified: 0,
            size: 0,
            kind,
        };
        let file = || Kind::File(Vec::new());
        let entries = vec![
            entry("a", 50, 0o750, Kind::Directory),
            entry("a/1", 60, 0o640, file()),
            entry("a/2", 50, 0o640, file()),
            entry("a/3", 0, 0o600, file()),
        ];
        let tree = Tree { root: PathBuf::from("/m"), access: access(0, 0, 0o755), entries };
        let users = of(&[&tree]);
        let both: Vec<&User> = users.iter().filter(|user| user.name.contains(" and ")).collect();
        assert_eq!(both.len(), 1, "{users:?}");
        assert_eq!(both[0].name, "a member of groups 50 and 60");
        let credentials = both[0].credentials.as_ref().unwrap();
        assert_eq!((credentials.group, credentials.groups.as_slice()), (50, &[60][..]));
    }

    #[test]
    fn what_others_could_have_written_is_not_evaluated_as_root() {
        for (file, expected) in [
            ((0, 0, 0o644), true),
            ((0, 0, 0o664), true),
            ((0, 50, 0o644), true),
            ((0, 50, 0o664), false),
            ((0, 0, 0o646), false),
            ((9, 0, 0o444), false),
        ] {
            assert_eq!(is_roots(&tree(&[file])), expected, "{file:?}");
        }
        let mut listed = tree(&[(0, 0, 0o664)]);
        let acl = crate::access::Acl { users: vec![(9, 6)], groups: Vec::new(), group: 4 };
        listed.entries[0].access.as_mut().unwrap().acl = Some(acl);
        assert!(!is_roots(&listed));
    }
}
