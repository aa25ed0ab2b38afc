//! The flags of `quell bcast`.

use clap::Args;
use std::path::PathBuf;

/// Copy a file, such as an image, to every node of a job: one node reads it, and the others get it from each other.
///
/// Every rank of a launcher (srun, mpirun, mpiexec) runs the command, and one on each node acts. The nodes find each other by what the
/// launcher tells, or by a small file beside IMG. They prove to each other that they belong to the job, and every part is checked on
/// the way. A node whose peers are dead, slow or out of reach reads IMG itself. Parts that DEST already has are not sent again.
///
/// DEST appears whole or not at all. Without a launcher and --peers this node alone makes the copy.
///
/// Exit status: 0 when DEST is there on this node, 2 for an error; 128+N when signal N ended it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    srun -N 64 --ntasks-per-node=1 quell bcast app.qimg /tmp/app.qimg\n  \
    srun -N 64 quell run /tmp/app.qimg -- python3 app.py\n  \
    quell bcast --peers n1,n2,n3 --key ~/.quell.key app.qimg /tmp/")]
pub struct Bcast {
    /// The file, on a file system that all nodes see.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// Its copy on each node: a file, or a directory for it.
    #[arg(value_name = "DEST")]
    pub dest: PathBuf,
    /// The nodes of the job, where no launcher tells: the same list on each. The first one reads IMG.
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',')]
    pub peers: Vec<String>,
    /// A file that only you can read, with at least 16 bytes that are the same on all nodes: the secret of the job.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Send over this network: the name or the address of an interface [default: the route to the peer].
    #[arg(long, value_name = "NAME|ADDRESS")]
    pub interface: Option<String>,
    /// Listen at this port on every node [default: the first node one of three that follow from the job, the others any].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
}
