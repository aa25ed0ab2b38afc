//! The flags of `quell predict`.

use crate::nodes::NodeList;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Predict how long a recorded program takes to start on many nodes, as a range, with what it was made from: seconds until
/// the slowest rank is there, bounds, the knee of the curve, what decides the time, and requests at the servers.
///
/// The recording is replayed against the caches of a node's client, as the profile describes them; a queueing model adds the
/// other nodes. A file system is described by a profile: a file that `quell calibrate` wrote, or one that comes with quell
/// (--list-fs). With several, they stand side by side.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(
    override_usage = "quell predict [OPTIONS] T...\n       quell predict create [OPTIONS] --nodes LIST"
)]
#[command(after_help = "Examples:\n  \
    quell predict app.qtrace --nodes 1..512 --fs lustre\n  \
    quell predict app.qtrace --fs fs.toml --ppn 64 --image\n  \
    quell predict app.qtrace --html prediction.html")]
pub struct Predict {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Option<PredictCommand>,
    /// Recordings of one program; several are ranks of one job, which do in turn what they did.
    #[arg(value_name = "T")]
    pub traces: Vec<PathBuf>,
    /// Numbers of nodes, such as 1,64,4096; 1..4096 is every power of two between, and both ends.
    #[arg(long, value_name = "LIST", default_value = "1..1024")]
    pub nodes: NodeList,
    /// Processes on each node.
    #[arg(long, value_name = "P", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub ppn: u32,
    /// The file system: a profile's file, or a name of --list-fs; several are compared [default: a wide prior].
    #[arg(long, value_name = "FS", value_delimiter = ',')]
    pub fs: Vec<String>,
    /// List the profiles that come with quell.
    #[arg(long)]
    pub list_fs: bool,
    /// Print a profile, to be read or changed: every figure with its spread and source.
    #[arg(long, value_name = "FS")]
    pub print_fs: Option<String>,
    /// Count calls below this directory, whatever served it when it was recorded [default: what a network file system served].
    #[arg(long = "root", value_name = "DIR")]
    pub roots: Vec<PathBuf>,
    /// Names between --root and the mount point of the file system that is predicted.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "roots")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=100))]
    pub depth: u32,
    /// Predict a start from an image of quell: read by each node, or broadcast.
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "read", require_equals = true)]
    pub image: Option<ImageBy>,
    /// Compare the ways of the program to the nodes: plain, served once a node as by Spindle, a container's image, an image of quell
    /// that is read, broadcast, or there already, and `run --auto` from its second start on.
    #[arg(long, conflicts_with_all = ["image", "html", "measured"])]
    pub compare: bool,
    /// The program has run on the nodes right before: clients have forgotten nothing between the runs.
    #[arg(long)]
    pub warm: bool,
    /// Write a page for a browser to this file instead: the curve with its band, what spreads it, what changes would give; `-`
    /// prints it.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
    /// Draw measured times into the page: a CSV file of nodes,ppn,seconds.
    #[arg(long, value_name = "FILE", requires = "html")]
    pub measured: Option<PathBuf>,
    /// Computing time of the run, without any file system, where it is known better than from the recording. Unit: seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub think: Option<f64>,
    /// Launcher, MPI_Init and whatever else is no file system's time, added as it is. Unit: seconds.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, allow_negative_numbers = true)]
    pub launch: f64,
    /// From the first node's start to the last one's, evenly spread. Unit: seconds.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds, allow_negative_numbers = true)]
    pub skew: f64,
    /// Share of the metadata servers' time that others take: 0 to less than 1, or as 30%.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = less_than_all, allow_negative_numbers = true)]
    pub background: f64,
    /// Cores that the processes of a node share [default: one for each]. Counted in cores that run alone: two that slow each
    /// other down may count as 1.5.
    #[arg(long, value_name = "N", value_parser = cores, allow_negative_numbers = true)]
    pub cores: Option<f64>,
    /// All nodes and servers are one machine, and share its --cores.
    #[arg(long, requires = "cores")]
    pub shared_host: bool,
    /// Data servers that one file, or the image, is spread over; with --compare the image alone [default: what the profile says, else
    /// all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub stripes: Option<u32>,
    /// Predict clients that keep absent names.
    #[arg(long)]
    pub keep_absences: bool,
    /// Predict that this share of the absent names is not asked for, as a shorter search path does: 0.5, 50%, or N/K for N
    /// of K entries.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, allow_negative_numbers = true)]
    pub fewer_misses: f64,
    /// Predict that this share of the files is gathered into others: 0.5, 50%, N/K.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, allow_negative_numbers = true)]
    pub fewer_files: f64,
    /// Predict that lookup and open are one request.
    #[arg(long)]
    pub atomic_open: bool,
    /// Runs of which the ranges are made; p10 and p90 of fewer than 20 say little.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub samples: u32,
    /// Seed of the runs' choices; the same seed gives the same ranges.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
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
/// On file systems whose clients pass tokens (IBM Storage Scale), the directory leaves its inode, its blocks split, and nodes connect to each
/// other meanwhile; the flags say what of that is done beforehand. Without --fs it is the prior `gpfs`, which is wide.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell predict create [OPTIONS] --nodes LIST")]
#[command(after_help = "Examples:\n  \
    quell predict create --nodes 64,4096 --ppn 48")]
