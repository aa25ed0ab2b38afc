//! The tree that the writer turns into an image, held in memory without any content of files.
//!
//! Built from the root downwards. A file's content is promised with [`ImageTree::hold`], in the order of first
//! access, and read when the image is written.

mod error;
mod node;

use crate::blocks::BlockSet;
use crate::erofs::{BLOCK, blocks_for, chunk, inode, xattr};
use crate::index::read::ImageTotals;
use crate::index::{INDEX_PATH, REQUESTS_PATH};
use crate::model::{Attributes, Beyond, Coverage, DeviceNumber, FileKind, NamedValues, NodeUse, Timestamp};
use crate::path::{components, is_name, is_within};

pub use error::TreeError;
pub(crate) use node::{Body, HeldContent, MarkedDirectory, TreeDirectory, TreeNode};
pub use node::{ContentSource, TreeNodeId};

/// The content of an image before it is written.
#[derive(Debug)]
pub struct ImageTree {
    pub(crate) nodes: Vec<TreeNode>,
    /// Held files in the order of their data.
    pub(crate) held: Vec<TreeNodeId>,
    pub(crate) roots: Vec<MarkedDirectory>,
    pub(crate) live: Vec<MarkedDirectory>,
    pub(crate) command: Vec<Vec<u8>>,
    /// The node of `/.quell/asked`, if there is one.
    pub(crate) asked: Option<TreeNodeId>,
    pub(crate) directory: Vec<u8>,
    pub(crate) beyond: Beyond,
}

/// The node of `/.quell/index`.
pub(crate) const INDEX_NODE: TreeNodeId = TreeNodeId(2);

impl ImageTree {
    /// A tree with the root directory, which stands for the original `/`, and a place for the index.
    pub fn new(root: Attributes) -> Result<Self, TreeError> {
        let mut tree = Self {
            nodes: Vec::new(),
            held: Vec::new(),
            roots: Vec::new(),
            live: Vec::new(),
            command: Vec::new(),
            asked: None,
            directory: Vec::new(),
            beyond: Beyond::Originals,
        };
        if root.kind != FileKind::Directory {
            return Err(TreeError::Kind { kind: root.kind });
        }
        let root = tree.push(root, Body::directory())?;
        let directory = tree.add(root, INDEX_PATH[0], own_attributes(FileKind::Directory))?;
        tree.add(directory, INDEX_PATH[1], own_attributes(FileKind::Regular))?;
        Ok(tree)
    }

    /// The root directory.
    pub fn root(&self) -> TreeNodeId {
        TreeNodeId(0)
    }

    /// Number of nodes, with the root and the two that hold the index.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: a tree always has a root.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds anything but a symbolic link. A directory is [`Coverage::Uncovered`], a regular file not held, a node
    /// [`NodeUse::Listed`] until told otherwise.
    pub fn add(
        &mut self,
        parent: TreeNodeId,
        name: &[u8],
        attributes: Attributes,
    ) -> Result<TreeNodeId, TreeError> {
        let body = match attributes.kind {
            FileKind::Directory => Body::directory(),
            FileKind::Regular => Body::File(None),
            FileKind::Symlink => return Err(TreeError::Kind { kind: FileKind::Symlink }),
            FileKind::CharacterDevice | FileKind::BlockDevice | FileKind::Fifo | FileKind::Socket => {
                Body::Special
            }
        };
        self.insert(parent, name, attributes, body)
    }

    /// Adds a symbolic link. Its size is that of `target`.
    pub fn add_symlink(
        &mut self,
        parent: TreeNodeId,
        name: &[u8],
        attributes: Attributes,
        target: &[u8],
    ) -> Result<TreeNodeId, TreeError> {
        if attributes.kind != FileKind::Symlink {
            return Err(TreeError::Kind { kind: attributes.kind });
        }
        if target.is_empty() || target.len() >= BLOCK || target.contains(&0) {
            return Err(TreeError::Target { len: target.len() });
        }
        let attributes = Attributes { size: target.len() as u64, ..attributes };
        self.insert(parent, name, attributes, Body::Symlink(target.to_vec()))
    }

