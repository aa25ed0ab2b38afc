//! The tables of `quell diff --csv`.

use super::{CsvCell, CsvColumn, CsvTable, columns, table};
use crate::text::clean;
use crate::view::{ChangedPath, DiffView, LatencyPair, Pair, SearchCounts, SearchPair, SyscallPair};

/// Every table of a comparison.
pub const DIFF_TABLES: &[CsvTable<DiffView>] = &[
    CsvTable::new("totals", "a total, or who served metadata operations", totals),
    CsvTable::new("syscalls", "a system call: calls, errors, times", syscalls),
    CsvTable::new("searches", "an entry of a search list that was asked differently", searches),
    CsvTable::new("paths", "a path that was asked differently", paths),
];

/// A row a number, so that a number of both runs is on one line.
fn totals(diff: &DiffView) -> String {
    macro_rules! totals {
        ($($name:ident),*) => { [$((stringify!($name), diff.totals.a.$name, diff.totals.b.$name)),*] };
    }
    let numbers = totals!(
        calls,
        errors,
        metadata_operations,
        missed,
        repeated,
        needed,
        failed,
        unnamed,
        distinct_paths,
        bytes_read,
        bytes_written
    );
    let served = diff.served_by.iter().map(|pair| (pair.by.as_str(), pair.a, pair.b));
    let Pair { a, b } = diff.served_by_unknown;
    let columns = columns!(row: (&str, u64, u64); name = row.0, a = row.1, b = row.2);
    table(columns, numbers.into_iter().chain(served).chain([("unknown", a, b)]))
}

fn syscalls(diff: &DiffView) -> String {
    let columns = columns!(row: (&SyscallPair, &LatencyPair); name = row.0.name,
        a_calls = row.0.a.calls, a_errors = row.0.a.errors,
        a_mean_seconds = row.1.a.map(|latency| latency.mean_seconds),
        a_p50_seconds = row.1.a.map(|latency| latency.p50_seconds),
        a_p99_seconds = row.1.a.map(|latency| latency.p99_seconds),
        b_calls = row.0.b.calls, b_errors = row.0.b.errors,
        b_mean_seconds = row.1.b.map(|latency| latency.mean_seconds),
        b_p50_seconds = row.1.b.map(|latency| latency.p50_seconds),
        b_p99_seconds = row.1.b.map(|latency| latency.p99_seconds));
    table(columns, diff.syscalls.iter().zip(&diff.latency))
}

fn searches(diff: &DiffView) -> String {
    let columns = columns!(row: SearchPair; kind, origin = clean(&row.origin), directory, change,
        a_position = row.a.map(|entry| entry.position), a_searches = count(row.a, |entry| entry.searches),
        a_probes = count(row.a, |entry| entry.probes), a_missed = count(row.a, |entry| entry.missed),
        a_hits = count(row.a, |entry| entry.hits),
        b_position = row.b.map(|entry| entry.position), b_searches = count(row.b, |entry| entry.searches),
        b_probes = count(row.b, |entry| entry.probes), b_missed = count(row.b, |entry| entry.missed),
        b_hits = count(row.b, |entry| entry.hits));
    table(columns, &diff.searches)
}

/// A count of an entry; zero when the run did not search it.
fn count(entry: Option<SearchCounts>, of: fn(SearchCounts) -> u64) -> u64 {
    entry.map_or(0, of)
}

fn paths(diff: &DiffView) -> String {
    let columns = columns!(row: ChangedPath; path, paths, change, a_served_by = row.a.served_by,
        a_metadata_operations = row.a.metadata_operations, a_missed = row.a.missed, a_repeated = row.a.repeated,
        b_served_by = row.b.served_by, b_metadata_operations = row.b.metadata_operations, b_missed = row.b.missed,
        b_repeated = row.b.repeated);
    table(columns, &diff.paths.changed)
}
