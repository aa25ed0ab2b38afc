//! The reasons for which nothing was made.

use quell_trace::TraceError;
use std::path::PathBuf;

/// The reasons for which nothing was made.
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
pub(super) const MOST_CALLS: u64 = 10_000_000;

/// Bytes of all files of a shape: 1 EiB, far below what 64 bits count.
pub(super) const MOST_BYTES: u64 = 1 << 60;
