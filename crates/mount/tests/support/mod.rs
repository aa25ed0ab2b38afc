//! Images of small trees, and the program that runs commands from them.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quell_image::write::{Audience, ImageForm as Form, write_as};
use quell_image::{
    Attributes, Beyond, BlockSet, ContentSource as Source, Coverage, DeviceNumber as Device,
    FileKind as Kind, ImageTree as Tree, Timestamp, TreeNodeId as NodeId,
};

/// Options for packing a tree.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// Directories to cover.
    pub(crate) roots: Vec<PathBuf>,
    /// Directories below them that stay the original.
    pub(crate) live: Vec<PathBuf>,
    /// Directories below them of which no name is taken.
    pub(crate) uncovered: Vec<PathBuf>,
    /// Directories below them of which names are taken, and not known to be all.
    pub(crate) passed: Vec<PathBuf>,
    /// Files of which no content is taken.
    pub(crate) not_held: Vec<PathBuf>,
    /// Files of which these runs of blocks are taken: first block and end.
    pub(crate) parts: Vec<(PathBuf, Vec<(u64, u64)>)>,
    /// If there are any: the only files of which content is taken, in this order.
    pub(crate) in_order: Vec<PathBuf>,
    /// The directory in which the command was started, for a complete image, which asks the originals nothing.
    pub(crate) complete: Option<PathBuf>,
    /// True if the image is compressed.
    pub(crate) compressed: bool,
}

impl Packing {
    /// Everything below `root`.
    pub(crate) fn of(root: &Path) -> Self {
        Self { roots: vec![root.to_owned()], ..Self::default() }
    }

    /// Writes the image.
    pub(crate) fn write(&self, image: &Path) {
        let mut tree = Tree::new(attributes(Path::new("/"))).unwrap();
        let mut links = HashMap::new();
        for root in &self.roots {
            let mut node = tree.root();
            let mut path = PathBuf::from("/");
            for name in root.strip_prefix("/").unwrap() {
                path.push(name);
                node = match tree.child(node, name.as_bytes()) {
                    Some(child) => child,
                    None => tree.add(node, name.as_bytes(), attributes(&path)).unwrap(),
                };
            }
            self.take(&mut tree, node, root, &mut links);
            tree.add_root(root.as_os_str().as_bytes(), "test", "ext4").unwrap();
        }
        for path in &self.in_order {
            if let Some(file) = tree.find(path.as_os_str().as_bytes()) {
                tree.hold(file, Source::File(path.clone())).unwrap();
            }
        }
        for live in &self.live {
            tree.add_live(live.as_os_str().as_bytes(), "test").unwrap();
        }
        if let Some(directory) = &self.complete {
            tree.set_beyond(Beyond::Nothing);
            tree.set_directory(directory.as_os_str().as_bytes());
        }
        let form = if self.compressed { Form::Compressed("1".parse().unwrap()) } else { Form::Plain };
        write_as(form, &tree, image, Audience::Everyone, &mut |_| {}).unwrap();
    }

    fn take(&self, tree: &mut Tree, node: NodeId, directory: &Path, links: &mut HashMap<(u64, u64), NodeId>) {
        if self.uncovered.iter().any(|path| path == directory)
            || self.live.iter().any(|path| path == directory)
        {
            return;
        }
        if !self.passed.iter().any(|path| path == directory) {
            tree.cover(node, Coverage::Complete).unwrap();
        }
        let mut entries: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()).collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.as_bytes();
            let found = attributes(&path);
            let key = (found.device, found.inode);
            if let Some(known) = links.get(&key) {
                tree.link(node, name, *known).unwrap();
                continue;
            }
            let child = match found.kind {
                Kind::Symlink => {
                    let target = std::fs::read_link(&path).unwrap();
                    tree.add_symlink(node, name, found, target.as_os_str().as_bytes()).unwrap()
                }
                _ => tree.add(node, name, found).unwrap(),
            };
            match found.kind {
                Kind::Directory => self.take(tree, child, &path, links),
                Kind::Regular if self.in_order.is_empty() && !self.not_held.contains(&path) => {
                    match self.parts.iter().find(|(part, _)| *part == path) {
                        None => tree.hold(child, Source::File(path)).unwrap(),
                        Some((_, runs)) => {
                            let mut blocks = BlockSet::default();
                            runs.iter().for_each(|&(first, end)| blocks.insert(first..end));
                            tree.hold_part(child, Source::File(path), &blocks).unwrap();
                        }
                    }
                    links.insert(key, child);
                }
                _ => {
                    links.insert(key, child);
                }
            }
        }
    }
}

fn attributes(path: &Path) -> Attributes {
    let metadata = std::fs::symlink_metadata(path).unwrap();
    let time = |seconds, nanoseconds: i64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
    Attributes {
        kind: Kind::from_mode(metadata.mode()).unwrap(),
        permissions: (metadata.mode() & 0o7777) as u16,
        uid: metadata.uid(),
        gid: metadata.gid(),
        size: metadata.size(),
        nlink: metadata.nlink() as u32,
        rdev: Device { major: rustix::fs::major(metadata.rdev()), minor: rustix::fs::minor(metadata.rdev()) },
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        inode: metadata.ino(),
        device: metadata.dev(),
    }
}
