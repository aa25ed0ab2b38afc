//! Files that are whole or not there, whatever happens while they are written.

use std::io::{ErrorKind, Result, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Writes a file. A regular one is written beside itself first; what a symbolic link names is replaced, not the link; a
/// terminal or a pipe is written to.
pub(crate) fn put(file: &Path, content: &[u8]) -> Result<()> {
    let file = match std::fs::canonicalize(file) {
        Ok(target) if is_stream(&target)? => {
            return std::fs::OpenOptions::new().write(true).open(target)?.write_all(content);
        }
        Ok(target) if target.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(target) => target,
        Err(error) if error.kind() == ErrorKind::NotFound => file.to_owned(),
        Err(error) => return Err(error),
    };
    let beside = beside(&file);
    let mut open = std::fs::File::create_new(&beside)?;
    let written = open.write_all(content).and_then(|()| std::fs::rename(&beside, &file));
    if written.is_err() {
        // What is left of a failure is of no use; that it cannot be removed is no further failure.
        _ = std::fs::remove_file(&beside);
    }
    written
}

/// A name of this process alone, in the same directory and so on the same file system.
fn beside(file: &Path) -> PathBuf {
    file.with_file_name(format!(".quell-{}.new", std::process::id()))
}

fn is_stream(file: &Path) -> Result<bool> {
    let kind = std::fs::metadata(file)?.file_type();
    Ok(kind.is_fifo() || kind.is_char_device() || kind.is_socket())
}
