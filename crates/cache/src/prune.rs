//! The content of a cache, and its removal: the least recently used entries first.
//!
//! An entry that is being made is never removed. Removal renames it first, so that no process sees a part of it. A process that
//! has one of its images open keeps it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::identity::unique;
use crate::{About, CacheDirectory, CacheEntry, CacheError, EntryState};

/// One entry, as it is listed.
#[derive(Debug, Clone)]
pub struct EntrySummary {
    /// The entry.
    pub entry: CacheEntry,
    /// Its program, if the note of it is whole.
    pub about: Option<About>,
    /// Its state.
    pub state: EntryState,
    /// All its files. Unit: bytes of storage.
    pub bytes: u64,
    /// The last use.
    pub used: SystemTime,
    /// Versions of the image that are kept.
    pub versions: usize,
    /// Recordings of which no image was made yet.
    pub traces: usize,
    /// Another process makes something of it.
    pub locked: bool,
}

/// The entries to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneLimit {
    /// All.
    All,
    /// The least recently used ones, until the cache takes no more than this. Unit: bytes.
    Bytes(u64),
    /// Those that were not used for so long.
    Unused(Duration),
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Entries that were removed.
    pub entries: u64,
    /// Bytes that they took.
    pub bytes: u64,
    /// Entries that were to be removed and are in use.
    pub spared: u64,
}

/// An entry that was used so recently is spared: on NFS a node may still read an image that another node removes. The servers of
/// `quell run` copy an image in a fraction of this time.
const GRACE: Duration = Duration::from_secs(3600);

/// Begins the name of an entry that is being removed.
const GONE: &str = "gone-";

impl CacheDirectory {
    /// The entries. Shape: sorted by key.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn list(&self) -> Result<Vec<EntrySummary>, CacheError> {
        Ok(self.entries()?.into_iter().map(EntrySummary::of).collect())
    }

    /// Removes entries, and what earlier removals left.
    ///
    /// # Errors
    /// [`CacheError::Io`] where the cache cannot be listed. An entry that cannot be removed is spared.
    pub fn prune(&self, limit: PruneLimit) -> Result<Pruned, CacheError> {
        self.remove_remains()?;
        let mut all = self.list()?;
        all.sort_by_key(|summary| summary.used);
        let mut total: u64 = all.iter().map(|summary| summary.bytes).sum();
        let mut pruned = Pruned::default();
        for summary in all {
            let age = summary.used.elapsed().unwrap_or_default();
            let goes = match limit {
                PruneLimit::All => true,
                PruneLimit::Bytes(most) => total > most,
                PruneLimit::Unused(longest) => age >= longest,
            };
            if !goes {
                continue;
            }
            let in_use = matches!(limit, PruneLimit::Bytes(_)) && age < GRACE;
            if in_use || !self.remove(&summary.entry) {
                pruned.spared += 1;
                continue;
            }
            total -= summary.bytes;
            pruned.entries += 1;
            pruned.bytes += summary.bytes;
        }
        Ok(pruned)
    }

    /// Removes one entry, if no other process makes something of it.
    fn remove(&self, entry: &CacheEntry) -> bool {
        let Ok(Some(mut lock)) = entry.lock("prune") else { return false };
        let gone = self.path().join(format!("{GONE}{}", unique()));
        if fs::rename(entry.path(), &gone).is_err() {
            return false;
        }
        lock.moved(&gone);
        _ = fs::remove_dir_all(&gone);
        // Its file went with the directory, or is removed now.
        drop(lock);
        true
    }

    fn remove_remains(&self) -> Result<(), CacheError> {
        let names = fs::read_dir(self.path()).map_err(CacheError::of("list", self.path()))?;
        let gone = |name: &fs::DirEntry| name.file_name().to_str().is_some_and(|name| name.starts_with(GONE));
        names.filter_map(Result::ok).filter(gone).for_each(|name| _ = fs::remove_dir_all(name.path()));
        Ok(())
    }
}

impl EntrySummary {
    fn of(entry: CacheEntry) -> Self {
        Self {
            about: entry.about(),
            state: entry.state(),
            bytes: bytes_of(entry.path()),
            used: entry.used(),
            versions: entry.images().len(),
            traces: entry.traces().len(),
            locked: entry.is_locked(),
            entry,
        }
    }
}

/// The storage of all files below a directory. Links are not followed. An entry is two levels deep.
fn bytes_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_of(&entry.path()),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CacheKey, EntryLock};

    fn key(number: u32) -> CacheKey {
        CacheKey::parse(&format!("{number:032x}")).unwrap()
    }

    /// An entry of a million bytes that was used so many hours ago.
    fn plant(cache: &CacheDirectory, number: u32, hours: u64) -> CacheEntry {
        let entry = cache.make_entry(&key(number)).unwrap();
        fs::write(entry.file("image-1.qimg"), vec![1; 1_000_000]).unwrap();
        entry.publish("image-1.qimg").unwrap();
        entry.touch();
        let file = fs::File::options().write(true).open(entry.file("used")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        entry
    }

    fn keys(cache: &CacheDirectory) -> Vec<CacheKey> {
        cache.list().unwrap().into_iter().map(|summary| summary.entry.key().clone()).collect()
    }

    #[test]
    fn the_least_recently_used_go_first_and_what_is_used_stays() {
        let directory = tempfile::tempdir().unwrap();
        let cache = CacheDirectory::make(&directory.path().join("cache")).unwrap();
        for (number, hours) in [(1, 5), (2, 9), (3, 0), (4, 7)] {
            plant(&cache, number, hours);
        }
        fs::create_dir(cache.path().join("gone-of-a-killed-process")).unwrap();
        let pruned = cache.prune(PruneLimit::Bytes(2_500_000)).unwrap();
        assert_eq!((pruned.entries, pruned.spared), (2, 0));
        assert_eq!(keys(&cache), [key(1), key(3)]);
        let pruned = cache.prune(PruneLimit::Bytes(0)).unwrap();
        assert_eq!((pruned.entries, pruned.spared), (1, 1), "one was used just now");
        assert_eq!(cache.prune(PruneLimit::Unused(Duration::from_secs(60))).unwrap().entries, 0);
        let entry = plant(&cache, 5, 100);
        let lock = EntryLock::take(entry.path(), "").unwrap();
        assert_eq!(cache.prune(PruneLimit::All).unwrap().spared, 1, "one is being recorded");
        drop(lock);
        assert_eq!(cache.prune(PruneLimit::All).unwrap().entries, 1);
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
    }
}
