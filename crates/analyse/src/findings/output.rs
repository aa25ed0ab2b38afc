//! Standard output of many ranks, which the launcher carries through one process.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft};
use super::effect::Effect;
use super::limits::CHATTY_OUTPUT;
use super::words::{bytes, count};

/// `chatty-output`. Without a launcher output waits for no other process.
pub(super) fn output(case: &Case<'_>) -> Vec<Found> {
    let ranks = case.summary.data.ranks.iter().flatten().count() as u64;
    let job = case.summary.recordings.iter().filter_map(|facts| facts.ranks).max().unwrap_or(0);
    if ranks == 0 || job < 2 {
        return Vec::new();
    }
    let streams = case.summary.data.streams;
    let each = streams.calls / ranks;
    let commands: Vec<_> =
        case.commands().map(|command| format!("quell run --output job.log -- {command}")).collect();
    Draft {
        limit: &CHATTY_OUTPUT,
        measured: streams.calls as f64 / ranks as f64,
        title: format!(
            "each rank wrote {} to standard output and error, {} of all {job} ranks",
            count(each, "time"),
            count(each.saturating_mul(job.into()), "write"),
        ),
        evidence: vec![format!("{} from {}", bytes(streams.bytes), count(ranks, "recorded rank"))],
        operations: streams.calls,
        change: RemedyDraft::of(
            "collect what the ranks of a node print, or print on rank 0 only and switch debugging messages off",
            commands.join(" && "),
            Cost::Nothing,
            Effect::default(),
        ),
    }
    .requests(case, pieces(case).min(streams.calls))
    .into_iter()
    .collect()
}

/// The most writes of the collector of these ranks: one whenever a rank's part of its memory is full, one for each
/// second that begins, and one at the end.
fn pieces(case: &Case<'_>) -> u64 {
    let seconds = case.summary.span.map_or(0, |span| span.last.since(span.first).0.div_ceil(SECOND));
    case.summary.data.streams.bytes.0 / PIECE + seconds + 1
}

/// Bytes of a rank that the collector holds at least before it must write. Source: decision 065, `mount::output::ring`.
const PIECE: u64 = 192 << 10;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
