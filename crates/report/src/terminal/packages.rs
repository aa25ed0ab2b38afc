//! Packages: which library cost what, and the imports that asked for most.

use super::{Page, shown};
use crate::number::{grouped, grouped_or_blank, seconds};
use crate::table::TextTable;
use crate::text::clean;
use crate::view::{ImportView, PackageCosts, PackageView, ReportView};

/// Rows of the tree of imports: deeper ones are in the page.
const IMPORTS: usize = 20;

/// The section about packages; nothing when no package was asked for.
pub(super) fn packages(page: &mut Page, report: &ReportView) {
    let rows = &report.packages;
    page.section(&shown("Packages by operations", rows.len()), &packages_table(rows));
    let imports = &report.imports;
    let title = match imports.len() {
        count if count > IMPORTS => {
            format!("Imports, with those within them ({IMPORTS} of {})", grouped(count as u64))
        }
        _ => "Imports, with those within them".to_owned(),
    };
    page.section(&title, &imports_table(imports));
}

fn packages_table(rows: &[PackageView]) -> TextTable {
    let imports_known = rows.iter().any(|row| row.importing.is_some());
    let mut table = TextTable::default().number("operations").number("missed").number("opens").number("time");
    if imports_known {
        table = table.number("while imported").number("time");
    }
    table = table.text("language").path("package");
    for row in rows.iter().take(super::ROWS) {
        let mut cells = costs(&row.own);
        if imports_known {
            let importing = row.importing;
            cells.push(importing.map_or_else(String::new, |costs| grouped(costs.metadata_operations)));
            cells.push(importing.map_or_else(String::new, |costs| took(costs.seconds)));
        }
        cells.extend([row.language.to_owned(), row.name.clone()]);
        table.row(cells);
    }
    table
}

/// The rows that cost most, in the order of the tree.
fn imports_table(rows: &[ImportView]) -> TextTable {
    let mut table = TextTable::default().number("operations").number("own").number("opens").number("time");
    table = table.text("module").path("statement");
    let mut most: Vec<u64> = rows.iter().map(|row| row.all.metadata_operations).collect();
    most.sort_unstable_by(|a, b| b.cmp(a));
    let least = most.get(IMPORTS).copied().unwrap_or(0);
    // A row that costs as much as the first that has no room is left out with it, unless all have room.
    let is_shown = |row: &&ImportView| most.len() <= IMPORTS || row.all.metadata_operations > least;
    for row in rows.iter().filter(is_shown) {
        table.row(vec![
            grouped(row.all.metadata_operations),
            grouped_or_blank(row.own.metadata_operations),
            grouped(row.all.opens),
            took(row.all.seconds),
            format!("{}{}", "  ".repeat(row.depth), clean(&row.module)),
            clean(&row.statement()),
        ]);
    }
    table
}

fn costs(costs: &PackageCosts) -> Vec<String> {
    vec![
        grouped(costs.metadata_operations),
        grouped_or_blank(costs.missed),
        grouped(costs.opens),
        took(costs.seconds),
    ]
}

/// A log may have no durations.
fn took(time: f64) -> String {
    if time > 0.0 { seconds(time) } else { String::new() }
}
