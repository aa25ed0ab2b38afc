//! Counts searches: notes each probe by probe, and enters a search when it has ended and was understood.

use super::model::{EntryCounts, EntryKey, SearchKind, Searches, WantedCounts, WantedKey};
use std::collections::HashMap;

/// An entry of a list. Range: index into its [`SearchBook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct EntryId(u32);

/// A search: its name, its entries, and its cost so far.
#[derive(Clone, Debug)]
pub(super) struct Search<'a> {
    /// Separated by slashes as in the paths that were probed.
    pub(super) name: &'a [u8],
    pub(super) asked_by: Option<&'a [u8]>,
    /// Shape: in the order of the search, entries that follow each other differ.
    looks: Vec<Look>,
    hit: Option<(EntryId, &'a [u8])>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    entry: EntryId,
    position: u32,
    probes: u32,
    missed: u32,
}

impl<'a> Search<'a> {
    pub(super) fn new(name: &'a [u8], asked_by: Option<&'a [u8]>) -> Self {
        Self { name, asked_by, looks: Vec::new(), hit: None }
    }

    /// Notes a probe of an entry that stands at `position` of its list.
    pub(super) fn probe(&mut self, entry: EntryId, position: u32, missed: bool) {
        let missed = u32::from(missed);
        match self.looks.last_mut() {
            Some(look) if look.entry == entry => {
                look.probes = look.probes.saturating_add(1);
                look.missed = look.missed.saturating_add(missed);
            }
            _ => self.looks.push(Look { entry, position, probes: 1, missed }),
        }
    }

    /// The name was found in this entry.
    pub(super) fn found(&mut self, entry: EntryId, place: &'a [u8]) {
        self.hit = Some((entry, place));
    }

    /// The last entry was not part of this search, but the start of `other`, where it stands at `position`.
    pub(super) fn move_last(&mut self, other: &mut Self, position: u32) {
        if let Some(look) = self.looks.pop() {
            other.looks.push(Look { position, ..look });
        }
    }

    pub(super) fn is_found(&self) -> bool {
        self.hit.is_some()
    }

    /// The entry that was probed last.
    pub(super) fn last(&self) -> Option<EntryId> {
        self.looks.last().map(|look| look.entry)
    }
}

/// The owner of the list, the name, the asking file.
type Want<'a> = (SearchKind, &'a [u8], Option<&'a [u8]>);

/// Everything that was counted, by number.
#[derive(Debug, Default)]
pub(super) struct SearchBook<'a> {
    keys: HashMap<EntryKey, EntryId>,
    /// Shape: one entry an [`EntryId`].
    counts: Vec<EntryCounts>,
    wanted: HashMap<Want<'a>, WantedName<'a>>,
}

#[derive(Debug, Default)]
struct WantedName<'a> {
    searches: u64,
    probes: u64,
    missed: u64,
    found: Option<&'a [u8]>,
}

impl<'a> SearchBook<'a> {
    /// The number of an entry, which is added when it is new.
    pub(super) fn entry(&mut self, kind: SearchKind, origin: &str, directory: &[u8]) -> EntryId {
        let key = EntryKey { kind, origin: origin.to_owned(), directory: directory.into() };
        *self.keys.entry(key).or_insert_with(|| {
            self.counts.push(EntryCounts { position: u32::MAX, ..EntryCounts::default() });
            EntryId(self.counts.len() as u32 - 1)
        })
    }

    /// Counts a search that has ended.
    pub(super) fn enter(&mut self, kind: SearchKind, search: &Search<'a>) {
        let wanted = self.wanted.entry((kind, search.name, search.asked_by)).or_default();
        wanted.searches += 1;
        for (index, look) in search.looks.iter().enumerate() {
            let counts = &mut self.counts[look.entry.0 as usize];
            counts.position = counts.position.min(look.position);
            counts.probes += u64::from(look.probes);
            counts.missed += u64::from(look.missed);
            let again = search.looks[..index].iter().any(|earlier| earlier.entry == look.entry);
            counts.searches += u64::from(!again);
            wanted.probes += u64::from(look.probes);
            wanted.missed += u64::from(look.missed);
        }
        if let Some((entry, place)) = search.hit {
            self.counts[entry.0 as usize].hits += 1;
            wanted.found = Some(wanted.found.map_or(place, |known| known.min(place)));
        }
    }

    /// Counts a search that left no trace but its hit in this entry.
    pub(super) fn serve(&mut self, entry: EntryId, position: u32) {
        let counts = &mut self.counts[entry.0 as usize];
        counts.position = counts.position.min(position);
        counts.searches += 1;
        counts.hits += 1;
    }

    /// The searches that were counted; entries that nothing looked into are left out.
    pub(super) fn finish(self) -> Searches {
        let mut searches = Searches::default();
        for (key, id) in self.keys {
            let counts = self.counts[id.0 as usize];
            if counts.searches > 0 {
                searches.entries.insert(key, counts);
            }
        }
        for ((kind, name, asked_by), wanted) in self.wanted {
            let WantedName { searches: count, probes, missed, found } = wanted;
            let key = WantedKey { kind, name: spelled(kind, name), asked_by: asked_by.map(Into::into) };
            let counts = WantedCounts { searches: count, probes, missed, found: found.map(Into::into) };
            searches.wanted.insert(key, counts);
        }
        searches
    }
}

/// A name as its language writes it.
fn spelled(kind: SearchKind, name: &[u8]) -> Box<[u8]> {
    let separator: &[u8] = match kind {
        SearchKind::Python | SearchKind::Lua => b".",
        SearchKind::Perl => b"::",
        _ => return name.into(),
    };
    let parts: Vec<&[u8]> = name.split(|&byte| byte == b'/').collect();
    parts.join(separator).into()
}
