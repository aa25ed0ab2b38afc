//! The failures of a node.

use std::io::Error;

/// The failure of a node to get the file. A peer's failure is none.
#[derive(Debug, thiserror::Error)]
pub enum SpreadError {
    /// The file cannot be read, and no peer has it.
    #[error("cannot read it")]
    Read(#[source] Error),
    /// The copy cannot be written. Usual cause: the target's file system is full.
    #[error("cannot write the copy")]
    Write(#[source] Error),
    /// Another version came into the file's place meanwhile, or it is being written.
    #[error("it changed while it was read")]
    Changed,
    /// The file is longer than 4 TiB.
    #[error("it has {0} bytes, more than can be spread")]
    TooLong(u64),
    /// The caller wanted to stop.
    #[error("interrupted")]
    Interrupted,
}
