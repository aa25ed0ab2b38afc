//! The errors of operations against a directory.

use rustix::io::Errno;
use std::path::PathBuf;

/// The error that ended a calibration.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// The directory cannot be worked in: missing, no directory, read-only, or not ours to write to.
    #[error("cannot work in `{}`", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The directory is `/`.
    #[error("`/` is the root of this node, not a directory to measure in")]
    Root,
    /// There is too little room for what the load makes.
    #[error("`{}` is full: {free} {what} free, {needed} needed", path.display())]
    Full {
        /// The directory.
        path: PathBuf,
        /// `bytes` or `files`.
        what: &'static str,
        /// The amount that is free to this user.
        free: u64,
        /// The amount that the load may need.
        needed: u64,
    },
    /// An operation failed in a process of the load.
    #[error("`{operation}` of `{name}` failed in {process}")]
    Operation {
        /// The operation, as it is named in the results.
        operation: &'static str,
        /// Its object, below the working directory.
        name: String,
        /// The process.
        process: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Entries to be measured could not be prepared in time.
    #[error("`{operation}` of {wanted} entries takes more than a minute: {made} were made")]
    Slow {
        /// The operation that prepares them.
        operation: &'static str,
        /// Entries that were made.
        made: u64,
        /// Entries that were to be.
        wanted: u64,
    },
    /// A process of the load could not be started.
    #[error("cannot start {process}")]
    Start {
        /// The process.
        process: String,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A process of the load ended, or said what it should not. Usual cause: a wrong command for the second client.
    #[error("{process} {what}")]
    Process {
        /// The process.
        process: String,
        /// Its fault, as a verb.
        what: String,
    },
    /// Two clients have the same mount of the file system, and so the same cache.
    #[error("the {process} is a client that is measured already: both use one mount, and its cache")]
    SameClient {
        /// The client's process.
        process: String,
    },
    /// The program's path cannot stand behind the words of a second client.
    #[error("a shell on the second client would not read `{}` as it is written", path.display())]
    Unsayable {
        /// The program.
        path: PathBuf,
    },
    /// The load's directory could not be removed.
    #[error("cannot remove `{}`", path.display())]
    Left {
        /// The directory that it made.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// It ended by another error, and what the load made could not be removed either.
    #[error("cannot remove `{}` after an error", path.display())]
    LeftToo {
        /// The directory that it made.
        path: PathBuf,
        /// The error that ended it.
        #[source]
        source: Box<CalibrateError>,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl CalibrateError {
    /// An operation that failed in `process`.
    pub(crate) fn operation(operation: &'static str, name: &str, process: &str, errno: Errno) -> Self {
        Self::Operation { operation, name: name.into(), process: process.into(), source: errno.into() }
    }

    /// The system's error at the bottom, if there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Directory { source, .. }
            | Self::Operation { source, .. }
            | Self::Start { source, .. }
            | Self::Left { source, .. } => Errno::from_io_error(source),
            Self::LeftToo { source, .. } => source.errno(),
            _ => None,
        }
    }
}
