//! The tables of `quell diff --csv`.

use super::{Column, optional, table};
use crate::text::clean;
use crate::view::{ChangedPath, DiffView, LatencyPair, Pair, SearchCounts, SearchPair, SyscallPair, Totals};

/// A table of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiffTable {
    /// Totals of both runs.
    Totals,
    /// System calls of both runs.
    Syscalls,
    /// Entries of search lists that were asked differently.
    Searches,
    /// Paths that were asked differently.
    Paths,
}

impl DiffTable {
    /// Every table.
    pub const ALL: [Self; 4] = [Self::Totals, Self::Syscalls, Self::Searches, Self::Paths];

    /// Its name, and what a row of it is.
    pub const fn described(self) -> (&'static str, &'static str) {
        match self {
            Self::Totals => ("totals", "a total, or who served metadata operations"),
            Self::Syscalls => ("syscalls", "a system call: calls, errors, times"),
            Self::Searches => ("searches", "an entry of a search list that was asked differently"),
            Self::Paths => ("paths", "a path that was asked differently"),
        }
    }
}

/// A whole table of a comparison, with the rows that the view has.
pub fn diff(which: DiffTable, diff: &DiffView) -> String {
    match which {
        DiffTable::Totals => totals(diff),
        DiffTable::Syscalls => syscalls(diff),
        DiffTable::Searches => searches(diff),
        DiffTable::Paths => paths(diff),
    }
}

/// A row a number, so that a number of both runs is on one line.
fn totals(diff: &DiffView) -> String {
    type Number = (&'static str, fn(&Totals) -> u64);
    const NUMBERS: &[Number] = &[
        ("calls", |totals| totals.calls),
        ("errors", |totals| totals.errors),
        ("metadata_operations", |totals| totals.metadata_operations),
        ("missed", |totals| totals.missed),
        ("repeated", |totals| totals.repeated),
        ("needed", |totals| totals.needed),
        ("failed", |totals| totals.failed),
        ("unnamed", |totals| totals.unnamed),
        ("distinct_paths", |totals| totals.distinct_paths),
        ("bytes_read", |totals| totals.bytes_read),
        ("bytes_written", |totals| totals.bytes_written),
    ];
    let numbers = NUMBERS.iter().map(|(name, of)| (*name, of(&diff.totals.a), of(&diff.totals.b)));
    let served = diff.served_by.iter().map(|pair| (pair.by.as_str(), pair.a, pair.b));
    let Pair { a, b } = diff.served_by_unknown;
    let columns: &[Column<(&str, u64, u64)>] =
        &[("name", |row| row.0.into()), ("a", |row| row.1.to_string()), ("b", |row| row.2.to_string())];
    table(columns, numbers.chain(served).chain([("unknown", a, b)]))
}

fn syscalls(diff: &DiffView) -> String {
    let columns: &[Column<(&SyscallPair, &LatencyPair)>] = &[
        ("name", |row| row.0.name.clone()),
        ("a_calls", |row| row.0.a.calls.to_string()),
        ("a_errors", |row| row.0.a.errors.to_string()),
        ("a_mean_seconds", |row| optional(row.1.a.map(|latency| latency.mean_seconds))),
        ("a_p50_seconds", |row| optional(row.1.a.map(|latency| latency.p50_seconds))),
        ("a_p99_seconds", |row| optional(row.1.a.map(|latency| latency.p99_seconds))),
        ("b_calls", |row| row.0.b.calls.to_string()),
        ("b_errors", |row| row.0.b.errors.to_string()),
        ("b_mean_seconds", |row| optional(row.1.b.map(|latency| latency.mean_seconds))),
        ("b_p50_seconds", |row| optional(row.1.b.map(|latency| latency.p50_seconds))),
        ("b_p99_seconds", |row| optional(row.1.b.map(|latency| latency.p99_seconds))),
    ];
    table(columns, diff.syscalls.iter().zip(&diff.latency))
}

fn searches(diff: &DiffView) -> String {
    let columns: &[Column<&SearchPair>] = &[
        ("kind", |row| row.kind.clone()),
        ("origin", |row| clean(&row.origin)),
        ("directory", |row| row.directory.clone()),
        ("change", |row| row.change.clone()),
        ("a_position", |row| optional(row.a.map(|entry| entry.position))),
        ("a_searches", |row| count(row.a, |entry| entry.searches)),
        ("a_probes", |row| count(row.a, |entry| entry.probes)),
        ("a_missed", |row| count(row.a, |entry| entry.missed)),
        ("a_hits", |row| count(row.a, |entry| entry.hits)),
        ("b_position", |row| optional(row.b.map(|entry| entry.position))),
        ("b_searches", |row| count(row.b, |entry| entry.searches)),
        ("b_probes", |row| count(row.b, |entry| entry.probes)),
        ("b_missed", |row| count(row.b, |entry| entry.missed)),
        ("b_hits", |row| count(row.b, |entry| entry.hits)),
    ];
    table(columns, &diff.searches)
}

/// A count of an entry; zero when the run did not search it.
fn count(entry: Option<SearchCounts>, of: fn(SearchCounts) -> u64) -> String {
    entry.map_or(0, of).to_string()
}

fn paths(diff: &DiffView) -> String {
    let columns: &[Column<&ChangedPath>] = &[
        ("path", |row| row.path.clone()),
        ("paths", |row| row.paths.to_string()),
        ("change", |row| row.change.clone()),
        ("a_served_by", |row| optional(row.a.served_by.as_ref())),
        ("a_metadata_operations", |row| row.a.metadata_operations.to_string()),
        ("a_missed", |row| row.a.missed.to_string()),
        ("a_repeated", |row| row.a.repeated.to_string()),
        ("b_served_by", |row| optional(row.b.served_by.as_ref())),
        ("b_metadata_operations", |row| row.b.metadata_operations.to_string()),
        ("b_missed", |row| row.b.missed.to_string()),
        ("b_repeated", |row| row.b.repeated.to_string()),
    ];
    table(columns, &diff.paths.changed)
}
