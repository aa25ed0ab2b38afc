//! The pages of `quell report --html` and `quell predict --html`: whole or not there, whatever happens while it is written.

use crate::failure::Failure;
use crate::printer::Printer;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Stands for standard output.
const STDOUT: &str = "-";

/// Writes a page to a file, or prints it.
pub(crate) fn write(page: &str, file: &Path, printer: &Printer) -> Result<(), Failure> {
    if is_stdout(file) {
        return printer.data(page);
    }
    put(file, page.as_bytes()).map_err(|error| explain(error, file))?;
    printer.talk(&format!("wrote `{}`, a page for a browser", file.display()));
    Ok(())
}

/// Whether the page goes to standard output.
pub(crate) fn is_stdout(file: &Path) -> bool {
    file.as_os_str() == STDOUT
}

/// A regular file appears whole, beside itself first; what a symbolic link names is replaced, not the link; a terminal
/// or a pipe is written to.
fn put(file: &Path, page: &[u8]) -> std::io::Result<()> {
    let file = match std::fs::canonicalize(file) {
        Ok(target) if is_stream(&target)? => {
            return std::fs::OpenOptions::new().write(true).open(target)?.write_all(page);
        }
        Ok(target) if target.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(target) => target,
        Err(error) if error.kind() == ErrorKind::NotFound => file.to_owned(),
        Err(error) => return Err(error),
    };
    let beside = beside(&file);
    let mut open = std::fs::File::create_new(&beside)?;
    let written = open.write_all(page).and_then(|()| std::fs::rename(&beside, &file));
    if written.is_err() {
        // What is left of a failure is no page; that it cannot be removed is no further failure.
        _ = std::fs::remove_file(&beside);
    }
    written
}

/// A name of this process alone, in the same directory and so on the same file system.
fn beside(file: &Path) -> PathBuf {
    file.with_file_name(format!(".quell-{}.html", std::process::id()))
}

fn is_stream(file: &Path) -> std::io::Result<bool> {
    let kind = std::fs::metadata(file)?.file_type();
    Ok(kind.is_fifo() || kind.is_char_device() || kind.is_socket())
}

fn explain(error: std::io::Error, file: &Path) -> Failure {
    let hint = match error.kind() {
        ErrorKind::NotFound => Some("the directory must be there already"),
        ErrorKind::IsADirectory => Some("name a file, such as `--html report.html`"),
        _ => None,
    };
    let failure = Failure::new(error).context(format!("cannot write `{}`", file.display()));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
