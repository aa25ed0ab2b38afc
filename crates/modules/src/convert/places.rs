//! The names that the two trees of a conversion in place have, one after the other, and the renames between them.
//!
//! ```text
//! NAME                 old     new     new     where two names         old     -       new
//! NAME.quell-new       new     old     -       cannot be exchanged:    new     new     -
//! NAME.quell-before    -       -       old                             -       old     old
//! ```
//!
//! The way back is known from each of these states, because the old tree is recognised by its inode under any name. Nothing
//! is removed here.

use crate::ModulesError;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The suffix of trees that have no name yet, or have lost it.
pub(super) const ASIDE: &str = ".quell-new";

/// The suffix that old trees get in place.
const BEFORE: &str = ".quell-before";

/// The names of one modulepath's trees.
#[derive(Clone, Debug)]
pub(super) struct ModulepathPlaces {
    /// The modulepath.
    pub(super) target: PathBuf,
    /// The place where the new tree is made.
    pub(super) aside: PathBuf,
    /// The place where the old tree is kept.
    pub(super) backup: PathBuf,
    /// The old tree's inode.
    pub(super) inode: u64,
}

impl ModulepathPlaces {
    pub(super) fn new(target: PathBuf, inode: u64) -> Self {
        let (aside, backup) = (beside(&target, ASIDE), beside(&target, BEFORE));
        Self { target, aside, backup, inode }
    }

    /// The present name of the old tree; `None` where it has none of them.
    pub(super) fn old(&self) -> Option<&Path> {
        self.names().into_iter().find(|path| inode(path) == Some(self.inode))
    }

    /// The present name of the new tree: no other tree should have one of these names.
    pub(super) fn new_tree(&self) -> Option<&Path> {
        self.names().into_iter().find(|path| inode(path).is_some_and(|inode| inode != self.inode))
    }

    fn names(&self) -> [&Path; 3] {
        [&self.target, &self.aside, &self.backup]
    }

    /// Gives the new tree the modulepath's name, and keeps the old one.
    ///
    /// **Errors**: [`ModulesError::Write`]; the trees may then be in any of the states above.
    pub(super) fn put_in(&self) -> Result<(), ModulesError> {
        match exchanged(&self.aside, &self.target)? {
            true => rename(&self.aside, &self.backup),
            false => {
                rename(&self.target, &self.backup)?;
                rename(&self.aside, &self.target)
            }
        }
    }

    /// Gives the old tree its name back, from any of the states. The new tree, if there is one, is aside afterwards.
    ///
    /// **Errors**: [`ModulesError::ChangedSince`] without an old tree; [`ModulesError::Write`], after which the call can be
    /// repeated.
    pub(super) fn put_back(&self) -> Result<(), ModulesError> {
        let changed = || ModulesError::ChangedSince { path: self.target.clone() };
        let old = self.old().ok_or_else(changed)?;
        let mut new = self.new_tree();
        if old != self.target {
            if new != Some(&self.target) {
                rename(old, &self.target)?;
            } else if exchanged(old, &self.target)? {
                new = Some(old);
            } else {
                let free = if old == self.aside { &self.backup } else { &self.aside };
                rename(&self.target, free)?;
                rename(old, &self.target)?;
                new = Some(free);
            }
        }
        match new == Some(&self.backup) {
            true => rename(&self.backup, &self.aside),
            false => Ok(()),
        }
    }
}

/// The inode of a path, of any kind; `None` if the path does not exist.
pub(super) fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|metadata| metadata.ino())
}

/// Tells whether a conversion made a tree aside or put it away.
pub(super) fn is_leftover(tree: &Path) -> bool {
    [ASIDE, BEFORE].iter().any(|end| tree.as_os_str().as_bytes().ends_with(end.as_bytes()))
}

/// The path of a tree with a suffix.
fn beside(tree: &Path, suffix: &str) -> PathBuf {
    let mut name = tree.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    tree.with_file_name(name)
}

/// Renames a directory. Of anything with the new name, only an empty directory is replaced.
///
/// **Errors**: [`ModulesError::Write`].
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), ModulesError> {
    fs::rename(from, to).map_err(ModulesError::write(to))
}

/// Exchanges two names in one step; `false` where the file system cannot, and then nothing has changed.
///
/// Source: rename(2), RENAME_EXCHANGE. NFS and others do not have it.
fn exchanged(one: &Path, other: &Path) -> Result<bool, ModulesError> {
    match rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(ModulesError::write(other)(errno)),
    }
}
