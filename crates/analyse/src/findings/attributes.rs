//! Extended attributes asked for file by file, none of them there: access lists, security labels, capabilities.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::image;
use super::limits::ABSENT_ATTRIBUTES;
use super::words::{count, directory, last, quoted};
use quell_base::escape;
use std::collections::BTreeMap;

/// `absent-attributes`.
pub(super) fn absent(case: &Case<'_>) -> Vec<Found> {
    let asked = || case.numbered().filter(|(_, _, counts)| counts.habits.no_attributes > 0);
    let mut effect = Effect::default();
    let mut directories = BTreeMap::<&[u8], u64>::new();
    for (number, path, counts) in asked() {
        let operations = u64::from(counts.habits.no_attributes);
        effect.remove(number, RemovedKind::NoAttribute, operations);
        *directories.entry(directory(path)).or_default() += operations;
    }
    let operations = effect.removed();
    let listed: Vec<_> = directories.iter().filter(|(_, count)| **count * LISTED > operations).collect();
    let covered: u64 = listed.iter().map(|(_, count)| **count).sum();
    let change = match is_listing(case) && covered * NEARLY_ALL.1 >= operations * NEARLY_ALL.0 && covered > 0
    {
        true => listed_by_find(listed.iter().map(|(path, _)| **path), effect),
        false => {
            image::serving(case, asked().map(|(_, path, counts)| (path, counts.habits.no_attributes.into())))
        }
    };
    let rows = directories.iter().map(|(path, operations)| (*operations, *path)).collect();
    Draft {
        limit: &ABSENT_ATTRIBUTES,
        measured: case.each(operations),
        title: format!(
            "{} asked for extended attributes of {} and found none",
            count(operations, "operation"),
            count(asked().count() as u64, "path")
        ),
        evidence: largest(rows, |operations, path| {
            format!("{}: {}", escape(path), count(operations, "operation"))
        }),
        operations,
        change,
    }
    .over(case)
    .into_iter()
    .collect()
}

/// True where `ls` asked nearly everything: its long format shows whether a file has an access list, and asks for it.
fn is_listing(case: &Case<'_>) -> bool {
    let [mut all, mut by_ls] = [0, 0];
    for (words, counts) in &case.summary.commands {
        all += counts.metadata_operations;
        let is_ls = words.first().is_some_and(|program| last(program.as_bytes()) == b"ls");
        by_ls += if is_ls { counts.metadata_operations } else { 0 };
    }
    by_ls * NEARLY_ALL.1 >= all * NEARLY_ALL.0
}

/// `find -ls` prints the same columns, but no sign for an access list. Without `TZ` it looks at `/etc/localtime` for each file.
fn listed_by_find<'a>(directories: impl Iterator<Item = &'a [u8]>, effect: Effect) -> RemedyDraft {
    RemedyDraft::of(
        "list it with `find`, which prints the same without the sign for an access list",
        format!(
            "TZ=:/etc/localtime find {} -maxdepth 1 -ls",
            directories.map(quoted).collect::<Vec<_>>().join(" ")
        ),
        Cost::Program,
        effect,
    )
}

/// A directory with at most one part in so many of the operations is left out of a command: `ls DIR` also asks for the attributes of
/// DIR itself, which count for its parent.
const LISTED: u64 = 10;
/// The part that nearly all operations are: numerator and denominator.
const NEARLY_ALL: (u64, u64) = (9, 10);
