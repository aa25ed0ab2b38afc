//! Shared by the tests of images: attributes, trees, temporary files, a kernel mount.

// Each test binary uses a part of it, and a helper that fails is a test that fails.
#![allow(dead_code, clippy::unwrap_used, clippy::print_stdout)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use quell_image::original::{OriginalDirectory, attributes_of};
use quell_image::path::components;
use quell_image::write::{Audience, write};
use quell_image::{
    Attributes, ContentSource, Coverage, DeviceNumber, FileKind, Image, ImageTree, Lookup, Nid, Timestamp,
    TreeNodeId,
};
use rustix::mount::{MountFlags, UnmountFlags};
use tempfile::TempDir;

/// A directory on a disk: the kernel does not mount images that lie on a tmpfs.
pub(crate) fn scratch() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Attributes of a node with nothing special about it.
pub(crate) fn plain(kind: FileKind, size: u64) -> Attributes {
    Attributes {
        kind,
        permissions: 0o644,
        uid: 0,
        gid: 0,
        size,
        nlink: 1,
        rdev: DeviceNumber::default(),
        mtime: Timestamp { seconds: 1_700_000_000, nanoseconds: 5 },
        ctime: Timestamp { seconds: 1_700_000_001, nanoseconds: 6 },
        inode: 0,
        device: 0,
    }
}

/// Attributes of a directory.
pub(crate) fn directory() -> Attributes {
    Attributes { permissions: 0o755, nlink: 2, ..plain(FileKind::Directory, 4096) }
}

/// Writes `tree` to a fresh file and returns the image's bytes.
pub(crate) fn written(tree: &ImageTree) -> Vec<u8> {
    let scratch = scratch();
    let target = scratch.path().join("image");
    write(tree, &target, Audience::Owner, &mut |_| {}).unwrap();
    std::fs::read(target).unwrap()
}

/// Opens an image that must be sound.
pub(crate) fn opened(bytes: Vec<u8>) -> Image<Vec<u8>> {
    let image = Image::open(bytes).unwrap();
    let report = quell_image::check::check(&image);
    assert!(report.is_clean(), "{report:?}");
    image
}

/// The node that `name` must mean in `dir`.
pub(crate) fn child<B: AsRef<[u8]>>(image: &Image<B>, dir: Nid, name: &[u8]) -> Nid {
    match image.lookup(dir, name).unwrap() {
        Lookup::Found(nid) => nid,
        other => panic!("{}: {other:?}", name.escape_ascii()),
    }
}

/// The node at an absolute path.
pub(crate) fn at<B: AsRef<[u8]>>(image: &Image<B>, path: &[u8]) -> Nid {
    components(path).fold(image.root(), |nid, name| child(image, nid, name))
}

/// A tree of everything below the original `top`, which lies at `/top`. Every regular file is held.
pub(crate) fn tree_of(top: &Path) -> ImageTree {
    let mut tree = ImageTree::new(directory()).unwrap();
    let node = tree.add(tree.root(), b"top", attributes_of(top).unwrap()).unwrap();
    let mut links = HashMap::new();
    add_children(&mut tree, node, &OriginalDirectory::open(top).unwrap(), &mut links);
    tree.add_root(b"/top", "the test said so", "ext4").unwrap();
    tree
}

fn add_children(
    tree: &mut ImageTree,
    parent: TreeNodeId,
    from: &OriginalDirectory,
    links: &mut HashMap<u64, TreeNodeId>,
) {
    tree.cover(parent, Coverage::Complete).unwrap();
    for name in from.names().unwrap() {
        let attributes = from.attributes(&name).unwrap();
        let file = attributes.kind != FileKind::Directory;
        if let Some(&node) = links.get(&attributes.inode).filter(|_| file) {
            tree.link(parent, &name, node).unwrap();
            continue;
        }
        let node = match attributes.kind {
            FileKind::Symlink => {
                let target = from.link_target(&name).unwrap();
                tree.add_symlink(parent, &name, attributes, &target).unwrap()
            }
            _ => tree.add(parent, &name, attributes).unwrap(),
        };
        links.insert(attributes.inode, node);
        tree.set_xattrs(node, from.xattrs(&name).unwrap()).unwrap();
        if attributes.kind == FileKind::Regular {
            let path = from.path().join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&name));
            tree.hold(node, ContentSource::File(path)).unwrap();
        }
        if attributes.kind == FileKind::Directory {
            add_children(tree, node, &from.open_child(&name).unwrap(), links);
        }
    }
}

/// The reason why a test that mounts cannot run here, if there is one.
pub(crate) fn no_mounts() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it needs root".into());
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    (!known.contains("erofs")).then(|| "the kernel has no EROFS".into())
}

/// An image, mounted by the kernel from its file (not through a loop device). Unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) path: PathBuf,
}

impl Mounted {
    pub(crate) fn new(image: &Path, path: PathBuf) -> std::io::Result<Self> {
        std::fs::create_dir(&path)?;
        rustix::mount::mount(image, &path, "erofs", MountFlags::RDONLY, None)?;
        Ok(Self { path })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.path, UnmountFlags::empty()).unwrap();
    }
}

/// Fails unless `fsck.erofs` accepts the image; says so where it is not installed.
pub(crate) fn fsck(image: &Path) {
    match Command::new("fsck.erofs").arg(image).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        }
        Err(_) => println!("skipped, because fsck.erofs is not installed"),
    }
}
