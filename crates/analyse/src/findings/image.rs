//! The remedy that helps against most causes: an image of what the program uses, and what it would leave.
//!
//! An image answers for the directories that packing chooses: maximal directories below which the
//! recording changed nothing. What it answers disappears from the file systems behind; what is outside stays.

use super::Cost;
use super::case::Case;
use super::draft::RemedyDraft;
use super::effect::{Effect, RemovedKind};
use super::words::{directory, is_within};
use crate::{RankingScope, local_roots, root_flags};
use quell_trace::ServedBy;
use std::ops::Range;

/// The image that serves the paths of a finding. Where a network file system is asked, it holds everything below
/// it that can be packed; on this node's own file systems it holds one directory, that of these paths.
pub(super) fn serving<'a>(case: &Case<'a>, paths: impl Iterator<Item = (&'a [u8], u64)>) -> RemedyDraft {
    let roots = match case.scope {
        RankingScope::Network => network_roots(case),
        RankingScope::All => match common_directory(paths) {
            Some(root) => vec![root],
            None => local_roots(case.summary),
        },
    };
    of_roots(case, roots)
}

/// One image of all these roots. Two would write the same file: a user cannot have both.
pub(super) fn joined(case: &Case<'_>, mut roots: Vec<Vec<u8>>) -> RemedyDraft {
    roots.sort_unstable();
    // A directory sorts before all that lies in it, though not always next to it.
    let mut outermost: Vec<Vec<u8>> = Vec::new();
    for root in roots {
        if !outermost.iter().any(|outer| is_within(&root, outer)) {
            outermost.push(root);
        }
    }
    of_roots(case, outermost)
}

fn of_roots(case: &Case<'_>, roots: Vec<Vec<u8>>) -> RemedyDraft {
    let option = match case.scope {
        RankingScope::Network => String::new(),
        RankingScope::All => root_flags(&roots),
    };
    let (traces, image) = (case.summary.trace_words(), case.summary.image_word());
    let runs = case.commands().map(|command| format!("quell run {image} -- {command}"));
    RemedyDraft::of(
        "start it from an image, which answers these operations on each node",
        std::iter::once(format!("quell pack {traces}{option} -o {image}"))
            .chain(runs)
            .collect::<Vec<_>>()
            .join(" && "),
        Cost::Image,
        served(case, &roots),
    )
    .with_roots(roots)
}

/// The mount points of network file systems that were asked, each an image's root if nothing forbids it.
fn network_roots(case: &Case<'_>) -> Vec<Vec<u8>> {
    let mounts = case.summary.file_systems.keys();
    let network = mounts.filter(|key| ServedBy::of_type(&key.kind) == ServedBy::Network);
    network.map(|key| key.mount_point.clone().into_bytes()).collect()
}

/// The deepest directory that holds nine of ten of the operations, and is not `/`.
fn common_directory<'a>(paths: impl Iterator<Item = (&'a [u8], u64)>) -> Option<Vec<u8>> {
    let paths: Vec<_> = paths.collect();
    let mut found: &[u8] = b"/";
    loop {
        let mut parts = std::collections::BTreeMap::<&[u8], u64>::new();
        let mut all = 0;
        for (path, operations) in paths.iter().filter(|(path, _)| is_within(path, found)) {
            let deeper = part_below(directory(path), found);
            all += operations;
            if let Some(deeper) = deeper {
                *parts.entry(deeper).or_default() += operations;
            }
        }
        // From the top, the largest part is taken whatever its share: `/` cannot be an image's root.
        let best = parts.into_iter().max_by_key(|(path, operations)| (*operations, std::cmp::Reverse(*path)));
        match best {
            Some((deeper, operations)) if found == b"/" || operations * 10 >= all * 9 => found = deeper,
            _ => break,
        }
    }
    (found != b"/").then(|| found.to_vec())
}

