//! Failures of the cache. None of them concerns the user's program, which then runs plain.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A failure of the cache.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Another user owns the cache.
    #[error("user {owner} owns `{}`", .path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Another user can change the cache, or put another directory in its place.
    #[error("other users can change `{}`", .path.display())]
    Changeable {
        /// The directory or link on the way to the cache, or the cache itself.
        path: PathBuf,
    },
    /// Something that is no directory has the name of the cache.
    #[error("`{}` is not a directory", .path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Another node has just made or removed it, and this node's client of the file system still remembers otherwise.
    #[error("another node has just made or removed `{}`", .path.display())]
    Unseen {
        /// The path.
        path: PathBuf,
    },
    /// The file system refused an operation: it is full, read-only or gone, or a quota is used up.
    #[error("cannot {action} `{}`", .path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// Its subject.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl CacheError {
    /// For `map_err`: the error of `action` on `path`.
    pub(crate) fn of<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source: source.into() }
    }

    /// The same for a `path` in a directory that this process has found or made.
    pub(crate) fn within<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| {
            let source = source.into();
            match source.kind() {
                ErrorKind::NotFound | ErrorKind::StaleNetworkFileHandle => Self::Unseen { path },
                _ => Self::Io { action, path, source },
            }
        }
    }
}
