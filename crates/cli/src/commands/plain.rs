//! Running the command as without quell, for `--disable` and for ranks that do not record.

use super::run;
use crate::failure::Failure;
use std::ffi::OsString;
use std::time::Instant;

/// Becomes the command; returns only when that fails.
pub(crate) fn exec(command: &[OsString]) -> Failure {
    run::explain(quell_mount::run_plain(command, None, Instant::now()))
}
