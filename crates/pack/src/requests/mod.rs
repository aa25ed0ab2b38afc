//! The paths that the recordings asked for, kept in the image, so that it can be packed again without them.
//!
//! The record is the tree of paths from which the roots were chosen, cut to the roots. It lies in `/.quell/asked` behind all
//! content, where no run reads it. It leaves out names outside the roots, names in live directories, and in a public image
//! names in directories that other users may not look into. It keeps the number of paths that were asked for there.

mod decode;
mod encode;
mod layout;

use std::collections::BTreeSet;

use quell_image::path::{components, is_name, join};
use quell_image::write::Audience;
use quell_image::{Coverage, ImageTree};

use crate::options::Hold;
use crate::path_tree::PathTree;
use crate::roots::{RootChoice, RootOrigin};

/// An image's record of its recordings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedRequests {
    /// The users of the image.
    pub(crate) audience: Audience,
    /// The part of used files that it holds.
    pub(crate) hold: Hold,
    /// Its roots, sorted by path.
    pub(crate) roots: Vec<(Vec<u8>, RootOrigin)>,
    /// The requested paths below them.
    pub(crate) recorded: PathTree,
}

/// Names of the longest path that Linux takes: `PATH_MAX` of 4096 bytes, each name at least one and a slash.
const DEPTH_MAX: usize = 2048;

impl RecordedRequests {
    /// Cuts `recorded` to the paths that an image of `choices` may list. `tree` is the packed tree.
    pub(crate) fn of(
        recorded: &PathTree,
        choices: &[RootChoice],
        tree: &ImageTree,
        audience: Audience,
        hold: Hold,
    ) -> Self {
        let mut kept = PathTree::default();
        for choice in choices {
            let (mut from, mut path) = (Some(recorded), b"/".to_vec());
            for name in components(&choice.path) {
                let mounted = from.and_then(|node| node.mounted.clone());
                kept.grow(&path).mounted = mounted;
                from = from.and_then(|node| node.children.get(name));
                path = join(&path, name);
            }
            if let Some(from) = from {
                *kept.grow(&choice.path) = listed(from, &choice.path, tree, audience);
            }
        }
        rank_reads(&mut kept);
        let roots = choices.iter().map(|choice| (choice.path.clone(), choice.origin)).collect();
        Self { audience, hold, roots, recorded: kept }
    }
}

/// Tells whether a path is absolute, without `.`, `..`, empty names and a slash at its end. `/` is never a root.
pub(crate) fn is_path(path: &[u8]) -> bool {
    path.strip_prefix(b"/").is_some_and(|path| path.split(|&byte| byte == b'/').all(is_name))
        && components(path).count() <= DEPTH_MAX
}

/// `from`, which lies at `path`, without names that an image must not list.
fn listed(from: &PathTree, path: &[u8], tree: &ImageTree, audience: Audience) -> PathTree {
    let mut kept = from.without_children();
    let withheld = audience == Audience::Everyone && is_withheld(tree, path);
    if from.live.is_some() || withheld {
        // Counted as the root's reason counts, and never as nothing.
        let below = from.count_asked() - u64::from(from.seen.touched || from.seen.missed);
        kept.unlisted = if from.is_used_below() { below.max(1) } else { 0 };
        return kept;
    }
    for (name, child) in &from.children {
        let below = listed(child, &join(path, name), tree, audience);
        let empty = below == PathTree::default();
        if !empty {
            kept.children.insert(name.clone(), below);
        }
    }
    kept
}

/// Tells whether the image has the directory without its names, because other users may not know them.
fn is_withheld(tree: &ImageTree, path: &[u8]) -> bool {
    tree.find(path).and_then(|node| tree.coverage(node)) == Some(Coverage::Uncovered)
}

/// Replaces the times of first reads by their ranks: all that a layout needs.
fn rank_reads(recorded: &mut PathTree) {
    let mut times = BTreeSet::new();
    recorded.visit(b"/", &mut |_, node| times.extend(node.seen.read));
    let times: Vec<u64> = times.into_iter().collect();
    rank(recorded, &times);
}

fn rank(node: &mut PathTree, times: &[u64]) {
    if let Some(read) = &mut node.seen.read {
        *read = times.partition_point(|time| time < read) as u64;
    }
    node.children.values_mut().for_each(|child| rank(child, times));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::layout::{BODY_AT, seal};

    fn asked() -> RecordedRequests {
        let mut recorded = PathTree::default();
        recorded.mount(b"/l", "lustre");
        recorded.seen(b"/l/env/bin/x").touched = true;
        recorded.seen(b"/l/env/bin/x").read = Some(300);
        recorded.seen(b"/l/env/bin/x").extent.whole = true;
        let part = recorded.seen(b"/l/env/lib.so");
        part.read = Some(4);
        part.extent.version = Some((9 << 20, 1_700_000_000_123_456_789));
        [0..1, 7..300].into_iter().for_each(|run| part.extent.blocks.insert(run));
        recorded.seen(b"/l/env/lib").entered = true;
        recorded.seen(b"/l/env/lib/\xff").missed = true;
        recorded.live_itself(b"/l/env/log", "`a` was written");
        recorded.grow(b"/l/env/log").unlisted = 7;
        let roots = vec![(b"/l/env".to_vec(), RootOrigin::Judged), (b"/l/f".to_vec(), RootOrigin::Below)];
        RecordedRequests { audience: Audience::Everyone, hold: Hold::Whole, roots, recorded }
    }

    #[test]
    fn reads_back_what_was_encoded() {
        let asked = asked();
        assert_eq!(RecordedRequests::decode(&asked.encode()), Some(asked));
    }

    #[test]
    fn damage_and_forgery_are_refused() {
        let bytes = asked().encode();
        for len in 0..bytes.len() {
            assert_eq!(RecordedRequests::decode(&bytes[..len]), None, "{len}");
        }
        // With a right checksum around wrong content it must still end, and never trust a length.
        for at in BODY_AT..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut forged = bytes.clone();
                forged[at] = value;
                seal(&mut forged);
                if let Some(read) = RecordedRequests::decode(&forged) {
                    assert_eq!(RecordedRequests::decode(&read.encode()), Some(read));
                }
            }
        }
    }

    #[test]
    fn times_become_ranks_that_keep_ties() {
        let mut recorded = PathTree::default();
        for (path, time) in [("/a", 900), ("/b", 20), ("/c", 900), ("/d", 50)] {
            recorded.seen(path.as_bytes()).read = Some(time);
        }
        rank_reads(&mut recorded);
        let ranks: Vec<_> = recorded.children.values().map(|child| child.seen.read.unwrap()).collect();
        assert_eq!(ranks, [2, 0, 2, 1]);
    }
}
