//! The users whose answers may differ: one for each way in which permissions of a tree treat somebody.

use super::tree::{Entry, Grantee};
use crate::tools::User;
use std::collections::{BTreeMap, BTreeSet};

/// Where the search for a number that no file names begins: `nobody` and `nogroup` of most systems.
const NOBODY: u32 = 65534;

/// Who is to ask, when root verifies: root; somebody to whom no file is special; an owner, a member of a group, somebody
/// whom an access control list names, for each of these to whom something is open, or closed, that is not so to the
/// others.
pub(super) fn of(entries: &[Entry]) -> Vec<User> {
    let lists = || entries.iter().filter_map(|entry| entry.list.as_ref()).flatten();
    let mut users: BTreeSet<u32> = entries.iter().map(|entry| entry.user).collect();
    let mut groups: BTreeSet<u32> = entries.iter().map(|entry| entry.group).collect();
    users.extend(lists().filter_map(|grant| match grant.to {
        Grantee::User(user) => Some(user),
        _ => None,
    }));
    groups.extend(lists().filter_map(|grant| match grant.to {
        Grantee::Group(group) => Some(group),
        _ => None,
    }));
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
    distinct(classes, entries)
}

fn unused(numbers: &BTreeSet<u32>) -> u32 {
    (1..=NOBODY).rev().find(|number| !numbers.contains(number)).unwrap_or(NOBODY)
}

/// The first of those to whom the same entries are open.
fn distinct(users: Vec<User>, entries: &[Entry]) -> Vec<User> {
    let mut seen = BTreeMap::new();
    let mut kept = Vec::new();
    for user in users {
        let Some(credentials) = &user.credentials else { continue };
        let open: Vec<bool> =
            entries.iter().map(|entry| entry.is_open_to(credentials.user, &[credentials.group])).collect();
        // Root reads everything, but modulefiles can tell that it is root.
        if credentials.user == 0 || seen.insert(open, ()).is_none() {
            kept.push(user);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn entry(user: u32, group: u32, mode: u32) -> Entry {
        Entry { relative: PathBuf::from("a/1"), is_directory: false, user, group, mode, list: None }
    }

    #[test]
    fn only_classes_that_permissions_tell_apart_are_asked() {
        let names = |entries: &[Entry]| of(entries).into_iter().map(|user| user.name).collect::<Vec<_>>();
        assert_eq!(names(&[entry(0, 0, 0o644)]), ["root", "others"]);
        assert_eq!(
            names(&[entry(0, 50, 0o640), entry(9, 9, 0o644)]),
            ["root", "others", "a member of group 50"]
        );
        assert_eq!(names(&[entry(9, 0, 0o600)]), ["root", "others", "user 9"]);
        // Nobody's own number is somebody's here.
        let users = of(&[entry(NOBODY, 0, 0o600)]);
        assert_eq!(users[1].credentials.as_ref().map(|credentials| credentials.user), Some(NOBODY - 1));
        assert_eq!(users[2].name, "user 65534");
    }
}
