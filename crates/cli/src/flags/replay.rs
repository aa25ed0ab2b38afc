//! The flags of `quell replay`.

use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;

/// Issue a recording's operations again, against a directory: an application's exact mix as a benchmark.
///
/// Only what the recording asked of the files below one recorded directory is issued, as it was asked: same calls, same
/// names below --root, same sizes and offsets, processes and threads as they were; and nothing else. Nothing there is
/// changed. Behind a launcher (mpirun, srun) each of its ranks is one rank of the replay, and rank 0 reports.
///
/// Exit status: 0, 1 when an operation that succeeded in the recording fails now or a process ended before it told what it
/// did, 2 for an error; 128+N when signal N ended it. What was made is removed, also then.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell replay app.qtrace --root /scratch/u/app\n  \
    mpirun -n 16 quell replay app.qtrace --root /scratch/u/app --from /opt/app")]
pub struct Replay {
    /// The recording.
    #[arg(value_name = "T")]
    pub trace: PathBuf,
    /// The directory to replay against.
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// The recorded directory in whose place it stands [default: the mount point of the busiest network file system].
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Ranks on this node; behind a launcher, for each of its ranks.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: u32,
    /// Time between operations, which is slept: `none` for full speed, `recorded`, or a factor such as 0.5.
    #[arg(long, value_name = "TIME", default_value = "none")]
    pub think: Think,
    /// Issue what changes files too, in a directory of each rank's own below --root, which is removed at the end;
    /// what a killed replay leaves the next one names. It needs Linux 5.6.
    #[arg(long)]
    pub writes: bool,
    /// Behind a launcher on several nodes: the host of rank 0, and a free port there, where ranks meet to begin at once.
    #[arg(long, value_name = "HOST:PORT")]
    pub meet: Option<String>,
    /// Print a table of operations by class as CSV instead.
    #[arg(long)]
    pub csv: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// The factor of recorded times between calls; nothing for full speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Think(pub Option<f64>);

impl FromStr for Think {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self(None)),
            "recorded" => Ok(Self(Some(1.0))),
            factor => {
                let factor = factor.parse().ok().filter(|factor| (0.0..=1000.0).contains(factor));
                factor
                    .map(|factor| Self(Some(factor)))
                    .ok_or("`recorded`, `none`, or a factor from 0 to 1000")
            }
        }
    }
}
