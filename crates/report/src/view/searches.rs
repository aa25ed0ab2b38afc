//! Searches: which entry of which list cost how much, and what was looked for.

use super::ROWS;
use quell_analyse::searches;
use quell_trace::path::escape;
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
}

/// An entry of a search list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchEntry {
    /// Whose list: `loader`, `path`, `python`, `julia`, `perl`, `r`, `lua`, `modules`.
    pub kind: String,
    /// What put it into the list.
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
}

/// Something that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Wanted {
    /// In whose list.
    pub kind: String,
    /// The name asked for.
    pub name: String,
    /// The file on whose behalf; null for the program itself or when not known.
    pub asked_by: Option<String>,
    /// How often it was looked for.
    pub searches: u64,
    /// Metadata operations of these searches.
    pub probes: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Where it was found; null when it never was.
    pub found: Option<String>,
}

impl From<&searches::Searches> for Searches {
    fn from(searches: &searches::Searches) -> Self {
        let mut entries: Vec<_> = searches.entries.iter().collect();
        entries.sort_by_key(|(_, counts)| Reverse((counts.missed, counts.probes)));
        let mut wanted: Vec<_> = searches.wanted.iter().collect();
        wanted.sort_by_key(|(_, counts)| Reverse((counts.missed, counts.probes)));
        Self {
            entries: entries.into_iter().take(ROWS).map(entry).collect(),
            wanted: wanted.into_iter().take(ROWS).map(want).collect(),
        }
    }
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
