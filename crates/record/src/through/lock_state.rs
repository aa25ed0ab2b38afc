//! The locks of a connection's programs, as [`super::locks`] takes them.

use quell_fuse::abi::NodeId;
use quell_fuse::request::LockOwner;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
        lock(&self.files).remove(&(node, owner));
    }
}

/// Locks a mutex, poisoned or not: each thread changes one thing at a time, so a panic leaves nothing half done.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
