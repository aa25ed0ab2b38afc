//! `quell diff`: who served what, the calls of both runs side by side, then the searches and paths that went away, came
//! or changed.

use super::Page;
use crate::Style;
use crate::number::{counted, difference, duration, grouped, grouped_or_blank, ratio, seconds};
use crate::table::Table;
use crate::text::{Role, clean};
use quell_analyse::comparison::{By, CallPair, CallsAndErrors, Change};
use quell_analyse::{Comparison, Latency, Side};
use quell_base::escape;
use quell_trace::Call;
use std::cmp::Reverse;

/// Rows of a list: what fits on a screen beside the rest.
const ROWS: usize = 10;

/// The comparison of two runs.
pub fn diff(comparison: &Comparison, style: Style) -> String {
    let mut page = Page::new(style);
    let (a, b) = (&comparison.a, &comparison.b);
    introduce(&mut page, "a", a);
    introduce(&mut page, "b", b);
    a.doubts.iter().for_each(|doubt| page.doubt("doubt a", doubt));
    b.doubts.iter().for_each(|doubt| page.doubt("doubt b", doubt));
    comparison.doubt().iter().for_each(|doubt| page.doubt("doubt", doubt));
    page.section("Metadata operations", &served(a, b));
    page.section("System calls", &calls(comparison));
    let (gone, new) = (comparison.disappeared(), comparison.appeared());
    if !gone.is_empty() || !new.is_empty() {
        page.text.push('\n');
        listed(&mut page, "only a", &gone);
        listed(&mut page, "only b", &new);
    }
    latency(&mut page, comparison);
    searches(&mut page, comparison);
    paths(&mut page, comparison);
    page.finished()
}

fn introduce(page: &mut Page, key: &str, side: &Side) {
    let names = match side.names.as_slice() {
        [first, _, ..] => format!("{} and {} more", clean(first), grouped(side.names.len() as u64 - 1)),
        names => clean(&names.join(" ")),
    };
    let took = side.seconds.map_or(String::new(), |took| format!(", {}", seconds(took)));
    page.command(key, &format!("{names}: "), &side.command, &took);
}

fn served(a: &Side, b: &Side) -> Table {
    let mut table = Table::default().text("served by").number("a").number("b");
    table = table.number("difference").text("ratio");
    let cells =
        |by: &str, a: u64, b: u64| vec![by.to_owned(), grouped(a), grouped(b), difference(a, b), ratio(a, b)];
    for (by, from, to) in [
        ("network", a.served.network, b.served.network),
        ("quell", a.served.quell, b.served.quell),
        ("local", a.served.local, b.served.local),
        ("unknown", a.served.unknown, b.served.unknown),
    ] {
        if by != "unknown" || from + to > 0 {
            // What quell serves is what it is for: only more of the others is more of a burden.
            let role = if by == "quell" { Role::Plain } else { change(from, to) };
            table.painted_row(cells(by, from, to), role);
        }
    }
    table.total(cells("all", a.totals.metadata_operations, b.totals.metadata_operations));
    table
}

fn change(from: u64, to: u64) -> Role {
    match to.cmp(&from) {
        std::cmp::Ordering::Less => Role::Fewer,
        std::cmp::Ordering::Equal => Role::Plain,
        std::cmp::Ordering::Greater => Role::More,
    }
}

/// Both halves as `strace -c` prints them; where a run never made a call, its half is blank.
fn calls(comparison: &Comparison) -> Table {
    let mut table = Table::default().number("a: calls").number("errors").text("syscall");
    table = table.number("b: calls").number("errors").text("syscall");
    let half = |counts: CallsAndErrors, name: &str| match counts.calls {
        0 => [String::new(), String::new(), String::new()],
        calls => [grouped(calls), grouped_or_blank(counts.errors), name.to_owned()],
    };
    for pair in &comparison.calls {
        let name = pair.call.name();
        let cells = [half(pair.a, name), half(pair.b, name)].concat();
        table.painted_row(cells, change(pair.a.calls, pair.b.calls));
    }
    let total = |totals: &quell_analyse::Totals| {
        [grouped(totals.calls), grouped_or_blank(totals.errors), "total".to_owned()]
    };
    table.total([total(&comparison.a.totals), total(&comparison.b.totals)].concat());
    table
}

/// Of the calls that both runs made, those that took most of the time.
fn latency(page: &mut Page, comparison: &Comparison) {
    let mut table = Table::default().number("a: mean").number("median").number("p99").text("syscall");
    table = table.number("b: mean").number("median").number("p99");
    let time = |latency: Option<Latency>| latency.map_or(0, |of| of.mean.0.saturating_mul(of.calls));
    let both = |pair: &&CallPair| pair.latency_a.and(pair.latency_b).is_some();
    let mut pairs: Vec<&CallPair> = comparison.calls.iter().filter(both).collect();
    pairs.sort_by_key(|pair| Reverse(time(pair.latency_a).saturating_add(time(pair.latency_b))));
    let half = |latency: Option<Latency>| match latency {
        Some(latency) => [latency.mean, latency.p50, latency.p99].map(duration),
        None => Default::default(),
    };
    for pair in pairs.iter().take(ROWS) {
        let mut cells = half(pair.latency_a).to_vec();
        cells.push(pair.call.name().into());
        cells.extend(half(pair.latency_b));
        table.row(cells);
    }
    page.section(&shown("Time per call, with the recorder's own work in it", pairs.len()), &table);
}

