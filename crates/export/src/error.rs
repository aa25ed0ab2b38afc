//! Failures of an export.

use quell_trace::TraceError;

/// Failures of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The trace could not be read.
    #[error(transparent)]
    Read(TraceError),
    /// The output could not be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
}
