//! Opening, heading and replacing traces, with the hints that each failure deserves.

use crate::failure::Failure;
use crate::host;
use quell_analyse::Summary;
use quell_base::RankPlace;
use quell_trace::{Header, Trace, TraceError};
use std::ffi::OsString;
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

/// The header of a recording that begins now.
pub(crate) fn begun(command: &[OsString], place: Option<&RankPlace>) -> Header {
    let kept = |word: &OsString| quell_base::text::kept(word.as_encoded_bytes());
    let working_directory = std::env::current_dir().map(PathBuf::into_os_string).unwrap_or_default();
    Header {
        working_directory: quell_base::shown(&working_directory),
        began: host::now(),
        host: host::name(),
        kernel: host::kernel(),
        architecture: std::env::consts::ARCH.to_owned(),
        user: rustix::process::geteuid().as_raw(),
        rank: place.map(|place| place.rank),
        ranks: place.and_then(|place| place.ranks),
        node: place.and_then(|place| place.node),
        job: place.and_then(|place| place.job.clone()),
        ..Header::begun(quell_record::ENGINE, env!("CARGO_PKG_VERSION"), command.iter().map(kept).collect())
    }
}

/// The directory in which a trace is made before it replaces an earlier one; `None` if there is no earlier one.
pub(crate) fn aside(directory: &Path, force: bool) -> Result<Option<PathBuf>, Failure> {
    if !directory.exists() {
        return Ok(None);
    }
    if !force {
        return Err(explain(TraceError::Exists { path: directory.to_owned() }));
    }
    verify_replaceable(directory)?;
    let mut aside = directory.as_os_str().to_owned();
    aside.push(".new");
    let aside = PathBuf::from(aside);
    // One that was killed left it behind.
    if aside.exists() {
        verify_replaceable(&aside)?;
        std::fs::remove_dir_all(&aside)
            .map_err(|error| Failure::new(error).context(format!("cannot remove `{}`", aside.display())))?;
    }
    Ok(Some(aside))
}

/// Refuses to replace a directory that is no trace, and a trace that another process still writes.
pub(crate) fn verify_replaceable(directory: &Path) -> Result<(), Failure> {
    let reason = match directory.join("header.json").is_file() {
        true if !quell_trace::writer::is_being_written(directory) => return Ok(()),
        true => "is being written by another quell",
        false => "exists and is not a trace",
    };
    let refused = Failure::message(format!("`{}` {reason}", directory.display()));
    Err(refused.hint("`-o DIR` writes elsewhere"))
}

/// Puts what was made aside in the place of an earlier trace.
pub(crate) fn replace(directory: &Path, aside: &Path) -> Result<(), Failure> {
    let replace = || {
        std::fs::remove_dir_all(directory)?;
        std::fs::rename(aside, directory)
    };
    replace().map_err(|error: std::io::Error| {
        Failure::new(error).context(format!(
            "cannot replace `{}` by `{}`",
            directory.display(),
            aside.display()
        ))
    })
}

/// Hint where part of a trace is missing or cut.
const INCOMPLETE: &str = "record again; a copy of a trace needs all its files";

/// This is a file of a trace, not the trace itself.
fn is_part(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet")
}

/// This directory holds recordings. Only its first entries count: it may hold very many.
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
    Failure::new(error).hints(hint)
}
