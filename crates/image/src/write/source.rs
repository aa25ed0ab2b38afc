//! Copying the content of a held file, and noticing when it is no longer what was promised.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use crate::model::{Attributes, Timestamp};
use crate::tree::Source;
use crate::write::WriteError;

/// Hands the content of `source` to `sink`, piece by piece: exactly as many bytes as `expected` says.
///
/// **Errors** [`WriteError::Changed`] if the file at a path has another inode, size or time than `expected`,
/// before or after it is read.
pub(crate) fn copy(
    source: &Source,
    expected: &Attributes,
    buffer: &mut [u8],
    sink: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    match source {
        // The tree takes no bytes of another length than the node's size.
        Source::Bytes(bytes) => sink(bytes),
        Source::File(path) => copy_file(path, expected, buffer, sink),
    }
}

fn copy_file(
    path: &Path,
    expected: &Attributes,
    buffer: &mut [u8],
    sink: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let failed = |source| WriteError::Source { path: path.to_path_buf(), source };
    let changed = || WriteError::Changed { path: path.to_path_buf() };
    // Neither a link nor a pipe that took the file's place may be followed or waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file: File = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(file) => file.into(),
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOENT) => return Err(changed()),
        Err(errno) => return Err(failed(errno.into())),
    };
    if !is_unchanged(&file, expected).map_err(failed)? {
        return Err(changed());
    }
    let mut left = expected.size;
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        match file.read(&mut buffer[..want]) {
            Ok(0) => return Err(changed()),
            Ok(read) => {
                sink(&buffer[..read])?;
                left -= read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if is_unchanged(&file, expected).map_err(failed)? { Ok(()) } else { Err(changed()) }
}

/// Whether the open file is the one whose attributes were taken. The change time is not compared: a link made
/// meanwhile moves it and the content stays.
fn is_unchanged(file: &File, expected: &Attributes) -> io::Result<bool> {
    let now = rustix::fs::fstat(file)?;
    let mtime = Timestamp { seconds: now.st_mtime, nanoseconds: now.st_mtime_nsec as u32 };
    Ok(now.st_mode == expected.mode()
        && now.st_ino == expected.inode
        && now.st_size as u64 == expected.size
        && mtime == expected.mtime)
}
