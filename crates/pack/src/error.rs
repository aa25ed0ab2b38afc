//! Failures of packing.

use std::path::PathBuf;

use quell_image::TreeError;
use quell_image::original::OriginalError;
use quell_image::write::WriteError;
use quell_trace::TraceError;
use thiserror::Error;

/// Why there is no image.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackError {
    /// The recordings looked at nothing that may be packed. The cure is to name directories.
    #[error("nothing to pack: {}", .why)]
    Nothing {
        /// What was found instead.
        why: NothingToPack,
    },
    /// A directory that was given as a root cannot be used.
    #[error("cannot use `{}` as a root", .path.display())]
    Root {
        /// What was given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An image does not tell what its recordings asked for: it was made by an early version of quell, or was
    /// exported.
    #[error("the image does not tell what was asked for when it was recorded")]
    Untold,
    /// A directory that an image covers is not there.
    #[error("`{}`, which the image covers, is not a directory here", .path.display())]
    RootGone {
        /// The directory.
        path: PathBuf,
    },
    /// An image contradicts itself.
    #[error("damaged image")]
    Image(#[from] quell_image::Corrupt),
    /// A directory that was given to be packed whole cannot be used.
    #[error("cannot pack all of `{}`", .path.display())]
    Added {
        /// What was given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A directory that was given to be packed whole lies below no root, or in a directory that stays the original.
    #[error("`{}` lies below no directory that is packed", .path.display())]
    Outside {
        /// What was given.
        path: PathBuf,
    },
    /// A recording could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An original could not be read.
    #[error(transparent)]
    Original(OriginalError),
    /// An original has something that an image cannot express.
    #[error("the originals cannot be expressed in an image")]
    Tree(#[from] TreeError),
    /// The image could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Why nothing was left to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NothingToPack {
    /// Only local file systems were looked at.
    #[error("the recording looked at nothing on a network file system")]
    Local,
    /// Every directory on a network file system was written to.
    #[error("the recording wrote to every directory on a network file system that it looked at")]
    Changed,
    /// Nothing below the given roots was looked at, or all of it was written to, or holds the image.
    #[error(
        "the recording looked at nothing below the given roots that stays unchanged; image and recording must lie elsewhere"
    )]
    Given,
}
