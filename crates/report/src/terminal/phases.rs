//! The phases of a run, with the rate of each.

use super::Page;
use crate::number::{grouped, grouped_or_blank, percent, rate, seconds};
use crate::table::TextTable;
use crate::view::ReportView;

/// The operations of each phase, and their rate.
pub(super) fn phases(page: &mut Page, report: &ReportView) {
    let all = report.totals.metadata_operations;
    let mut table = TextTable::default().number("operations").number("share").number("missed");
    table = table.number("time").number("a second").phrase("phase");
    let asked = report.phases.iter().filter(|phase| phase.metadata_operations > 0);
    for phase in asked {
        table.row(vec![
            grouped(phase.metadata_operations),
            percent(phase.metadata_operations, all),
            grouped_or_blank(phase.missed),
            if phase.seconds > 0.0 { seconds(phase.seconds) } else { String::new() },
            phase.metadata_operations_per_second.map(rate).unwrap_or_default(),
            describe(&phase.name).into(),
        ]);
    }
    let title = match report.recordings.len() {
        0 | 1 => "Phases (time in which a program was in one)",
        _ => "Phases (operations of all recordings in the longest time of one)",
    };
    if all > 0 {
        page.section(title, &table);
    }
}

fn describe(phase: &str) -> &str {
    match phase {
        "loader" => "loader (before main)",
        "initialisation" => "initialisation (code loads)",
        "mpi-init" => "MPI_Init",
        _ => "steady state",
    }
}
