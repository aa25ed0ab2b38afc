//! The rc files of a modulepath: their content, and whether every user and version reads it alike.

use super::command::{Declared, read};
use super::leave::LeaveReason;
use crate::access::Permission;
use crate::cookie::{Cookie, RcKind};
use crate::scan::{EntryKind, FileRole, ModuleTree, TreeEntry};
use std::collections::{BTreeMap, HashMap};

/// The oldest version of Environment Modules that conversions support. Source: the oldest version in the tests.
pub(crate) const OLDEST: &[u8] = b"5.2.0";

/// An rc file below a modulepath's root.
#[derive(Clone, Debug)]
pub struct RcFile {
    /// Its path below the modulepath.
    pub path: Vec<u8>,
    /// Its content, or the reason for which it cannot be moved.
    pub says: Result<Declared, LeaveReason>,
}

impl RcFile {
    /// Its directory's path below the modulepath; empty at the root.
    pub fn directory(&self) -> &[u8] {
        self.path.iter().rposition(|byte| *byte == b'/').map_or(&[], |slash| &self.path[..slash])
    }

    fn of(tree: &ModuleTree, entry: &TreeEntry, kind: RcKind, ways: &Ways) -> Self {
        let usable = if is_linked(tree, entry, ways) { Err(LeaveReason::Link) } else { usable(tree, entry) };
        let says = usable.and_then(|content| read(content, entry.parent(), kind));
        Self { path: entry.path.clone(), says }
    }
}

/// The number of names by which each file of a modulepath is reached.
type Ways = HashMap<(u64, u64), usize>;

fn ways(tree: &ModuleTree) -> Ways {
    let mut ways = Ways::new();
    for identity in tree.files().filter_map(|(entry, _)| entry.identity) {
        *ways.entry(identity).or_default() += 1;
    }
    ways
}

/// The content of an rc file that every user and version reads alike, and that is no link to another file.
///
/// **Errors**: the reason for which it is not such a file. Commands that were added to it would then have another meaning
/// for some user, or in another place.
pub(crate) fn usable<'a>(tree: &ModuleTree, entry: &'a TreeEntry) -> Result<&'a [u8], LeaveReason> {
    if entry.is_link {
        return Err(LeaveReason::Link);
    }
    let content = entry.content().ok_or(LeaveReason::Unread)?;
    if !entry.is_whole() {
        return Err(LeaveReason::TooLong);
    }
    // A user that cannot list the modulepath sees none of it.
    let everybody = |entry: &TreeEntry, permission| {
        entry.access.as_ref().is_some_and(|access| access.everybody(permission))
    };
    let listed = tree.directories(&entry.path).all(|directory| everybody(directory, Permission::List));
    if !listed || !everybody(entry, Permission::Read) {
        return Err(LeaveReason::Restricted);
    }
    match Cookie::of(content) {
        Cookie::None(_) => Err(LeaveReason::NoCookie),
        Cookie::From(version) if !Cookie::From(version.clone()).accepted_by(OLDEST) => {
            Err(LeaveReason::TooNew { version })
        }
        Cookie::Any | Cookie::From(_) => Ok(content),
    }
}

/// Tells whether a link leads to a file, so that the file may belong to another place too.
fn is_linked(tree: &ModuleTree, entry: &TreeEntry, ways: &Ways) -> bool {
    let is_alone = |file| ways.get(&file).is_none_or(|ways| *ways < 2);
    entry.is_link
        || tree.directories(&entry.path).any(|directory| directory.is_link)
        || !entry.identity.is_none_or(is_alone)
}

/// The rc files below one top directory.
#[derive(Clone, Debug)]
pub struct RcGroup {
    /// The directory's name.
    pub top: Vec<u8>,
    /// Its rc files, in the order in which Modules before 5.7 reads them.
    pub files: Vec<RcFile>,
}

/// The rc file at the root, and the groups. Shape: sorted by name.
pub fn groups(tree: &ModuleTree) -> (Option<RcFile>, Vec<RcGroup>) {
    let ways = ways(tree);
    let mut root = None;
    let mut groups: BTreeMap<Vec<u8>, Vec<RcFile>> = BTreeMap::new();
    for (entry, role) in tree.files() {
        let FileRole::Rc(kind) = role else { continue };
        let file = RcFile::of(tree, entry, kind, &ways);
        if entry.parent().is_empty() {
            root = Some(file);
        } else {
            groups.entry(entry.top().to_vec()).or_default().push(file);
        }
    }
    for entry in &tree.entries {
        // The files below are read under further names, or are not known.
        let why = match entry.kind {
            EntryKind::Loop | EntryKind::TooDeep => LeaveReason::Link,
            EntryKind::Unlistable(_) => LeaveReason::Unread,
            _ => continue,
        };
        for file in groups.get_mut(entry.top()).into_iter().flatten().filter(|file| file.says.is_ok()) {
            file.says = Err(why.clone());
        }
    }
    (root, groups.into_iter().map(|(top, files)| RcGroup { top, files }).collect())
}
