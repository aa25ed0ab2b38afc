//! Names that the program waits for, and asks for again and again.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::limits::POLLING;
use super::words::{count, last};
use quell_base::escape;

/// `polling`.
pub(super) fn polling(case: &Case<'_>) -> Vec<Found> {
    let mut effect = Effect::default();
    let mut rows = Vec::new();
    for (path, time) in &case.summary.awaited {
        let Some((number, counts)) = case.path(path) else { continue };
        // One look a second, and one at the start, stay.
        let stay = time.0 / SECOND + case.starts;
        effect.remove(number, RemovedKind::All, counts.metadata_operations.saturating_sub(stay));
        rows.push((counts.metadata_operations, path));
    }
    let operations: u64 = rows.iter().map(|(operations, _)| operations).sum();
    let names = count(rows.len() as u64, "name");
    let python =
        case.summary.command().first().is_some_and(|name| last(name.as_bytes()).starts_with(b"python"));
    Draft {
        limit: &POLLING,
        measured: case.each(operations),
        title: format!("the program waits for {names} and asked {}", count(operations, "time")),
        evidence: largest(rows, |times, path| format!("{}: {}", escape(path), count(times, "operation"))),
        operations,
        change: RemedyDraft::of(
            "pause for a second between two looks, or let one rank look and tell the others; an image cannot answer, because \
             what is awaited may come from elsewhere",
            if python { "time.sleep(1)" } else { "sleep 1" },
            Cost::Program,
            effect,
        ),
    }
    .over(case)
    .into_iter()
    .collect()
}

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
