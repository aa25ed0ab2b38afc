//! Processes of this node that use the copy while it is filled, and fill it too.

use crate::note::JobNote;
use crate::parts::FileFacts;
use std::time::Duration;

/// The place from which a node gets parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSource {
    /// Another node.
    Peer,
    /// The file system.
    File,
}

/// The state of a part in the copy, as its users know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartHere {
    /// No user has it.
    Absent,
    /// A user is reading it.
    Coming,
    /// A user has put it into the copy.
    Present,
}

/// The time that the file system takes for a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTakes {
    /// On the first node, which may see a slower file system than this one.
    Elsewhere(Duration),
    /// On this node.
    Here(Duration),
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

    /// No node answers at the places where the first one may be. It may yet come.
    fn out_of_reach(&self) {}

    /// A part that a user waits for. Each is told once.
    fn wanted(&self) -> Option<u32> {
        None
    }

    /// The node is about to get this part, unless a user has it or reads it.
    fn begins(&self, _part: u32) -> PartHere {
        PartHere::Absent
    }

    /// The file system takes so long for a part.
    fn file_takes(&self, _part: FileTakes) {}

    /// The time for which users have waited for peers beyond that.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// A peer got so many bytes from here.
    fn gave(&self, _bytes: usize) {}

    /// A peer was left, because it was dead, slow or wrong.
    fn left(&self) {}

    /// This part is in the copy, and right.
    fn arrived(&self, _part: u32, _source: PartSource) {}

    /// The first node's users may yet leave a note, or those of another node may yet want it.
    fn note_is_due(&self) -> bool {
        false
    }

    /// The note of the first node's users, as far as there is one.
    fn note(&self) -> Option<JobNote> {
        None
    }

    /// The first node's users left this note.
    fn noted(&self, _note: &JobNote) {}
}

impl Beside for () {}
