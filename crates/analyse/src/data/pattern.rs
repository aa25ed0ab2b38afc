//! The ranks that move the data of a parallel job: one rank, every rank a file of its own, all ranks one file, or some for all.
//!
//! Files whose paths differ in numbers only are one family, as `out.0000` to `out.0511`. Only what several recorded ranks
//! show can be judged; the recorded ranks stand for all. Source of the four strategies: "Short introduction on Optimizing
//! I/O" (Cray and KTH), section on I/O strategies.

use super::{ByRank, Data, Direction, FileData};
use quell_trace::{Bytes, RankId};
use std::collections::{BTreeMap, HashMap};

/// The ranks that move the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// One rank moves all, or nearly all, for every rank.
    Spokesperson,
    /// Most ranks have a file of their own.
    FilePerProcess,
    /// Most ranks share a file, or several.
    SharedFile,
    /// Some ranks, more than one, move the data for all: into a shared file, or one of each.
    Aggregated,
}

impl Pattern {
    /// Its name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spokesperson => "spokesperson",
            Self::FilePerProcess => "file-per-process",
            Self::SharedFile => "shared-file",
            Self::Aggregated => "aggregated",
        }
    }
}

/// Files whose paths differ in numbers only, with who moves their data in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The path as bytes, with `#` for a number that differs.
    pub name: Vec<u8>,
    /// The direction.
    pub direction: Direction,
    /// The pattern.
    pub pattern: Pattern,
    /// Files with data in this direction.
    pub files: u64,
    /// Ranks that moved some of it.
    pub ranks: u64,
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: Bytes,
}

/// From this share of the bytes on one rank moves "nearly all": a log line or a header of the others changes nothing.
const NEARLY_ALL: f64 = 0.95;
/// More than this share of the ranks are "most": aggregators are fewer, at most one in two.
const MOST: f64 = 0.5;

impl Data {
    /// Families with data in a direction, by bytes, most first, then by name. Shape: empty when fewer than two ranks
    /// recorded.
    pub fn patterns(&self, direction: Direction) -> Vec<Family> {
        if self.ranks.len() < 2 {
            return Vec::new();
        }
        let mut groups: HashMap<Vec<u8>, Vec<(&[u8], &FileData)>> = HashMap::new();
        for (path, file) in &self.files {
            if !by_rank(file, direction).is_empty() && transfers(file, direction).bytes.0 > 0 {
                groups.entry(folded(path)).or_default().push((path, file));
            }
        }
        let mut families: Vec<Family> =
            groups.into_values().map(|files| self.family(files, direction)).collect();
        families.sort_unstable_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        families
    }

    fn family(&self, files: Vec<(&[u8], &FileData)>, direction: Direction) -> Family {
        let mut ranks: BTreeMap<Option<RankId>, u64> = BTreeMap::new();
        let (mut calls, mut bytes, mut owned) = (0, 0u64, 0);
        for (_, file) in &files {
            let transfers = transfers(file, direction);
            calls += transfers.calls;
            bytes = bytes.saturating_add(transfers.bytes.0);
            let moving = || by_rank(file, direction).iter().filter(|(_, bytes)| bytes.0 > 0);
            owned += usize::from(moving().count() == 1);
            for (rank, moved) in moving() {
                let sum = ranks.entry(rank).or_default();
                *sum = sum.saturating_add(moved.0);
            }
        }
        let largest = ranks.values().copied().max().unwrap_or(0);
        let of_most = ranks.len() as f64 > self.ranks.len() as f64 * MOST;
        let pattern = if largest as f64 >= bytes as f64 * NEARLY_ALL {
            Pattern::Spokesperson
        } else if !of_most {
            Pattern::Aggregated
        } else if owned as f64 > files.len() as f64 * MOST {
            Pattern::FilePerProcess
        } else {
            Pattern::SharedFile
        };
        Family {
            name: name(files.iter().map(|(path, _)| *path)),
            direction,
            pattern,
            files: files.len() as u64,
            ranks: ranks.len() as u64,
            calls,
            bytes: Bytes(bytes),
        }
    }
}

fn transfers(file: &FileData, direction: Direction) -> &super::Transfers {
    match direction {
        Direction::Read => &file.reads,
        Direction::Write => &file.writes,
    }
}

fn by_rank(file: &FileData, direction: Direction) -> &ByRank {
    match direction {
        Direction::Read => &file.read_by,
        Direction::Write => &file.written_by,
    }
}

/// The path with `#` for each number.
fn folded(path: &[u8]) -> Vec<u8> {
    pieces(path).flat_map(|piece| if piece[0].is_ascii_digit() { b"#" } else { piece }).copied().collect()
}

/// The common form of paths that differ in numbers only.
fn name<'a>(mut paths: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let first: Vec<&[u8]> = paths.next().map(|path| pieces(path).collect()).unwrap_or_default();
    let mut same = vec![true; first.len()];
    for path in paths {
        for ((same, piece), other) in same.iter_mut().zip(&first).zip(pieces(path)) {
            *same &= *piece == other;
        }
    }
    first.iter().zip(same).flat_map(|(piece, same)| if same { piece } else { &b"#"[..] }).copied().collect()
}

/// Numbers and what is between them, in turn.
fn pieces(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_named_by_what_its_paths_share() {
        let paths: [&[u8]; 3] = [b"/s/run7/out.0001", b"/s/run7/out.0002", b"/s/run7/out.12"];
        assert!(paths.iter().all(|path| folded(path) == b"/s/run#/out.#"));
        assert_eq!(name(paths.into_iter()), b"/s/run7/out.#");
        assert_eq!(name(paths[..1].iter().copied()), paths[0]);
    }
}
