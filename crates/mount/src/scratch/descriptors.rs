//! Descriptors that stay open between requests. All ranks' files are open in one process: those that were used last stay open,
//! and the others are opened again when they are used.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Descriptors of files that stay open: half of those that the process may have.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// The greatest number in one generation.
    most: usize,
    generations: Mutex<Generations>,
}

/// A descriptor that is used moves to the young ones. When these are too many they become the old ones, and those are closed.
#[derive(Debug, Default)]
struct Generations {
    young: HashMap<u64, Arc<OwnedFd>>,
    old: HashMap<u64, Arc<OwnedFd>>,
    last: u64,
}

impl Descriptors {
    /// Half of all that the process may have: the rest is for ranks, stores, and lookups.
    pub(super) fn of_this_process() -> Arc<Self> {
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        Arc::new(Self::new(limit.unwrap_or(usize::MAX) / 2))
    }

    fn new(most: usize) -> Self {
        Self { most: (most / 2).max(1), generations: Mutex::default() }
    }
}

/// A file that is open as long as there are descriptors for it.
#[derive(Debug)]
pub(super) struct KeptOpen {
    descriptors: Arc<Descriptors>,
    number: u64,
}

impl KeptOpen {
    pub(super) fn new(descriptors: &Arc<Descriptors>, file: OwnedFd) -> Self {
        let number = {
            let mut generations = crate::lock(&descriptors.generations);
            generations.last += 1;
            generations.last
        };
        let kept = Self { descriptors: Arc::clone(descriptors), number };
        kept.keep(Arc::new(file));
        kept
    }

    /// The descriptor. `open` opens a file that was closed.
    pub(super) fn get(&self, open: impl FnOnce() -> Result<OwnedFd, Errno>) -> Result<Arc<OwnedFd>, Errno> {
        let kept = {
            let mut generations = crate::lock(&self.descriptors.generations);
            match generations.young.get(&self.number) {
                Some(file) => return Ok(Arc::clone(file)),
                None => generations.old.remove(&self.number),
            }
        };
        let file = kept.map_or_else(|| open().map(Arc::new), Ok)?;
        self.keep(Arc::clone(&file));
        Ok(file)
    }

    fn keep(&self, file: Arc<OwnedFd>) {
        let mut generations = crate::lock(&self.descriptors.generations);
        if generations.young.len() >= self.descriptors.most {
            generations.old = std::mem::take(&mut generations.young);
        }
        generations.young.insert(self.number, file);
    }

    /// Closes it, until it is used again.
    pub(super) fn close(&self) {
        let mut generations = crate::lock(&self.descriptors.generations);
        generations.young.remove(&self.number);
        generations.old.remove(&self.number);
    }
}

impl Drop for KeptOpen {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays_open() {
        let descriptors = Arc::new(Descriptors::new(6));
        let file = || OwnedFd::from(std::fs::File::open("/").unwrap());
        let kept: Vec<_> = (0..20).map(|_| KeptOpen::new(&descriptors, file())).collect();
        let is_open = |kept: &KeptOpen| kept.get(|| Err(Errno::NOENT)).is_ok();
        assert!(is_open(&kept[19]) && is_open(&kept[18]) && !is_open(&kept[0]));
        for place in 0..20 {
            assert!(kept[place].get(|| Ok(file())).is_ok());
            assert!(kept[0].get(|| Ok(file())).is_ok() && is_open(&kept[place]));
            let generations = crate::lock(&descriptors.generations);
            assert!(generations.young.len() + generations.old.len() <= 6);
        }
        kept[0].close();
        assert!(!is_open(&kept[0]) && is_open(&kept[19]));
        drop(kept);
        let generations = crate::lock(&descriptors.generations);
        assert!(generations.young.is_empty() && generations.old.is_empty());
    }
}
