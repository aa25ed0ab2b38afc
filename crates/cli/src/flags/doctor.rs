//! The flags of `quell doctor`.

use clap::Args;
use clap::builder::FalseyValueParser;
use std::path::PathBuf;

/// Find out what this node allows of what quell needs, by doing it in child processes that leave nothing behind; what bars
/// the rest; and what to ask the administrator for, to the line.
///
/// Run it where programs run, on a compute node: a login node often allows something else. Exit status: 0 when `run`
/// would use its image and `record` works, else 1; 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell doctor\n  \
    srun -N 1 quell doctor app.qimg")]
pub struct Doctor {
    /// An image that is to be run here.
    #[arg(value_name = "IMG")]
    pub image: Option<PathBuf>,
    /// Look at an image that other users own, or can change or replace.
    #[arg(long, env = "QUELL_TRUST", value_parser = FalseyValueParser::new())]
    pub trust: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}
