//! The rc files of a modulepath: which of them every user and version reads alike, and what these say.

use super::command::{Declared, read};
use super::leave::Leave;
use crate::access::Permission;
use crate::cookie::{Cookie, RcKind};
use crate::scan::{Entry, Kind, Role, Tree};
use std::collections::{BTreeMap, HashMap};

/// The oldest version of Environment Modules that conversions are for. Source: the oldest that they are tested with.
pub(crate) const OLDEST: &[u8] = b"5.2.0";

/// An rc file below a modulepath's root.
#[derive(Clone, Debug)]
pub struct RcFile {
    /// Its path below the modulepath.
    pub path: Vec<u8>,
    /// Which kind.
    pub kind: RcKind,
    /// What it says, or why it cannot be moved by itself.
    pub says: Result<Declared, Leave>,
}

impl RcFile {
    /// Its directory's path below the modulepath; empty at the root.
    pub fn directory(&self) -> &[u8] {
        self.path.iter().rposition(|byte| *byte == b'/').map_or(&[], |slash| &self.path[..slash])
    }

    fn of(tree: &Tree, entry: &Entry, kind: RcKind, ways: &Ways) -> Self {
        let usable = if is_linked(tree, entry, ways) { Err(Leave::Link) } else { usable(tree, entry) };
        let says = usable.and_then(|content| read(content, entry.parent(), kind));
        Self { path: entry.path.clone(), kind, says }
    }
}

/// By how many names each file of a modulepath is reached.
type Ways = HashMap<(u64, u64), usize>;

fn ways(tree: &Tree) -> Ways {
    let mut ways = Ways::new();
    for identity in tree.files().filter_map(|(entry, _)| entry.identity) {
        *ways.entry(identity).or_default() += 1;
    }
    ways
}

/// The content of an rc file that every user and version reads alike, and that is no link to another.
///
/// **Errors**: why it is not that; then what is written into it would say something else to somebody, or somewhere else.
pub(crate) fn usable<'a>(tree: &Tree, entry: &'a Entry) -> Result<&'a [u8], Leave> {
    if entry.is_link {
        return Err(Leave::Link);
    }
    let content = entry.content().ok_or(Leave::Unread)?;
    if !entry.is_whole() {
        return Err(Leave::TooLong);
    }
    // Who cannot list the modulepath sees none of it.
    let everybody =
        |entry: &Entry, permission| entry.access.as_ref().is_some_and(|access| access.everybody(permission));
    let listed = tree.directories(&entry.path).all(|directory| everybody(directory, Permission::List));
    if !listed || !everybody(entry, Permission::Read) {
        return Err(Leave::Restricted);
    }
    match Cookie::of(content) {
        Cookie::None(_) => Err(Leave::NoCookie),
        Cookie::From(version) if !Cookie::From(version.clone()).accepted_by(OLDEST) => {
            Err(Leave::TooNew { version })
        }
        Cookie::Any | Cookie::From(_) => Ok(content),
    }
}

/// Whether a link leads to a file, so that it may belong elsewhere, too.
fn is_linked(tree: &Tree, entry: &Entry, ways: &Ways) -> bool {
    let is_alone = |file| ways.get(&file).is_none_or(|ways| *ways < 2);
    entry.is_link
        || tree.directories(&entry.path).any(|directory| directory.is_link)
        || !entry.identity.is_none_or(is_alone)
}

/// The rc files below one top directory.
#[derive(Clone, Debug)]
pub struct Group {
    /// The directory's name.
    pub top: Vec<u8>,
    /// Its rc files, in the order in which Modules before 5.7 reads them.
    pub files: Vec<RcFile>,
}

/// The rc file at the root, and the groups. Shape: sorted by name.
pub fn groups(tree: &Tree) -> (Option<RcFile>, Vec<Group>) {
    let ways = ways(tree);
    let mut root = None;
    let mut groups: BTreeMap<Vec<u8>, Vec<RcFile>> = BTreeMap::new();
    for (entry, role) in tree.files() {
        let Role::Rc(kind) = role else { continue };
        let file = RcFile::of(tree, entry, kind, &ways);
        if entry.parent().is_empty() {
            root = Some(file);
        } else {
            groups.entry(entry.top().to_vec()).or_default().push(file);
        }
    }
    for entry in &tree.entries {
        // What lies there is read under further names, or is not known.
        let why = match entry.kind {
            Kind::Loop | Kind::TooDeep => Leave::Link,
            Kind::Unlistable(_) => Leave::Unread,
            _ => continue,
        };
        for file in groups.get_mut(entry.top()).into_iter().flatten().filter(|file| file.says.is_ok()) {
            file.says = Err(why.clone());
        }
    }
    (root, groups.into_iter().map(|(top, files)| Group { top, files }).collect())
}
