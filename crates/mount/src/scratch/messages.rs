//! Messages between a rank and the server of scratch directories, and between that and its builder.

use serde::{Deserialize, Serialize};

use super::request::ScratchEnd;
use crate::message::UnavailableMessage;

/// From a rank's parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToServer {
    /// Comes first.
    Join,
    /// The command has ended.
    Ended,
}

/// To a rank's parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromServer {
    /// With the mount namespace's descriptor, and the user namespace's before it if there is one.
    Ready,
    Failed(UnavailableMessage),
    /// The fate of the files, for the last rank of the node alone.
    Done(Option<Vec<ScratchEnd>>),
}

/// From the builder.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromBuilder {
    /// The next directory is mounted, with the descriptor of `/dev/fuse`: it must be served from now on.
    Mounted,
    /// Everything is in place, with the descriptors of the namespaces.
    Done,
    Failed(UnavailableMessage),
}
