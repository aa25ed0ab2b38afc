//! Failures of an export, and the sinks that its bytes go to.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::error::Corrupt;
use crate::tree::TreeError;
use crate::write::WriteError;

/// A failed export.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The image contradicts itself.
    #[error("damaged image")]
    Corrupt(#[from] Corrupt),
    /// The output could not be written, or an original not be read.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The image has what a tree cannot have.
    #[error("the image cannot be written anew")]
    Tree(#[from] TreeError),
    /// The directory has something in it already.
    #[error("`{}` exists and is not an empty directory", .path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// The program that makes squashfs file systems cannot be started: usually it is not installed.
    #[error("cannot start `{}`", .tool.display())]
    ToolMissing {
        /// The program.
        tool: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// That program failed.
    #[error("`{}` failed: {said}", .tool.display())]
    ToolFailed {
        /// The program.
        tool: PathBuf,
        /// The last line of its output.
        said: String,
    },
}

/// A receiver of bytes.
pub(crate) type Sink<'s> = dyn FnMut(&[u8]) -> Result<(), WriteError> + 's;