/// The directory on the way from `above` to `path` that lies directly in `above`.
fn part_below<'a>(path: &'a [u8], above: &[u8]) -> Option<&'a [u8]> {
    let begin = if above == b"/" { 1 } else { above.len() + 1 };
    if !is_within(path, above) || path.len() <= begin {
        return None;
    }
    let length = path[begin..].iter().position(|&byte| byte == b'/').unwrap_or(path.len() - begin);
    Some(&path[..begin + length])
}

/// Everything that an image of `roots` answers.
fn served(case: &Case<'_>, roots: &[Vec<u8>]) -> Effect {
    let mut chooser = ImageChooser { case, chosen: Vec::new() };
    for root in roots {
        let first = case.paths.partition_point(|(path, _)| *path < root.as_slice());
        let length = case.paths[first..].partition_point(|(path, _)| path.starts_with(root));
        chooser.consider(root, first..first + length, case.scope == RankingScope::All);
    }
    chooser.chosen.sort_unstable();
    chooser.chosen.dedup();
    let mut effect = Effect::default();
    for path in chooser.chosen {
        effect.remove(path, RemovedKind::All, case.operations(path));
    }
    effect
}

struct ImageChooser<'a, 'b> {
    case: &'b Case<'a>,
    /// Numbers of the paths that the image answers for.
    chosen: Vec<u32>,
}

impl ImageChooser<'_, '_> {
    /// Takes a directory whole, without the live ones in it, or its parts. The range holds all paths that begin with
    /// the directory's.
    fn consider(&mut self, root: &[u8], range: Range<usize>, given: bool) {
        let live: Vec<&[u8]> = live_within(self.case, root).collect();
        if root == b"/" || live.first() == Some(&root) {
            return self.parts(root, range);
        }
        let whole =
            live.is_empty() || given || (self.has_own(root, range.clone()) && self.undisturbed(&live));
        if !whole {
            return self.parts(root, range);
        }
        let numbers = range.filter(|&index| {
            let path = self.case.paths[index].0;
            is_within(path, root) && !live.iter().any(|live| is_within(path, live))
        });
        self.chosen.extend(numbers.map(|index| index as u32));
    }

    /// Each part of a directory by itself; a name that nothing lies below is no directory.
    fn parts(&mut self, root: &[u8], range: Range<usize>) {
        let mut index = range.start;
        while index < range.end {
            let Some(part) = part_below(self.case.paths[index].0, root) else {
                index += 1;
                continue;
            };
            let rest = &self.case.paths[index..range.end];
            let end = index + rest.partition_point(|(path, _)| path.starts_with(part));
            let is_directory = rest[..end - index].iter().any(|(path, counts)| {
                (*path != part && is_within(path, part)) || counts.habits.list_calls > 0
            });
            if is_directory {
                self.consider(part, index..end, false);
            }
            // Names that only begin alike stand between a directory and what is in it.
            index += rest[..end - index].iter().take_while(|(path, _)| is_within(path, part)).count().max(1);
        }
    }

    /// True where the program asks for names in the directory itself.
    fn has_own(&self, root: &[u8], range: Range<usize>) -> bool {
        let rows = &self.case.paths[range];
        rows.iter().any(|(path, counts)| {
            (*path == root && counts.habits.list_calls > 0)
                || (directory(path) == root && !rows.iter().any(|(other, _)| directory(other) == *path))
        })
    }

    /// True where nothing in the live directories would be worth a root of its own.
    fn undisturbed(&self, live: &[&[u8]]) -> bool {
        live.iter().all(|live| {
            let inside = self.case.within(live);
            let mut deeper = inside.filter(|(_, path, _)| directory(path) != *live && path != live);
            deeper.all(|(_, path, _)| {
                live.len() > 1 && live_within(self.case, live).any(|l| directory(path) == l)
            })
        })
    }
}

/// The directories in which the recording changed something, at `root` and below. Shape: sorted.
fn live_within<'a>(case: &Case<'a>, root: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    let directories = case.summary.changed_directories.iter().map(|path| &**path);
    directories.filter(move |path| is_within(path, root))
}
