//! The flags of `quell gather`, a command of commands.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Look into the containers of `quell run --gather`, and write the files that they hold under their own names.
///
/// A CONTAINER is one file, or a directory with containers in it. Several are one tree: those of the nodes of a job add up, and one
/// of a later run takes the place of what that run saw. A name that two nodes gave to different files is a conflict: it is
/// named and left out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell gather ls results\n  \
    quell gather extract results\n  \
    quell gather mount results mnt")]
pub struct Gather {
    /// The command.
    #[command(subcommand)]
    pub command: GatherCommand,
}

/// The commands of `quell gather`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "documentation of a variant would replace the help of its type")]
pub enum GatherCommand {
    #[command(about = "List the files in containers")]
    Ls(GatherLs),
    #[command(about = "Print the content of files in containers")]
    Cat(GatherCat),
    #[command(about = "Write the files of containers under their own names")]
    Extract(GatherExtract),
    #[command(about = "Show the files of containers below a directory, to be read")]
    Mount(GatherMountFlags),
}

/// List the names in containers with mode, owner, size and time (UTC), as `tar tv` does.
///
/// Exit status: 0, 1 when names are left out because of a conflict, 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell gather ls [OPTIONS] CONTAINER...")]
#[command(after_help = "Examples:\n  \
    quell gather ls results\n  \
    quell gather ls --json results/7.n1.5cae12d0.qout")]
pub struct GatherLs {
    /// The containers, or directories that hold them.
    #[arg(value_name = "CONTAINER", required = true)]
    pub containers: Vec<PathBuf>,
    /// Print one JSON object instead, with the state of each container.
    #[arg(long)]
    pub json: bool,
}

/// Print the content of files in containers, one after the other.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell gather cat CONTAINER PATH...")]
#[command(after_help = "Examples:\n  \
    quell gather cat results rank-0/out.txt")]
pub struct GatherCat {
    /// The container, or a directory that holds several.
    #[arg(value_name = "CONTAINER")]
    pub container: PathBuf,
    /// The files, by their paths below the directory that was gathered.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Write the files of containers under their own names, many at a time, with modes, times, links and extended attributes; as root with
/// owners too.
///
/// A name that is there already stays, and is named. A file that an earlier extraction wrote is left as it is, so that one that was
/// killed can be run again. The containers stay.
///
/// Exit status: 0, 1 when something was left out, 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell gather extract [OPTIONS] CONTAINER...")]
#[command(after_help = "Examples:\n  \
    quell gather extract results\n  \
    quell gather extract --fsync -o copy results/*.qout")]
pub struct GatherExtract {
    /// The containers, or directories that hold them.
    #[arg(value_name = "CONTAINER", required = true)]
    pub containers: Vec<PathBuf>,
    /// The directory to write to [default: the one in which the containers lie].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace files of the same names, and remove those that programs removed.
    #[arg(short, long)]
    pub force: bool,
    /// Wait until each file is on stable storage.
    #[arg(long)]
    pub fsync: bool,
}

/// Show the files of containers below the directory DIR, to be read, as `quell gather extract` would write them.
///
/// The mount stays until `fusermount3 -u DIR`, or `umount DIR` as root. It shows containers as they are now. Users mount by
/// `fusermount3`, of the package fuse3.
///
/// Exit status: 0, also when names are left out, which is said; 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell gather mount [OPTIONS] CONTAINER... DIR")]
#[command(after_help = "Examples:\n  \
    quell gather mount results mnt\n  \
    fusermount3 -u mnt")]
pub struct GatherMountFlags {
    /// The containers, or directories that hold them; then the directory to mount over.
    #[arg(value_name = "CONTAINER", required = true, num_args = 2..)]
    pub paths: Vec<PathBuf>,
    /// Stay in the foreground, and unmount at Ctrl-C.
    #[arg(short, long)]
    pub foreground: bool,
}
