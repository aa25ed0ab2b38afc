//! Traces of a named shape: the operations of a start-up that somebody published, or of sizes that the user chooses, with
//! the files that they look for.
//!
//! A shape declares files, then makes calls; whether a call succeeds follows from what was declared, so that trace
//! and tree agree. Same request, same bytes: no clock, no random number. Counts come from the sources that each shape
//! names; where a source gives a total only, its parts are spread evenly and the shape says so.

mod julia;
mod modules;
mod pynamic;
mod script;
mod search_path;
mod tree;
mod warp;

pub use julia::Julia;
pub use modules::{Modules, Setup};
pub use pynamic::Pynamic;
pub use search_path::{Positions, SearchPath};
pub use warp::Warp;

use quell_trace::{Header, Nanos, TraceError};
use script::Script;
use std::path::PathBuf;

/// What a trace is to look like.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Many generated libraries.
    Pynamic(Pynamic),
    /// A Python application on a Cray.
    Warp(Warp),
    /// Freshness checks of a Julia start.
    Julia(Julia),
    /// `module avail`.
    Modules(Modules),
    /// Libraries on a search path.
    SearchPath(SearchPath),
}

impl Shape {
    /// About how many calls the trace will have: what is too large is refused before it is made.
    fn calls(&self) -> u64 {
        match self {
            Self::Pynamic(shape) => shape.calls(),
            Self::Warp(_) => 10_000,
            Self::Julia(shape) => shape.calls(),
            Self::Modules(shape) => shape.calls(),
            Self::SearchPath(shape) => shape.calls(),
        }
    }

    fn play(&self, script: &mut Script) {
        match self {
            Self::Pynamic(shape) => shape.play(script),
            Self::Warp(shape) => shape.play(script),
            Self::Julia(shape) => shape.play(script),
            Self::Modules(shape) => shape.play(script),
            Self::SearchPath(shape) => shape.play(script),
        }
    }
}

/// What to make, and where.
#[derive(Clone, Debug)]
pub struct Request {
    /// The shape.
    pub shape: Shape,
    /// The directory below which all files of the shape lie, absolute: the mount point of a file system of type `kind`.
    pub root: PathBuf,
    /// The file-system type, as `/proc/self/mountinfo` would name it.
    pub kind: String,
    /// Time that the program computes between its calls, spread evenly over them.
    pub compute: Nanos,
    /// Where the trace goes.
    pub trace: PathBuf,
    /// Where the files go; `None` for a trace alone.
    pub tree: Option<PathBuf>,
    /// The header of the trace: command, version; the rest is filled here.
    pub header: Header,
}

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Calls in the trace.
    pub calls: u64,
    /// Files of the shape.
    pub files: u64,
    /// Their content. Unit: bytes.
    pub bytes: u64,
}

/// Why nothing was made.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The sizes give more calls than any start-up has.
    #[error("these sizes give about {calls} calls, and a trace may have {MOST_CALLS}")]
    TooLarge {
        /// An estimate.
        calls: u64,
    },
    /// The files are larger together than any file system holds.
    #[error("these sizes give {bytes} bytes, and a shape may have {MOST_BYTES}")]
    TooManyBytes {
        /// All files; the most that can be said where it is more. Unit: bytes.
        bytes: u64,
    },
    /// The directory for the files holds something.
    #[error("`{}` holds something already", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// There is no room for the files.
    #[error("`{}` has room for {free} bytes, and the files take {needed}", path.display())]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// Unit: bytes.
        free: u64,
        /// Unit: bytes.
        needed: u64,
    },
    /// A file could not be written. What had been written is removed.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The caller asked to stop. What had been written is removed.
    #[error("interrupted")]
    Interrupted,
}

/// Calls of a made trace: the largest start-up known is far below, and the trace of so many still fits into memory.
const MOST_CALLS: u64 = 10_000_000;

/// Bytes of all files of a shape: 1 EiB, far below what 64 bits count.
const MOST_BYTES: u64 = 1 << 60;

/// When the caller wants it to end.
pub type Stop<'a> = &'a dyn Fn() -> bool;

/// Makes the trace, and the files before it if they are wanted. `stop` is asked often.
///
/// # Errors
/// See [`SynthError`]; nothing is left behind then.
pub fn make(request: &Request, stop: Stop<'_>) -> Result<Made, SynthError> {
    let calls = request.shape.calls();
    if calls > MOST_CALLS {
        return Err(SynthError::TooLarge { calls });
    }
    let mut script = Script::new(&request.root);
    request.shape.play(&mut script);
    let (files, bytes) = script.size();
    if bytes > MOST_BYTES {
        return Err(SynthError::TooManyBytes { bytes });
    }
    let write = |directory| tree::write(directory, script.files(), stop);
    let tree = request.tree.as_deref().map(write).transpose()?;
    let written = script.write(request, stop);
    if let (Err(_), Some(tree)) = (&written, &tree) {
        tree.undo();
    }
    Ok(Made { calls: written?, files, bytes })
}

/// `total` parts as even as they can be over `count` places: the share of place `index`. The shares add up to `total`.
fn share(total: u64, count: u64, index: u64) -> u64 {
    part(total, index + 1, count) - part(total, index, count)
}

/// So many of `of` equal parts of a whole, rounded down. Range: `parts` up to `of`, which is not 0.
fn part(whole: u64, parts: u64, of: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(parts) / u128::from(of)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for (total, count) in [(0, 3), (2893, 260), (7, 7), (5, 9), (u64::MAX, 5)] {
            let shares: Vec<u64> = (0..count).map(|index| share(total, count, index)).collect();
            assert_eq!(shares.iter().sum::<u64>(), total);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
