//! The users whose answers may differ: one for each way in which the permissions of a tree treat a user.

use super::JudgedSide;
use crate::ModulesError;
use crate::access::{Access, Permission};
use crate::scan::{ModuleTree, TreeEntry};
use crate::tools::User;
use crate::trust::{ChangedBy, Changers, NOBODY, ordinary};
use quell_base::shown;
use std::collections::BTreeSet;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The largest number of sets of groups that ask. Each set costs as much time as a group.
const MOST_GROUP_SETS: usize = 32;

/// The users that ask when root verifies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Classes {
    /// Users whose rights the authors of the tree cannot misuse.
    pub(super) asked: Vec<User>,
    /// All other users.
    pub(super) unasked: Vec<User>,
}

/// Every class of users whose answers may differ: root; a user without rights; and each owner, member of a group and user on
/// an access control list that can read something that the others cannot, or the reverse.
///
/// A tree that only root can change is evaluated as each class. A tree that one other user can change is evaluated as that
/// user and as a user without rights; any other tree only as a user without rights. The authors of a tree choose its owners,
/// groups and lists, and a modulefile runs with the rights of the class that evaluates it.
pub(super) fn of(trees: &[&ModuleTree], changers: &Changers) -> Classes {
    let whose = changers.changed_by();
    let (classes, further_sets) = all(trees);
    let (asked, mut unasked): (Vec<User>, Vec<User>) =
        classes.into_iter().partition(|user| may_ask(whose, user));
    unasked.extend(further_sets);
    Classes { asked, unasked }
}

/// Tells whether the authors of a tree could not misuse this user's rights.
pub(super) fn may_ask(whose: ChangedBy, user: &User) -> bool {
    match whose {
        ChangedBy::Roots => true,
        ChangedBy::Of(owner) => is_ordinary(user) || user.number() == Some(owner),
        ChangedBy::Many => is_ordinary(user),
    }
}

/// The name of the user without rights.
const OTHERS: &str = "others";

fn is_ordinary(user: &User) -> bool {
    user.name == OTHERS
}

/// Every class, and the members of sets of groups beyond [`MOST_GROUP_SETS`].
fn all(trees: &[&ModuleTree]) -> (Vec<User>, Vec<User>) {
    let guarded: Vec<Guarded<'_>> = trees.iter().flat_map(|tree| guarded(tree)).collect();
    let accesses = || guarded.iter().map(|(access, _)| *access);
    let lists = || accesses().filter_map(|access| access.acl.as_ref());
    let named = |entries: &[(u32, u8)]| entries.iter().map(|(id, _)| *id).collect::<Vec<_>>();
    let mut users: BTreeSet<u32> = accesses().map(|access| access.uid).collect();
    let mut groups: BTreeSet<u32> = accesses().map(|access| access.gid).collect();
    users.extend(lists().flat_map(|list| named(&list.users)));
    groups.extend(lists().flat_map(|list| named(&list.groups)));
    let (nobody, nogroup) = (ordinary(&users), ordinary(&groups));
    let mut classes =
        vec![User::new("root", 0, 0, Vec::new()), User::new(OTHERS, nobody, nogroup, Vec::new())];
    let special = users.iter().filter(|user| **user != 0);
    classes.extend(special.map(|&user| User::new(format!("user {user}"), user, nogroup, Vec::new())));
    classes.extend(groups.iter().map(|&group| member(&[group], nobody)));
    let mut sets = together(trees, nobody, nogroup).into_iter().map(|groups| member(&groups, nobody));
    classes.extend(sets.by_ref().take(MOST_GROUP_SETS));
    (distinct(classes, &guarded), sets.collect())
}

/// A user who is a member of these groups and nothing else. Shape: one group or more.
fn member(groups: &[u32], user: u32) -> User {
    let names: Vec<String> = groups.iter().map(u32::to_string).collect();
    let word = if groups.len() == 1 { "group" } else { "groups" };
    let rest = groups.get(1..).unwrap_or_default().to_vec();
    let first = groups.first().copied().unwrap_or(user);
    User::new(format!("a member of {word} {}", names.join(" and ")), user, first, rest)
}

/// Users that ask as members of groups that root names: one for each group, and one who is in all of them.
///
/// Shape: empty for no groups.
pub fn members(groups: &[u32]) -> Vec<User> {
    let mut members: Vec<User> = groups.iter().map(|group| member(&[*group], NOBODY)).collect();
    if groups.len() > 1 {
        members.push(member(groups, NOBODY));
    }
    members
}

/// The users that were not asked, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnaskedUsers {
    /// The users' names. Shape: at least one.
    pub users: Vec<String>,
    /// The flags that include them.
    pub flags: Vec<String>,
    /// The path that users other than root can change; `None` where the reason is the number of sets of groups.
    pub place: Option<PathBuf>,
}

