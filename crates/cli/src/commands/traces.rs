//! Opening traces, with the hints that each failure deserves.

use crate::failure::Failure;
use quell_analyse::Summary;
use quell_trace::{Trace, TraceError};
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Opens recordings as one trace.
pub(crate) fn open<P: AsRef<Path>>(directories: &[P]) -> Result<Trace, Failure> {
    Trace::open(directories).map_err(explain)
}

/// Opens recordings and reads all their events.
pub(crate) fn summarise(directories: &[PathBuf]) -> Result<Summary, Failure> {
    quell_analyse::summarise(&open(directories)?).map_err(explain)
}

/// Hint where part of a trace is missing or cut.
const INCOMPLETE: &str = "record again; a copy of a trace needs all its files";

/// Whether this is a file of a trace, not the trace itself.
fn is_part(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet")
}

/// Whether recordings lie in this directory. Looks at its first entries only: it may hold very many.
fn holds_traces(directory: &Path) -> bool {
    let is_trace = |entry: std::io::Result<DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "qtrace"))
    };
    directory.read_dir().is_ok_and(|entries| entries.take(1000).any(is_trace))
}

pub(crate) fn explain(error: TraceError) -> Failure {
    let hint = match &error {
        TraceError::NotATrace { path, .. } if holds_traces(path) => {
            Some("name the recordings in it, `DIR/*.qtrace`")
        }
        TraceError::NotATrace { .. } => Some("`quell record -- CMD` makes a trace, named after the program"),
        TraceError::Newer { .. } => Some("read it with the quell that wrote it, or a later one"),
        TraceError::Damaged { .. } => Some(INCOMPLETE),
        TraceError::Exists { .. } => Some("`--force` replaces it, `-o DIR` writes elsewhere"),
        TraceError::Io { path, source, .. } if is_part(path) && source.kind() == ErrorKind::NotFound => {
            Some(INCOMPLETE)
        }
        TraceError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            Some("`quell record -- CMD` makes a trace, named after the program")
        }
        TraceError::Io { .. } => None,
    };
    let failure = Failure::new(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
