//! Searches: what each kind of list cost, the entries that cost most and what to do about them, the names that cost most.

use super::Page;
use crate::number::{grouped, grouped_or_blank};
use crate::table::Table;
use crate::text::clean;
use quell_analyse::Summary;
use quell_analyse::searches::{Advice, Searches};
use quell_base::escape;
use std::cmp::Reverse;

/// Rows of each table.
const ROWS: usize = 10;

/// The section about searches; nothing when none was found.
pub(super) fn searches(page: &mut Page, summary: &Summary) {
    let searches = &summary.searches;
    let title = format!(
        "Searches: {} of {} misses belong to one",
        grouped(searches.missed()),
        grouped(summary.totals().missed)
    );
    page.section(&title, &lists(searches));
    page.section(&shown("Entries of search lists by operations", searches.entries.len()), &entries(searches));
    page.section(&shown("Names by operations to find them", searches.wanted.len()), &wanted(searches));
}

fn shown(title: &str, rows: usize) -> String {
    if rows > ROWS { format!("{title} ({ROWS} of {})", grouped(rows as u64)) } else { title.to_owned() }
}

fn lists(searches: &Searches) -> Table {
    let mut table = Table::default().number("probes").number("missed").number("searches").number("found");
    table = table.number("entries").text("list");
    for (kind, costs) in searches.costs() {
        table.row(vec![
            grouped(costs.probes),
            grouped_or_blank(costs.missed),
            grouped(costs.searches),
            grouped_or_blank(costs.found),
            grouped(costs.entries),
            kind.name().into(),
        ]);
    }
    table
}

fn entries(searches: &Searches) -> Table {
    let mut table = Table::default().number("probes").number("missed").number("searches").number("found");
    table = table.text("to do").phrase("from").path("entry");
    let mut rows: Vec<_> = searches.entries.iter().collect();
    // Among equals the list's own order.
    rows.sort_by_key(|(_, counts)| (Reverse(counts.probes), Reverse(counts.missed), counts.position));
    for (key, counts) in rows.into_iter().take(ROWS) {
        table.row(vec![
            grouped(counts.probes),
            grouped_or_blank(counts.missed),
            grouped(counts.searches),
            grouped_or_blank(counts.hits),
            Advice::of(key, counts).words().into(),
            clean(&key.origin),
            escape(&key.directory),
        ]);
    }
    table
}

fn wanted(searches: &Searches) -> Table {
    let mut table = Table::default().number("probes").number("missed").number("searches");
    table = table.text("list").phrase("name").path("asked by");
    let mut rows: Vec<_> = searches.wanted.iter().collect();
    rows.sort_by_key(|(_, counts)| (Reverse(counts.probes), Reverse(counts.missed)));
    for (key, counts) in rows.into_iter().take(ROWS) {
        table.row(vec![
            grouped(counts.probes),
            grouped_or_blank(counts.missed),
            grouped(counts.searches),
            key.kind.name().into(),
            escape(&key.name),
            key.asked_by.as_deref().map(escape).unwrap_or_default(),
        ]);
    }
    table
}
