//! Standard output of many ranks, which the launcher carries through one process.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft};
use super::effect::Effect;
use super::limits::CHATTY_OUTPUT;
use super::words::{bytes, count, last};

/// `chatty-output`. Without a launcher output waits for no other process.
pub(super) fn output(case: &Case<'_>) -> Vec<Found> {
    let ranks = case.summary.data.ranks.iter().flatten().count() as u64;
    let job = case.summary.recordings.iter().filter_map(|facts| facts.ranks).max().unwrap_or(0);
    if ranks == 0 || job < 2 {
        return Vec::new();
    }
    let streams = case.summary.data.streams;
    let each = streams.calls / ranks;
    let python =
        case.summary.command().first().is_some_and(|name| last(name.as_bytes()).starts_with(b"python"));
    let command = if python {
        "if rank != 0: sys.stdout = open(os.devnull, 'w')"
    } else {
        "if (rank != 0) freopen(\"/dev/null\", \"w\", stdout);"
    };
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
            "print on rank 0 only, and switch debugging messages off",
            command,
            Cost::Program,
            Effect::default(),
        ),
    }
    .requests(case, each)
    .into_iter()
    .collect()
}
