//! The advice for an entry of a search list, and the cost of all lists of one kind.

use super::model::{EntryCounts, EntryKey, SearchKind, Searches};
use std::collections::BTreeMap;

/// The advice for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It serves, or no user can change it. An entry that serves seldom stays where it is: behind
    /// another one that holds the same name it would serve something else, and no trace knows what is behind a hit.
    Keep,
    /// Nothing was found in it.
    Remove,
    /// Nothing was found in it, but other commands may be: it should stand behind those that serve.
    MoveBehind,
}

impl Advice {
    /// About an entry, by what this run asked of it. Another run may find something there.
    pub fn of(key: &EntryKey, counts: &EntryCounts) -> Self {
        match key.kind {
            _ if !is_chosen(key) || counts.probes == 0 || counts.hits > 0 => Self::Keep,
            SearchKind::Command => Self::MoveBehind,
            _ => Self::Remove,
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

/// True for an entry that a user or a packager chose: by a variable, an argument, a `.pth` file, or when linking.
fn is_chosen(key: &EntryKey) -> bool {
    let origin = key.origin.as_str();
    let is_variable = origin.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'));
    key.kind != SearchKind::Modules
        && (is_variable
            || origin.starts_with("RPATH of ")
            || origin.starts_with("RUNPATH of ")
            || origin.ends_with(".pth")
            || key.kind == SearchKind::Other)
}

/// The cost of the lists of one kind.
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
    /// The cost of the lists of each kind. Shape: sorted by kind.
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
    fn what_never_serves_is_named() {
        let advice = |kind, origin: &str, hits| {
            let key = EntryKey { kind, origin: origin.into(), directory: (*b"/a").into() };
            Advice::of(&key, &EntryCounts { position: 0, searches: 99, probes: 99, missed: 0, hits })
        };
        use SearchKind::{Command, Loader};
        assert_eq!(advice(Loader, "LD_LIBRARY_PATH", 0), Advice::Remove);
        assert_eq!(advice(Loader, "LD_LIBRARY_PATH", 1), Advice::Keep);
        assert_eq!(advice(Loader, "RUNPATH of /a/b.so", 0), Advice::Remove);
        assert_eq!(advice(Loader, "default directories", 0), Advice::Keep);
        assert_eq!(advice(Loader, "ld.so.cache", 0), Advice::Keep);
        assert_eq!(advice(Command, "PATH", 0), Advice::MoveBehind);
        assert_eq!(advice(Command, "PATH", 1), Advice::Keep);
    }
}
