//! Running the command as without quell, for `--disable`, for ranks that do not record, and where no mount is possible.

use crate::failure::{Failure, LOOK_FOR, MAKE_EXECUTABLE, NOT_EXECUTABLE, NOT_FOUND, OURS};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;

/// Becomes the command; returns only when that fails.
pub(crate) fn exec(command: &[OsString]) -> Failure {
    let Some((program, arguments)) = command.split_first() else {
        return Failure::message("no command was given").status(OURS);
    };
    let error = std::process::Command::new(program).args(arguments).exec();
    cannot_execute(program, error)
}

/// Why a program did not start, with the status that shells give for it.
fn cannot_execute(program: &OsStr, error: std::io::Error) -> Failure {
    let name = quell_trace::path::escape(program.as_encoded_bytes());
    match error.kind() {
        std::io::ErrorKind::NotFound if !name.contains('/') => {
            Failure::message(format!("`{name}` is not found in PATH")).status(NOT_FOUND).hint(LOOK_FOR)
        }
        std::io::ErrorKind::NotFound => {
            Failure::message(format!("`{name}` is not found")).status(NOT_FOUND).hint(LOOK_FOR)
        }
        _ => Failure::new(error)
            .context(format!("cannot execute `{name}`"))
            .status(NOT_EXECUTABLE)
            .hint(MAKE_EXECUTABLE),
    }
}