impl UnaskedUsers {
    /// Users that were left out because of a place, or else because of their number.
    pub(super) fn of(users: &[User], place: Option<&Path>) -> Option<Self> {
        let mut flags = Vec::new();
        for credentials in users.iter().filter_map(|user| user.credentials.as_ref()) {
            let flag = |group: &u32| format!("--group {group}");
            match (credentials.user, credentials.user >= NOBODY && credentials.group < NOBODY) {
                (0, _) => flags.push("--user root".to_owned()),
                (user, false) => flags.push(format!("--user {user}")),
                (_, true) => {
                    flags.extend([credentials.group].iter().chain(&credentials.groups).map(flag));
                }
            }
        }
        let mut seen = BTreeSet::new();
        flags.retain(|flag| seen.insert(flag.clone()));
        let users: Vec<String> = users.iter().map(|user| user.name.clone()).collect();
        (!users.is_empty()).then(|| Self { users, flags, place: place.map(Path::to_owned) })
    }
}

impl fmt::Display for UnaskedUsers {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = few(&self.users);
        match &self.place {
            Some(place) => write!(
                to,
                "not asked: {users}; other users can change `{}`, and their modulefiles would run with the rights of these (`{}` asks all the same)",
                shown(place),
                few(&self.flags)
            ),
            None => write!(
                to,
                "not asked: {users}; at most {MOST_GROUP_SETS} sets of groups are asked (`--group` for each group of a set asks its members)"
            ),
        }
    }
}

/// The number of names in one line.
const SHOWN: usize = 8;

fn few(words: &[String]) -> String {
    let shown = words.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if words.len() > SHOWN { format!("{shown} and {} more", words.len() - SHOWN) } else { shown }
}

