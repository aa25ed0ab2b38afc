//! What to do about an entry of a search list, and what the lists of one kind cost together.

use super::model::{EntryCounts, EntryKey, SearchKind, Searches};
use std::collections::BTreeMap;

/// An entry that serves fewer of its searches than one in so many stands too far in front. Larger: only entries that
/// serve hardly anything are named; smaller: entries would be named whose move makes others wait.
const SELDOM: u64 = 10;

/// What to do about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It serves, or nobody put it there who could change it.
    Keep,
    /// Nothing was found in it.
    Remove,
    /// Little was found in it: it should stand behind those that serve.
    MoveBehind,
}

impl Advice {
    /// About an entry, by what this run asked of it. Another run may find something there.
    pub fn of(key: &EntryKey, counts: &EntryCounts) -> Self {
        match counts.hits {
            _ if !is_chosen(key) || counts.probes == 0 => Self::Keep,
            0 => Self::Remove,
            hits if hits.saturating_mul(SELDOM) <= counts.searches => Self::MoveBehind,
            _ => Self::Keep,
        }
    }

    /// The words in a report; none when there is nothing to do.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Keep => "",
            Self::Remove => "remove",
            Self::MoveBehind => "move behind",
        }
    }
}

/// Whether somebody put the entry into the list: by a variable, a `.pth` file, or when linking.
fn is_chosen(key: &EntryKey) -> bool {
    let origin = key.origin.as_str();
    let is_variable = origin.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
    key.kind != SearchKind::Modules
        && (is_variable
            || origin.starts_with("RPATH of ")
            || origin.starts_with("RUNPATH of ")
            || origin.ends_with(".pth"))
}

/// What the lists of one kind cost together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListCosts {
    /// Entries that were looked into.
    pub entries: u64,
    /// Searches.
    pub searches: u64,
    /// Metadata operations of these searches.
    pub probes: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Searches that found what they looked for.
    pub found: u64,
}

impl Searches {
    /// What the lists of each kind cost. Shape: sorted by kind.
    pub fn costs(&self) -> BTreeMap<SearchKind, ListCosts> {
        let mut costs: BTreeMap<SearchKind, ListCosts> = BTreeMap::new();
        for (key, counts) in &self.entries {
            let cost = costs.entry(key.kind).or_default();
            cost.entries += 1;
            cost.found += counts.hits;
            cost.probes += counts.probes;
            cost.missed += counts.missed;
        }
        for (key, counts) in &self.wanted {
            costs.entry(key.kind).or_default().searches += counts.searches;
        }
        costs
    }

    /// Misses that belong to some search.
    pub fn missed(&self) -> u64 {
        self.entries.values().map(|counts| counts.missed).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_or_seldom_serves_is_named() {
        let advice = |origin: &str, searches, hits| {
            let key =
                EntryKey { kind: SearchKind::Loader, origin: origin.into(), directory: (*b"/a").into() };
            Advice::of(&key, &EntryCounts { position: 0, searches, probes: searches, missed: 0, hits })
        };
        assert_eq!(advice("LD_LIBRARY_PATH", 5, 0), Advice::Remove);
        assert_eq!(advice("LD_LIBRARY_PATH", 10, 1), Advice::MoveBehind);
        assert_eq!(advice("LD_LIBRARY_PATH", 9, 1), Advice::Keep);
        assert_eq!(advice("RUNPATH of /a/b.so", 5, 0), Advice::Remove);
        assert_eq!(advice("default directories", 5, 0), Advice::Keep);
        assert_eq!(advice("ld.so.cache", 5, 0), Advice::Keep);
    }
}
