//! The place of a container.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// The place of a container that is written.
#[derive(Debug)]
pub(super) struct GatherPlace {
    /// The real directory.
    pub(super) top: Arc<OwnedFd>,
    pub(super) name: String,
    pub(super) path: PathBuf,
}
