//! Undoes the build of a cache: the directory has again, byte for byte, what it had before the first build.
//!
//! ```text
//! .modulecache                  what the tool alone made, or nothing -> ours, which names the digest of the other
//! .modulecache.quell-before~    the former file: a second name of it from before the first build until it is undone
//! ```
//!
//! Every version of the file is replaced or removed in one step. Nothing goes but what the record proves to be ours: the last line of
//! a cache of Environment Modules, the list beside a cache of Lmod. Other files stay, and so do directories that were made for caches.

use super::format::CacheOrigin;
use super::kept::{Place, UndoStep, UndoneCache, is_same, kept};
use super::lmod;
use crate::ModulesError;
use crate::cookie::CACHE_NAME;
use crate::place;
use std::path::{Path, PathBuf};

/// The record of a cache that was built: it lies in the cache, or beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheRecord {
    /// A cache of Environment Modules.
    Modules(PathBuf),
    /// The list of a cache of Lmod.
    Lmod(PathBuf),
}

impl CacheRecord {
    /// The record that a path names, or the one in a directory; `None` where there is none.
    pub fn of(path: &Path) -> Option<Self> {
        let (modules, lmod) = match path.file_name() {
            Some(name) if name == CACHE_NAME => (path.to_owned(), PathBuf::new()),
            Some(name) if name == lmod::LIST => (PathBuf::new(), path.to_owned()),
            _ => (path.join(CACHE_NAME), path.join(lmod::LIST)),
        };
        let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
        match (is_there(&lmod), is_there(&modules)) {
            (true, _) => Some(Self::Lmod(lmod)),
            (_, true) => Some(Self::Modules(modules)),
            _ => None,
        }
    }

    /// Undoes the builds.
    ///
    /// **Errors**: [`ModulesError::ChangedSince`] for a file that is not what quell wrote or kept; [`ModulesError::Record`],
    /// [`ModulesError::Untrusted`], [`ModulesError::Busy`], [`ModulesError::Write`]. A call that was interrupted can be repeated.
    pub fn undo(&self) -> Result<UndoneCache, ModulesError> {
        self.step(UndoStep::Do)
    }

    /// Tells the result of [`CacheRecord::undo`].
    ///
    /// **Errors**: those of [`CacheRecord::undo`].
    pub fn would_undo(&self) -> Result<UndoneCache, ModulesError> {
        self.step(UndoStep::Tell)
    }

    fn step(&self, step: UndoStep) -> Result<UndoneCache, ModulesError> {
        match self {
            Self::Modules(cache) => of_modules(cache, step),
            Self::Lmod(list) => lmod::undo(list, step),
        }
    }
}

fn of_modules(cache: &Path, step: UndoStep) -> Result<UndoneCache, ModulesError> {
    let changed = |path: &Path| ModulesError::ChangedSince { path: path.to_owned() };
    // Refuses what another user made, or could exchange.
    place::read_record(cache)?;
    let directory = cache.parent().unwrap_or(Path::new("/"));
    let place = Place::open(directory)?;
    let kept = kept(CACHE_NAME);
    let (found, before) = (place.find(CACHE_NAME)?, place.find(&kept)?);
    let origin = found.as_ref().map(|found| CacheOrigin::of(&found.content)).ok_or_else(|| changed(cache))?;
    let is_kept = |digest: &String| before.as_ref().is_some_and(|before| before.digest() == *digest);
    let (mut undone, path) = (UndoneCache::default(), cache.to_owned());
    match origin {
        CacheOrigin::Ours(None) => {
            undone.removed.push(path);
            step.take(|| place.remove(CACHE_NAME))?;
        }
        CacheOrigin::Ours(Some(digest)) if is_kept(&digest) => {
            undone.restored.push(path);
            step.take(|| place.put_back(&kept, CACHE_NAME))?;
        }
        CacheOrigin::Ours(Some(_)) => return Err(changed(&directory.join(kept))),
        // The build was killed before the new cache got its name.
        CacheOrigin::Foreign if is_same(&before, &found) => {
            undone.restored.push(path);
            step.take(|| place.remove(&kept))?;
        }
        _ => return Err(changed(cache)),
    }
    Ok(undone)
}
