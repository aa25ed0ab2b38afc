//! Searches: what each kind of list cost, the entries that cost most and what to do about them, the names that cost most.

use super::{Page, shown};
use crate::number::{grouped, grouped_or_blank};
use crate::table::TextTable;
use crate::text::clean;
use crate::view::{ReportView, SearchEntry, SearchList, Wanted};

/// The section about searches; nothing when none was found.
pub(super) fn searches(page: &mut Page, report: &ReportView) {
    let searches = &report.searches;
    let title = format!(
        "Searches: {} of {} misses belong to one",
        grouped(searches.missed),
        grouped(report.totals.missed)
    );
    let (entry_count, name_count) = searches.counts;
    page.section(&title, &lists(&searches.lists));
    let title = shown("Entries of search lists by operations", entry_count);
    page.section(&title, &entries(&searches.entries_by_probes));
    page.section(&shown("Names by operations to find them", name_count), &wanted(&searches.wanted_by_probes));
}

fn lists(lists: &[SearchList]) -> TextTable {
    let mut table = TextTable::default().number("probes").number("missed").number("searches").number("found");
    table = table.number("entries").text("list");
    for list in lists {
        table.row(vec![
            grouped(list.probes),
            grouped_or_blank(list.missed),
            grouped(list.searches),
            grouped_or_blank(list.found),
            grouped(list.entries),
            list.kind.into(),
        ]);
    }
    table
}

fn entries(entries: &[SearchEntry]) -> TextTable {
    let mut table = TextTable::default().number("probes").number("missed").number("searches").number("found");
    table = table.text("to do").phrase("from").path("entry");
    for entry in entries {
        table.row(vec![
            grouped(entry.probes),
            grouped_or_blank(entry.missed),
            grouped(entry.searches),
            grouped_or_blank(entry.hits),
            entry.advice.into(),
            clean(&entry.origin),
            entry.directory.clone(),
        ]);
    }
    table
}

fn wanted(wanted: &[Wanted]) -> TextTable {
    let mut table = TextTable::default().number("probes").number("missed").number("searches");
    table = table.text("list").phrase("name").path("asked by");
    for name in wanted {
        table.row(vec![
            grouped(name.probes),
            grouped_or_blank(name.missed),
            grouped(name.searches),
            name.kind.clone(),
            name.name.clone(),
            name.asked_by.clone().unwrap_or_default(),
        ]);
    }
    table
}