    /// Gives `node` a further name. The attributes carry the number of links; it is not counted here.
    pub fn link(&mut self, parent: TreeNodeId, name: &[u8], node: TreeNodeId) -> Result<(), TreeError> {
        let kind = self.node(node).attributes.kind;
        if kind == FileKind::Directory {
            return Err(TreeError::Kind { kind });
        }
        self.vacant(parent, name)?.entries.insert(name.into(), node);
        Ok(())
    }

    /// Sets the coverage of a directory.
    pub fn cover(&mut self, directory: TreeNodeId, coverage: Coverage) -> Result<(), TreeError> {
        self.directory(directory)?.coverage = coverage;
        Ok(())
    }

    /// Says that the recording looked names up in `directory` and did not list it, so that its listing is no fact that the
    /// program learned.
    pub fn only_searched(&mut self, directory: TreeNodeId) -> Result<(), TreeError> {
        self.directory(directory)?.searched = true;
        Ok(())
    }

    /// Says that the recording looked for `name`, and that it is not in `directory`. It counts while the directory is not
    /// [`Coverage::Uncovered`].
    pub fn absent(&mut self, directory: TreeNodeId, name: &[u8]) -> Result<(), TreeError> {
        let found = self.directory(directory)?;
        if found.entries.contains_key(name) {
            return Err(TreeError::Known { name: name.to_vec() });
        }
        if !is_name(name) {
            return Err(TreeError::Name { name: name.to_vec() });
        }
        found.absences.insert(name.into());
        Ok(())
    }

    /// Says that the recording asked for `node` by name.
    pub fn touch(&mut self, node: TreeNodeId) {
        self.node_mut(node).usage = NodeUse::Touched;
    }

    /// Sets the extended attributes, pairs of name and value.
    pub fn set_xattrs(&mut self, node: TreeNodeId, mut xattrs: NamedValues) -> Result<(), TreeError> {
        xattrs.sort();
        xattr::encode(&xattrs).ok_or(TreeError::Xattrs)?;
        self.node_mut(node).xattrs = xattrs;
        Ok(())
    }

    /// Promises the content of a regular file. Data is laid out in the order of these calls; a file that is held
    /// already keeps its place and source.
    pub fn hold(&mut self, file: TreeNodeId, source: ContentSource) -> Result<(), TreeError> {
        self.promise(file, HeldContent { source, part: None })
    }

    /// Promises a part of the content: the blocks of `part`, in groups of some for files of more than 4 GiB. Nothing
    /// is promised if there is none within the file; all of it if there is no other.
    pub fn hold_part(
        &mut self,
        file: TreeNodeId,
        source: ContentSource,
        part: &BlockSet,
    ) -> Result<(), TreeError> {
        let size = self.node(file).attributes.size;
        let limit = blocks_for(size);
        let part = part.grouped(1 << chunk::bits_for_part(size), limit);
        match part.len() {
            0 => Ok(()),
            blocks if blocks == limit => self.hold(file, source),
            _ => self.promise(file, HeldContent { source, part: Some(part) }),
        }
    }

    fn promise(&mut self, file: TreeNodeId, content: HeldContent) -> Result<(), TreeError> {
        let node = self.node_mut(file);
        let kind = node.attributes.kind;
        let Body::File(held) = &mut node.body else { return Err(TreeError::Kind { kind }) };
        if let ContentSource::Bytes(bytes) = &content.source
            && bytes.len() as u64 != node.attributes.size
        {
            return Err(TreeError::Size { expected: node.attributes.size, found: bytes.len() as u64 });
        }
        if held.is_none() {
            *held = Some(content);
            self.held.push(file);
        }
        Ok(())
    }

    /// Sets the recorded command, argument by argument.
    pub fn set_command(&mut self, command: Vec<Vec<u8>>) {
        self.command = command;
    }

    /// Stores the packer's record of requested paths in `/.quell/asked`.
    pub fn set_requests(&mut self, asked: Vec<u8>) -> Result<(), TreeError> {
        let directory = self.child(self.root(), REQUESTS_PATH[0]);
        let attributes = Attributes { size: asked.len() as u64, ..own_attributes(FileKind::Regular) };
        let node = self.add(directory.unwrap_or(self.root()), REQUESTS_PATH[1], attributes)?;
        self.node_mut(node).body =
            Body::File(Some(HeldContent { source: ContentSource::Bytes(asked), part: None }));
        self.asked = Some(node);
        Ok(())
    }

