//! Entries of search lists in both runs: which went away, which came, which are asked more or less.

use super::Change;
use crate::Searches;
use crate::searches::{EntryCounts, EntryKey};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// An entry of a search list in both runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPair {
    /// The entry.
    pub key: EntryKey,
    /// Its operations in the first run; `None` when it was not in the list.
    pub a: Option<EntryCounts>,
    /// The same of the second run.
    pub b: Option<EntryCounts>,
}

impl EntryPair {
    /// The change.
    pub fn change(&self) -> Change {
        match (self.a, self.b) {
            (Some(_), None) => Change::Gone,
            (None, Some(_)) => Change::New,
            _ => Change::of(self.probes().0, self.probes().1),
        }
    }

    /// Metadata operations on names in it, in both runs.
    pub fn probes(&self) -> (u64, u64) {
        let probes = |counts: Option<EntryCounts>| counts.map_or(0, |counts| counts.probes);
        (probes(self.a), probes(self.b))
    }

    /// Its place in the list does not matter: when an entry goes away, all behind it move up.
    fn differs(&self) -> bool {
        let cost = |counts: EntryCounts| EntryCounts { position: 0, ..counts };
        self.a.map(cost) != self.b.map(cost)
    }
}

/// Shape: entries that cost differently, by the change of probes, most first, then by entry.
pub(super) fn compare(a: &Searches, b: &Searches) -> Vec<EntryPair> {
    let keys: BTreeSet<&EntryKey> = a.entries.keys().chain(b.entries.keys()).collect();
    let pair = |key: &EntryKey| EntryPair {
        key: key.clone(),
        a: a.entries.get(key).copied(),
        b: b.entries.get(key).copied(),
    };
    let mut pairs: Vec<EntryPair> = keys.into_iter().map(pair).filter(EntryPair::differs).collect();
    pairs.sort_by_key(|pair| Reverse(pair.probes().0.abs_diff(pair.probes().1)));
    pairs
}
