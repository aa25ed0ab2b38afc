//! The local tree that every node shows, read once. Its files' data is read when it is asked for.

use crate::SleeperError;
use quell_fuse::abi::{Attr, NodeId, attr_of};
use quell_fuse::listing::{ListedName, Listing, Pushed};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A file, directory or link of the tree.
#[derive(Debug)]
struct ServedFile {
    path: PathBuf,
    attr: Attr,
    parent: NodeId,
    names: BTreeMap<Vec<u8>, NodeId>,
}

/// The tree. Shape: node N is entry N - 1; the root is node 1.
#[derive(Debug)]
pub(crate) struct ServedTree(Vec<ServedFile>);

impl ServedTree {
    /// # Errors
    /// A directory that cannot be read.
    pub(crate) fn read(top: &Path) -> Result<Self, SleeperError> {
        let mut tree = Self(Vec::new());
        tree.add(top.to_owned(), NodeId::ROOT).map_err(|errno| crate::place(top, errno.into()))?;
        let mut next = 0;
        while let Some(file) = tree.0.get(next) {
            next += 1;
            if !is_directory(&file.attr) {
                continue;
            }
            let (path, node) = (file.path.clone(), NodeId(next as u64));
            let entries = std::fs::read_dir(&path).map_err(|source| crate::place(&path, source))?;
            for entry in entries {
                let entry = entry.map_err(|source| crate::place(&path, source))?;
                let child =
                    tree.add(entry.path(), node).map_err(|errno| crate::place(&path, errno.into()))?;
                tree.0[node.0 as usize - 1].names.insert(entry.file_name().as_bytes().to_vec(), child);
            }
        }
        Ok(tree)
    }

    fn add(&mut self, path: PathBuf, parent: NodeId) -> Result<NodeId, Errno> {
        let node = NodeId(self.0.len() as u64 + 1);
        let attr =
            Attr { inode: node.0, ..attr_of(&rustix::fs::statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW)?) };
        self.0.push(ServedFile { path, attr, parent, names: BTreeMap::new() });
        Ok(node)
    }

    fn file(&self, node: NodeId) -> Result<&ServedFile, Errno> {
        let index = usize::try_from(node.0).ok().and_then(|number| number.checked_sub(1));
        index.and_then(|index| self.0.get(index)).ok_or(Errno::STALE)
    }

    pub(crate) fn attributes(&self, node: NodeId) -> Result<Attr, Errno> {
        Ok(self.file(node)?.attr)
    }

    /// The node of a name; `None` where there is none.
    pub(crate) fn look_up(&self, directory: NodeId, name: &[u8]) -> Result<Option<NodeId>, Errno> {
        Ok(self.file(directory)?.names.get(name).copied())
    }

    pub(crate) fn link(&self, node: NodeId) -> Result<Vec<u8>, Errno> {
        let target = std::fs::read_link(&self.file(node)?.path).map_err(errno)?;
        Ok(target.into_os_string().as_bytes().to_vec())
    }

    pub(crate) fn data(&self, node: NodeId, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let file = File::open(&self.file(node)?.path).map_err(errno)?;
        let mut bytes = vec![0; size as usize];
        let mut done = 0;
        while done < bytes.len() {
            match file.read_at(&mut bytes[done..], offset + done as u64).map_err(errno)? {
                0 => break,
                more => done += more,
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// Names of a directory from a position on, as many as fit.
    pub(crate) fn list(&self, node: NodeId, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let directory = self.file(node)?;
        let own = [(&b"."[..], node), (&b".."[..], directory.parent)];
        let names =
            own.into_iter().chain(directory.names.iter().map(|(name, node)| (name.as_slice(), *node)));
        let mut listing = Listing::new(size);
        for (position, (name, node)) in (1..).zip(names).skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            let kind = self.file(node)?.attr.mode >> 12;
            if listing.push(&ListedName { inode: node.0, next: position, kind, name }) == Pushed::Full {
                break;
            }
        }
        Ok(listing.bytes().to_vec())
    }
}

pub(crate) fn is_directory(attr: &Attr) -> bool {
    attr.mode & 0o170_000 == 0o040_000
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_shows_what_is_there() -> Result<(), Box<dyn std::error::Error>> {
        let top = std::env::temp_dir().join(format!("quell-sleeper-{}", std::process::id()));
        std::fs::create_dir_all(top.join("a"))?;
        std::fs::write(top.join("a/file"), "0123456789")?;
        std::os::unix::fs::symlink("a/file", top.join("link"))?;
        let tree = ServedTree::read(&top)?;
        std::fs::remove_file(top.join("link"))?;
        let a = tree.look_up(NodeId::ROOT, b"a")?.expect("it is there");
        let file = tree.look_up(a, b"file")?.expect("it is there");
        assert_eq!(tree.look_up(a, b"none")?, None);
        assert_eq!(tree.data(file, 4, 100)?, b"456789");
        assert_eq!(tree.attributes(file)?.size, 10);
        let whole = tree.list(NodeId::ROOT, 0, 4096)?;
        // `.`, `..`, `a` and `link`, each in 24 bytes with its name and what fills up to 8.
        assert_eq!(whole.len(), 4 * 32);
        assert_eq!(tree.list(NodeId::ROOT, 2, 4096)?, whole[64..]);
        std::fs::remove_dir_all(&top)?;
        Ok(())
    }
}
