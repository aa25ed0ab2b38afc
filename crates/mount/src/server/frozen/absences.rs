//! Names that the kernel was told are absent for ever, so that it can be told otherwise when a directory goes live.
//!
//! They are written down for the next server. A name without room there is told absent for a second only.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use quell_image::Nid;

use crate::lock;
use crate::server::log::{Log, LogRecord};
use crate::sys::shared::SharedMemory;

/// The names that were told.
#[derive(Debug)]
pub(crate) struct ToldAbsences(Mutex<Told>);

#[derive(Debug)]
struct Told {
    names: HashMap<Nid, HashSet<Box<[u8]>>>,
    log: Log,
}

impl ToldAbsences {
    /// The names that are written down in `memory`, but for those in directories of which `is_told` says that the
    /// kernel has forgotten them.
    pub(crate) fn attach(memory: Arc<SharedMemory>, is_told: impl Fn(Nid) -> bool) -> Self {
        let log = Log::attach(memory);
        let mut names: HashMap<Nid, HashSet<Box<[u8]>>> = HashMap::new();
        for (_, record) in log.records() {
            if let Some(directory) = record.words.first().map(|nid| Nid::new(*nid))
                && !is_told(directory)
            {
                names.entry(directory).or_default().insert(record.text.into());
            }
        }
        Self(Mutex::new(Told { names, log }))
    }

    /// Remembers that `name` is absent. Returns false if there was no room.
    pub(crate) fn remember(&self, directory: Nid, name: &[u8]) -> bool {
        let mut told = lock(&self.0);
        if told.names.get(&directory).is_some_and(|names| names.contains(name)) {
            return true;
        }
        let words = [directory.value()];
        if told.log.append(&LogRecord { kind: 0, words: &words, text: name }).is_none() {
            return false;
        }
        told.names.entry(directory).or_default().insert(name.into())
    }

    /// Forgets that `name` was absent from `directory`.
    pub(crate) fn revoke(&self, directory: Nid, name: &[u8]) {
        if let Some(names) = lock(&self.0).names.get_mut(&directory) {
            names.remove(name);
        }
    }

    /// Takes the names of `directory` out.
    pub(crate) fn take(&self, directory: Nid) -> Vec<Box<[u8]>> {
        lock(&self.0).names.remove(&directory).unwrap_or_default().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn told_absences_are_given_back_once() {
        let memory = Arc::new(SharedMemory::new(4096).unwrap());
        let told = ToldAbsences::attach(Arc::clone(&memory), |_| false);
        assert!(told.remember(Nid::new(5), b"avx2"));
        assert!(told.remember(Nid::new(5), b"avx2"));
        assert!(told.remember(Nid::new(6), b"lib"));
        assert_eq!(told.take(Nid::new(5)), vec![Box::from(&b"avx2"[..])]);
        assert!(told.take(Nid::new(5)).is_empty());
        let next = ToldAbsences::attach(memory, |directory| directory == Nid::new(5));
        assert!(next.take(Nid::new(5)).is_empty());
        assert_eq!(next.take(Nid::new(6)).len(), 1);
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered() {
        let told = ToldAbsences::attach(Arc::new(SharedMemory::new(4096).unwrap()), |_| false);
        let remembered = (0..1000_u32).filter(|name| told.remember(Nid::new(5), &name.to_ne_bytes())).count();
        assert!((50..1000).contains(&remembered), "{remembered}");
    }
}
