//! Which files every user can reach and read: what a cache may show.
//!
//! Both tools go by a file's bits for others. Beyond these, an access control list may deny what they allow, and a
//! symbolic link may lead through directories that are closed.

use crate::scan::{Entry, Kind, Tree};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The part of a tree that is closed to somebody.
#[derive(Debug)]
pub(super) struct Closed<'a> {
    tree: &'a Tree,
    /// Whether every user can enter a directory outside of the tree.
    outside: HashMap<PathBuf, bool>,
}

impl<'a> Closed<'a> {
    pub(super) fn new(tree: &'a Tree) -> Self {
        Self { tree, outside: HashMap::new() }
    }

    /// The path that is closed on the way to an entry, or its own: the highest. `None` for what everybody can read.
    pub(super) fn of(&mut self, path: &'a [u8]) -> Option<&'a [u8]> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let steps = ends.chain([path.len()]).map(|end| &path[..end]);
        steps.into_iter().find(|step| self.tree.find(step).is_some_and(|entry| !self.is_open(entry)))
    }

    fn is_open(&mut self, entry: &Entry) -> bool {
        let Some(permission) = entry.permission() else { return true };
        let allows = entry.access.as_ref().is_some_and(|access| access.everybody(permission));
        allows && (!entry.is_link || self.leads_through_open_directories(&self.tree.full_path(&entry.path)))
    }

    fn leads_through_open_directories(&mut self, link: &Path) -> bool {
        let Ok(target) = link.canonicalize() else { return false };
        target.ancestors().skip(1).all(|directory| self.can_be_entered(directory))
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

/// Everything in a tree that is closed to somebody. Shape: sorted; nothing below a directory that is there itself.
pub(super) fn closed(tree: &Tree) -> Vec<Vec<u8>> {
    let mut closed = Closed::new(tree);
    let mut paths: Vec<Vec<u8>> = tree
        .entries
        .iter()
        .filter(|entry| entry.role().is_some() || matches!(entry.kind, Kind::Directory | Kind::Unlistable(_)))
        .filter_map(|entry| closed.of(&entry.path).map(<[u8]>::to_vec))
        .collect();
    paths.dedup();
    paths
}
