//! Searches by entry of a list, and by the name that was looked for. Both merge.

use std::collections::{BTreeMap, BTreeSet};

/// The list that was searched, by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SearchKind {
    /// The dynamic loader's: RPATH, LD_LIBRARY_PATH, RUNPATH, cache, default directories. Source: `ld.so(8)`.
    Loader,
    /// PATH, for programs.
    Command,
    /// Python's `sys.path`.
    Python,
    /// Julia's LOAD_PATH and DEPOT_PATH.
    Julia,
    /// Perl's `@INC`.
    Perl,
    /// R's library paths.
    R,
    /// Lua's `package.path` and `package.cpath`.
    Lua,
    /// MODULEPATH of Environment Modules and Lmod.
    Modules,
    /// A list that no rule knows, found by its order.
    Other,
}

impl SearchKind {
    /// Its name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loader => "loader",
            Self::Command => "path",
            Self::Python => "python",
            Self::Julia => "julia",
            Self::Perl => "perl",
            Self::R => "r",
            Self::Lua => "lua",
            Self::Modules => "modules",
            Self::Other => "other",
        }
    }
}

/// An entry of a list: a directory, or the loader's cache file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    /// The owner of the list.
    pub kind: SearchKind,
    /// The origin of the entry, in the user's words: `LD_LIBRARY_PATH`, `RUNPATH of /a/b.so`, `PYTHONPATH`,
    /// `site-packages`, `/a/b.pth`.
    pub origin: String,
    /// The entry as the list has it, with `..` worked out by its text; without subdirectories that the search itself appends.
    pub directory: Box<[u8]>,
}

/// The operations on an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// Its place in the list, from 0; the first place when lists differ.
    pub position: u32,
    /// Searches that looked into it.
    pub searches: u64,
    /// Metadata operations on it and on names in it. Python's finders ask for the entry itself in each search, with
    /// success: there probes are the cost, and hardly one is a miss.
    pub probes: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Searches that ended here with a hit. An entry without hits can be moved behind all others, or removed.
    pub hits: u64,
}

/// Something that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WantedKey {
    /// In whose list.
    pub kind: SearchKind,
    /// The name asked for: `libm.so.6`, `numpy`, `gcc`; in parentheses what no call shows, as `(not found)` for the
    /// imports that asked every entry and went away.
    pub name: Box<[u8]>,
    /// The file on whose behalf: the library that has it in NEEDED, the package that imports it; `None` when the
    /// program itself asked or it is not known.
    pub asked_by: Option<Box<[u8]>>,
}

/// The cost of looking for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedCounts {
    /// Searches for it.
    pub searches: u64,
    /// Metadata operations of these searches.
    pub probes: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// The place of a hit; the first in byte order when there are several, `None` without a hit.
    pub found: Option<Box<[u8]>>,
}

/// Every search of one recording, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searches {
    /// By entry. Shape: sorted by list, origin and directory.
    pub entries: BTreeMap<EntryKey, EntryCounts>,
    /// By name. Shape: sorted by list, name and who asked.
    pub wanted: BTreeMap<WantedKey, WantedCounts>,
    /// The lists of [`SearchKind::Other`], by the origin of their entries.
    pub lists: BTreeMap<String, ListFacts>,
}

/// A list that no rule knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFacts {
    /// The programs that searched it, by their names.
    pub asked_by: BTreeSet<String>,
    /// The place where the list is said; the first in order when programs differ.
    pub source: ListSource,
    /// By the directory of the entry.
    pub entries: BTreeMap<Box<[u8]>, ListEntry>,
}

/// The place where a list is said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListSource {
    /// An environment variable.
    Variable {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A command line.
    Arguments {
        /// The option before each entry: `-I`.
        option: String,
        /// The program with its arguments.
        command: Vec<String>,
    },
    /// A file, or the program itself.
    Unknown {
        /// Files that the program read before it searched, the last one first.
        read_before: Vec<Box<[u8]>>,
    },
}

impl Default for ListSource {
    fn default() -> Self {
        Self::Unknown { read_before: Vec::new() }
    }
}

/// An entry of a list that no rule knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListEntry {
    /// The directory, links followed.
    pub resolved: Box<[u8]>,
    /// Operations on it and in it that would disappear if all entries were one directory.
    pub spare: u64,
    /// Operations on each directory above it that were made for it alone: its path was worked out component by component.
    pub walked: u64,
}

impl Searches {
    /// Adds the searches of other recordings. Exact, and in any order.
    pub fn merge(&mut self, other: Self) {
        for (key, counts) in other.entries {
            match self.entries.get_mut(&key) {
                Some(entry) => entry.add(counts),
                None => _ = self.entries.insert(key, counts),
            }
        }
        for (key, counts) in other.wanted {
            self.wanted.entry(key).or_default().add(counts);
        }
        for (origin, facts) in other.lists {
            match self.lists.get_mut(&origin) {
                Some(list) => list.add(facts),
                None => _ = self.lists.insert(origin, facts),
            }
        }
    }
}

impl ListFacts {
    /// Adds what another recording or program asked of the same list.
    pub(super) fn add(&mut self, other: Self) {
        self.asked_by.extend(other.asked_by);
        if other.source < self.source {
            self.source = other.source;
        }
        for (directory, entry) in other.entries {
            let mine = self
                .entries
                .entry(directory)
                .or_insert_with(|| ListEntry { resolved: entry.resolved.clone(), ..ListEntry::default() });
            mine.spare += entry.spare;
            mine.walked += entry.walked;
            if entry.resolved < mine.resolved {
                mine.resolved = entry.resolved;
            }
        }
    }
}

impl EntryCounts {
    pub(super) fn add(&mut self, other: Self) {
        self.position = self.position.min(other.position);
        self.searches += other.searches;
        self.probes += other.probes;
        self.missed += other.missed;
        self.hits += other.hits;
    }
}

impl WantedCounts {
    pub(super) fn add(&mut self, other: Self) {
        self.searches += other.searches;
        self.probes += other.probes;
        self.missed += other.missed;
        self.found = match (self.found.take(), other.found) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (known, None) | (None, known) => known,
        };
    }
}