    /// Sets the working directory of the recorded command: an absolute path.
    pub fn set_directory(&mut self, directory: &[u8]) {
        self.directory = directory.to_vec();
    }

    /// Sets the source of answers that the image does not hold.
    pub fn set_beyond(&mut self, beyond: Beyond) {
        self.beyond = beyond;
    }

    /// Declares the directory at `path` a root, for a `reason` that is shown to the user.
    pub fn add_root(&mut self, path: &[u8], reason: &str, file_system: &str) -> Result<(), TreeError> {
        let chosen = self.choose(path, reason, file_system, &self.roots)?;
        self.roots.push(chosen);
        self.roots.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Declares the directory at `path`, below a root, a live directory.
    pub fn add_live(&mut self, path: &[u8], reason: &str) -> Result<(), TreeError> {
        let chosen = self.choose(path, reason, "", &self.live)?;
        self.live.push(chosen);
        self.live.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// The node at an absolute path, links not followed.
    pub fn find(&self, path: &[u8]) -> Option<TreeNodeId> {
        components(path.strip_prefix(b"/")?).try_fold(self.root(), |node, name| self.child(node, name))
    }

    /// The node that `name` means in `directory`.
    pub fn child(&self, directory: TreeNodeId, name: &[u8]) -> Option<TreeNodeId> {
        match &self.node(directory).body {
            Body::Directory(found) => found.entries.get(name).copied(),
            _ => None,
        }
    }

    /// The attributes that were given for `node`.
    pub fn attributes(&self, node: TreeNodeId) -> &Attributes {
        &self.node(node).attributes
    }

    /// The coverage of a directory; `None` of anything else.
    pub fn coverage(&self, node: TreeNodeId) -> Option<Coverage> {
        match &self.node(node).body {
            Body::Directory(directory) => Some(directory.coverage),
            _ => None,
        }
    }

    /// The names in a directory, sorted; none of anything else.
    pub fn names(&self, node: TreeNodeId) -> impl Iterator<Item = &[u8]> {
        let directory = match &self.node(node).body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        };
        directory.into_iter().flat_map(|directory| directory.entries.keys().map(|name| &name[..]))
    }

    /// The number of paths: entries of directories, and `/`. A file with two names counts twice.
    pub fn names_total(&self) -> u64 {
        let entries = |node: &TreeNode| match &node.body {
            Body::Directory(directory) => directory.entries.len() as u64,
            _ => 0,
        };
        1 + self.nodes.iter().map(entries).sum::<u64>()
    }

    /// Totals of the image that it becomes.
    pub fn totals(&self) -> ImageTotals {
        ImageTotals {
            held_files: self.held.len() as u64,
            nodes: self.nodes.len() as u64,
            content_bytes: self.held.iter().filter_map(|&file| self.bytes_held_of(file)).sum(),
        }
    }

    /// Bytes of content that are promised of one file; `None` if nothing is.
    pub fn bytes_held_of(&self, file: TreeNodeId) -> Option<u64> {
        match &self.node(file).body {
            Body::File(Some(held)) => Some(held.bytes(self.attributes(file).size)),
            _ => None,
        }
    }

    /// Bytes of the files of which content is promised, held or not.
    pub fn held_files_bytes(&self) -> u64 {
        self.held.iter().map(|&file| self.attributes(file).size).sum()
    }

    pub(crate) fn node(&self, node: TreeNodeId) -> &TreeNode {
        &self.nodes[node.0 as usize]
    }

    fn node_mut(&mut self, node: TreeNodeId) -> &mut TreeNode {
        &mut self.nodes[node.0 as usize]
    }

    fn directory(&mut self, node: TreeNodeId) -> Result<&mut TreeDirectory, TreeError> {
        match &mut self.node_mut(node).body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(TreeError::NotDirectory { node }),
        }
    }

