//! Runs the command as without quell: `--disable`, ranks that do not record, and nodes where an image cannot be used.

use crate::failure::{self, Failure};
use crate::images;
use quell_mount::RunError;
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

/// Becomes the command; returns only when that fails.
pub(crate) fn plain(command: &[OsString]) -> Failure {
    plain_with_stats(command, None, Instant::now())
}

/// The same, with a file of statistics that say so. `began` is when quell started.
pub(super) fn plain_with_stats(command: &[OsString], stats: Option<&Path>, began: Instant) -> Failure {
    explain(quell_mount::run_plain(command, stats, began))
}

/// The failure to start a command, with its exit status and hints.
pub(super) fn explain(error: RunError) -> Failure {
    let status = error.exit_status();
    let facts = named_changes(&error);
    let hints = match &error {
        RunError::Stale { image, .. } => {
            vec![images::mending(image), "`--check none` runs with the image as it is".to_owned()]
        }
        RunError::Image { source, .. } => vec![images::hint(source).to_owned()],
        RunError::Learned { .. } => vec!["`--learn FILE` takes a file that you may create".to_owned()],
        RunError::Stats { .. } => vec!["`--stats FILE` takes a file that you may create".to_owned()],
        RunError::Unavailable(reason) => {
            let setting = reason.setting().map(|setting| format!("look at {setting}"));
            setting.into_iter().chain(reason.packing().map(str::to_owned)).collect()
        }
        RunError::CommandNotFound { .. } => vec![failure::LOOK_FOR.to_owned()],
        RunError::NotExecutable { .. } => vec![failure::MAKE_EXECUTABLE.to_owned()],
        _ => Vec::new(),
    };
    hints.into_iter().fold(Failure::new(error).status(status).facts(facts), Failure::hint)
}

fn named_changes(error: &RunError) -> Vec<String> {
    match error {
        RunError::Stale { changes, .. } => images::first_changes(changes),
        _ => Vec::new(),
    }
}
