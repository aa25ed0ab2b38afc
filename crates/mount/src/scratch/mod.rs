//! Directories whose files stay on the node (`run --scratch`): a FUSE mount over each, served from memory, in a namespace that
//! the ranks of the node share.
//!
//! Ranks meet, and the directories are covered, as [`crate::covers`] says.
//!
//! Content that is made or changed below a directory lies in the server's memory ([`tree`], [`content`]), and beyond a limit in
//! files ([`stores`]). What was there before is read from the real directory ([`originals`]), which nothing is written to,
//! except files for which there is no room, in a directory of their own.
//!
//! The end of the node's last rank drops everything, or keeps it ([`keep`]).

mod content;
mod counts;
mod descriptors;
mod gather;
mod keep;
mod originals;
mod request;
mod room;
mod server;
mod serving;
mod stored;
mod stores;
mod tree;

use std::os::unix::ffi::OsStrExt;

use crate::covers::{CoverOutcome, Entrance, meeting_place};
use crate::error::RunError;
pub use request::{
    GatherEnd, GatherRequest, GatherUnread, NodeEnd, ScratchEnd, ScratchKept, ScratchLeft, ScratchRequest,
};

/// The end of a rank whose directories lay on the node. After [`CoverOutcome::Lost`] what they held is lost.
pub type ScratchOutcome = CoverOutcome<NodeEnd>;

/// A rank that was let in.
#[derive(Debug)]
pub struct Scratch(Entrance);

impl Scratch {
    /// Meets the server of this node's scratch directories, or starts it.
    ///
    /// # Errors
    /// [`RunError::Unavailable`] where the node allows no mount; nothing has changed then.
    pub fn join(request: &ScratchRequest) -> Result<Self, RunError> {
        let paths = request.directories.iter().chain(&request.disk).chain(&request.gathered);
        let paths = paths.map(|path| path.as_os_str().as_bytes());
        // One that is gathered is not one that is scratch.
        let (gathered, keeps) = (request.gathered.len().to_le_bytes(), [u8::from(request.keeps)]);
        let facts: Vec<&[u8]> = paths.chain([&gathered[..], &keeps, request.job.as_bytes()]).collect();
        let place = meeting_place(SOURCE, &facts)?;
        Entrance::join::<NodeEnd>(&place, |listener| server::run(listener, request, place.name())).map(Self)
    }

    /// Goes on in a child, in the namespace. This process stays as its parent and ends as it does; `at_the_end` may choose
    /// another status than 0.
    ///
    /// # Errors
    /// [`RunError`], before anything has changed.
    pub fn begin(self, at_the_end: &mut dyn FnMut(ScratchOutcome) -> Option<u8>) -> Result<(), RunError> {
        self.0.begin(at_the_end)
    }
}

/// True for names in the real directory that programs do not see: containers, and places for what memory has no room for.
pub(crate) fn is_hidden(name: &[u8], hides_containers: bool) -> bool {
    name.starts_with(room::PREFIX.as_bytes()) || hides_containers && gather::is_container(name)
}

/// The beginning of the sources of mounts.
pub(crate) const SOURCE: &str = "quell-scratch-";
