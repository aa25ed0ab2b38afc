//! The flags of `quell run --auto`, and of `quell cache`.

use crate::duration::Days;
use clap::{Args, Subcommand};
use quell_base::Bytes;
use std::path::PathBuf;

/// The flags by which `quell run` finds an image by itself.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Automatic image")]
pub struct AutoFlags {
    /// Find the image in the cache, make it if there is none, and keep it up to date: the first start is recorded, later ones
    /// come from the image. A failure of quell leaves the command plain. QUELL_AUTO=0 runs it plain anyway.
    #[arg(long)]
    pub auto: bool,
    /// With --auto: record anew, and replace the image.
    #[arg(long, requires = "auto")]
    pub refresh: bool,
    /// With --auto: say on standard error what was decided, and why.
    #[arg(long, requires = "auto")]
    pub explain: bool,
    /// With --auto: pack below this directory, whatever its file system, and nowhere else. May be given several times.
    #[arg(long = "root", value_name = "DIR", value_delimiter = ':', requires = "auto")]
    pub roots: Vec<PathBuf>,
    /// Keep the images of --auto in this directory [default: $XDG_CACHE_HOME/quell or ~/.cache/quell]. All nodes must see it.
    #[arg(long, value_name = "DIR", env = "QUELL_CACHE")]
    pub cache: Option<PathBuf>,
    /// Look for images in these directories of the site first, which are only read.
    #[arg(long, value_name = "DIR", value_delimiter = ':')]
    pub site_cache: Vec<PathBuf>,
    /// Let the cache take so much, such as 500M or 20G; what was used least recently goes first.
    #[arg(long, value_name = "BYTES", default_value = "10G")]
    pub cache_size: Bytes,
}

/// Look into the cache of `quell run --auto`, and make room in it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell cache ls\n  \
    quell cache prune --older 30d")]
pub struct Cache {
    /// Use this directory [default: $XDG_CACHE_HOME/quell or ~/.cache/quell].
    #[arg(long, global = true, value_name = "DIR", env = "QUELL_CACHE")]
    pub cache: Option<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub command: CacheCommand,
}

/// The commands of `quell cache`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "documentation of a variant would replace the help of its type")]
pub enum CacheCommand {
    #[command(about = "List the programs in the cache: size, last use, versions, state")]
    Ls(CacheLs),
    #[command(about = "Print the directory of the cache")]
    Path(CachePath),
    #[command(about = "Make the images whose recordings wait")]
    Make(CacheMake),
    #[command(about = "Remove images of programs that were not used for long, or all")]
    Prune(CachePrune),
}

/// List the programs in the cache, the last used first, with the state of each.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell cache ls\n  \
    quell cache prune --older 30d")]
pub struct CacheLs {
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Make images of the recordings that wait: a batch system may end the process that `quell run --auto` leaves behind before it
/// has made one. The next job does that too; this is for an epilogue, or a node where time costs nothing.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell cache ls\n  \
    quell cache prune --older 30d")]
pub struct CacheMake {
    /// Let the cache take so much, such as 500M or 20G; what was used least recently goes first.
    #[arg(long, value_name = "BYTES", default_value = "10G")]
    pub cache_size: Bytes,
}

/// Print the directory of the cache, which need not be there yet.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell cache ls\n  \
    quell cache prune --older 30d")]
pub struct CachePath {}

/// Remove images, recordings and notes. A file that another process is making is spared, and --max spares files used in the
/// last hour.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
#[command(after_help = "Examples:\n  \
    quell cache prune --older 30d\n  \
    quell cache prune --max 5G\n  \
    quell cache prune --all")]
pub struct CachePrune {
    /// Remove everything.
    #[arg(long)]
    pub all: bool,
    /// Remove what was used least recently, until the cache takes no more than this, such as 5G.
    #[arg(long, value_name = "BYTES")]
    pub max: Option<Bytes>,
    /// Remove what was not used for so long, such as 12h or 30d.
    #[arg(long, value_name = "TIME")]
    pub older: Option<Days>,
}
