//! The same question again: attributes of unchanged paths, directories listed anew.

use super::case::Case;
use super::draft::{Draft, Found, largest};
use super::image;
use super::limits::{REPEATED_LISTINGS, REPEATED_STATS};
use super::words::{count, number};
use quell_base::escape;

/// A path that a program asks for again so often, or less, is no storm: programs look before they open.
const OFTEN: u64 = 10;
/// A directory that one start lists so often, or less, is no storm.
const OFTEN_LISTED: u64 = 3;

/// `repeated-stats`.
pub(super) fn stats(case: &Case<'_>) -> Vec<Found> {
    let rows = case.numbered().filter(|(_, path, counts)| !counts.habits.changed && !case.is_awaited(path));
    let rows: Vec<_> = rows
        .filter(|(_, _, counts)| u64::from(counts.habits.restats) > OFTEN * case.starts)
        .map(|(_, path, counts)| (u64::from(counts.habits.restats), path))
        .collect();
    let again: u64 = rows.iter().map(|(stats, _)| stats).sum();
    let image = image::serving(case, rows.iter().map(|(stats, path)| (*path, *stats)));
    let paths = count(rows.len() as u64, "unchanged path");
    Draft {
        limit: &REPEATED_STATS,
        measured: case.each(again),
        title: format!("{} asked again for attributes of {paths}", count(again, "operation")),
        evidence: largest(rows, |stats, path| format!("{}: {} times again", escape(path), number(stats))),
        operations: again,
        change: image,
    }
    .over(case)
    .into_iter()
    .collect()
}

/// `repeated-listings`.
pub(super) fn listings(case: &Case<'_>) -> Vec<Found> {
    let rows = case.numbered().filter(|(_, path, counts)| !counts.habits.changed && !case.is_awaited(path));
    let rows = rows.filter(|(_, _, counts)| u64::from(counts.habits.listings) > OFTEN_LISTED * case.starts);
    let again = |(_, path, counts): (u32, _, &crate::PathCounts)| {
        let (calls, listings) = (u64::from(counts.habits.list_calls), u64::from(counts.habits.listings));
        (calls - calls * case.starts / listings, (path, listings))
    };
    let rows: Vec<(u64, (&[u8], u64))> = rows.map(again).collect();
    let calls: u64 = rows.iter().map(|(calls, _)| calls).sum();
    let image = image::serving(case, rows.iter().map(|(calls, (path, _))| (*path, *calls)));
    let directories = match rows.len() {
        1 => "1 directory".to_owned(),
        several => format!("{} directories", number(several as u64)),
    };
    Draft {
        limit: &REPEATED_LISTINGS,
        measured: case.each(calls),
        title: format!("{} listed {directories} again", count(calls, "operation")),
        evidence: largest(rows, |_, (path, listings)| {
            format!("{}: listed {} times", escape(path), number(*listings))
        }),
        operations: calls,
        change: image,
    }
    .over(case)
    .into_iter()
    .collect()
}