/// Sets of groups that a user must be in at once, to pass closed directories on the way to a file of another group.
///
/// Shape: two or more each, sorted.
fn together(trees: &[&ModuleTree], other_user: u32, other_group: u32) -> BTreeSet<Vec<u32>> {
    // The groups that open something that is closed to others.
    let openers = |(access, permission): Guarded<'_>| -> Vec<u32> {
        let listed = access.acl.iter().flat_map(|list| &list.groups).map(|(group, _)| *group);
        let may = |group: u32| access.allows(other_user, &[group], permission);
        std::iter::once(access.gid).chain(listed).filter(|group| may(*group) && !may(other_group)).collect()
    };
    // A group, with those that its members need on the way.
    let with_way = |tree: &ModuleTree, entry: &TreeEntry, group: u32| {
        let mut groups = vec![group];
        let above = tree.directories(&entry.path).filter_map(|directory| directory.access.as_ref());
        for directory in std::iter::once(&tree.access).chain(above) {
            if !directory.allows(other_user, &groups, Permission::List) {
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

/// Refuses modulepaths of one side that a user cannot reach while it can reach those of the other. A directory above may be
/// closed, such as one for temporary files, and every answer would differ.
///
/// **Errors**: [`ModulesError::OutOfReach`]; [`ModulesError::Run`] for a user as which this process cannot act.
pub(super) fn refuse_unreachable(user: &User, sides: [&JudgedSide; 2]) -> Result<(), ModulesError> {
    let is_closed = |path: &Path| match path.metadata() {
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
        Ok(_) => false,
    };
    let places = sides.map(JudgedSide::places);
    let pairs = || places[0].iter().zip(&places[1]);
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

/// An access, and the permission that a user needs.
type Guarded<'a> = (&'a Access, Permission);

/// The modulepath itself, and every file and directory in it.
fn guarded(tree: &ModuleTree) -> impl Iterator<Item = Guarded<'_>> {
    let entries = tree.entries.iter().filter_map(|entry| Some((entry.access.as_ref()?, entry.permission()?)));
    std::iter::once((&tree.access, Permission::List)).chain(entries)
}

/// The first user of each class to which the same is open.
fn distinct(users: Vec<User>, guarded: &[Guarded<'_>]) -> Vec<User> {
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for user in users {
        let Some(credentials) = &user.credentials else { continue };
        let groups = [&[credentials.group], credentials.groups.as_slice()].concat();
        let is_open =
            |(access, permission): &Guarded<'_>| access.allows(credentials.user, &groups, *permission);
        let open: Vec<bool> = guarded.iter().map(is_open).collect();
        // Root can read everything, but modulefiles can tell that the user is root.
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
    use crate::scan::EntryKind;
    use crate::trust::TrustInquiry;

    fn access(uid: u32, gid: u32, mode: u32) -> Access {
        Access { mode, uid, gid, acl: None }
    }

    fn asked(trees: &[&ModuleTree]) -> Vec<User> {
        let mut inquiry = TrustInquiry::new();
        trees.iter().for_each(|tree| inquiry.tree(tree));
        of(trees, &inquiry.changers()).asked
    }

    /// `of` is user, group and mode.
    fn entry(path: &str, of: (u32, u32, u32), kind: EntryKind) -> TreeEntry {
        TreeEntry {
            path: path.into(),
            is_link: false,
            access: Some(access(of.0, of.1, of.2)),
            identity: None,
            modified: 0,
            size: 0,
            kind,
        }
    }

    fn tree(files: &[(u32, u32, u32)]) -> ModuleTree {
        let entries = files.iter().map(|file| entry("a/1", *file, EntryKind::File(Vec::new()))).collect();
        ModuleTree { root: PathBuf::from("/m"), access: access(0, 0, 0o755), entries }
    }

    #[test]
    fn only_classes_that_permissions_tell_apart_are_asked() {
        let names = |files: &[(u32, u32, u32)]| {
            asked(&[&tree(files)]).into_iter().map(|user| user.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[(0, 0, 0o644)]), ["root", "others"]);
        assert_eq!(names(&[(0, 50, 0o640), (0, 0, 0o644)]), ["root", "others", "a member of group 50"]);
        assert_eq!(names(&[(9, 0, 0o600)]), ["others", "user 9"]);
        // A user of the tree has the number of `nobody` here.
        let users = asked(&[&tree(&[(NOBODY, 0, 0o600)])]);
        assert_eq!(users[0].credentials.as_ref().map(|credentials| credentials.user), Some(u32::MAX - 2));
        assert_eq!(users[1].name, "user 65534");
    }

    #[test]
    fn who_must_be_in_two_groups_asks_as_a_member_of_both() {
        let file = || EntryKind::File(Vec::new());
        let entries = vec![
            entry("a", (0, 50, 0o750), EntryKind::Directory),
            entry("a/1", (0, 60, 0o640), file()),
            entry("a/2", (0, 50, 0o640), file()),
            entry("a/3", (0, 0, 0o600), file()),
        ];
        let tree = ModuleTree { root: PathBuf::from("/m"), access: access(0, 0, 0o755), entries };
        let users = asked(&[&tree]);
        let both: Vec<&User> = users.iter().filter(|user| user.name.contains(" and ")).collect();
        assert_eq!(both.len(), 1, "{users:?}");
        assert_eq!(both[0].name, "a member of groups 50 and 60");
        let credentials = both[0].credentials.as_ref().unwrap();
        assert_eq!((credentials.group, credentials.groups.as_slice()), (50, &[60][..]));
    }

    #[test]
    fn what_others_could_have_written_is_evaluated_as_them_or_without_rights() {
        let names = |tree: &ModuleTree| asked(&[tree]).into_iter().map(|user| user.name).collect::<Vec<_>>();
        for (file, expected) in [
            ((0, 0, 0o644), &["root", "others"][..]),
            ((0, 0, 0o664), &["root", "others"]),
            ((0, 50, 0o640), &["root", "others", "a member of group 50"]),
            ((0, 50, 0o660), &["others"]),
            ((0, 0, 0o646), &["others"]),
            ((9, 0, 0o400), &["others", "user 9"]),
            ((9, 50, 0o440), &["others", "user 9"]),
            ((9, 50, 0o460), &["others"]),
        ] {
            assert_eq!(names(&tree(&[file])), expected, "{file:?}");
        }
        assert_eq!(names(&tree(&[(9, 0, 0o600), (10, 0, 0o600)])), ["others"]);
        let mut listed = tree(&[(0, 0, 0o660)]);
        let acl = crate::access::Acl { users: vec![(9, 6)], groups: vec![(42, 4)], group: 4 };
        listed.entries[0].access.as_mut().unwrap().acl = Some(acl);
        assert_eq!(names(&listed), ["others", "user 9"], "one user can write, and names a group");
    }

    #[test]
    fn sets_of_groups_beyond_the_limit_are_named() {
        let pair = |number: u32| {
            let directory = entry(&format!("{number}"), (0, 100 + number, 0o750), EntryKind::Directory);
            [directory, entry(&format!("{number}/f"), (0, 200 + number, 0o640), EntryKind::File(Vec::new()))]
        };
        let entries = (10..50).flat_map(pair).collect();
        let tree = ModuleTree { root: PathBuf::from("/m"), access: access(0, 0, 0o755), entries };
        let classes = of(&[&tree], &TrustInquiry::new().changers());
        let sets = |users: &[User]| users.iter().filter(|user| user.name.contains(" and ")).count();
        assert_eq!((sets(&classes.asked), classes.unasked.len()), (32, 8));
        let told = UnaskedUsers::of(&classes.unasked, None).unwrap();
        assert_eq!(told.users[7], "a member of groups 149 and 249");
        assert!(told.to_string().contains("; at most 32 sets of groups are asked"), "{told}");
    }

    #[test]
    fn who_is_not_asked_is_told_with_the_flags() {
        let tree = tree(&[(9, 0, 0o600), (8, 0, 0o600), (0, 60, 0o640)]);
        let mut inquiry = TrustInquiry::new();
        inquiry.tree(&tree);
        let changers = inquiry.changers();
        let classes = of(&[&tree], &changers);
        let told = UnaskedUsers::of(&classes.unasked, changers.place()).unwrap();
        assert_eq!(told.flags, ["--user root", "--user 8", "--user 9", "--group 60"]);
        assert!(told.to_string().contains("other users can change `/m/a/1`"), "{told}");
    }
}
