//! Operations by the counters that clients of shared file systems keep.

use super::tables::{section, table, titles};
use crate::number::{grouped, rate};
use crate::terminal::counters::{by_class, sides};
use crate::view::ReportView;
use maud::{Markup, html};

/// A row for each file system that was asked, and where; nothing where no client counts.
pub(super) fn counters(report: &ReportView) -> Markup {
    let Some(counters) = &report.client_counters else { return html! {} };
    let rows: Vec<_> = counters
        .file_systems
        .iter()
        .flat_map(|counted| {
            sides(&counted.at_server, &counted.at_client)
                .map(move |(at, operations)| (counted, at, operations))
        })
        .collect();
    let head = titles(&["mount point", "type", "at", "metadata operations", "a second", "by class"]);
    let body = html! {
        @for (counted, at, operations) in &rows {
            tr {
                th scope="row" { (counted.mount_point) }
                td { (counted.kind) }
                td { (at) }
                td { (grouped(operations.metadata_operations)) }
                td { (rate(operations.metadata_operations_per_second)) }
                td { (by_class(operations)) }
            }
        }
    };
    let lead = format!("Operations of all programs on node {} meanwhile.", counters.host);
    html! {
        @if !rows.is_empty() {
            (section("counters", "Counted by the clients", &lead, &table(&head, &body)))
        }
    }
}
