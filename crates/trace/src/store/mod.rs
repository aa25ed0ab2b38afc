//! The trace on disk: a spool while it is being written, Parquet files afterwards.
//!
//! ```text
//! NAME.qtrace/
//!   header.json          what was run; "partial" until the recorder has finished
//!   spool                while recording; a recorder that is killed leaves it, and readers read it
//!   events.parquet       one row a call              paths.parquet      one row a distinct path
//!   processes.parquet    threads.parquet  executions.parquet  variables.parquet
//!   mounts.parquet       namespaces.parquet  links.parquet  files.parquet  elf.parquet  stripes.parquet
//!   touched.parquet      parts of mapped files; only where the recorder looked
//! ```

pub(crate) mod columns;
pub(crate) mod events;
mod guard;
pub(crate) mod reader;
pub(crate) mod spool;
pub(crate) mod sums;
pub(crate) mod tables;

pub use guard::end_on_reader_panic;

use quell_base::files::Folder;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Makes a file of the trace in `folder`, with the path that messages name.
pub(crate) fn create(folder: &Folder, name: &str) -> Result<(File, PathBuf), TraceError> {
    let path = folder.path_of(name);
    let file = folder.create_file(name).map_err(TraceError::io("create", &path))?;
    Ok((file, path))
}

/// The reasons for which a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A file of the trace could not be created, written or read. Usual cause: a full disk, a missing permission.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The directory to write to exists. Usual cause: an earlier recording under the same name.
    #[error("`{}` exists already", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// No trace exists here. Usual cause: a wrong name, or a directory of something else.
    #[error("`{}` is not a trace: {reason}", path.display())]
    NotATrace {
        /// The given path.
        path: PathBuf,
        /// The missing or wrong part.
        reason: String,
    },
    /// A newer quell wrote the trace.
    #[error("`{}` has trace version {version}, and this quell reads up to {}", path.display(), crate::header::VERSION)]
    Newer {
        /// The trace.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A file of the trace is truncated or damaged.
    #[error("`{}` is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The kind of damage.
        reason: String,
    },
}

impl TraceError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    pub(crate) fn damaged(path: &Path, reason: impl ToString) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.to_string() }
    }
}
