//! A shared file system whose servers sleep: what a start takes where no processor is short.
//!
//! Each node is a FUSE mount of one local tree, read only, so the kernel's own caches answer for each node, with the lifetimes
//! that it is told. Round trips and the servers' work are not done: an answer is held back until the moment at which it would
//! have come. Those moments are computed (`queues.rs`), so a late timer delays one answer and no other one, and many nodes and
//! their servers fit on two cores.
//!
//! ```text
//! kernel -> mount.rs: reads a request, finds the answer in tree.rs, and its moment in queues.rs
//!                 `-> held.rs: holds it until then
//! ```
//!
//! It refuses to change anything, and knows neither locks nor extended attributes.

mod held;
mod mount;
mod queues;
mod settings;
mod tree;

use held::HeldAnswers;
use mount::NodeMount;
use queues::Servers;
use settings::Settings;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use tree::ServedTree;

/// A reason for which the sleeper could not start.
#[derive(Debug, thiserror::Error)]
enum SleeperError {
    /// The command line.
    #[error("{0}\nusage: quell-sleeper TREE MOUNTS nodes=N KEY=NUMBER ...; keys: {keys}", keys = settings::KEYS.join(" "))]
    Usage(String),
    /// A file or directory that it needs.
    #[error("`{}`: {source}", path.display())]
    Place {
        /// Its path.
        path: std::path::PathBuf,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nowhere is left to report that standard error is closed.
            _ = writeln!(std::io::stderr(), "quell-sleeper: {error}");
            ExitCode::from(2)
        }
    }
}

/// Serves until standard input ends, and then prints what each node asked for.
fn run() -> Result<(), SleeperError> {
    let settings = Settings::read(std::env::args().skip(1)).map_err(SleeperError::Usage)?;
    let tree = Arc::new(ServedTree::read(&settings.tree)?);
    let servers = Arc::new(Servers::new(&settings));
    let held = HeldAnswers::start().map_err(|source| place(&settings.mounts, source))?;
    let mounts: Vec<NodeMount> = (0..settings.nodes)
        .map(|node| NodeMount::start(node, &settings, &tree, &servers, &held))
        .collect::<Result<_, _>>()?;
    let mut out = std::io::stdout();
    let told = writeln!(out, "ready").and_then(|()| out.flush());
    // The caller ends it by closing the pipe, or by ending itself.
    _ = told.and_then(|()| std::io::stdin().read_to_end(&mut Vec::new()));
    let counted: Vec<String> = mounts.iter().map(NodeMount::counted).collect();
    drop(mounts);
    _ = writeln!(out, "[{}]", counted.join(", "));
    Ok(())
}

fn place(path: &std::path::Path, source: std::io::Error) -> SleeperError {
    SleeperError::Place { path: path.to_owned(), source }
}