    /// The directory `parent`, if it can take `name`.
    fn vacant(&mut self, parent: TreeNodeId, name: &[u8]) -> Result<&mut TreeDirectory, TreeError> {
        if !is_name(name) {
            return Err(TreeError::Name { name: name.to_vec() });
        }
        let directory = self.directory(parent)?;
        if directory.entries.contains_key(name) || directory.absences.contains(name) {
            return Err(TreeError::Known { name: name.to_vec() });
        }
        Ok(directory)
    }

    fn insert(
        &mut self,
        parent: TreeNodeId,
        name: &[u8],
        attributes: Attributes,
        body: Body,
    ) -> Result<TreeNodeId, TreeError> {
        self.vacant(parent, name)?;
        let node = self.push(attributes, body)?;
        self.vacant(parent, name)?.entries.insert(name.into(), node);
        Ok(node)
    }

    fn push(&mut self, attributes: Attributes, body: Body) -> Result<TreeNodeId, TreeError> {
        for timestamp in [attributes.mtime, attributes.ctime] {
            if timestamp.nanoseconds >= 1_000_000_000 {
                return Err(TreeError::Timestamp { timestamp });
            }
        }
        if inode::encode_device(attributes.rdev).is_none() {
            return Err(TreeError::Device { device: attributes.rdev });
        }
        // Inodes number their rows from 1, in 32 bits.
        let number = u32::try_from(self.nodes.len()).ok().filter(|&number| number < u32::MAX - 1);
        let node = TreeNodeId(number.ok_or(TreeError::TooMany)?);
        self.nodes.push(TreeNode { attributes, usage: NodeUse::Listed, xattrs: Vec::new(), body });
        Ok(node)
    }

    fn choose(
        &self,
        path: &[u8],
        reason: &str,
        file_system: &str,
        others: &[MarkedDirectory],
    ) -> Result<MarkedDirectory, TreeError> {
        let refused = || TreeError::Place { path: path.to_vec() };
        let node = self.find(path).ok_or_else(refused)?;
        let nested = others.iter().any(|other| is_within(path, &other.path) || is_within(&other.path, path));
        if nested || self.node(node).attributes.kind != FileKind::Directory {
            return Err(refused());
        }
        Ok(MarkedDirectory {
            path: path.to_vec(),
            node,
            reason: reason.into(),
            file_system: file_system.into(),
        })
    }
}

/// Attributes of what is quell's own: the same in every image.
fn own_attributes(kind: FileKind) -> Attributes {
    let (permissions, nlink) = if kind == FileKind::Directory { (0o555, 2) } else { (0o444, 1) };
    Attributes {
        kind,
        permissions,
        uid: 0,
        gid: 0,
        size: 0,
        nlink,
        rdev: DeviceNumber::default(),
        mtime: Timestamp::default(),
        ctime: Timestamp::default(),
        inode: 0,
        device: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let mut tree = ImageTree::new(own_attributes(FileKind::Directory)).unwrap();
        let root = tree.root();
        let file = own_attributes(FileKind::Regular);
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert!(matches!(tree.add(root, name, file), Err(TreeError::Name { .. })), "{name:?}");
        }
        let longest = [b'x'; 255];
        assert!(tree.add(root, &longest, file).is_ok());
        assert!(matches!(tree.add(root, &longest, file), Err(TreeError::Known { .. })));
        assert!(matches!(tree.absent(root, &longest), Err(TreeError::Known { .. })));
        tree.absent(root, b"gone").unwrap();
        assert!(matches!(tree.add(root, b"gone", file), Err(TreeError::Known { .. })));
        assert!(matches!(tree.add(root, b".quell", file), Err(TreeError::Known { .. })));
    }

    #[test]
    fn roots_are_directories_beside_each_other() {
        let mut tree = ImageTree::new(own_attributes(FileKind::Directory)).unwrap();
        let a = tree.add(tree.root(), b"a", own_attributes(FileKind::Directory)).unwrap();
        tree.add(a, b"b", own_attributes(FileKind::Directory)).unwrap();
        tree.add(tree.root(), b"ab", own_attributes(FileKind::Directory)).unwrap();
        tree.add_root(b"/a/b", "because", "nfs4").unwrap();
        for path in ["/a", "/a/b", "/none", "relative"] {
            assert!(tree.add_root(path.as_bytes(), "", "").is_err(), "{path}");
        }
        tree.add_root(b"/ab", "because", "").unwrap();
    }
}
