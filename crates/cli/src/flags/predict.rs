//! The flags of `quell predict`.

use crate::nodes::NodeList;
use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand};

/// Predict how long programs wait for a shared file system on many nodes, as a range, with what it was made from.
///
/// A file system is described by a profile: a file that `quell calibrate` wrote, or one that comes with quell (--list-fs).
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Predict {
    /// What to predict.
    #[command(subcommand)]
    pub command: Option<PredictCommand>,
    /// List the profiles that come with quell.
    #[arg(long, env = "QUELL_LIST_FS", value_parser = FalseyValueParser::new())]
    pub list_fs: bool,
    /// Print a profile, to be read or changed: every figure with its spread and source.
    #[arg(long, value_name = "FS", env = "QUELL_PRINT_FS")]
    pub print_fs: Option<String>,
}

/// The commands of `quell predict`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "documentation of a variant would replace the help of its type")]
pub enum PredictCommand {
    #[command(about = "Predict creates of many nodes in one directory, and say what to set")]
    Create(PredictCreate),
}

/// Predict how long many nodes take to create files in one new shared directory, or in several, term by term; what
/// changes would give; and what to set, with numbers.
///
/// Where clients pass tokens (IBM Storage Scale), the directory leaves its inode, its blocks split, and nodes connect to each
/// other meanwhile; the flags say what of that is done beforehand. Without --fs it is the prior `gpfs`, which is wide.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell predict create [OPTIONS] --nodes LIST")]
pub struct PredictCreate {
    /// Numbers of nodes, such as 1,64,4096; 1..4096 is every power of two between, and both ends.
    #[arg(long, value_name = "LIST", env = "QUELL_NODES")]
    pub nodes: NodeList,
    /// Ranks of each node that create files.
    #[arg(long, value_name = "P", env = "QUELL_PPN", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub ppn: u32,
    /// Files that each rank creates.
    #[arg(long, value_name = "F", env = "QUELL_FILES", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub files: u64,
    /// Directories that the nodes are spread over.
    #[arg(long, value_name = "D", env = "QUELL_DIRECTORIES", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub directories: u64,
    /// The file system: a profile's file, or a name of --list-fs [default: gpfs].
    #[arg(long, value_name = "FS", env = "QUELL_FS")]
    pub fs: Option<String>,
    /// The directory gets 2^LEVEL blocks as soon as it leaves its inode, by DirPreSplitLevels [default: as the profile].
    #[arg(long, value_name = "LEVEL", env = "QUELL_PRE_SPLIT", value_parser = clap::value_parser!(u32).range(0..=16))]
    pub pre_split: Option<u32>,
    /// All daemons are connected to each other beforehand, by allToAllConnection.
    #[arg(long, env = "QUELL_ALL_TO_ALL", value_parser = FalseyValueParser::new())]
    pub all_to_all: bool,
    /// Nodes take the inode's token exclusively, one after the other, as before Spectrum Scale 5.0.3.
    #[arg(long, env = "QUELL_SERIAL_TOKEN", value_parser = FalseyValueParser::new())]
    pub serial_token: bool,
    /// The directory has left its inode already, and has its blocks.
    #[arg(long, env = "QUELL_GROWN", value_parser = FalseyValueParser::new())]
    pub grown: bool,
    /// Print one JSON object instead.
    #[arg(long, env = "QUELL_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
}
