//! Descriptors of originals for files that are open without a handle and of which the image lacks some content.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock;
use crate::server::node::Node;

/// Descriptors that are kept open for reading, the least recently used one given up first. A later server opens its own.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    open: Mutex<Open>,
    listing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Open {
    files: HashMap<Node, (Arc<OwnedFd>, u64)>,
    clock: u64,
}

/// Most descriptors kept; well below the usual limit of 1024 for a process.
const MOST: usize = 256;

impl Readers {
    pub(crate) fn get(&self, node: Node) -> Option<Arc<OwnedFd>> {
        let mut open = lock(&self.open);
        open.clock += 1;
        let now = open.clock;
        let (file, used) = open.files.get_mut(&node)?;
        *used = now;
        Some(Arc::clone(file))
    }

    pub(crate) fn put(&self, node: Node, file: Arc<OwnedFd>) {
        let mut open = lock(&self.open);
        if open.files.len() >= MOST
            && let Some(oldest) = open.files.iter().min_by_key(|(_, (_, used))| *used).map(|(node, _)| *node)
        {
            open.files.remove(&oldest);
        }
        open.clock += 1;
        let now = open.clock;
        open.files.insert(node, (file, now));
    }

    /// Held while a directory is listed by a descriptor that several handles use: they share its place in the listing.
    pub(crate) fn listing(&self) -> MutexGuard<'_, ()> {
        lock(&self.listing)
    }

    /// The file's original may be another one from now on.
    pub(crate) fn remove(&self, node: Node) {
        lock(&self.open).files.remove(&node);
    }
}
