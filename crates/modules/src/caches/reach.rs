//! Files that every user can reach and read: a cache may show these and no others.
//!
//! Both tools go by a file's bits for others. That is not enough: an access control list may deny what these bits allow, and
//! a symbolic link may lead through closed directories. Names behind a link that leads back are unknown to a scan; each
//! user's own walk finds them.

use crate::access::Permission;
use crate::place::resolved;
use crate::scan::{EntryKind, ModuleTree, TreeEntry, above};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The part of a tree that is closed to some users.
#[derive(Debug)]
pub(crate) struct Closed<'a> {
    tree: &'a ModuleTree,
    /// The tree's path without links. Every reader of a cache can enter the directories above it, or there is no cache
    /// (`eligibility.rs`).
    real: PathBuf,
    /// For directories outside of the tree: every user can enter it.
    outside: HashMap<PathBuf, bool>,
}

impl<'a> Closed<'a> {
    pub(crate) fn new(tree: &'a ModuleTree) -> Self {
        Self { tree, real: resolved(&tree.root), outside: HashMap::new() }
    }

    /// The highest closed path on the way to a name, or the name itself; empty for the modulepath. `None` if every user can
    /// read it.
    pub(crate) fn of<'b>(&mut self, path: &'b [u8]) -> Option<&'b [u8]> {
        if !self.tree.access.everybody(Permission::List) {
            return Some(&[]);
        }
        let mut steps = above(path).chain([path]);
        steps.find(|step| self.tree.find(step).is_some_and(|entry| !self.is_open(entry)))
    }

    fn is_open(&mut self, entry: &TreeEntry) -> bool {
        if entry.kind == EntryKind::Loop {
            return false;
        }
        let Some(permission) = entry.permission() else { return true };
        let allows = entry.access.as_ref().is_some_and(|access| access.everybody(permission));
        allows && (!entry.is_link || self.leads_through_open_directories(&self.tree.full_path(&entry.path)))
    }

    fn leads_through_open_directories(&mut self, link: &Path) -> bool {
        let Ok(target) = link.canonicalize() else { return false };
        target
            .ancestors()
            .skip(1)
            .all(|directory| self.real.starts_with(directory) || self.can_be_entered(directory))
    }

    /// Goes by the bits for others alone: nothing else is known of a directory outside of the tree, and most have no list.
    fn can_be_entered(&mut self, directory: &Path) -> bool {
        if let Some(known) = self.outside.get(directory) {
            return *known;
        }
        let can = directory.metadata().is_ok_and(|metadata| metadata.mode() & 1 == 1);
        self.outside.insert(directory.to_owned(), can);
        can
    }
}

/// Everything that a tool looks at and that is closed to some users. `counts` selects the entries, besides directories.
///
/// Shape: sorted; nothing below a directory that is itself listed.
pub(super) fn closed(tree: &ModuleTree, counts: impl Fn(&TreeEntry) -> bool) -> Vec<Vec<u8>> {
    let mut closed = Closed::new(tree);
    let mut paths: Vec<Vec<u8>> = tree
        .entries
        .iter()
        .filter(|entry| {
            counts(entry) || matches!(entry.kind, EntryKind::Directory | EntryKind::Unlistable(_))
        })
        .filter_map(|entry| closed.of(&entry.path).map(<[u8]>::to_vec))
        .collect();
    // Other names may sort between a directory and its entries.
    paths.sort();
    paths.dedup();
    paths
}
