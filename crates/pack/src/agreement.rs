//! Compares the recordings of a trace below the roots. A tool that packs the files of a few ranks for all of them assumes
//! that they agree.
//!
//! The image covers the requests of each recording, so that nothing is lost where ranks differ. No recording tells the
//! requests of other ranks: only a name with the rank's number in it is sure to differ.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quell_image::ImageTree;
use quell_image::path::{is_within, split};
use quell_trace::{Header, Trace, TraceError};

use crate::observe::observe_each;
use crate::path_tree::PathTree;
use crate::roots::RootChoice;

/// The comparison of recordings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// A label for each recording, such as `rank 5 of 64`. Shape: one for each recording, in their order.
    pub recordings: Vec<String>,
    /// Paths that only some asked for. Shape: most paths first; empty if the recordings agree.
    pub apart: Vec<Disagreement>,
    /// Names that have the number of the rank in them, as a pattern of printf(3). Shape: sorted by path.
    pub by_rank: Vec<Vec<u8>>,
}

/// Paths that the same recordings asked for, and the others did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// Numbers of the recordings that asked, in their order.
    pub by: Vec<usize>,
    /// Names that were looked up, found or not.
    pub paths: u64,
    /// Files of these that were read.
    pub files: u64,
    /// Bytes that the image holds of them.
    pub bytes: u64,
    /// The deepest directory that has all of it.
    pub directory: Vec<u8>,
}

/// The recordings that asked for one path.
#[derive(Debug, Clone, Default)]
struct Asked {
    by: Vec<usize>,
    read: bool,
}

/// Compares the recordings of `trace` below `choices`; `None` of a single one.
pub(crate) fn compare(
    trace: &Trace,
    choices: &[RootChoice],
    tree: &ImageTree,
) -> Result<Option<Agreement>, TraceError> {
    if trace.recordings.len() < 2 {
        return Ok(None);
    }
    let mut asked: BTreeMap<Vec<u8>, Asked> = BTreeMap::new();
    for (number, recorded) in observe_each(trace)?.iter().enumerate() {
        for choice in choices {
            note(recorded, choice, &mut |path, read| {
                let known = asked.entry(path.to_vec()).or_default();
                known.by.push(number);
                known.read |= read;
            });
        }
    }
    let all = trace.recordings.len();
    asked.retain(|_, asked| asked.by.len() < all);
    let headers: Vec<&Header> = trace.recordings.iter().map(|recording| &recording.header).collect();
    Ok(Some(Agreement {
        recordings: headers.iter().map(|header| label(header)).collect(),
        by_rank: by_rank(&headers, &asked),
        apart: groups(&asked, tree),
    }))
}

/// Calls `each` for every path that was asked for below a root, but for what stays the original.
fn note(recorded: &PathTree, choice: &RootChoice, each: &mut dyn FnMut(&[u8], bool)) {
    let Some(root) = recorded.find(&choice.path) else { return };
    root.visit(&choice.path, &mut |path, node| {
        let live = choice.live.iter().any(|(live, _)| is_within(path, live));
        if !live && (node.seen.touched || node.seen.missed) {
            each(path, node.seen.read.is_some());
        }
    });
}

fn label(header: &Header) -> String {
    let mut label = match header.rank {
        Some(rank) => format!("rank {rank}"),
        None => "no rank".to_owned(),
    };
    if let Some(ranks) = header.ranks {
        // Writing to a string cannot fail.
        _ = write!(label, " of {ranks}");
    }
    label
}

fn groups(asked: &BTreeMap<Vec<u8>, Asked>, tree: &ImageTree) -> Vec<Disagreement> {
    let mut groups: BTreeMap<&[usize], Disagreement> = BTreeMap::new();
    for (path, asked) in asked {
        let group = groups.entry(&asked.by).or_insert_with(|| Disagreement {
            by: asked.by.clone(),
            paths: 0,
            files: 0,
            bytes: 0,
            directory: split(path).0.to_vec(),
        });
        group.paths += 1;
        while !is_within(path, &group.directory) {
            group.directory = split(&group.directory).0.to_vec();
        }
        if let Some(bytes) = tree.find(path).filter(|_| asked.read).and_then(|node| tree.bytes_held_of(node))
        {
            group.files += 1;
            group.bytes += bytes;
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|a, b| b.paths.cmp(&a.paths).then_with(|| a.by.cmp(&b.by)));
    groups
}

/// Patterns that give one rank its name and another rank another one.
fn by_rank(headers: &[&Header], asked: &BTreeMap<Vec<u8>, Asked>) -> Vec<Vec<u8>> {
    let mut ranks_of: BTreeMap<Vec<u8>, BTreeSet<u32>> = BTreeMap::new();
    for (path, asked) in asked {
        for rank in asked.by.iter().filter_map(|number| headers.get(*number)?.rank) {
            for pattern in patterns(path, rank.0) {
                ranks_of.entry(pattern).or_default().insert(rank.0);
            }
        }
    }
    ranks_of.into_iter().filter(|(_, ranks)| ranks.len() > 1).map(|(pattern, _)| pattern).collect()
}

/// `path` with a conversion for each number in it that is `rank`, one at a time.
fn patterns(path: &[u8], rank: u32) -> Vec<Vec<u8>> {
    let words: Vec<&[u8]> = path.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).collect();
    let is_rank = |word: &&[u8]| str::from_utf8(word).ok().and_then(|word| word.parse().ok()) == Some(rank);
    let with = |at: usize| {
        let word = words[at];
        let conversion = match word.len() > 1 && word[0] == b'0' {
            true => format!("%0{}d", word.len()).into_bytes(),
            false => b"%d".to_vec(),
        };
        [&words[..at].concat(), &conversion[..], &words[at + 1..].concat()].concat()
    };
    (0..words.len()).filter(|&at| is_rank(&words[at])).map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_the_rank_becomes_a_conversion() {
        let all: [(&str, u32, &[&str]); 5] = [
            ("/l/part.5", 5, &["/l/part.%d"]),
            ("/l/part.0005", 5, &["/l/part.%04d"]),
            ("/l/v5/part.5", 5, &["/l/v%d/part.5", "/l/v5/part.%d"]),
            ("/l/part.15", 5, &[]),
            ("/l/part.000", 0, &["/l/part.%03d"]),
        ];
        for (path, rank, expected) in all {
            let found: Vec<_> = patterns(path.as_bytes(), rank);
            let found: Vec<_> = found.iter().map(|pattern| str::from_utf8(pattern).unwrap()).collect();
            assert_eq!(found, expected, "{path}");
        }
    }
}
