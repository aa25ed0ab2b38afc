//! Failures of packing.

use std::path::PathBuf;

use quell_image::TreeError;
use quell_image::original::OriginalError;
use quell_image::write::WriteError;
use quell_trace::TraceError;
use thiserror::Error;

/// A failure of packing. No image is written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackError {
    /// The recordings looked at nothing that may be packed. The remedy is to name directories.
    #[error("nothing to pack: {}", .why)]
    Nothing {
        /// The reason.
        why: NothingToPack,
    },
    /// A directory that was given as a root cannot be used.
    #[error("cannot use `{}` as a root", .path.display())]
    Root {
        /// The given path.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A public image was asked for a root that some user may not list or reach.
    #[error("a public image cannot show `{}`: some users may not list or enter `{}`", .root.display(), .closed.display())]
    Closed {
        /// The root.
        root: PathBuf,
        /// The root, or a directory above it.
        closed: PathBuf,
    },
    /// An image without the record of its requests: an early version of quell made it, or it was exported.
    #[error("the image has no record of the paths that were asked for")]
    NoRequests,
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
        /// The given path.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A directory that was given to be packed whole lies below no root, or in a directory that stays the original.
    #[error("`{}` lies below no directory that is packed", .path.display())]
    Outside {
        /// The given path.
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

/// The reason why nothing was left to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NothingToPack {
    /// Only local file systems were looked at.
    #[error("the recording looked at nothing on a network file system")]
    Local,
    /// Every directory on a network file system was written to.
    #[error("the recording wrote to every directory on a network file system that it looked at")]
    Changed,
    /// Nothing below the given roots was looked at, or all of it was written to, or holds the image.
    #[error("the recording looked at nothing below the given roots that stays unchanged")]
    Given,
}
