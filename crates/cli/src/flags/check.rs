//! The flags of `quell check`.

use crate::duration::Seconds;
use clap::Args;
use clap::builder::FalseyValueParser;
use std::path::PathBuf;

/// Compare an image with its originals, as the first rank of a job does before it starts its program: everything that the
/// image answers for, one operation each.
///
/// If nothing has changed, quell leaves a small file beside the image, IMG.checked. For a while ranks trust that instead of
/// comparing: run this before you submit a job array, and its tasks start without a check each. A stamp counts when you or
/// root left it, for this very image.
///
/// Exit status: 0 when nothing changed, 1 when something did, 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell check app.qimg\n  \
    quell check --valid-for 2h app.qimg && sbatch --array=1-500 job.sh")]
pub struct CheckOriginals {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// Let ranks trust the result for so long, such as 90s, 10m, 2h, up to a day; 0 leaves no stamp.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub valid_for: Seconds,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
    /// Have at most N operations in flight.
    #[arg(long, value_name = "N", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: u16,
    /// Compare an image that other users own, or can change or replace.
    #[arg(long, env = "QUELL_TRUST", value_parser = FalseyValueParser::new())]
    pub trust: bool,
}
