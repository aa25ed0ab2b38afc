//! The phases of a run, with the rate of each.

use super::Page;
use crate::number::{duration, grouped, grouped_or_blank, percent, rate};
use crate::table::Table;
use quell_analyse::{Phase, Summary};

/// What was asked in which phase, and how fast.
pub(super) fn phases(page: &mut Page, summary: &Summary) {
    let all = summary.totals().metadata_operations;
    let mut table = Table::default().number("operations").number("share").number("missed");
    table = table.number("time").number("a second").phrase("phase");
    let asked = summary.phases.counts.iter().filter(|(_, counts)| counts.metadata_operations > 0);
    for (phase, counts) in asked {
        let seconds = counts.length.as_seconds();
        let per_second = (seconds > 0.0).then(|| rate(counts.metadata_operations as f64 / seconds));
        table.row(vec![
            grouped(counts.metadata_operations),
            percent(counts.metadata_operations, all),
            grouped_or_blank(counts.missed),
            if counts.length.0 > 0 { duration(counts.length) } else { String::new() },
            per_second.unwrap_or_default(),
            describe(*phase).into(),
        ]);
    }
    let title = match summary.recordings.len() {
        0 | 1 => "Phases (time in which a program was in one)",
        _ => "Phases (operations of all recordings in the longest time of one)",
    };
    if all > 0 {
        page.section(title, &table);
    }
}

fn describe(phase: Phase) -> &'static str {
    match phase {
        Phase::Loader => "loader (before main)",
        Phase::Initialisation => "initialisation (code loads)",
        Phase::MpiInit => "MPI_Init",
        Phase::Steady => "steady state",
    }
}
