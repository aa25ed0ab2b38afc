//! The reasons why containers cannot be mounted.

use crate::error::Unavailable;

/// The reason why containers are not mounted.
#[derive(Debug, thiserror::Error)]
pub enum GatherMountError {
    /// The system refused something.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A user needs the helper to mount.
    #[error("no `fusermount3`, by which users mount")]
    NoHelper,
    /// The helper has said why.
    #[error("`{0}` refused to mount")]
    Refused(&'static str),
}
