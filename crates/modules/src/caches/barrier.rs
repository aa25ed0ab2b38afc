//! The reason for which a modulepath can have no cache.

use quell_base::shown;
use std::fmt;
use std::path::{Path, PathBuf};

/// The reason for which a modulepath can have no cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheBarrier {
    /// Not every user can enter the modulepath.
    Modulepath,
    /// Not every user can read this path, and the tool's cache cannot send users to the tree for it.
    Closed(PathBuf),
    /// Not every user can enter this directory above the modulepath, and the cache would lie outside of it.
    Above(PathBuf),
    /// The modulepath holds nothing that a cache could record.
    Empty,
}

impl fmt::Display for CacheBarrier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |path: &Path| shown(path);
        match self {
            Self::Modulepath => {
                formatter.write_str("not every user can enter it, and one cache serves all users")
            }
            Self::Closed(path) => {
                write!(formatter, "not every user can read `{}`, and one cache serves all users", shown(path))
            }
            Self::Above(directory) => {
                let directory = shown(directory);
                write!(
                    formatter,
                    "not every user can enter `{directory}`, and the cache would lie outside of it"
                )
            }
            Self::Empty => formatter.write_str("it holds nothing that a cache could record"),
        }
    }
}
