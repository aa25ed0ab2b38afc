//! The reasons for which a trace cannot be replayed.

use quell_talk::MeetingError;
use quell_trace::TraceError;
use std::path::PathBuf;

/// The reasons for which a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// No call of the recording is on the root.
    #[error("no call of the recording is on `{from}`")]
    Nothing {
        /// The recorded root.
        from: String,
    },
    /// The recording was on no network file system, so that nothing says which directory is meant.
    #[error("the recording used no network file system")]
    NoRoot,
    /// The recording has no calls on files.
    #[error("the recording has no file-system calls")]
    Empty,
    /// The directory to replay against, or the one in it where the program was started, is missing or is none.
    #[error("cannot use `{}`", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A process could not be started, or did not answer.
    #[error("cannot {attempt}")]
    Process {
        /// The attempt, as a verb.
        attempt: &'static str,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The ranks of a launcher did not meet, or did not hear of each other.
    #[error(transparent)]
    Meeting(MeetingError),
    /// The directory in which ranks write could not be made.
    #[error("cannot write below `{}`", path.display())]
    Private {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The writes of ranks cannot be kept in their directories: the kernel is older than Linux 5.6, or a container forbids it.
    #[error("cannot keep what is written in its own directory: `openat2` of Linux 5.6 does not answer")]
    Unconfined {
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The user ended it.
    #[error("interrupted")]
    Interrupted,
}

impl From<MeetingError> for ReplayError {
    fn from(error: MeetingError) -> Self {
        match error {
            MeetingError::Interrupted => Self::Interrupted,
            MeetingError::Connection { attempt, source } => Self::Process { attempt, source },
            incomplete @ MeetingError::Incomplete { .. } => Self::Meeting(incomplete),
        }
    }
}
