//! Decides whether a modulepath can have a cache. One cache serves all users, so what it shows must be open to every user
//! that can read it.
//!
//! Directories above a modulepath count as well. Where one of them is closed to some users, a cache may only lie below it:
//! there it reaches no other users than the modulepath.

use super::barrier::CacheBarrier;
use super::reach::closed;
use crate::access::{Access, Permission};
use crate::place::resolved;
use crate::scan::{EntryKind, ModuleTree, TreeEntry};
use std::path::{Path, PathBuf};

/// The reason for which there can be no cache of Environment Modules with the name `cache`.
pub(super) fn of_modules(tree: &ModuleTree, cache: &Path) -> Option<CacheBarrier> {
    let is_empty = || !tree.entries.iter().any(is_recorded);
    of_all(tree, cache.parent().unwrap_or(cache)).or_else(|| is_empty().then_some(CacheBarrier::Empty))
}

/// The reason for which a modulepath cannot be part of a cache of Lmod in `directory`. `counts` selects the entries that
/// Lmod looks at.
pub(super) fn of_lmod(
    tree: &ModuleTree,
    directory: &Path,
    counts: impl Fn(&TreeEntry) -> bool,
) -> Option<CacheBarrier> {
    let first = || closed(tree, counts).into_iter().next();
    of_all(tree, directory).or_else(|| first().map(|path| CacheBarrier::Closed(tree.full_path(&path))))
}

fn of_all(tree: &ModuleTree, directory: &Path) -> Option<CacheBarrier> {
    match tree.access.everybody(Permission::List) {
        true => outside(&tree.root, directory).map(CacheBarrier::Above),
        false => Some(CacheBarrier::Modulepath),
    }
}

/// The directory above a modulepath that is closed to some users, unless `place` lies below it too.
pub(crate) fn outside(modulepath: &Path, place: &Path) -> Option<PathBuf> {
    closed_above(modulepath).filter(|closed| !resolved(place).starts_with(closed))
}

/// The nearest directory above a modulepath that not every user can enter. Copies and caches of the modulepath must stay
/// below that directory.
pub fn closed_above(modulepath: &Path) -> Option<PathBuf> {
    let is_open = |directory: &&Path| {
        Access::of_directory(directory).is_ok_and(|access| access.everybody(Permission::Enter))
    };
    resolved(modulepath).ancestors().skip(1).find(|directory| !is_open(directory)).map(Path::to_owned)
}

/// Tells whether the tool's cache has a command for an entry.
fn is_recorded(entry: &TreeEntry) -> bool {
    entry.role().is_some() || matches!(entry.kind, EntryKind::Unlistable(_) | EntryKind::Dangling)
}
