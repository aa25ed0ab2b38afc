//! The locks of a connection's programs, as [`super::locks`] takes them.

use quell_base::lock;
use quell_fuse::abi::NodeId;
use quell_fuse::locks::{RangeLock, set_range_lock};
use quell_fuse::request::LockOwner;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// The locks of one connection.
#[derive(Debug, Default)]
pub(super) struct Locks {
    pub(super) files: Mutex<HashMap<(NodeId, LockOwner), Arc<OwnedFd>>>,
    /// Requests that wait, until they are interrupted.
    pub(super) waiting: Mutex<HashSet<u64>>,
}

impl Locks {
    /// A process closed a descriptor of a file, which ends all its locks on it.
    pub(super) fn closed(&self, node: NodeId, owner: LockOwner) {
        let closed = lock(&self.files).remove(&(node, owner));
        // A copy of the program's own open file keeps its locks until that is closed.
        let all = RangeLock { kind: libc::F_UNLCK as u32, start: 0, length: 0, pid: 0 };
        _ = closed.map(|file| set_range_lock(file, all));
    }
}
