//! Ranks that did the same, folded into a row.

use super::{Page, ROWS};
use crate::number::{counted, grouped, percent};
use crate::table::TextTable;
use crate::text::clean;
use crate::view::ReportView;

/// Recordings that did the same; nothing for a single one.
pub(super) fn ranks(page: &mut Page, report: &ReportView) {
    let folds = &report.folds;
    if report.recordings.len() < 2 {
        return;
    }
    let mut table = TextTable::default().number("recordings").number("operations each").number("missed each");
    table = table.text("differ from the first").phrase("ranks");
    for (index, fold) in folds.iter().take(ROWS).enumerate() {
        let most = folds[0].metadata_operations_at_most;
        let apart = match fold.apart {
            _ if index == 0 => String::new(),
            Some(apart) => format!("{} ({})", grouped(apart), percent(apart, most)),
            None => "another command".into(),
        };
        table.row(vec![
            grouped(fold.recordings),
            range(fold.metadata_operations, fold.metadata_operations_at_most),
            range(fold.missed, fold.missed_at_most),
            apart,
            clean(&fold.ranks),
        ]);
    }
    let more = folds.len().saturating_sub(ROWS) as u64;
    let rest = if more > 0 { format!(" (and {})", counted(more, "other")) } else { String::new() };
    page.section(&format!("Ranks that did the same, numbers in paths aside{rest}"), &table);
}

fn range(fewest: u64, most: u64) -> String {
    if fewest == most { grouped(fewest) } else { format!("{} to {}", grouped(fewest), grouped(most)) }
}
