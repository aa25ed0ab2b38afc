//! A script: what a rank does on the shared file system, one act after the other, and how long it computes before each.

use super::tree::NameId;
use crate::ServerOperation;

/// One thing that a rank does on the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Act {
    /// Computing before it. Unit: seconds.
    pub think: f64,
    /// The names that its path leads over, as a range of [`StartScript::walks`].
    pub walk: std::ops::Range<u32>,
    /// True if the last of them is absent.
    pub absent: bool,
    /// Bytes that it reads or writes.
    pub bytes: f64,
    /// The deed at the end of the path, or to an open file.
    pub deed: Deed,
}

/// A deed at the end of a path, or to an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Nothing but finding it.
    Find,
    /// Its attributes.
    Stat(NameId),
    /// Opening it.
    Open(NameId),
    /// Opening it to list it.
    OpenDirectory(NameId),
    /// Reading a link.
    ReadLink(NameId),
    /// Listing it.
    List(NameId),
    /// Reading of it by a call; the pages from the first to before the last.
    Read(NameId, u32, u32),
    /// Touching pages of it in a mapping, likewise.
    Touch(NameId, u32, u32),
    /// Closing it.
    Close(NameId),
    /// A call on it that the client answers by itself: in its kernel at once, in a daemon after a while.
    Tell(NameId),
    /// A request that always reaches a server.
    Ask(ServerOperation),
}

/// A page of the kernel's cache, in which a client keeps data. Unit: bytes.
pub const PAGE: u64 = 4096;

/// The acts of a rank.
#[derive(Clone, Debug, Default)]
pub struct StartScript {
    /// Shape: in order.
    pub acts: Vec<Act>,
    /// Names of the paths of all acts.
    pub walks: Vec<NameId>,
    /// Of each name: whether it is the top of a tree, and whether it is a directory.
    pub names: Vec<NameFacts>,
    /// Computing behind the last act. Unit: seconds.
    pub tail: f64,
    /// Metadata calls on the tree, as the program made them.
    pub calls: u64,
    /// Calls on the tree that began while another thread or process of the rank was in one: the script has them one after the
    /// other.
    pub beside: u64,
    /// The recorder's cost, which think times no longer hold. Unit: seconds a call.
    pub overhead: f64,
}

/// The facts of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameFacts {
    /// The directory that it lies in, as long as that is on the tree.
    pub parent: Option<NameId>,
    /// It is a symbolic link.
    pub is_link: bool,
    /// It was there at some time.
    pub exists: bool,
    /// No lookup leads to it.
    pub is_top: bool,
    /// Something lies in it, or it was listed.
    pub is_directory: bool,
    /// Its data lies in another file, which was opened before: no request asks for its place.
    pub is_gathered: bool,
    /// A number that is the same for the same path in each recording.
    pub path: Option<u64>,
    /// Its size in pages, where the recording tells.
    pub pages: Option<u32>,
}

impl StartScript {
    /// Computing and local work of one rank. Unit: seconds.
    pub fn think(&self) -> f64 {
        self.acts.iter().map(|act| act.think).sum::<f64>() + self.tail
    }

    /// Acts that are calls. A touch of a mapping is none.
    pub(crate) fn acts_by_call(&self) -> usize {
        self.acts.iter().filter(|act| !matches!(act.deed, Deed::Touch(..))).count()
    }

    /// Makes computing take `seconds` in all, in the proportions of the recording.
    pub fn scale_think(&mut self, seconds: f64) {
        let all = self.think();
        if all > 0.0 {
            self.acts.iter_mut().for_each(|act| act.think *= seconds / all);
            self.tail *= seconds / all;
        } else {
            self.tail = seconds;
        }
    }
}