pub struct PredictCreate {
    /// Numbers of nodes, such as 1,64,4096; 1..4096 is every power of two between, and both ends.
    #[arg(long, value_name = "LIST")]
    pub nodes: NodeList,
    /// Ranks of each node that create files.
    #[arg(long, value_name = "P", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub ppn: u32,
    /// Files that each rank creates.
    #[arg(long, value_name = "F", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub files: u64,
    /// Directories that the nodes are spread over.
    #[arg(long, value_name = "D", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub directories: u64,
    /// The file system: a profile's file, or a name of --list-fs [default: gpfs].
    #[arg(long, value_name = "FS")]
    pub fs: Option<String>,
    /// The directory gets 2^LEVEL blocks as soon as it leaves its inode, by DirPreSplitLevels [default: as the profile].
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u32).range(0..=16))]
    pub pre_split: Option<u32>,
    /// All daemons are connected to each other beforehand, by allToAllConnection.
    #[arg(long)]
    pub all_to_all: bool,
    /// Nodes take the inode's token exclusively, one after the other, as before Spectrum Scale 5.0.3.
    #[arg(long)]
    pub serial_token: bool,
    /// The directory has left its inode already, and has its blocks.
    #[arg(long)]
    pub grown: bool,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
    /// Write a page for a browser to this file instead, with the curve, its band and what spreads it; `-` prints it.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Draw measured times into the page: a CSV file of nodes,ppn,seconds.
    #[arg(long, value_name = "FILE", requires = "html")]
    pub measured: Option<PathBuf>,
}

/// Show what the predictions say of figures that others published: start-up of Warp on Hopper, creates on Spectrum Scale, and
/// others; calibration and validation kept apart, misses as misses, and what cannot be reproduced.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell validate")]
pub struct Validate {
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// The way of an image to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImageBy {
    /// Each node reads it from the shared file system.
    Read,
    /// One node reads it, and the nodes pass it on as a tree.
    Broadcast,
}

/// A length of time.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=1e6).contains(seconds));
    seconds.ok_or_else(|| "it must be a number of seconds from 0 to 1000000".to_owned())
}

fn cores(text: &str) -> Result<f64, String> {
    let cores = text.parse().ok().filter(|cores| (1.0..=65_536.0).contains(cores));
    cores.ok_or_else(|| "it must be a number of cores from 1 to 65536".to_owned())
}

/// A share: a number, per cent, or N/K.
fn share(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let share = match (text.strip_suffix('%'), text.split_once('/')) {
        (Some(percent), _) => number(percent).map(|percent| percent / 100.0),
        (None, Some((part, whole))) => number(part).zip(number(whole)).map(|(part, whole)| part / whole),
        (None, None) => number(text),
    };
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "it must be a share: 0 to 1, 0% to 100%, or N/K".to_owned())
}

fn less_than_all(text: &str) -> Result<f64, String> {
    let share = share(text)?;
    if share < 0.999 { Ok(share) } else { Err("it must leave something: at most 99.8%".to_owned()) }
}
