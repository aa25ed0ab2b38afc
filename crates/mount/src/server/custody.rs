//! Descriptors that the holder keeps, so that the next server has them too.
//!
//! A path is not enough: the file may have lost its name, or be one that its maker may write to once only.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use quell_image::Nid;

use super::nodes::Node;
use crate::lock;
use crate::message::{FromAnswering, send};

/// The way to the holder, for the threads that answer.
#[derive(Debug)]
pub(crate) struct Custody {
    holder: Mutex<Arc<OwnedFd>>,
    root: Nid,
}

impl Custody {
    /// With the holder at the other end of `connection`, of an image with this root.
    pub(crate) fn new(connection: Arc<OwnedFd>, root: Nid) -> Self {
        Self { holder: Mutex::new(connection), root }
    }

    /// Has `node`'s descriptor kept. It is on its way to the holder when this returns.
    pub(crate) fn keep(&self, node: Node, held: &Held) {
        let message = FromAnswering::Keep { node: node.encode(self.root).0, access: held.access };
        // A holder that is dead is replaced by one that takes everything from the tables.
        let _is_replaced = send(&**lock(&self.holder), &message, &[held.descriptor.as_fd()]);
    }

    /// `node`'s descriptor is of no use any more.
    pub(crate) fn give_up(&self, node: Node) {
        let message = FromAnswering::GiveUp { node: node.encode(self.root).0 };
        let _is_replaced = send(&**lock(&self.holder), &message, &[]);
    }

    /// Lets nobody speak to the holder until the guard, which can be given another connection, is dropped.
    pub(crate) fn pause(&self) -> MutexGuard<'_, Arc<OwnedFd>> {
        lock(&self.holder)
    }
}

/// An open original that belongs to a node.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) descriptor: OwnedFd,
    pub(crate) access: Access,
}

/// What a descriptor allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Access {
    /// Only what `O_PATH` allows: to ask for attributes.
    Neither,
}
