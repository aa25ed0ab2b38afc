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
    /// Another process compacts this data set, or a lock that it left behind on a node that is gone.
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
        /// The last words of its own message; escaped.
        reason: String,
    },
}

impl FleetError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
