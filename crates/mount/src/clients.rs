//! `run --stats`: what clients of shared file systems counted on this node while the command ran.

use std::os::fd::{BorrowedFd, RawFd};
use std::path::{Path, PathBuf};

use quell_counters::{ClientCounters, NodeCounters, Reading};

use crate::error::RunError;
use crate::stats::add_client_counters;
use crate::wrapper::{Vigil, stay_behind};

/// Goes on in a child, if a client of this node has counters. When that ends, they are added to the file of statistics. The
/// process that stays is outside of the command's namespace, where an image may cover a mount.
///
/// **Errors** as of [`RunError::Threads`], and where there is no room for another process.
pub fn count_clients(stats: &Path) -> Result<(), RunError> {
    let node = NodeCounters::find();
    if node.is_empty() {
        return Ok(());
    }
    let before = node.read();
    stay_behind(&mut Counting { stats: stats.to_owned(), node, before })
}

struct Counting {
    stats: PathBuf,
    node: NodeCounters,
    before: Reading,
}

impl Vigil for Counting {
    fn kept(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn polled(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn called(&mut self) {}

    fn ended(&mut self) -> Option<u8> {
        let counters = ClientCounters::between(&self.before, &self.node.read());
        // A file that cannot be written stays as it is without them.
        _ = add_client_counters(&self.stats, &counters);
        None
    }
}
