//! The flags of `quell pack`.

use super::output_path::no_stream;
use crate::compression::Compression;
use clap::Args;
use std::path::PathBuf;

/// Make an image of a recording: one file with each directory that the program looked into, complete, so that the image
/// knows what is absent too, and the content of each file that it read.
///
/// Only directories on a network file system below which the recording wrote nothing are packed; `--root` says otherwise.
/// The image is a standard EROFS file system.
///
/// `--refresh` makes an image anew from the originals as they are now, without a recording: the image records the paths
/// that were asked for. The new image is written aside and replaces the old one when it is complete; a run of the old image
/// goes on with the old one.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell pack [OPTIONS] T...\n       quell pack [OPTIONS] --refresh IMG")]
#[command(after_help = "Examples:\n  \
    quell pack app.qtrace\n  \
    quell pack app.qtrace -o app.qimg --root /opt/app\n  \
    quell pack --refresh app.qimg")]
pub struct Pack {
    /// Recordings of the program.
    #[arg(value_name = "T", required_unless_present = "refresh")]
    pub traces: Vec<PathBuf>,
    /// Name of the image [default: named after the first recording, such as app.qimg; the one that --refresh names].
    #[arg(short, long, value_name = "IMG", value_parser = no_stream())]
    pub output: Option<PathBuf>,
    /// Replace an earlier image of the same name.
    #[arg(short, long)]
    pub force: bool,
    /// Pack below this directory, whatever its file system. May be given several times.
    #[arg(long = "root", value_name = "DIR", value_delimiter = ':')]
    pub roots: Vec<PathBuf>,
    /// Make this image anew from its originals as they are now, and show the changes.
    #[arg(long, value_name = "IMG", conflicts_with_all = ["traces", "roots"])]
    pub refresh: Option<PathBuf>,
    /// With --refresh: add the paths that runs had to ask of the originals, from files that `quell run --learn FILE` wrote.
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "refresh")]
    pub learn: Vec<PathBuf>,
    /// Pack everything in this directory, besides what was recorded. It must lie below a directory that is packed. May be
    /// given several times.
    #[arg(long = "add", value_name = "DIR", value_delimiter = ':')]
    pub added: Vec<PathBuf>,
    /// Make an image that is all that a run needs: no original is asked, a name that it does not hold is absent, and the
    /// directories that it covers need not exist. Compressed, unless `--compress=no` says otherwise.
    #[arg(long)]
    pub complete: bool,
    /// Make an image for all users. It holds only what every user may read, by mode and by access control list.
    #[arg(long)]
    pub public: bool,
    /// Hold all of each used file, not only its used blocks: a larger image, of which exports and other runs can use more.
    #[arg(long)]
    pub whole_files: bool,
    /// Compress the image for transport, as zstd does at LEVEL (1 to 19; 9 if none is given), or `no`. `quell run` serves it
    /// while it decompresses; `zstd -d` makes the plain image of it.
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "9")]
    pub compress: Option<Compression>,
    /// Show the bytes that N nodes will read of the image, and on Lustre the command that stripes it for them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub nodes: Option<u32>,
}
