//! Directories in which small reads and writes become large ones (`run --buffer`): a mount over each that passes everything on to the
//! originals ([`service`]), but for the content of files ([`mod@file`]), of which aligned pieces lie in memory ([`pieces`]).
//!
//! ```text
//! program --small writes--> kernel --> buffers --size bytes, aligned--> original
//!                           '-- gathers pages of its own where no other node writes (FUSE_WRITEBACK_CACHE)
//! ```
//!
//! A directory may have names that lie elsewhere on the node ([`picked`]). All its files are passed through.
//!
//! Requests that cannot wait are passed through: appends, locked files, `O_SYNC`, `O_DIRECT`. fsync(2) and close(2) write everything and
//! report errors.

mod counts;
mod file;
mod picked;
mod pieces;
mod ranges;
mod request;
mod rules;
mod server;
mod service;

use crate::covers::{CoverOutcome, Entrance, meeting_place};
use crate::error::RunError;
pub use picked::PickedNames;
pub use request::{BufferDirectory, BufferEnd, BufferRequest, BufferSharing};
pub use rules::BufferRule;

/// The end of a rank. After [`CoverOutcome::Lost`] what buffers held is lost.
pub type BufferOutcome = CoverOutcome<Vec<BufferEnd>>;

/// A rank that was let in.
#[derive(Debug)]
pub struct Buffers(Entrance);

impl Buffers {
    /// Meets the server of this node's buffers, or starts it.
    ///
    /// # Errors
    /// [`RunError::Unavailable`] where the node allows no mount; nothing has changed then.
    pub fn join(request: &BufferRequest) -> Result<Self, RunError> {
        let directories = serde_json::to_vec(&request.directories).unwrap_or_default();
        let place = meeting_place(SOURCE, &[&directories, request.job.as_bytes()])?;
        Entrance::join::<Vec<BufferEnd>>(&place, |listener| server::run(listener, request, place.name()))
            .map(Self)
    }

    /// Goes on in a child, in the namespace. This process stays as its parent and ends as it does; `at_the_end` may choose
    /// another status than 0.
    ///
    /// # Errors
    /// [`RunError`], before anything has changed.
    pub fn begin(self, at_the_end: &mut dyn FnMut(BufferOutcome) -> Option<u8>) -> Result<(), RunError> {
        self.0.begin(at_the_end)
    }
}

/// The beginning of the sources of mounts.
pub(crate) const SOURCE: &str = "quell-buffer-";
