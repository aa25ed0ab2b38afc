//! The flags of `quell top`.

use super::record::{ProcessList, quiet};
use clap::Args;
use std::time::Duration;

/// Watch the metadata operations of running processes: how many, of which kind, by whom, in which directories.
///
/// On a terminal the screen is redrawn once a second; `q` or Ctrl-C ends it. In a pipe or a file, one text follows the other. The
/// processes are those of a user or of a job, or the named ones with their descendants. Processes and threads that they start are
/// watched too. All of them run on afterwards, even when quell is killed. While quell watches, each of their calls stops twice.
///
/// Not watched: processes that may not be traced, FUSE servers, and the ancestors of quell, such as its shell. A process that
/// traces another one, executes a set-user-ID program or opens `/dev/fuse` is left out from then on; nothing is counted during
/// the following second.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell top\n  \
    quell top -p 4242\n  \
    quell top --job 1234 --interval 5\n  \
    quell top --user alice --json --count 60 > storm.jsonl")]
pub struct Top {
    /// Watch these processes and their descendants, until all have ended. Your own processes; root may name any.
    #[arg(short, long = "pid", value_name = "PID", num_args = 1.., value_parser = ProcessList::parse,
        conflicts_with_all = ["user", "job"])]
    pub pids: Vec<ProcessList>,
    /// Watch the processes of this user, a name or a number, later ones too [default: yourself].
    #[arg(long, value_name = "U", conflicts_with = "job")]
    pub user: Option<String>,
    /// Watch the processes of this batch job on this node, such as 1234 or 1234.0, later ones too.
    #[arg(long, value_name = "ID")]
    pub job: Option<String>,
    /// Show the operations of so many seconds at a time.
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// End after so many intervals.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print one JSON object a line for each interval.
    #[arg(long)]
    pub json: bool,
}

/// A tenth of a second to a day: a shorter one would show the watching alone.
fn interval(text: &str) -> Result<Duration, String> {
    let allowed = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
    let interval = quiet(text)?;
    if allowed.contains(&interval) { Ok(interval) } else { Err("not in 0.1..=86400".to_owned()) }
}