fn searches(page: &mut Page, comparison: &Comparison) {
    let mut table =
        Table::default().number("a: probes").number("missed").number("b: probes").number("missed");
    table = table.text("list").phrase("from").path("entry");
    for pair in comparison.searches.iter().take(ROWS) {
        let ((probes_a, probes_b), (missed_a, missed_b)) = (pair.probes(), pair.missed());
        let [a, b] =
            [(pair.a, probes_a, missed_a), (pair.b, probes_b, missed_b)].map(|(side, probes, missed)| {
                match side {
                    Some(_) => [grouped(probes), grouped_or_blank(missed)],
                    None => Default::default(),
                }
            });
        let entry = [pair.key.kind.name().into(), clean(&pair.key.origin), escape(&pair.key.directory)];
        table.painted_row([&a[..], &b, &entry].concat(), change(probes_a, probes_b));
    }
    let title = shown("Entries of search lists, by the change of probes", comparison.searches.len());
    page.section(&title, &table);
}

/// How many paths became what, then those that changed most, then those on which repeats changed most.
fn paths(page: &mut Page, comparison: &Comparison) {
    let paths = &comparison.paths;
    if paths.changed.is_empty() {
        return;
    }
    let mut table = Table::default().number("paths").number("a: operations").number("b: operations");
    table = table.phrase("what became of them");
    for (change, share) in paths.shares() {
        let operations = [share.a, share.b].map(grouped_or_blank);
        table.row([&[grouped(share.paths)], &operations[..], &[became(change).to_owned()]].concat());
    }
    page.section("Paths", &table);
    if paths.folded > 0 {
        page.text.push('\n');
        page.entry("folded", &folded(paths.folded, paths.folded_rows), Role::Plain);
    }
    common(
        page,
        comparison,
        By::Directory,
        "Directories by the change of operations on their names",
        "directory",
    );
    common(page, comparison, By::Name, "Names by the change of operations, wherever they are", "name");
    let changed =
        paths.changed.iter().filter(|pair| pair.a.metadata_operations != pair.b.metadata_operations);
    let rows = changed.clone().take(ROWS);
    let rows = rows.map(|pair| (pair.a.metadata_operations, pair.b.metadata_operations, &*pair.path));
    page.section(&shown("Paths by the change of operations", changed.count()), &pairs(rows));
    let repeats = paths.repeats(usize::MAX);
    let rows = repeats.iter().take(ROWS).map(|pair| (pair.a.repeated, pair.b.repeated, &*pair.path));
    page.section(&shown("Paths by the change of repeated operations", repeats.len()), &pairs(rows));
}

/// What several paths have in common that changed.
fn common(page: &mut Page, comparison: &Comparison, by: By, title: &str, what: &str) {
    let rows = comparison.paths.common(by);
    let mut table = Table::default().number("a").number("b").number("difference").number("paths").path(what);
    for row in rows.iter().take(ROWS) {
        let (a, b) = (row.share.a, row.share.b);
        let cells = [grouped_or_blank(a), grouped_or_blank(b), difference(a, b), grouped(row.share.paths)];
        table.painted_row([&cells[..], &[row.name.to_owned()]].concat(), change(a, b));
    }
    page.section(&shown(title, rows.len()), &table);
}

fn pairs<'a>(rows: impl Iterator<Item = (u64, u64, &'a str)>) -> Table {
    let mut table = Table::default().number("a").number("b").number("difference").path("path");
    for (a, b, path) in rows {
        let cells = [grouped_or_blank(a), grouped_or_blank(b), difference(a, b), path.to_owned()];
        table.painted_row(cells.to_vec(), change(a, b));
    }
    table
}

fn became(change: Change) -> &'static str {
    match change {
        Change::Gone => "only in a",
        Change::New => "only in b",
        Change::Less => "asked less often",
        Change::More => "asked more often",
        Change::Moved => "asked as often, served by others",
        Change::Otherwise => "asked as often, with other outcomes",
        Change::Same => "the same",
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

/// A title that says how many rows there are, where not all are shown.
fn shown(title: &str, rows: usize) -> String {
    match rows > ROWS {
        true => format!("{title} ({ROWS} of {})", grouped(rows as u64)),
        false => title.to_owned(),
    }
}

fn listed(page: &mut Page, key: &str, calls: &[Call]) {
    if !calls.is_empty() {
        let names: Vec<&str> = calls.iter().map(|call| call.name()).collect();
        page.entry(key, &names.join(", "), Role::Plain);
    }
}
