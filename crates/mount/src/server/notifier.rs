//! Tells the kernel that what it keeps of a directory for ever is not true any more.
//!
//! A thread of its own, because the kernel takes the directory's lock for it, which the very program that caused it
//! may hold while it waits for an answer of the other threads, or of the next server if this one is killed.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use quell_image::{FileKind as Kind, Nid};

use super::Server;
use super::nodes::{Node, NodeMarks};
use crate::fuse::device::Forgetting;

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

/// The notifier's thread.
pub(crate) fn notify(server: &Arc<Server>, jobs: &Receiver<Forget>) {
    for job in jobs {
        match job {
            Forget::Directory(directory) => {
                forget_directory(server, directory);
                // Until then another server would do it again.
                server.nodes.mark(Node::Frozen(directory), NodeMarks::TOLD);
            }
            Forget::Moved { parent, name } if server.can_expire() => {
                forget_name(server, parent, &name, Forgetting::Expire);
            }
            Forget::Moved { .. } => {}
            Forget::Name { parent, name } => forget_name(server, parent, &name, server.forgetting()),
        }
    }
}

fn forget_directory(server: &Server, directory: Nid) {
    let node = Node::Frozen(directory);
    // ENOENT: the kernel has nothing to forget.
    let _unknown = server.device.forget_inode(node.encode(server.root));
    let how = server.forgetting();
    for name in server.told_absences.take(directory) {
        forget_name(server, node, &name, how);
    }
    let Ok(entries) = server.image.entries(directory) else {
        return;
    };
    for entry in entries.filter_map(Result::ok).filter(|entry| !entry.is_dot()) {
        // Dropping a directory's name would unmount what is bound below it.
        if entry.kind != Kind::Directory || how == Forgetting::Expire {
            forget_name(server, node, entry.name, how);
        }
    }
}

impl Server {
    /// The way in which names are given up: what is open under a dropped one looks as if it were removed, so it is only made stale where
    /// the kernel can do that.
    fn forgetting(&self) -> Forgetting {
        if self.can_expire() { Forgetting::Expire } else { Forgetting::Drop }
    }
}

fn forget_name(server: &Server, parent: Node, name: &[u8], how: Forgetting) {
    let _unknown = server.device.forget_name(parent.encode(server.root), name, how);
}
