//! Where new trees are made before they have names: no two conversions at once, and nothing left behind.

use super::places::ASIDE;
use super::record::{RECORD, record_of};
use super::request::Destination;
use super::ways::Way;
use crate::ModulesError;
use crate::lock::Lock;
use crate::trust;
use rustix::process::geteuid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Removes what was made aside, and directories that were made for it and hold nothing now.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    aside: Vec<PathBuf>,
    /// Shape: deepest first.
    made: Vec<PathBuf>,
    /// Held until all is done.
    locks: Vec<Lock>,
}

impl Cleaner {
    /// Removes nothing aside any more; returns what it would have removed.
    pub(super) fn disarm(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.aside)
    }

    /// Removes this in the end.
    pub(super) fn arm(&mut self, aside: Vec<PathBuf>) {
        self.aside = aside;
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        // What is left of a conversion is named `.quell-new`; the next one removes it.
        self.aside.iter().for_each(|path| _ = fs::remove_dir_all(path));
        // A lock may be a file in what was made.
        self.locks.clear();
        // One with something in it stays.
        self.made.iter().for_each(|path| _ = fs::remove_dir(path));
    }
}

/// Removes what a conversion that was ended left at `aside`: with the lock, and no record beside it, nobody needs it.
fn clear(lock: &Lock, aside: &Path) -> Result<(), ModulesError> {
    match fs::symlink_metadata(aside) {
        Err(_) => Ok(()),
        Ok(left) if lock.is_held() && left.is_dir() && left.uid() == geteuid().as_raw() => {
            fs::remove_dir_all(aside).map_err(ModulesError::write(aside))
        }
        Ok(_) => Err(ModulesError::Occupied { path: aside.to_owned() }),
    }
}

/// Makes sure that all names are free, and stay so. What has no record and ends in `.quell-new` is of a conversion that was
/// ended before anything had its name.
pub(super) fn prepare(ways: &[Way], destination: &Destination) -> Result<Cleaner, ModulesError> {
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
        let lock = Lock::inside(directory)?;
        clear(&lock, &aside)?;
        cleaner.aside.push(aside.clone());
        cleaner.locks.push(lock);
        crate::place::make_open_directory(&aside).map_err(ModulesError::write(&aside))?;
        return Ok(cleaner);
    }
    for places in ways.iter().filter_map(|way| way.places.as_ref()) {
        trust::refuse_place(places.target.parent().unwrap_or(&places.target))?;
        let lock = Lock::beside(&places.target, &places.target)?;
        [&places.backup, &record_of(&places.target)].into_iter().try_for_each(|path| free(path))?;
        clear(&lock, &places.aside)?;
        cleaner.aside.push(places.aside.clone());
        cleaner.locks.push(lock);
    }
    Ok(cleaner)
}
