//! Attributes of what a container holds, for the kernel.

use quell_gather::{Entry, NodeKind};

use crate::fuse::abi::{Attr, BLOCK_SIZE, Time};

/// The attributes of an entry; its inode number and its links are the server's to set.
///
/// **Parameters** `is_trusted`: the container is this user's or root's. Another one gives no owners, and no set-user-ID bits.
pub(crate) fn attr_of_entry(entry: &Entry, is_trusted: bool) -> Attr {
    let node = &entry.node;
    let kind = match &node.kind {
        NodeKind::File => 0o100_000,
        NodeKind::Directory { .. } => 0o040_000,
        NodeKind::Link { .. } => 0o120_000,
        NodeKind::Fifo => 0o010_000,
    };
    let (uid, gid) = match rustix::process::geteuid() {
        root if root.is_root() && is_trusted => (node.uid, node.gid),
        // The namespace of a user knows no other.
        uid => (uid.as_raw(), rustix::process::getegid().as_raw()),
    };
    let size = match &node.kind {
        NodeKind::Directory { .. } => BLOCK_SIZE.into(),
        NodeKind::Link { target } => target.len() as u64,
        _ => node.size,
    };
    let held: u64 = entry.pieces.values().flatten().map(|piece| u64::from(piece.length)).sum();
    let (atime, mtime) = (time(node.atime), time(node.mtime));
    Attr {
        atime,
        mtime,
        ctime: mtime,
        mode: kind | node.mode & if is_trusted { 0o7777 } else { 0o1777 },
        uid,
        gid,
        size,
        blocks: held.div_ceil(512),
        block_size: BLOCK_SIZE,
        ..Attr::default()
    }
}

pub(super) fn time(time: quell_gather::Time) -> Time {
    Time { seconds: time.seconds, nanoseconds: time.nanoseconds }
}
