//! The directories that flags of `run` name.

use crate::failure::{Failure, OURS};
use quell_base::shown;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directory, without links.
pub(super) fn directory(flag: &str, given: &Path) -> Result<PathBuf, Failure> {
    let found = given.canonicalize().map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::NotFound if given.symlink_metadata().is_err() => {
                format!("mkdir -p {}", quell_base::shell::quoted_name(given))
            }
            _ => format!("`{flag} DIR` takes a directory that you may look into"),
        };
        Failure::new(error).context(format!("`{flag} {}`", shown(given))).hint(hint).status(OURS)
    })?;
    if found.starts_with("/proc") {
        let failure =
            Failure::message(format!("`{flag} {}`: `/proc` holds no files of programs", shown(given)));
        return Err(failure
            .hint(format!("`{flag} DIR` takes a directory that programs write to"))
            .status(OURS));
    }
    if found.is_dir() {
        return Ok(found);
    }
    Err(Failure::message(format!("`{flag} {}`: not a directory", shown(given))).status(OURS))
}
