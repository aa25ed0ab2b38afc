//! The thread that tells the kernel what to forget, see [`super::notifier`].

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use quell_image::{FileKind as Kind, Nid};

use super::node::{Node, NodeMarks};
use super::notifier::Forget;
use super::serving::Server;
use crate::fuse::device::Forgetting;

/// The notifier's thread.
pub(crate) fn notify(server: &Arc<Server>, jobs: &Receiver<Forget>) {
    for job in jobs {
        match job {
            Forget::Directory(directory) => {
                forget_directory(server, directory);
                // Until then another server would do it again.
                server.bindings.nodes.mark(Node::Frozen(directory), NodeMarks::TOLD);
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
    let _unknown = server.device.forget_inode(node.encode(server.packed.root));
    let how = server.forgetting();
    for name in server.frozen.told_absences.take(directory) {
        forget_name(server, node, &name, how);
    }
    let Ok(entries) = server.packed.image.entries(directory) else {
        return;
    };
    for entry in entries.filter_map(Result::ok).filter(|entry| !entry.is_dot()) {
        // Dropping a directory's name would unmount mounts below it.
        if entry.kind != Kind::Directory || how == Forgetting::Expire {
            forget_name(server, node, entry.name, how);
        }
    }
}

impl Server {
    /// The way to forget names: made stale where the kernel can do that. A file that is open under a dropped name would look as
    /// if it were removed.
    fn forgetting(&self) -> Forgetting {
        if self.can_expire() { Forgetting::Expire } else { Forgetting::Drop }
    }
}

fn forget_name(server: &Server, parent: Node, name: &[u8], how: Forgetting) {
    let _unknown = server.device.forget_name(parent.encode(server.packed.root), name, how);
}
