//! The flags of `quell import`.

use super::output_path::no_stream;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Make a trace of a log that strace wrote, as `strace -f -o LOG CMD`, with almost any further option of it; several logs are
/// the files of one `strace -ff`.
///
/// A log tells no mounts and no symbolic links, and often no times: what it does not tell stays unknown, and the trace
/// says so. The best log is that of `strace -f -v -s 4096 -ttt -T -y`. Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(override_usage = "quell import strace [OPTIONS] LOG...")]
#[command(after_help = "Examples:\n  \
    strace -f -v -s 4096 -ttt -T -y -o app.log python3 app.py\n  \
    quell import strace app.log --here\n  \
    ssh node cat app.log.xz | quell import strace - -o app.qtrace")]
pub struct Import {
    /// The tool that wrote the logs.
    #[arg(value_name = "TOOL", value_enum)]
    pub tool: Tool,
    /// The log, or every file of one `strace -ff`; `-` is standard input. gzip, xz and zstd are unpacked by their own programs.
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<PathBuf>,
    /// Write the trace to this directory [default: named after the log, such as app.qtrace].
    #[arg(short, long, value_name = "DIR", value_parser = no_stream())]
    pub output: Option<PathBuf>,
    /// Replace an earlier trace of the same name.
    #[arg(short, long)]
    pub force: bool,
    /// Resolve relative paths from this directory, if the log does not tell the command's own.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Take the mounts from this copy of /proc/self/mountinfo of the node that ran the command.
    #[arg(long, value_name = "FILE", conflicts_with = "here")]
    pub mounts: Option<PathBuf>,
    /// The command ran on this node, which is as it was: take mounts, symbolic links and libraries from it.
    #[arg(long)]
    pub here: bool,
}

/// Tools whose logs can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// strace(1).
    Strace,
}
