//! The flags of `quell demo`.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Show the whole way on a program that this node has: record it, say what the storm is, pack it, run it from the image,
/// compare. Needs no network, no root and no shared file system; writes only to a temporary directory.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell demo\n  \
    quell demo perl -MPOSIX -e 1")]
pub struct Demo {
    /// Keep the traces and the image in this new directory.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// The program to show [default: python3 importing part of its library, else perl, git or ls].
    #[arg(value_name = "CMD", trailing_var_arg = true)]
    pub command: Vec<OsString>,
}
