//! `quell fleet`: all jobs in a line, then a table for each property.

use super::Page;
use crate::Style;
use crate::number::{counted, grouped, percent};
use crate::table::TextTable;
use crate::text::{TextRole, clean};
use crate::view::{FleetCost, FleetServed, FleetTable, FleetView};

/// The cost of many jobs.
pub fn fleet(fleet: &FleetView, style: Style) -> String {
    let mut page = Page::new(style);
    let all = &fleet.all;
    let since = fleet.since.as_ref().map(|since| format!(" since {since} UTC")).unwrap_or_default();
    page.entry("jobs", &format!("{}{since}", grouped(all.jobs)), TextRole::Plain);
    page.entry("asked", &counted(all.operations, "metadata operation"), TextRole::Plain);
    let saved = all.saved().unwrap_or(0);
    let left = all.operations - saved;
    let savings = format!("{} ({})", grouped(saved), percent(saved, all.operations));
    page.entry("remedies", &format!("save {savings}, {} remain", grouped(left)), TextRole::Plain);
    if let Some(served) = &fleet.served {
        let share = percent(served.recorded_operations, served.operations);
        let recorded = format!("{share} for {} recorded jobs", grouped(served.recorded_jobs));
        let servers = counted(served.operations, "operation");
        page.entry(
            "servers",
            &format!("{servers} for {} jobs; {recorded}", grouped(served.jobs)),
            TextRole::Plain,
        );
    }
    fleet.tables.iter().for_each(|table| page.section(&format!("by {}", table.by), &text_table(table, all)));
    if let Some(served) = &fleet.served {
        page.section("by job, as the servers counted", &served_table(served));
    }
    page.finished()
}

fn served_table(served: &FleetServed) -> TextTable {
    let mut text =
        TextTable::default().number("operations").number("share").number("recordings").number("recorded");
    text = text.number("saved").path("job").path("program");
    for row in &served.rows {
        let saved = row.cost.zip(row.cost_after).map(|(cost, after)| cost.saturating_sub(after));
        let number = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), grouped);
        let who = [row.user.as_deref(), row.program.as_deref()];
        text.row(vec![
            grouped(row.operations),
            percent(row.operations, served.operations),
            grouped(row.recordings),
            number(row.cost),
            number(saved),
            clean(&row.job),
            clean(&who.iter().flatten().copied().collect::<Vec<_>>().join(": ")),
        ]);
    }
    text
}

fn text_table(table: &FleetTable, all: &FleetCost) -> TextTable {
    let has = |of: fn(&FleetCost) -> bool| table.rows.iter().any(of);
    let (misses, remedies) = (has(|row| row.missed.is_some()), has(|row| row.operations_after.is_some()));
    let mut text = TextTable::default().number("jobs").number("operations").number("share");
    for (title, shown) in [("missed", misses), ("saved", remedies)] {
        text = if shown { text.number(title) } else { text };
    }
    let mut text = text.path(&table.by);
    for row in &table.rows {
        let mut cells =
            vec![grouped(row.jobs), grouped(row.operations), percent(row.operations, all.operations)];
        cells.extend(row.missed.map(grouped));
        cells.extend(row.saved().map(grouped));
        cells.push(clean(&row.name));
        text.row(cells);
    }
    text
}
