//! A file from one node to all: in parts, from peer to peer, so that the file system serves it once.
//!
//! ```text
//! fetching   the order of parts, and when a source is left. Pure
//! sources    the order of sources, and the comparison with the file system. Pure
//! places     the tree of nodes. Pure
//! parts      digests and seals, by which a part is believed
//! note       words of the first node's users for those of the others
//! message    the messages between nodes
//! state      the parts that a node has, and the threads that wait
//! beside     other processes of the node that use the copy while it is filled
//! join       the way to the first node, and to a place in the tree
//! fetch      from a peer, from the file system
//! serve      to peers
//! node       the whole life of a node
//! simulation the decisions above for thousands of nodes, on a simulated clock. Pure
//! ```
//!
//! The first node reads the file system. Every other one joins by it and fetches from its parent; its parent's parent, and the file
//! system in the end, take the place of a peer that is dead, slow or wrong. Both ends of a connection prove that they have the job's
//! key before either says more. The caller carries the key, and finds the first node.
#![forbid(unsafe_code)]

mod beside;
mod error;
mod fetch;
mod fetching;
mod join;
mod message;
mod node;
mod note;
mod parts;
mod places;
mod serve;
pub mod simulation;
mod sources;
mod state;

pub use beside::{Beside, FileTakes, PartHere, PartSource};
pub use error::SpreadError;
pub use fetching::{Fetching, PULSE, SourceVerdict};
pub use join::{Contact, JOIN, Redeem};
pub use message::SpreadTally;
pub use node::{SpreadNode, SpreadRole};
pub use note::{JobNote, NOTE_MAX};
pub use parts::{FileFacts, PART};
pub use places::{NUMBERED_MIN, NodePlace, fan_out, levels, numbered_fan_out};
pub use serve::Credential;
pub use sources::READERS;
