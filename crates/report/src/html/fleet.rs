//! The page of many jobs: words and tables, and no script.

use super::document::{Document, document};
use super::escape::prose;
use super::tables::{section, table, titles};
use crate::number::{counted, grouped, percent};
use crate::view::{FleetCost, FleetServed, FleetTable, FleetView};
use maud::{Markup, html};

/// The permissions that the page gives the browser.
const POLICY: &str = include_str!("../../web/dist/policy.txt");

/// The page of `quell fleet --html`.
pub fn fleet(fleet: &FleetView) -> String {
    let all = &fleet.all;
    let since = fleet.since.as_ref().map(|since| format!(" since {since} UTC")).unwrap_or_default();
    let (jobs, operations) = (counted(all.jobs, "job"), counted(all.operations, "metadata operation"));
    let title = format!("{jobs}{since}, {operations}");
    let saved = all.saved().unwrap_or(0);
    let left = all.operations - saved;
    let body = html! {
        section #fleet aria-labelledby="fleet-title" {
            p.ran { code { (prose(&fleet.data_set)) } }
            h1 #fleet-title { (title) "." }
            p { "Remedies save " (grouped(saved)) " (" (percent(saved, all.operations)) "); " (grouped(left)) " remain." }
        }
        @for table in &fleet.tables { (by(table, all)) }
        @if let Some(served) = &fleet.served { (by_served(served)) }
    };
    document(&Document {
        title: &title,
        description: &title,
        body,
        first: "fleet",
        missing: "",
        foot: "Counts of recorded jobs.",
        data: &[],
        script: "",
        policy: POLICY,
    })
}

fn by_served(served: &FleetServed) -> Markup {
    let head = html! {
        th.words scope="col" { "job" }
        (titles(&["operations", "share", "recordings", "recorded", "saved"]))
        th.words scope="col" { "user and program" }
    };
    let number = |number: Option<u64>| number.map(grouped).unwrap_or_default();
    let body = html! {
        @for row in &served.rows {
            tr {
                th scope="row" { (prose(&row.job)) }
                td { (grouped(row.operations)) }
                td { (percent(row.operations, served.operations)) }
                td { (grouped(row.recordings)) }
                td { (number(row.cost)) }
                td { (number(row.cost.zip(row.cost_after).map(|(cost, after)| cost.saturating_sub(after)))) }
                td.words { (prose(row.user.as_deref().unwrap_or_default())) " " (prose(row.program.as_deref().unwrap_or_default())) }
            }
        }
    };
    let lead = format!(
        "The servers answered {} for {}; {} of them for {} that were recorded.",
        counted(served.operations, "operation"),
        counted(served.jobs, "job"),
        percent(served.recorded_operations, served.operations),
        counted(served.recorded_jobs, "job"),
    );
    section("by-served", "By job, as the servers counted", &lead, &table(&head, &body))
}

fn by(rows: &FleetTable, all: &FleetCost) -> Markup {
    let head = html! {
        th.words scope="col" { (rows.by) }
        (titles(&["jobs", "operations", "share", "missed", "saved"]))
    };
    let number = |number: Option<u64>| number.map(grouped).unwrap_or_default();
    let body = html! {
        @for row in &rows.rows {
            tr {
                th scope="row" { (prose(&row.name)) }
                td { (grouped(row.jobs)) }
                td { (grouped(row.operations)) }
                td { (percent(row.operations, all.operations)) }
                td { (number(row.missed)) }
                td { (number(row.saved())) }
            }
        }
    };
    let lead = "Most operations first; saved is what the remedies of the findings take away.";
    section(&format!("by-{}", rows.by), &format!("By {}", rows.by), lead, &table(&head, &body))
}
