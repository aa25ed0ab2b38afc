//! Directories that stand for a network file system where the recording met none: on a laptop quell can be tried all the same.

use crate::failure::Failure;
use crate::printer::Printer;
use crate::traces;
use quell_trace::Trace;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The directories that `report` names for this recording and that are here; said, because a network file system would be better.
/// Shape: empty where there is none.
pub(crate) fn instead(trace: &Trace, printer: &Printer) -> Result<Vec<PathBuf>, Failure> {
    let summary = quell_analyse::summarise(trace).map_err(traces::explain)?;
    let mut roots = quell_analyse::local_roots(&summary);
    roots.retain(|root| PathBuf::from(OsString::from_vec(root.clone())).is_dir());
    if !roots.is_empty() {
        let flags = quell_analyse::root_flags(&roots);
        printer.talk(&format!("no network file system was asked; using{flags}"));
    }
    Ok(roots.into_iter().map(|root| PathBuf::from(OsString::from_vec(root))).collect())
}
