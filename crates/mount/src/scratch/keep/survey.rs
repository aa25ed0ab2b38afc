//! The end of a scratch directory: what is in it, and what of that the real directory does not have.

use crate::scratch::originals::below;
use crate::scratch::request::ScratchEnd;
use crate::scratch::tree::{Kind, TOP, Tree};

/// A name that is not the original's: its path and inode.
pub(super) type Fresh = (Vec<u8>, u64);

/// The files at the end.
pub(in crate::scratch) fn end_of(tree: &Tree) -> ScratchEnd {
    let found = tree.stores.found.clone();
    let mut end = ScratchEnd { made: tree.made, found, ..ScratchEnd::default() };
    for (path, id) in fresh(tree) {
        let Ok(inode) = tree.inode(id) else { continue };
        if matches!(inode.kind, Kind::Directory(_) | Kind::Original(_)) {
            continue;
        }
        end.files += 1;
        end.bytes += inode.attr().map_or(0, |attr| attr.size);
        end.changed += u64::from(inode.origins.contains(&path));
    }
    let is_there = |path: &&Vec<u8>| find(tree, path).is_none();
    end.removed = tree.gone.iter().filter(is_there).count() as u64;
    end.spilled = tree.stores.spilled().map(|(path, files)| (quell_base::shown(path), files)).collect();
    end
}

fn find(tree: &Tree, path: &[u8]) -> Option<u64> {
    let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.try_fold(TOP, |id, name| tree.names(id).ok()?.names.get(name).copied())
}

/// Hands every name below the top to `visit`, directories before what is in them.
pub(super) fn walk(tree: &Tree, mut visit: impl FnMut(&[u8], u64)) {
    let mut left = vec![(Vec::new(), TOP)];
    while let Some((path, directory)) = left.pop() {
        let Ok(names) = tree.names(directory) else { continue };
        for (name, id) in &names.names {
            let path = below(&path, name);
            visit(&path, *id);
            if tree.is_directory(*id) == Ok(true) {
                left.push((path, *id));
            }
        }
    }
}

/// Names that are not the original's, directories before what is in them.
pub(super) fn fresh(tree: &Tree) -> Vec<Fresh> {
    let mut found = Vec::new();
    walk(tree, |path, id| {
        let is_as_before = tree.inode(id).is_ok_and(|inode| {
            inode.origins.iter().any(|origin| origin == path)
                && matches!(inode.kind, Kind::Directory(_) | Kind::Original(_))
        });
        if !is_as_before {
            found.push((path.to_vec(), id));
        }
    });
    found
}
