//! Processes of this node that use the copy while it is filled, and fill it too.

use crate::parts::FileFacts;

/// The place from which a node gets parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSource {
    /// Another node.
    Peer,
    /// The file system.
    File,
}

/// The users of a copy. `()` stands for none.
pub trait Beside: Sync {
    /// True if the file of other nodes is the one that the users have in mind. Peers that have another one are left.
    fn is_meant(&self, _facts: &FileFacts) -> bool {
        true
    }

    /// A user may still ask for parts.
    fn are_there(&self) -> bool {
        true
    }

    /// The node gets parts from here, from now on.
    fn turns_to(&self, _source: PartSource) {}

    /// A part that a user waits for. Each is told once.
    fn wanted(&self) -> Option<u32> {
        None
    }

    /// The node is about to get this part. True if a user has put it into the copy meanwhile: then it is not got.
    fn begins(&self, _part: u32) -> bool {
        false
    }

    /// This part is in the copy, and right.
    fn arrived(&self, _part: u32, _source: PartSource) {}
}

impl Beside for () {}
