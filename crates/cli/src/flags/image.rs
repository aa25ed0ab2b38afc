//! The flags of `quell image`, a command of commands.

use clap::builder::FalseyValueParser;
use clap::{ArgGroup, Args, Subcommand};
use std::path::PathBuf;

/// Look into an image, check it, and export its content, without a mount, a namespace or root.
///
/// Paths are the original absolute ones; without the leading slash, or relative to the working directory, they are
/// found too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell image info app.qimg\n  \
    quell image ls app.qimg /opt/app/lib")]
pub struct Image {
    /// The command.
    #[command(subcommand)]
    pub command: ImageCommand,
}

/// The commands of `quell image`.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "documentation of a variant would replace the help of its type")]
pub enum ImageCommand {
    #[command(about = "List names with their kind, size and time, and whether content is held")]
    Ls(ImageLs),
    #[command(about = "Show the origin and content of an image")]
    Info(ImageInfo),
    #[command(about = "Check every byte of an image")]
    Check(ImageCheck),
    #[command(about = "Print the content of files that an image holds")]
    Cat(ImageCat),
    #[command(about = "Write the content of an image as files below a directory")]
    Extract(ImageExtract),
    #[command(about = "Write the content of an image as a tar archive or another file system")]
    Export(ImageExport),
}

/// List the names in an image with mode, owner, size and time (UTC), as `tar tv` does, and with the state of each.
///
/// A file is held (the image has its content), part (the image has the blocks that the recorded run touched, and the
/// original has the others) or original (the image has its attributes only). A directory is complete (every name is known,
/// and any other is absent), partial (some names and absences are known), uncovered (only the way to other entries is
/// known) or live (it stays the original).
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell image ls [OPTIONS] IMG [PATH]...")]
#[command(after_help = "Examples:\n  \
    quell image ls app.qimg\n  \
    quell image ls app.qimg /opt/app/lib")]
pub struct ImageLs {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// List these and what is below them [default: everything that the image covers].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Show the origin and content of an image: recorded command, roots, directories that stay the original, files
/// and bytes, absences, coverage, format and checksum.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell image info [OPTIONS] IMG")]
#[command(after_help = "Examples:\n  \
    quell image info app.qimg")]
pub struct ImageInfo {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Check every byte of an image: its checksum, and that its tree and index agree. It is not compared with the originals:
/// `quell check` does that.
///
/// Exit status: 0, 1 when the image is damaged, 2 for an error or for a file that is no image of quell.
#[derive(Debug, Args)]
#[command(override_usage = "quell image check [OPTIONS] IMG")]
#[command(after_help = "Examples:\n  \
    quell image check app.qimg")]
pub struct ImageCheck {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Print the content of files that an image holds, one after the other. Symbolic links are followed within the image.
///
/// Exit status: 0, or 2 for an error, such as a file whose content is not held.
#[derive(Debug, Args)]
#[command(override_usage = "quell image cat [OPTIONS] IMG PATH...")]
#[command(after_help = "Examples:\n  \
    quell image cat app.qimg /opt/app/etc/app.conf")]
pub struct ImageCat {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// The files.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Write the content of an image as files below a directory, under their original paths, with modes, times, symbolic and hard
/// links; as root with owners too.
///
/// The directory is new or empty, and a new one appears complete or not at all. Content that the image does not hold
/// is left out, counted and named. Exit status: 0, 1 when something was left out, 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell image extract [OPTIONS] -o DIR IMG [PATH]...")]
#[command(after_help = "Examples:\n  \
    quell image extract -o tree app.qimg\n  \
    quell image extract --fill -o tree app.qimg /opt/app/lib")]
pub struct ImageExtract {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// Write these and what is below them [default: everything that the image covers].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// The directory to write to.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Read content that the image does not hold from the originals, where they have not changed. Files that look like keys or
    /// passwords stay left out.
    #[arg(long)]
    pub fill: bool,
    /// Write into a directory that is not empty, and replace files of the same names.
    #[arg(short, long)]
    pub force: bool,
    /// As root: keep owners, set-user-ID bits, capabilities and devices also of an image that others can change.
    #[arg(long, env = "QUELL_TRUST", value_parser = FalseyValueParser::new())]
    pub trust: bool,
}

/// Write the content of an image as a tar archive, or as a file system that a site without namespaces can bind, for example
/// with Apptainer: `apptainer exec --bind FILE:ROOT:image-src=ROOT ...`.
///
/// Content that the image does not hold is left out, counted and named; in EROFS its name stays, and cannot be read.
/// Exit status: 0, 1 when something was left out, 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell image export [OPTIONS] <--tar|--squashfs|--erofs> -o FILE IMG [PATH]...")]
#[command(group = ArgGroup::new("format").args(["tar", "squashfs", "erofs"]).required(true))]
#[command(after_help = "Examples:\n  \
    quell image export --tar -o app.tar app.qimg\n  \
    quell image export --erofs --fill -o app.erofs app.qimg")]
pub struct ImageExport {
    /// The image.
    #[arg(value_name = "IMG")]
    pub image: PathBuf,
    /// Write these and what is below them [default: everything that the image covers].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Write a POSIX tar archive.
    #[arg(long)]
    pub tar: bool,
    /// Write a squashfs file system, with `mksquashfs` 4.5 or later.
    #[arg(long)]
    pub squashfs: bool,
    /// Write an EROFS file system, as the image itself is: useful with --fill.
    #[arg(long)]
    pub erofs: bool,
    /// The file to write; with --tar, `-` is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Read content that the image does not hold from the originals, where they have not changed. Files that look like keys or
    /// passwords stay left out.
    #[arg(long)]
    pub fill: bool,
    /// Replace an earlier file of the same name.
    #[arg(short, long)]
    pub force: bool,
}
