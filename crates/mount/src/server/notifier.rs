//! Tells the kernel to forget names and listings that it was allowed to keep for ever.
//!
//! This is the work of a separate thread: the kernel takes the directory's lock for it. The program that caused the change may
//! hold that lock while it waits for an answer of the other threads, or of the next server if this one is killed.

use std::sync::mpsc::{Receiver, Sender};

use quell_image::Nid;

use super::node::Node;

/// Something that the kernel must forget.
#[derive(Debug, Clone)]
pub(crate) enum Forget {
    /// A directory went live: its listing, all its names, all that was said to be absent from it.
    Directory(Nid),
    /// One name.
    Name {
        /// The directory.
        parent: Node,
        /// The name in it.
        name: Vec<u8>,
    },
    /// The time for which a name is valid. It may be a directory's name, which is never dropped.
    Moved {
        /// The directory.
        parent: Node,
        /// The name in it.
        name: Vec<u8>,
    },
}

/// The way to the notifier, for the threads that answer.
#[derive(Debug, Clone)]
pub(crate) struct Notifier(Sender<Forget>);

impl Notifier {
    /// A notifier, and what its thread listens to.
    pub(crate) fn new() -> (Self, Receiver<Forget>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        (Self(sender), receiver)
    }

    /// Has something forgotten, soon.
    pub(crate) fn forget(&self, what: Forget) {
        // Fails only when the thread is gone, with the mount.
        let _mount_is_gone = self.0.send(what);
    }
}
