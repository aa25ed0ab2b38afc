//! The file that an image is written to: complete under its name, or not there at all.
//!
//! It has no name while it grows (`O_TMPFILE`), so that nothing is left behind however the writer ends. Where
//! the file system cannot do that it has a hidden temporary name, removed on error.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::write::{Audience, WriteError};

/// An image in the making.
#[derive(Debug)]
pub(crate) struct Output {
    target: PathBuf,
    file: File,
    /// The hidden name, while there is one to be removed.
    temporary: Option<PathBuf>,
}

impl Output {
    /// Creates the file beside `target` with room for `bytes`.
    pub(crate) fn create(target: &Path, audience: Audience, bytes: u64) -> Result<Self, WriteError> {
        let (file, temporary) = open(target).map_err(|errno| io_error("create", target, errno.into()))?;
        let output = Self { target: target.to_path_buf(), file, temporary };
        let mode = Mode::from_raw_mode(audience.mode());
        rustix::fs::fchmod(&output.file, mode)
            .map_err(|errno| output.error("set the mode of", errno.into()))?;
        if bytes == 0 {
            return Ok(output);
        }
        match rustix::fs::fallocate(&output.file, FallocateFlags::empty(), 0, bytes) {
            // Not every file system can reserve; then a full one shows when it is written to.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => Ok(output),
            Err(errno) => Err(output.full(errno.into(), bytes)),
        }
    }

    /// A file that will never have a name, beside `target` because there is room for an image there.
    pub(crate) fn scratch(target: &Path, bytes: u64) -> Result<Self, WriteError> {
        let mut output = Self::create(target, Audience::Owner, bytes)?;
        if let Some(name) = output.temporary.take() {
            rustix::fs::unlink(name).map_err(|errno| output.error("write", errno.into()))?;
        }
        Ok(output)
    }

    /// What was written so far.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Appends `bytes`.
    pub(crate) fn append(&mut self, bytes: &[u8], total: u64) -> Result<(), WriteError> {
        self.file.write_all(bytes).map_err(|source| self.full(source, total))
    }

    /// Overwrites what is already written.
    pub(crate) fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.file.write_all_at(bytes, at).map_err(|source| self.error("write", source))
    }

    /// Reads back what is already written.
    pub(crate) fn reread(&self, at: u64, into: &mut [u8]) -> Result<(), WriteError> {
        self.file.read_exact_at(into, at).map_err(|source| self.error("read back", source))
    }

    /// Makes the file durable and gives it its name, replacing what was there.
    pub(crate) fn publish(mut self) -> Result<(), WriteError> {
        self.file.sync_all().map_err(|source| self.error("write", source))?;
        if self.temporary.is_none() {
            let name = hidden_name(&self.target);
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            // A hidden name of this process can only be left from one before it with the same number.
            let _stale = rustix::fs::unlink(&name);
            rustix::fs::linkat(CWD, own, CWD, &name, AtFlags::SYMLINK_FOLLOW)
                .map_err(|errno| self.error("name", errno.into()))?;
            self.temporary = Some(name);
        }
        let Some(name) = &self.temporary else { return Ok(()) };
        std::fs::rename(name, &self.target).map_err(|source| self.error("name", source))?;
        self.temporary = None;
        let directory = File::open(directory_of(&self.target));
        directory.and_then(|file| file.sync_all()).map_err(|source| self.error("make durable", source))
    }

    fn error(&self, action: &'static str, source: io::Error) -> WriteError {
        io_error(action, &self.target, source)
    }

    /// The error of a write, which may mean that there is no room for `needed` bytes.
    fn full(&self, source: io::Error, needed: u64) -> WriteError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                WriteError::NoSpace { path: self.target.clone(), needed, source }
            }
            _ => self.error("write", source),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(name) = &self.temporary {
            // The writer's error is on its way to the caller and says more than this one would.
            let _unremoved = std::fs::remove_file(name);
        }
    }
}

fn open(target: &Path) -> Result<(File, Option<PathBuf>), Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let private = Mode::RUSR | Mode::WUSR;
    match rustix::fs::open(directory_of(target), flags | OFlags::TMPFILE, private) {
        Ok(file) => Ok((file.into(), None)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => open_named(target),
        Err(errno) => Err(errno),
    }
}

fn open_named(target: &Path) -> Result<(File, Option<PathBuf>), Errno> {
    let name = hidden_name(target);
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
    let file = rustix::fs::open(&name, flags, Mode::RUSR | Mode::WUSR)?;
    Ok((file.into(), Some(name)))
}

/// A name beside `target` that no other process uses at the same time on this node.
pub(crate) fn hidden_name(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    directory_of(target).join(name)
}

/// The directory that `target` lies in.
pub(crate) fn directory_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> WriteError {
    WriteError::Output { action, path: path.to_path_buf(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<OsString> {
        let mut names: Vec<_> =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_named_file_is_published_or_removed() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("image");
        let create = || {
            let (file, temporary) = open_named(&target).unwrap();
            Output { target: target.clone(), file, temporary }
        };
        let mut output = create();
        output.append(b"half", 8).unwrap();
        assert_eq!(names(directory.path()).len(), 1);
        drop(output);
        assert_eq!(names(directory.path()), [""; 0]);
        let mut output = create();
        output.append(b"whole", 5).unwrap();
        output.publish().unwrap();
        assert_eq!(names(directory.path()), ["image"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"whole");
    }

    #[test]
    fn an_unnamed_file_is_published_over_an_older_one() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("image");
        std::fs::write(&target, "older").unwrap();
        let mut output = Output::create(&target, Audience::Owner, 5).unwrap();
        output.append(b"newer", 5).unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"older");
        output.publish().unwrap();
        assert_eq!(names(directory.path()), ["image"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"newer");
    }
}
