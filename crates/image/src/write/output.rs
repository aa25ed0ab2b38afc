//! The file that an image is written to: complete under its name, or not there at all, with the room it needs.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use quell_base::files::{Durability, OutputMode, OutputPlace};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::write::error::WriteError;
use crate::write::options::Audience;

/// An image in the making.
#[derive(Debug)]
pub(crate) struct ImageOutput {
    target: PathBuf,
    output: quell_base::files::OutputFile,
}

impl ImageOutput {
    /// Creates the file beside `target` with room for `bytes`.
    pub(crate) fn create(target: &Path, audience: Audience, bytes: u64) -> Result<Self, WriteError> {
        let create = || OutputPlace::of(target)?.create(OutputMode::Exactly(audience.mode()));
        let output = create().map_err(|error| io_error("create", target, error))?;
        let output = Self { target: target.to_path_buf(), output };
        if bytes == 0 {
            return Ok(output);
        }
        match rustix::fs::fallocate(output.file(), FallocateFlags::empty(), 0, bytes) {
            // Not every file system can reserve; then a full one shows when it is written to.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => Ok(output),
            Err(errno) => Err(output.full(errno.into(), bytes)),
        }
    }

    /// A file that will never have a name, beside `target` because there is room for an image there.
    pub(crate) fn scratch(target: &Path, bytes: u64) -> Result<Self, WriteError> {
        let mut output = Self::create(target, Audience::Owner, bytes)?;
        output.output.without_name().map_err(|error| output.error("write", error))?;
        Ok(output)
    }

    /// The file as written so far.
    pub(crate) fn file(&self) -> &File {
        self.output.as_file()
    }

    /// A path by which a program that is started meanwhile can open the file.
    pub(crate) fn path_for_others(&self) -> PathBuf {
        self.output.path_for_others()
    }

    /// Appends `bytes`.
    pub(crate) fn append(&mut self, bytes: &[u8], total: u64) -> Result<(), WriteError> {
        self.output.file().write_all(bytes).map_err(|source| self.full(source, total))
    }

    /// Overwrites what is already written.
    pub(crate) fn patch(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
        self.file().write_all_at(bytes, at).map_err(|source| self.error("write", source))
    }

    /// Reads back what is already written.
    pub(crate) fn reread(&self, at: u64, into: &mut [u8]) -> Result<(), WriteError> {
        self.file().read_exact_at(into, at).map_err(|source| self.error("read back", source))
    }

    /// Makes the file durable and gives it its name, replacing what was there.
    pub(crate) fn publish(self) -> Result<(), WriteError> {
        let Self { target, output } = self;
        output.publish(Durability::Durable).map_err(|error| io_error("write", &target, error))
    }

    fn error(&self, action: &'static str, source: io::Error) -> WriteError {
        io_error(action, &self.target, source)
    }

    /// The error of a write, which may mean that there is no room for `needed` bytes.
    fn full(&self, source: io::Error, needed: u64) -> WriteError {
        WriteError::of_output("write", &self.target, needed, source)
    }
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> WriteError {
    WriteError::Output { action, path: path.to_path_buf(), source }
}
