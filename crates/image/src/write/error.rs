//! Failures of writing an image or a file taken out of one.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A failure to write an image. Nothing is left behind.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The image's file could not be made: usually a directory that does not exist or may not be written to.
    #[error("cannot {action} `{}`", .path.display())]
    Output {
        /// The attempted action.
        action: &'static str,
        /// The image's path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file system of the image is full, or a quota or file size limit is reached.
    #[error("no room for the {needed} bytes of `{}`", .path.display())]
    NoSpace {
        /// The image's path.
        path: PathBuf,
        /// Bytes that the image takes.
        needed: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// A file to be held could not be read.
    #[error("cannot read `{}`", .path.display())]
    Source {
        /// The file's path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file to be held is not what it was when its attributes were taken: something is writing to it.
    #[error("`{}` changed while it was packed", .path.display())]
    Changed {
        /// The file's path.
        path: PathBuf,
    },
    /// More than 16 TiB of image, 4 GiB of strings, or 2^32 absences.
    #[error("{bytes} bytes are more than an image can hold")]
    TooLarge {
        /// The requested size.
        bytes: u64,
    },
}

impl WriteError {
    /// The failure of writing `needed` bytes to `path`: no room, where the system says so.
    pub(crate) fn of_output(action: &'static str, path: &Path, needed: u64, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::NoSpace { path, needed, source }
            }
            _ => Self::Output { action, path, source },
        }
    }
}
