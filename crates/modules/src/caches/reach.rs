//! Which files every user can reach and read: what a cache may show.
//!
//! Both tools go by a file's bits for others. Beyond these, an access control list may deny what they allow, and a
//! symbolic link may lead through directories that are closed. What a tool finds behind a link that leads around has names
//! that no scan knows, so it is left to each user's own walk.

use crate::access::Permission;
use crate::place::resolved;
use crate::scan::{Entry, Kind, Tree, above};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The part of a tree that is closed to somebody.
#[derive(Debug)]
pub(crate) struct Closed<'a> {
    tree: &'a Tree,
    /// Where it really is. Whoever reads a cache can enter what is above, or there is none (`barrier.rs`).
    real: PathBuf,
    /// Whether every user can enter a directory outside of the tree.
    outside: HashMap<PathBuf, bool>,
}

impl<'a> Closed<'a> {
    pub(crate) fn new(tree: &'a Tree) -> Self {
        Self { tree, real: resolved(&tree.root), outside: HashMap::new() }
    }

    /// The path that is closed on the way to a name, or its own: the highest; empty where it is the modulepath. `None` for what
    /// everybody can read.
    pub(crate) fn of<'b>(&mut self, path: &'b [u8]) -> Option<&'b [u8]> {
        if !self.tree.access.everybody(Permission::List) {
            return Some(&[]);
        }
        let mut steps = above(path).chain([path]);
        steps.find(|step| self.tree.find(step).is_some_and(|entry| !self.is_open(entry)))
    }

    fn is_open(&mut self, entry: &Entry) -> bool {
        if entry.kind == Kind::Loop {
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

    /// By the bits for others alone: of a directory outside of the tree no more is known, and most have no list.
    fn can_be_entered(&mut self, directory: &Path) -> bool {
        if let Some(known) = self.outside.get(directory) {
            return *known;
        }
        let can = directory.metadata().is_ok_and(|metadata| metadata.mode() & 1 == 1);
        self.outside.insert(directory.to_owned(), can);
        can
    }
}

/// Everything that a tool looks at and that is closed to somebody. `counts` says what that is, directories aside.
///
/// Shape: sorted; nothing below a directory that is there itself.
pub(super) fn closed(tree: &Tree, counts: impl Fn(&Entry) -> bool) -> Vec<Vec<u8>> {
    let mut closed = Closed::new(tree);
    let mut paths: Vec<Vec<u8>> = tree
        .entries
        .iter()
        .filter(|entry| counts(entry) || matches!(entry.kind, Kind::Directory | Kind::Unlistable(_)))
        .filter_map(|entry| closed.of(&entry.path).map(<[u8]>::to_vec))
        .collect();
    // Between a directory and what is in it others may sort.
    paths.sort();
    paths.dedup();
    paths
}
