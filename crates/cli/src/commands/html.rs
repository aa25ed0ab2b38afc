//! The page of `quell report --html`: whole or not there, whatever happens while it is written.

use crate::failure::Failure;
use crate::printer::Printer;
use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Stands for standard output.
const STDOUT: &str = "-";
/// A page is for forwarding: as open as the user's mask lets any file of theirs be.
const MODE: u32 = 0o666;

/// Writes the page to a file, or prints it.
pub(crate) fn write(
    report: &quell_report::json::Report,
    file: &Path,
    printer: &Printer,
) -> Result<(), Failure> {
    let page = quell_report::html::report(report)?;
    if is_stdout(file) {
        return printer.data(&page);
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
    let directory = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.map_or_else(|| PathBuf::from("."), Path::to_owned);
    let mut temporary = tempfile::Builder::new()
        .prefix(".quell-")
        .permissions(Permissions::from_mode(MODE))
        .tempfile_in(directory)?;
    temporary.write_all(page)?;
    temporary.persist(file).map_err(|error| error.error)?;
    Ok(())
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
    // The temporary file's name says nothing to who gave another.
    let error = error.raw_os_error().map_or(error, std::io::Error::from_raw_os_error);
    let failure = Failure::new(error).context(format!("cannot write `{}`", file.display()));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
