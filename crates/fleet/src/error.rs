//! Failures to collect and to ask.

use quell_base::shown;
use quell_trace::TraceError;
use std::path::{Path, PathBuf};

/// The reasons for which jobs cannot be collected, compacted or asked about.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// A trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A file or directory of the data set.
    #[error("cannot {action} `{}`", shown(path))]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Another process holds the lock of this data set, on this node or another.
    #[error("another process compacts `{}`", shown(path))]
    Busy {
        /// The data set.
        path: PathBuf,
    },
    /// Neither the program nor the Python module is on this node.
    #[error("DuckDB is neither a program nor a module of `python3` on this node")]
    NoEngine,
    /// DuckDB ended with an error. Usual causes: a file of another format in the data set, no memory.
    #[error("DuckDB failed: {reason}")]
    Engine {
        /// The first line of DuckDB's message, escaped. Range: at most 300 characters.
        reason: String,
    },
    /// The data set has no jobs.
    #[error("`{}` holds no jobs", shown(path))]
    Empty {
        /// The data set.
        path: PathBuf,
    },
    /// Root would work in a directory of another user, or in one where others may write.
    #[error("root works only where root alone may write: {}", reason_of(path, *owner))]
    NotOfRoot {
        /// The data set, a directory in it, or one on its path.
        path: PathBuf,
        /// The owner of that directory.
        owner: u32,
    },
    /// A file in the data set is not of the form that `quell collect` writes.
    #[error("`{}` {reason}", shown(path))]
    WrongFile {
        /// The file.
        path: PathBuf,
        /// The difference; escaped.
        reason: String,
    },
    /// The statistics of a file system are of another form.
    #[error("`{}` is no `job_stats` of Lustre: {}", shown(path), line_of(*line, text))]
    WrongStatistics {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 for an empty file.
        line: u64,
        /// The beginning of the line; escaped.
        text: String,
    },
    /// A file or directory became another while it was compacted. Usual cause: a recording was collected again.
    #[error("`{}` changed while its day was compacted", shown(path))]
    Changed {
        /// The file or directory.
        path: PathBuf,
    },
}

impl FleetError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

fn line_of(line: u64, text: &str) -> String {
    if line == 0 { "it is empty".to_owned() } else { format!("line {line} is `{text}`") }
}

fn reason_of(path: &Path, owner: u32) -> String {
    match owner {
        0 => format!("others may write in `{}`", shown(path)),
        owner => format!("`{}` belongs to user {owner}", shown(path)),
    }
}
