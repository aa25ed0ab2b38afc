//! The flags of `quell warm`.

use clap::Args;
use quell_base::Bytes;
use std::path::PathBuf;

/// Read what a program will ask for, many requests at a time, so that this node's file-system client knows it when the plain program
/// starts. Nothing is mounted; no root, no namespace, no change to the program.
///
/// Of a trace or an image: its names, absences, attributes, listings and links, and the parts of files that the recording used, in the
/// order in which it did. An image's originals are read, not the image. Of a directory: everything below it. Links are not
/// followed there, and other file systems not entered. Files that are gone or have changed are counted and left alone.
///
/// Under a launcher every rank runs the command: one on each node reads, and the others wait for it.
///
/// It helps where the client remembers: Lustre, NFS, GPFS, CVMFS, most FUSE file systems. `quell run` does the same beside the
/// program where it has to run the command plain.
///
/// Exit status: 0; 1 when nothing of what was recorded is on this node; 2 for an error; 128+N when signal N ended it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell warm app.qimg && python3 app.py\n  \
    srun -N 64 -n 64 quell warm app.qimg && srun -N 64 python3 app.py\n  \
    quell warm --budget 2G /lustre/sw/env\n  \
    quell warm --cvmfs-bundle bundle.json app.qtrace")]
pub struct Warm {
    /// A trace, an image, or a directory.
    #[arg(value_name = "T|IMG|DIR")]
    pub subject: PathBuf,
    /// Have at most N operations in flight.
    #[arg(short = 'j', long, value_name = "N", default_value_t = 32)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub in_flight: u16,
    /// Read at most so much data, such as 500M or 2G; names and attributes are read all the same [default: half of the memory that is
    /// free].
    #[arg(long, value_name = "BYTES")]
    pub budget: Option<Bytes>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
    /// Read nothing, and write the list by which CVMFS clients fetch the files of a repository together.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "budget"])]
    pub cvmfs_bundle: Option<PathBuf>,
}
