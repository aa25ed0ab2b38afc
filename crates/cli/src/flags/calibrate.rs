//! The flags of `quell calibrate`.

use crate::duration::Seconds;
use clap::Args;
use quell_base::Bytes;
use quell_calibrate::{CalibrationBounds, MOST_ITEMS};
use std::path::PathBuf;
use std::time::Duration;

/// Measure a file system and write its profile, for `quell predict`: what its metadata server does in a second, how far away
/// it is, what clients keep and for how long, and reads of data.
///
/// Processes of this node do what mdtest does in a new directory in DIR: create, stat, open, rename, remove, in one
/// directory and in one each. It prints mdtest's table and what else was found, removes what it made, and is bounded in operations
/// and in time. Run it on a compute node, at a quiet time, and not beside other users' jobs: 8 processes are enough.
///
/// A second client shows what a cache of this one would hide, and how long things are kept: give the words that run a
/// command on another node, such as `ssh node2` or `srun -w node2 -n 1`. DIR and quell must have the same paths there. Under a
/// launcher each node of the job is a client: start the same command in every rank.
///
/// Exit status: 0, or 2 for an error; 128+N when signal N ended it. What was made is removed, also
/// then; after kill -9, or the same signal twice, it stays, and the next calibration in DIR names it.
#[derive(Debug, Args)]
#[command(override_usage = "quell calibrate [OPTIONS] DIR -o FILE")]
#[command(after_help = "Examples:\n  \
    quell calibrate /scratch/u -o fs.toml\n  \
    quell calibrate --second-client 'ssh node2' /scratch/u -o fs.toml\n  \
    srun -N 8 --ntasks-per-node 1 quell calibrate /scratch/u -o fs.toml")]
pub struct Calibrate {
    /// The directory to measure in.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// File of the profile.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Take about half a minute instead of several minutes: fewer operations, two repetitions, caches of up to five seconds.
    #[arg(long)]
    pub quick: bool,
    /// Words that run a command on a second client of the same file system. Without it lifetimes in caches and stats of
    /// another client's files are not measured. Given again it is a third client, and so on: one client's own limit hides what the
    /// server can do.
    #[arg(long, value_name = "WORDS")]
    pub second_client: Vec<String>,
    /// Most processes at once [default: 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub processes: Option<u16>,
    /// Operations of each process in a phase [default: 300, with --quick 60].
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=MOST_ITEMS))]
    pub items: Option<u64>,
    /// Repetitions of each phase [default: 3, with --quick 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub iterations: Option<u16>,
    /// Begin nothing new after so long, such as 90s or 10m [default: 10m, with --quick 2m].
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub at_most: Option<Seconds>,
    /// Wait so long for the client to forget what it keeps [default: 65s, with --quick 5s].
    #[arg(long, value_name = "TIME")]
    pub cache_wait: Option<Seconds>,
    /// Read a file of this size, such as 64M [default: 128M, with --quick 16M].
    #[arg(long, value_name = "BYTES")]
    pub file_size: Option<Bytes>,
    /// Write every case and repetition to this file as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Replace earlier files of the same names.
    #[arg(short, long)]
    pub force: bool,
}

impl Calibrate {
    /// The limits of the calibration.
    pub(crate) fn bounds(&self) -> CalibrationBounds {
        let usual = if self.quick { CalibrationBounds::QUICK } else { CalibrationBounds::FULL };
        let time = |given: Option<Seconds>, usual| {
            given.map_or(usual, |Seconds(seconds)| Duration::from_secs(seconds))
        };
        CalibrationBounds {
            processes: self.processes.unwrap_or(usual.processes),
            iterations: self.iterations.unwrap_or(usual.iterations),
            items: self.items.unwrap_or(usual.items),
            phase: usual.phase,
            total: time(self.at_most, usual.total),
            cache_wait: time(self.cache_wait, usual.cache_wait),
            // A MiB is read at a time.
            file_bytes: self.file_size.map_or(usual.file_bytes, |Bytes(bytes)| bytes.max(4 << 20)),
        }
    }
}

/// A time in which something can be measured.
fn some_time(text: &str) -> Result<Seconds, &'static str> {
    text.parse().and_then(
        |time: Seconds| if time.0 > 0 { Ok(time) } else { Err("nothing can be measured in no time") },
    )
}
