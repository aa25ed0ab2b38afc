//! The tree of imports and the table of packages, which need no script.

use super::escape::prose;
use crate::number::{grouped, seconds};
use crate::text::clean;
use crate::view::{ImportView, PackageCosts, PackageView, ReportView};
use maud::{Markup, html};

/// Imports that are open at first: those of at least a fifth of the dearest.
const OPEN: u64 = 5;

/// The section; nothing where no package was asked for.
pub(super) fn imports(report: &ReportView) -> Markup {
    let most = report.imports.iter().map(|row| row.all.metadata_operations).max().unwrap_or(0);
    html! {
        @if !report.packages.is_empty() {
            section #packages aria-labelledby="packages-title" {
                h2 #packages-title { "Packages" }
                p.lead { "Which library cost what: operations on its files, and while it was imported, where that is known." }
                (packages(&report.packages))
                @if !report.imports.is_empty() {
                    h3 { "Imports" }
                    p.lead { "Each module with the statement that asked for it. Operations are those of the module and of all within it." }
                    div.imports { (level(&report.imports, most)) }
                }
            }
        }
    }
}

fn packages(rows: &[PackageView]) -> Markup {
    let costs = |costs: Option<&PackageCosts>| {
        html! {
            td { @if let Some(costs) = costs { (grouped(costs.metadata_operations)) } }
            td { @if let Some(costs) = costs { (seconds(costs.seconds)) } }
        }
    };
    let head = html! {
        th.words scope="col" { "package" }
        th.words scope="col" { "language" }
        (super::tables::titles(&["operations", "time", "while imported", "time"]))
    };
    let body = html! {
        @for row in rows.iter().take(PACKAGES) {
            tr {
                th scope="row" { (prose(&clean(&row.name))) }
                td.words { (row.language) }
                (costs(Some(&row.own)))
                (costs(row.importing.as_ref()))
            }
        }
    };
    super::tables::table(&head, &body)
}

/// Rows of the table of packages: the others are in the object of the page.
const PACKAGES: usize = 50;

/// The imports of the first row's depth, each with those within it.
fn level(rows: &[ImportView], most: u64) -> Markup {
    let depth = rows.first().map_or(0, |row| row.depth);
    let mut rest = rows;
    let mut items = Vec::new();
    while let Some((row, below)) = rest.split_first() {
        let within = below.iter().position(|row| row.depth <= depth).unwrap_or(below.len());
        items.push((row, &below[..within]));
        rest = &below[within..];
    }
    html! {
        ul {
            @for (row, within) in items {
                li {
                    @if within.is_empty() { div { (line(row)) } } @else {
                        details open[row.all.metadata_operations.saturating_mul(OPEN) >= most] {
                            summary { (line(row)) }
                            (level(within, most))
                        }
                    }
                }
            }
        }
    }
}

fn line(row: &ImportView) -> Markup {
    html! {
        b { (grouped(row.all.metadata_operations)) } " "
        code { (clean(&row.module)) } " "
        span { (seconds(row.all.seconds)) ", " (grouped(row.own.metadata_operations)) " its own " }
        small { (clean(&row.statement())) }
    }
}
