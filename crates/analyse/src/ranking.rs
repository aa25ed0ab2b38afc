//! The rows at the top: paths, directories, names and commands that metadata operations were about.

use crate::counts::CommandCounts;
use crate::{PathCounts, Summary};
use quell_base::escape;
use quell_trace::ServedBy;
use std::collections::HashMap;

/// The file systems of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankingScope {
    /// Those that other nodes share.
    Network,
    /// All.
    All,
}

/// A path with what was asked about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedPath {
    /// The path; escaped.
    pub path: String,
    /// The class of the operations.
    pub counts: PathCounts,
}

/// A directory with what was asked about the names directly in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedDirectory {
    /// The directory; escaped.
    pub path: String,
    /// The sum over its names.
    pub counts: PathCounts,
    /// Names in it that were asked for.
    pub names: u64,
    /// Names in it that were asked for and never found.
    pub absent: u64,
}

/// A name that was looked for and not found, wherever it was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedName {
    /// The last component; escaped.
    pub name: String,
    /// Metadata operations that failed because it was absent.
    pub missed: u64,
    /// Directories in which it was missed: the length of the search.
    pub directories: u64,
}

/// A command with what its processes did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedCommand<'a> {
    /// Its arguments, its name first.
    pub arguments: &'a [String],
    /// Its counts.
    pub counts: CommandCounts,
}

#[derive(Default)]
struct DirectorySum {
    counts: PathCounts,
    names: u64,
    absent: u64,
}

#[derive(Default)]
struct NameSum {
    missed: u64,
    directories: u64,
}

impl Summary {
    /// The network when it served anything: then its paths are what matters; otherwise everything.
    pub fn scope(&self) -> RankingScope {
        match self.served.network {
            0 => RankingScope::All,
            _ => RankingScope::Network,
        }
    }

    /// Shape: at most `count`, sorted by metadata operations, most first, then by path.
    pub fn top_paths(&self, scope: RankingScope, count: usize) -> Vec<RankedPath> {
        let rows = self.within(scope).map(|(path, counts)| (counts.metadata_operations, path, *counts));
        let rows = largest(rows.collect(), count);
        rows.into_iter().map(|(_, path, counts)| RankedPath { path: escape(path), counts }).collect()
    }

    /// Shape: at most `count`, sorted by metadata operations, most first, then by path.
    pub fn top_directories(&self, scope: RankingScope, count: usize) -> Vec<RankedDirectory> {
        self.directories(scope, count, |directory| directory.counts.metadata_operations)
    }

    /// The directories that were searched in vain most often: an entry of a search path that is at fault stands
    /// here. Shape: at most `count`, sorted by misses, most first, then by path; none without misses.
    pub fn missed_directories(&self, scope: RankingScope, count: usize) -> Vec<RankedDirectory> {
        self.directories(scope, count, |directory| directory.counts.missed)
    }

    /// Shape: at most `count`, sorted by misses, most first, then by name; none without misses.
    pub fn missed_names(&self, scope: RankingScope, count: usize) -> Vec<RankedName> {
        let mut names: HashMap<&[u8], NameSum> = HashMap::new();
        for (path, counts) in self.within(scope).filter(|(_, counts)| counts.missed > 0) {
            let name = names.entry(split(path).1).or_default();
            name.missed += counts.missed;
            name.directories += 1;
        }
        let rows = names.into_iter().map(|(name, row)| (row.missed, name, row.directories)).collect();
        let row = |(missed, name, directories)| RankedName { name: escape(name), missed, directories };
        largest(rows, count).into_iter().map(row).collect()
    }

    /// Shape: at most `count`, sorted by metadata operations, most first, then by arguments.
    pub fn top_commands(&self, count: usize) -> Vec<RankedCommand<'_>> {
        let rows = self.commands.iter().map(|(line, counts)| (counts.metadata_operations, line, *counts));
        let rows = largest(rows.collect(), count).into_iter();
        rows.map(|(_, arguments, counts)| RankedCommand { arguments, counts }).collect()
    }

    fn directories(
        &self,
        scope: RankingScope,
        count: usize,
        key: impl Fn(&DirectorySum) -> u64,
    ) -> Vec<RankedDirectory> {
        let mut directories: HashMap<&[u8], DirectorySum> = HashMap::new();
        for (path, counts) in self.within(scope) {
            let directory = directories.entry(split(path).0).or_default();
            directory.counts += *counts;
            directory.names += 1;
            directory.absent += u64::from(counts.missed == counts.metadata_operations);
        }
        let rows = directories.into_iter().map(|(path, row)| (key(&row), path, row));
        let rows = largest(rows.filter(|(key, ..)| *key > 0).collect(), count);
        let row = |(_, path, DirectorySum { counts, names, absent }): (u64, &[u8], DirectorySum)| {
            RankedDirectory { path: escape(path), counts, names, absent }
        };
        rows.into_iter().map(row).collect()
    }

    fn within(&self, scope: RankingScope) -> impl Iterator<Item = (&[u8], &PathCounts)> {
        let inside = move |counts: &PathCounts| {
            scope == RankingScope::All || counts.served_by == Some(ServedBy::Network)
        };
        self.paths.iter().map(|(path, counts)| (&**path, counts)).filter(move |(_, counts)| inside(counts))
    }
}

/// The rows with the largest numbers, ties by name, without sorting all the others.
fn largest<K: Ord, V>(mut rows: Vec<(u64, K, V)>, count: usize) -> Vec<(u64, K, V)> {
    let order = |a: &(u64, K, V), b: &(u64, K, V)| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1));
    if count < rows.len() {
        rows.select_nth_unstable_by(count, order);
        rows.truncate(count);
    }
    rows.sort_unstable_by(order);
    rows
}

/// Directory and name. The root is the name `/` in the directory `/`.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) if path.len() == 1 => (path, path),
        Some(0) => (&path[..1], &path[1..]),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}
