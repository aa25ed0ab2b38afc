//! What the image's tests share: attributes, trees, temporary files.

// Each test binary uses a part of it.
#![allow(dead_code, missing_docs)]

use std::path::Path;

use quell_image::write::{Audience, write};
use quell_image::{Attributes, Device, Image, Kind, Timestamp, Tree};

/// Attributes of a node with nothing special about it.
pub(crate) fn plain(kind: Kind, size: u64) -> Attributes {
    Attributes {
        kind,
        permissions: 0o644,
        uid: 0,
        gid: 0,
        size,
        nlink: 1,
        rdev: Device::default(),
        mtime: Timestamp { seconds: 1_700_000_000, nanoseconds: 5 },
        ctime: Timestamp { seconds: 1_700_000_001, nanoseconds: 6 },
        inode: 0,
        device: 0,
    }
}

pub(crate) fn directory() -> Attributes {
    Attributes { permissions: 0o755, nlink: 2, ..plain(Kind::Directory, 4096) }
}

/// Writes `tree` to `target` and returns the image's bytes.
pub(crate) fn written(tree: &Tree, target: &Path) -> Vec<u8> {
    write(tree, target, Audience::Owner, &mut |_| {}).unwrap();
    std::fs::read(target).unwrap()
}

pub(crate) fn open(bytes: Vec<u8>) -> Image<Vec<u8>> {
    Image::open(bytes).unwrap()
}
