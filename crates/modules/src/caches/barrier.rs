//! Why a modulepath can have no cache: one cache is for all, and what it shows must be open to all who can read it.
//!
//! Directories above a modulepath count, too. Where one is closed to somebody, a cache may lie below it, among those who get
//! there, and nowhere else.

use super::reach::closed;
use crate::access::{Access, Permission};
use crate::convert::resolved;
use crate::scan::{Entry, Kind, Tree};
use quell_base::shown;
use std::fmt;
use std::path::{Path, PathBuf};

/// What is in the way of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// Not every user can enter the modulepath.
    Modulepath,
    /// Not every user can read this, and the tool's cache cannot send users to the tree for it.
    Closed(PathBuf),
    /// Not every user can enter this directory above the modulepath, and the cache would be outside of it.
    Above(PathBuf),
    /// There is nothing in the modulepath of which a cache could tell.
    Empty,
}

impl fmt::Display for Barrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |path: &Path| shown(path);
        match self {
            Self::Modulepath => {
                formatter.write_str("not every user can enter it, and the cache is one for all")
            }
            Self::Closed(path) => {
                write!(formatter, "not every user can read `{}`, and the cache is one for all", shown(path))
            }
            Self::Above(directory) => {
                let directory = shown(directory);
                write!(
                    formatter,
                    "not every user can enter `{directory}`, and the cache would be outside of it"
                )
            }
            Self::Empty => formatter.write_str("there is nothing in it that a cache could hold"),
        }
    }
}

/// Why there can be no cache of Environment Modules with the name `cache`.
pub(super) fn of_modules(tree: &Tree, cache: &Path) -> Option<Barrier> {
    let is_empty = || !tree.entries.iter().any(is_recorded);
    of_all(tree, cache.parent().unwrap_or(cache)).or_else(|| is_empty().then_some(Barrier::Empty))
}

/// Why a modulepath cannot be in a cache of Lmod in `directory`; `counts` says at what Lmod looks.
pub(super) fn of_lmod(tree: &Tree, directory: &Path, counts: impl Fn(&Entry) -> bool) -> Option<Barrier> {
    let first = || closed(tree, counts).into_iter().next();
    of_all(tree, directory).or_else(|| first().map(|path| Barrier::Closed(tree.full_path(&path))))
}

fn of_all(tree: &Tree, directory: &Path) -> Option<Barrier> {
    match tree.access.everybody(Permission::List) {
        true => outside(&tree.root, directory).map(Barrier::Above),
        false => Some(Barrier::Modulepath),
    }
}

/// The directory above a modulepath that is closed to somebody, unless `place` is below it, too.
pub(crate) fn outside(modulepath: &Path, place: &Path) -> Option<PathBuf> {
    closed_above(modulepath).filter(|closed| !resolved(place).starts_with(closed))
}

/// The nearest directory above a modulepath that not every user can enter. What is made of the modulepath and lies below
/// that directory is shown to nobody who cannot enter it.
pub fn closed_above(modulepath: &Path) -> Option<PathBuf> {
    let is_open = |directory: &&Path| {
        Access::of_directory(directory).is_ok_and(|access| access.everybody(Permission::Enter))
    };
    resolved(modulepath).ancestors().skip(1).find(|directory| !is_open(directory)).map(Path::to_owned)
}

/// Whether the tool's cache has a command for it.
fn is_recorded(entry: &Entry) -> bool {
    entry.role().is_some() || matches!(entry.kind, Kind::Unlistable(_) | Kind::Dangling)
}
