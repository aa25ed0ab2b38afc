//! `quell diff`: who served what, the calls of both runs side by side, then the searches and paths that went away, came
//! or changed.

use super::{Page, ROWS, shown};
use crate::Style;
use crate::number::{counted, difference, grouped, grouped_or_blank, nanos, ratio, seconds};
use crate::table::TextTable;
use crate::text::{TextRole, clean};
use crate::view::{
    CallsAndErrors, ChangedPath, CommonPaths, DiffView, Latency, LatencyPair, Pair, Paths, SearchCounts,
    Totals,
};
use std::cmp::Reverse;

/// The comparison of two runs.
pub fn diff(diff: &DiffView, style: Style) -> String {
    let mut page = Page::new(style);
    introduce(&mut page, "a", (&diff.names.a, &diff.command.a, diff.seconds.a));
    introduce(&mut page, "b", (&diff.names.b, &diff.command.b, diff.seconds.b));
    diff.doubts.a.iter().for_each(|doubt| page.doubt("doubt a", doubt));
    diff.doubts.b.iter().for_each(|doubt| page.doubt("doubt b", doubt));
    diff.comparison_doubts.iter().for_each(|doubt| page.doubt("doubt", doubt));
    page.section("Metadata operations", &served(diff));
    super::counters::compared(&mut page, &diff.client_counters);
    page.section("System calls", &calls(diff));
    if !diff.disappeared.is_empty() || !diff.appeared.is_empty() {
        page.text.push('\n');
        listed(&mut page, "only a", &diff.disappeared);
        listed(&mut page, "only b", &diff.appeared);
    }
    latency(&mut page, diff);
    searches(&mut page, diff);
    paths(&mut page, &diff.paths);
    page.finished()
}

fn introduce(page: &mut Page, key: &str, (names, command, took): (&[String], &[String], Option<f64>)) {
    let names = match names {
        [first, _, ..] => format!("{} and {} more", clean(first), grouped(names.len() as u64 - 1)),
        names => clean(&names.join(" ")),
    };
    let took = took.map_or(String::new(), |took| format!(", {}", seconds(took)));
    page.command(key, &format!("{names}: "), command, &took);
}

fn served(diff: &DiffView) -> TextTable {
    let mut table = TextTable::default().text("served by").number("a").number("b");
    table = table.number("difference").text("ratio");
    let cells =
        |by: &str, a: u64, b: u64| vec![by.to_owned(), grouped(a), grouped(b), difference(a, b), ratio(a, b)];
    for pair in &diff.served_by {
        // More served by quell is its purpose: only more of the others is a burden.
        let role = if pair.by == "quell" { TextRole::Plain } else { change(pair.a, pair.b) };
        table.painted_row(cells(&pair.by, pair.a, pair.b), role);
    }
    let Pair { a, b } = diff.served_by_unknown;
    if a + b > 0 {
        table.painted_row(cells("unknown", a, b), change(a, b));
    }
    table.total(cells("all", diff.totals.a.metadata_operations, diff.totals.b.metadata_operations));
    table
}

fn change(from: u64, to: u64) -> TextRole {
    match to.cmp(&from) {
        std::cmp::Ordering::Less => TextRole::Fewer,
        std::cmp::Ordering::Equal => TextRole::Plain,
        std::cmp::Ordering::Greater => TextRole::More,
    }
}

/// Both halves as `strace -c` prints them; where a run never made a call, its half is blank.
fn calls(diff: &DiffView) -> TextTable {
    let mut table = TextTable::default().number("a: calls").number("errors").text("syscall");
    table = table.number("b: calls").number("errors").text("syscall");
    let half = |counts: CallsAndErrors, name: &str| match counts.calls {
        0 => [String::new(), String::new(), String::new()],
        calls => [grouped(calls), grouped_or_blank(counts.errors), name.to_owned()],
    };
    for pair in &diff.syscalls {
        let cells = [half(pair.a, &pair.name), half(pair.b, &pair.name)].concat();
        table.painted_row(cells, change(pair.a.calls, pair.b.calls));
    }
    let total =
        |totals: &Totals| [grouped(totals.calls), grouped_or_blank(totals.errors), "total".to_owned()];
    table.total([total(&diff.totals.a), total(&diff.totals.b)].concat());
    table
}

