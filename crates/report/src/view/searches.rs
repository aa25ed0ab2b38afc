//! Searches: which entry of which list cost how much, and what was looked for.

use super::{Rows, SCREEN};
use quell_analyse::searches::{self, ListCosts, SearchKind};
use quell_base::escape;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;

/// Misses tied to the search that made them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Searches {
    /// The entries with most misses, at most 1000.
    pub entries: Vec<SearchEntry>,
    /// The names with most misses, at most 1000.
    pub wanted: Vec<Wanted>,
    /// The lists of each kind. Sorted by kind.
    #[serde(skip)]
    pub lists: Vec<SearchList>,
    /// Misses that belong to a search.
    #[serde(skip)]
    pub missed: u64,
    /// The entries with most probes, at most 10; among equals in the order of their lists.
    #[serde(skip)]
    pub entries_by_probes: Vec<SearchEntry>,
    /// The names with most probes, at most 10.
    #[serde(skip)]
    pub wanted_by_probes: Vec<Wanted>,
    /// All entries and all names, with those that the tables leave out.
    #[serde(skip)]
    pub counts: (usize, usize),
}

/// The lists of one kind together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchList {
    /// `loader`, `path`, `python`, `julia`, `perl`, `r`, `lua`, `modules` or `other`.
    pub kind: &'static str,
    /// Entries that were looked into.
    pub entries: u64,
    /// Searches.
    pub searches: u64,
    /// Metadata operations of these searches.
    pub probes: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Searches that found their name.
    pub found: u64,
}

/// An entry of a search list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchEntry {
    /// The owner of the list: `loader`, `path`, `python`, `julia`, `perl`, `r`, `lua`, `modules`;
    /// `other` for a list that no rule knows.
    pub kind: String,
    /// Its origin.
    pub origin: String,
    /// The entry.
    pub directory: String,
    /// Its place in the list, from 0.
    pub position: u32,
    /// Searches that looked into it.
    pub searches: u64,
    /// Metadata operations on names in it.
    pub probes: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Searches that found here what they looked for.
    pub hits: u64,
    /// The advice, in one or two words; empty for none.
    #[serde(skip)]
    pub advice: &'static str,
}

/// Something that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Wanted {
    /// The owner of the list.
    pub kind: String,
    /// The name asked for.
    pub name: String,
    /// The file that needs the name; null for the program itself, or where it is not known.
    pub asked_by: Option<String>,
    /// Searches for it.
    pub searches: u64,
    /// Metadata operations of these searches.
    pub probes: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// The place of a hit; null without one.
    pub found: Option<String>,
}

pub(super) fn searches(searches: &searches::Searches, rows: Rows) -> Searches {
    // Sorting is stable: equals stay in the order of the maps.
    let (mut entries, mut wanted) = (Vec::from_iter(&searches.entries), Vec::from_iter(&searches.wanted));
    let (mut by_probes, mut wanted_by_probes) = (entries.clone(), wanted.clone());
    entries.sort_by_key(|(_, counts)| Reverse((counts.missed, counts.probes)));
    wanted.sort_by_key(|(_, counts)| Reverse((counts.missed, counts.probes)));
    by_probes.sort_by_key(|(_, counts)| (Reverse(counts.probes), Reverse(counts.missed), counts.position));
    wanted_by_probes.sort_by_key(|(_, counts)| Reverse((counts.probes, counts.missed)));
    Searches {
        counts: (entries.len(), wanted.len()),
        entries: entries.into_iter().take(rows.most()).map(entry).collect(),
        wanted: wanted.into_iter().take(rows.most()).map(want).collect(),
        lists: searches.costs().into_iter().map(list).collect(),
        missed: searches.missed(),
        entries_by_probes: by_probes.into_iter().take(SCREEN).map(entry).collect(),
        wanted_by_probes: wanted_by_probes.into_iter().take(SCREEN).map(want).collect(),
    }
}

fn list((kind, costs): (SearchKind, ListCosts)) -> SearchList {
    let ListCosts { entries, searches, probes, missed, found } = costs;
    SearchList { kind: kind.name(), entries, searches, probes, missed, found }
}

fn entry((key, counts): (&searches::EntryKey, &searches::EntryCounts)) -> SearchEntry {
    SearchEntry {
        kind: key.kind.name().into(),
        origin: key.origin.clone(),
        directory: escape(&key.directory),
        position: counts.position,
        searches: counts.searches,
        probes: counts.probes,
        missed: counts.missed,
        hits: counts.hits,
        advice: searches::Advice::of(key, counts).words(),
    }
}

fn want((key, counts): (&searches::WantedKey, &searches::WantedCounts)) -> Wanted {
    Wanted {
        kind: key.kind.name().into(),
        name: escape(&key.name),
        asked_by: key.asked_by.as_deref().map(escape),
        searches: counts.searches,
        probes: counts.probes,
        missed: counts.missed,
        found: counts.found.as_deref().map(escape),
    }
}
