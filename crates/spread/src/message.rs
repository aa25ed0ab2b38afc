//! The messages between nodes.
//!
//! ```text
//! connector -> listener   one byte: it has the key, or it asks for the credential that holds it
//! both                    proofs of the key (`quell_talk::MeetingKey`)
//! connector -> listener   a `PeerRequest`, then more of them
//! listener -> connector   `PeerReply`s; the bytes of a part follow its reply
//! ```

use crate::parts::{Digest, FileFacts};
use crate::places::NodePlace;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The first byte of a connector that has the key.
pub(crate) const HAS_KEY: u8 = b'K';

/// The first byte of one that asks for the credential.
pub(crate) const ASKS_CREDENTIAL: u8 = b'C';

/// Longest credential. Unit: bytes.
pub(crate) const CREDENTIAL_MAX: u64 = 8192;

/// Longest request and reply, without the bytes of a part.
pub(crate) const MESSAGE_MAX: u64 = 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PeerRequest {
    /// A node wants a place. It listens at this port, at this address or at that from which it comes.
    Join { port: u16, address: Option<IpAddr> },
    /// A node wants the file.
    Fetch,
    /// It asks for a part, of which it may have a copy with this digest.
    Ask(Ask),
    /// It wants the note of the first node's users.
    AwaitNote,
    /// It leaves, after all nodes below it.
    Done(SpreadTally),
}

/// The part of an ask whether all parts were of one version of the file.
pub(crate) const WHOLE: u32 = u32::MAX;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) part: u32,
    pub(crate) have: Option<Digest>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PeerReply {
    /// The place of a node that joins; `None` when there is none.
    Placed(Option<NodePlace>),
    /// The file, with the seal of its facts.
    About(FileFacts, Digest),
    /// A part, with its seal. Its bytes follow. The file system takes so many microseconds for a part, as far as the sender knows; else 0.
    Part { part: u32, seal: Digest, file_takes: u32 },
    /// The part is what the asker has.
    Same { part: u32, seal: Digest },
    /// All parts were of one version of the file.
    Whole(Digest),
    /// There is nothing new.
    Alive,
    /// The sender reads the file system, and gives nothing on. The first node may have answered it no more.
    Alone { first_is_lost: bool },
    /// The note of the first node's users, with its seal. So many bytes follow.
    Note { length: u32, seal: Digest },
}

/// The work of nodes, of which the first node hears in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpreadTally {
    /// Nodes that got the file.
    pub nodes: u32,
    /// Bytes that they read from the file's file system.
    pub file: u64,
    /// Bytes that came from peers.
    pub peers: u64,
    /// Bytes that were on the node already.
    pub here: u64,
    /// Peers that were left, because they were dead, slow or wrong.
    pub left: u32,
}

impl SpreadTally {
    /// Adds what other nodes did.
    pub fn add(&mut self, other: &Self) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.file = self.file.saturating_add(other.file);
        self.peers = self.peers.saturating_add(other.peers);
        self.here = self.here.saturating_add(other.here);
        self.left = self.left.saturating_add(other.left);
    }
}