/// Of the calls that both runs made, those that took most of the time.
fn latency(page: &mut Page, diff: &DiffView) {
    let mut table = TextTable::default().number("a: mean").number("median").number("p99").text("syscall");
    table = table.number("b: mean").number("median").number("p99");
    let both = |pair: &LatencyPair| Some((pair.name.clone(), pair.a?, pair.b?));
    let mut pairs: Vec<(String, Latency, Latency)> = diff.latency.iter().filter_map(both).collect();
    let time = |latency: &Latency| nanos(latency.mean_seconds).0.saturating_mul(latency.calls);
    pairs.sort_by_key(|(_, a, b)| Reverse(time(a).saturating_add(time(b))));
    let half =
        |latency: &Latency| [latency.mean_seconds, latency.p50_seconds, latency.p99_seconds].map(seconds);
    for (name, a, b) in pairs.iter().take(ROWS) {
        table.row([&half(a)[..], std::slice::from_ref(name), &half(b)].concat());
    }
    page.section(&shown("Time per call, with the recorder's own work in it", pairs.len()), &table);
}

fn searches(page: &mut Page, diff: &DiffView) {
    let mut table =
        TextTable::default().number("a: probes").number("missed").number("b: probes").number("missed");
    table = table.text("list").phrase("from").path("entry");
    for pair in diff.searches.iter().take(ROWS) {
        let half = |side: Option<SearchCounts>| match side {
            Some(counts) => [grouped(counts.probes), grouped_or_blank(counts.missed)],
            None => Default::default(),
        };
        let entry = [pair.kind.clone(), clean(&pair.origin), pair.directory.clone()];
        let [a, b] = [pair.a, pair.b].map(|side| side.map_or(0, |counts| counts.probes));
        table.painted_row([&half(pair.a)[..], &half(pair.b), &entry].concat(), change(a, b));
    }
    page.section(&shown("Entries of search lists, by the change of probes", diff.search_count), &table);
}

/// The paths of each change, then those that changed most, then those on which repeats changed most.
fn paths(page: &mut Page, paths: &Paths) {
    if paths.changed.is_empty() {
        return;
    }
    let mut table = TextTable::default().number("paths").number("a: operations").number("b: operations");
    table = table.phrase("what became of them");
    for share in &paths.shares {
        let operations = [share.a, share.b].map(grouped_or_blank);
        table.row([&[grouped(share.paths)], &operations[..], &[became(&share.change).to_owned()]].concat());
    }
    page.section("Paths", &table);
    if paths.folded > 0 {
        page.text.push('\n');
        page.entry("folded", &folded(paths.folded, paths.folded_rows), TextRole::Plain);
    }
    let counts = paths.counts;
    let title = shown("Directories by the change of operations on their names", counts.directories);
    page.section(&title, &common(&paths.directories, "directory"));
    let title = shown("Names by the change of operations, wherever they are", counts.names);
    page.section(&title, &common(&paths.names, "name"));
    let operations =
        |path: &ChangedPath| (path.a.metadata_operations, path.b.metadata_operations, path.path.clone());
    let changed = paths.changed.iter().map(operations).filter(|(a, b, _)| a != b);
    page.section(&shown("Paths by the change of operations", counts.changed), &pairs(changed));
    let repeated = |path: &ChangedPath| (path.a.repeated, path.b.repeated, path.path.clone());
    let repeats = paths.repeats.iter().map(repeated);
    page.section(&shown("Paths by the change of repeated operations", counts.repeats), &pairs(repeats));
}

/// Changes of several paths with a common part.
fn common(rows: &[CommonPaths], title: &str) -> TextTable {
    let mut table =
        TextTable::default().number("a").number("b").number("difference").number("paths").path(title);
    for CommonPaths { name, paths, a, b } in rows.iter().take(ROWS) {
        let cells = [grouped_or_blank(*a), grouped_or_blank(*b), difference(*a, *b), grouped(*paths)];
        table.painted_row([&cells[..], std::slice::from_ref(name)].concat(), change(*a, *b));
    }
    table
}

fn pairs(rows: impl Iterator<Item = (u64, u64, String)>) -> TextTable {
    let mut table = TextTable::default().number("a").number("b").number("difference").path("path");
    for (a, b, path) in rows.take(ROWS) {
        let cells = vec![grouped_or_blank(a), grouped_or_blank(b), difference(a, b), path];
        table.painted_row(cells, change(a, b));
    }
    table
}

fn became(change: &str) -> &'static str {
    match change {
        "gone" => "only in a",
        "new" => "only in b",
        "less" => "asked less often",
        "more" => "asked more often",
        "moved" => "asked as often, served by others",
        "same" => "the same",
        _ => "asked as often, with other outcomes",
    }
}

fn folded(paths: u64, rows: u64) -> String {
    format!(
        "{} with names that change from run to run (temporary ones, numbers of processes and jobs) in {}, \
         [..] for what changes",
        counted(paths, "path"),
        counted(rows, "row")
    )
}

fn listed(page: &mut Page, key: &str, calls: &[String]) {
    if !calls.is_empty() {
        page.entry(key, &calls.join(", "), TextRole::Plain);
    }
}
