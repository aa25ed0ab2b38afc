//! The tables of `quell diff --csv`.

use super::{Column, optional, served_by, table};
use crate::text::clean;
use quell_analyse::comparison::{CallPair, EntryPair, PathPair};
use quell_analyse::searches::EntryCounts;
use quell_analyse::{Comparison, Latency, Side};
use quell_base::escape;

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

/// A whole table of a comparison.
pub fn diff(which: DiffTable, comparison: &Comparison) -> String {
    match which {
        DiffTable::Totals => totals(comparison),
        DiffTable::Syscalls => syscalls(comparison),
        DiffTable::Searches => searches(comparison),
        DiffTable::Paths => paths(comparison),
    }
}

/// A row a number, so that a number of both runs is on one line.
fn totals(comparison: &Comparison) -> String {
    type Number = (&'static str, fn(&Side) -> u64);
    const NUMBERS: &[Number] = &[
        ("calls", |side| side.totals.calls),
        ("errors", |side| side.totals.errors),
        ("metadata_operations", |side| side.totals.metadata_operations),
        ("missed", |side| side.totals.missed),
        ("repeated", |side| side.totals.repeated),
        ("needed", |side| side.totals.needed),
        ("failed", |side| side.totals.failed),
        ("unnamed", |side| side.totals.unnamed),
        ("distinct_paths", |side| side.totals.distinct_paths),
        ("bytes_read", |side| side.totals.bytes_read.0),
        ("bytes_written", |side| side.totals.bytes_written.0),
        ("network", |side| side.served.network),
        ("quell", |side| side.served.quell),
        ("local", |side| side.served.local),
        ("unknown", |side| side.served.unknown),
    ];
    let rows = NUMBERS.iter().map(|(name, of)| (*name, of(&comparison.a), of(&comparison.b)));
    let columns: &[Column<(&str, u64, u64)>] =
        &[("name", |row| row.0.into()), ("a", |row| row.1.to_string()), ("b", |row| row.2.to_string())];
    table(columns, rows)
}

fn syscalls(comparison: &Comparison) -> String {
    let columns: &[Column<&CallPair>] = &[
        ("name", |row| row.call.name().into()),
        ("a_calls", |row| row.a.calls.to_string()),
        ("a_errors", |row| row.a.errors.to_string()),
        ("a_mean_seconds", |row| mean(row.latency_a)),
        ("a_p50_seconds", |row| p50(row.latency_a)),
        ("a_p99_seconds", |row| p99(row.latency_a)),
        ("b_calls", |row| row.b.calls.to_string()),
        ("b_errors", |row| row.b.errors.to_string()),
        ("b_mean_seconds", |row| mean(row.latency_b)),
        ("b_p50_seconds", |row| p50(row.latency_b)),
        ("b_p99_seconds", |row| p99(row.latency_b)),
    ];
    table(columns, &comparison.calls)
}

fn mean(latency: Option<Latency>) -> String {
    optional(latency.map(|latency| latency.mean.as_seconds()))
}

fn p50(latency: Option<Latency>) -> String {
    optional(latency.map(|latency| latency.p50.as_seconds()))
}

fn p99(latency: Option<Latency>) -> String {
    optional(latency.map(|latency| latency.p99.as_seconds()))
}

fn searches(comparison: &Comparison) -> String {
    let columns: &[Column<&EntryPair>] = &[
        ("kind", |row| row.key.kind.name().into()),
        ("origin", |row| clean(&row.key.origin)),
        ("directory", |row| escape(&row.key.directory)),
        ("change", |row| row.change().name().into()),
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
    table(columns, &comparison.searches)
}

/// A count of an entry; zero when the run did not search it.
fn count(entry: Option<EntryCounts>, of: fn(EntryCounts) -> u64) -> String {
    entry.map_or(0, of).to_string()
}

fn paths(comparison: &Comparison) -> String {
    let columns: &[Column<&PathPair>] = &[
        ("path", |row| row.path.clone()),
        ("paths", |row| row.paths.to_string()),
        ("change", |row| row.change().name().into()),
        ("a_served_by", |row| served_by(row.a.served_by)),
        ("a_metadata_operations", |row| row.a.metadata_operations.to_string()),
        ("a_missed", |row| row.a.missed.to_string()),
        ("a_repeated", |row| row.a.repeated.to_string()),
        ("b_served_by", |row| served_by(row.b.served_by)),
        ("b_metadata_operations", |row| row.b.metadata_operations.to_string()),
        ("b_missed", |row| row.b.missed.to_string()),
        ("b_repeated", |row| row.b.repeated.to_string()),
    ];
    table(columns, &comparison.paths.changed)
}
