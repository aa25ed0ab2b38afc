//! Ranks that did the same, folded into a row.

use super::Page;
use crate::number::{counted, grouped, percent};
use crate::table::Table;
use crate::text::clean;
use quell_analyse::Summary;

/// Rows at most: beyond that every rank is different, and the first tell as much.
const ROWS: usize = 10;

/// Which recordings did the same; nothing for a single one.
pub(super) fn ranks(page: &mut Page, summary: &Summary) {
    if summary.recordings.len() < 2 {
        return;
    }
    let folds = summary.folds();
    let mut table = Table::default().number("recordings").number("operations each").number("missed each");
    table = table.text("differ from the first").phrase("ranks");
    for fold in folds.iter().take(ROWS) {
        let apart = match fold.apart {
            _ if fold.members == folds[0].members => String::new(),
            Some(apart) => format!("{} ({})", grouped(apart), percent(apart, folds[0].metadata_operations.1)),
            None => "another command".into(),
        };
        table.row(vec![
            grouped(fold.members.len() as u64),
            range(fold.metadata_operations),
            range(fold.missed),
            apart,
            clean(&fold.label()),
        ]);
    }
    let more = folds.len().saturating_sub(ROWS) as u64;
    let rest = if more > 0 { format!(" (and {})", counted(more, "other")) } else { String::new() };
    page.section(&format!("Ranks that did the same, numbers in paths aside{rest}"), &table);
}

fn range((fewest, most): (u64, u64)) -> String {
    if fewest == most { grouped(fewest) } else { format!("{} to {}", grouped(fewest), grouped(most)) }
}
