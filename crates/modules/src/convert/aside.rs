//! The places where new trees are made before they have names. Only one conversion works there at a time, and it leaves
//! nothing behind.

use super::places::ASIDE;
use super::record::{RECORD, record_of};
use super::request::Destination;
use super::ways::TreePlaces;
use crate::ModulesError;
use crate::lock::DirectoryLock;
use crate::trust;
use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Removes what was made aside, and directories that were made for it and are empty now.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    aside: Vec<PathBuf>,
    /// Shape: deepest first.
    made: Vec<PathBuf>,
    /// Held until the conversion has ended.
    locks: Vec<DirectoryLock>,
}

impl Cleaner {
    /// Stops removing; returns the paths that would have been removed.
    pub(super) fn disarm(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.aside)
    }

    /// Removes these paths in the end.
    pub(super) fn arm(&mut self, aside: Vec<PathBuf>) {
        self.aside = aside;
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        // Anything that remains is named `.quell-new`, and the next conversion removes it.
        self.aside.iter().for_each(|path| _ = fs::remove_dir_all(path));
        // A lock may be a file in what was made.
        self.locks.clear();
        // A directory that is not empty stays.
        self.made.iter().for_each(|path| _ = fs::remove_dir(path));
    }
}

/// Removes what an interrupted conversion left at `aside`. The lock is held and there is no record beside it, so it is not
/// in use.
fn clear(lock: &DirectoryLock, aside: &Path) -> Result<(), ModulesError> {
    match fs::symlink_metadata(aside) {
        Err(_) => Ok(()),
        Ok(left) if lock.is_held() && left.is_dir() && left.uid() == geteuid().as_raw() => {
            fs::remove_dir_all(aside).map_err(ModulesError::write(aside))
        }
        Ok(_) => Err(ModulesError::Occupied { path: aside.to_owned() }),
    }
}

/// Checks that all names are free, and keeps them free. A `.quell-new` without a record comes from a conversion that was
/// interrupted before any tree had its name.
pub(super) fn prepare(ways: &[TreePlaces], destination: &Destination) -> Result<Cleaner, ModulesError> {
    let free = |path: &Path| match fs::symlink_metadata(path) {
        Ok(_) => Err(ModulesError::Occupied { path: path.to_owned() }),
        Err(_) => Ok(()),
    };
    let mut cleaner = Cleaner::default();
    if let Destination::Out(directory) = destination {
        let aside = directory.join(ASIDE);
        free(&directory.join(RECORD))?;
        ways.iter().try_for_each(|way| free(&way.target))?;
        cleaner.made = directory.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect();
        crate::place::make_trusted_directory(directory)?;
        let lock = DirectoryLock::inside(directory)?;
        clear(&lock, &aside)?;
        cleaner.aside.push(aside.clone());
        cleaner.locks.push(lock);
        crate::place::make_open_directory(&aside).map_err(ModulesError::write(&aside))?;
        return Ok(cleaner);
    }
    for places in ways.iter().filter_map(|way| way.places.as_ref()) {
        trust::refuse_place(places.target.parent().unwrap_or(&places.target))?;
        let lock = DirectoryLock::beside(&places.target, &places.target)?;
        [&places.backup, &record_of(&places.target)].into_iter().try_for_each(|path| free(path))?;
        clear(&lock, &places.aside)?;
        cleaner.aside.push(places.aside.clone());
        cleaner.locks.push(lock);
    }
    Ok(cleaner)
}
