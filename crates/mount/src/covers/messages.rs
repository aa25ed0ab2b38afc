//! Messages between a rank and a server of covered directories, and between that and its builder.

use serde::{Deserialize, Serialize};

use crate::message::UnavailableMessage;
use crate::stats::TransferStats;

/// From a rank's parent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToServer {
    /// Comes first.
    Join,
    /// The command has ended. Its reads and writes, as the kernel counted them.
    Ended(TransferStats),
}

/// To a rank's parent.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromServer<E> {
    /// With the mount namespace's descriptor, and the user namespace's before it if there is one.
    Ready,
    Failed(UnavailableMessage),
    /// The outcome for the directories, for the last rank of the node alone.
    Done(Option<E>),
}

/// From the builder.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromBuilder {
    /// The next directory is mounted, with the descriptor of `/dev/fuse`: it must be served from now on.
    Mounted,
    /// Everything is in place, with the descriptors of the namespaces.
    Done,
    Failed(UnavailableMessage),
}
