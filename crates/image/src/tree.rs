//! The tree that the writer turns into an image, held in memory without any content of files.
//!
//! Built from the root downwards. A file's content is promised with [`Tree::hold`], in the order of first
//! access, and read when the image is written.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use thiserror::Error;

use crate::blocks::BlockSet;
use crate::erofs::{BLOCK, BLOCK_BYTES, blocks_for, chunk, xattr};
use crate::image::{ASKED_PATH, INDEX_PATH};
use crate::index::read::Totals;
use crate::model::{Attributes, Beyond, Coverage, Device, Kind, NamedValues, Timestamp, Use};
use crate::path::{components, is_name, is_within};

/// A node of a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// Where the content of a held file comes from when the image is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// These bytes, as many as the file's size says, also if only a part is held.
    Bytes(Vec<u8>),
    /// The file at this path, which must still be what the node's attributes say.
    File(PathBuf),
    /// What is held, one stretch after the other, from `offset` of the file at this path: usually another image.
    Part {
        /// The file.
        path: PathBuf,
        /// Where the content begins.
        offset: u64,
    },
}

/// What is to become an image.
#[derive(Debug)]
pub struct Tree {
    pub(crate) nodes: Vec<Node>,
    /// Held files in the order of their data.
    pub(crate) held: Vec<NodeId>,
    pub(crate) roots: Vec<Chosen>,
    pub(crate) live: Vec<Chosen>,
    pub(crate) command: Vec<Vec<u8>>,
    /// The node of `/.quell/asked`, if there is one.
    pub(crate) asked: Option<NodeId>,
    pub(crate) directory: Vec<u8>,
    pub(crate) beyond: Beyond,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) attributes: Attributes,
    pub(crate) usage: Use,
    /// Pairs of name and value, sorted by name.
    pub(crate) xattrs: NamedValues,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Directory(Directory),
    /// A regular file, and what the image holds of it.
    File(Option<Held>),
    Symlink(Vec<u8>),
    /// A device, pipe or socket.
    Special,
}

/// What is promised of a file's content.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) source: Source,
    /// The blocks that are held; `None` for all of them. Shape: neither empty nor all.
    pub(crate) part: Option<BlockSet>,
}

impl Held {
    /// Bytes that are held of a file of `size` bytes.
    pub(crate) fn bytes(&self, size: u64) -> u64 {
        self.part.as_ref().map_or(size, |part| part.bytes_of(size))
    }

    /// The stretches that are held of a file of `size` bytes, in its order.
    pub(crate) fn ranges(&self, size: u64) -> Vec<Range<u64>> {
        match &self.part {
            None => std::iter::once(0..size).collect(),
            Some(part) => {
                part.runs().map(|run| run.start * BLOCK_BYTES..(run.end * BLOCK_BYTES).min(size)).collect()
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) entries: BTreeMap<Box<[u8]>, NodeId>,
    pub(crate) coverage: Coverage,
    pub(crate) absences: BTreeSet<Box<[u8]>>,
}

/// A root or a live directory.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) path: Vec<u8>,
    pub(crate) node: NodeId,
    pub(crate) reason: String,
    pub(crate) file_system: String,
}

/// Why a tree cannot have what was given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A name that no directory entry has: empty, longer than 255 bytes, `.`, `..`, with a slash or a zero byte.
    #[error("`{}` is no name of a directory entry", .name.escape_ascii())]
    Name {
        /// The name.
        name: Vec<u8>,
    },
    /// A name given twice, or both given and absent.
    #[error("`{}` is already known in its directory", .name.escape_ascii())]
    Known {
        /// The name.
        name: Vec<u8>,
    },
    /// A directory was needed.
    #[error("node {} is not a directory", .node.0)]
    NotDirectory {
        /// The node that is something else.
        node: NodeId,
    },
    /// A kind of node that does not go with the call: content for what is not a regular file, a second name
    /// for a directory, a link without a target.
    #[error("node of kind {kind:?} does not fit here")]
    Kind {
        /// The kind that was given.
        kind: Kind,
    },
    /// A link target of no or more than 4095 bytes, or with a zero byte.
    #[error("a link target of {len} bytes cannot be expressed")]
    Target {
        /// Its length.
        len: usize,
    },
    /// A device number beyond what Linux has.
    #[error("device {}:{} cannot be expressed", .device.major, .device.minor)]
    Device {
        /// The number.
        device: Device,
    },
    /// Nanoseconds of a second or more.
    #[error("{} nanoseconds are no part of a second", .timestamp.nanoseconds)]
    Timestamp {
        /// The time.
        timestamp: Timestamp,
    },
    /// Extended attributes that EROFS has no room or no name space for; see
    /// [`is_expressible`](crate::is_expressible).
    #[error("extended attributes that EROFS cannot express")]
    Xattrs,
    /// Bytes of another length than the node's size.
    #[error("{found} bytes of content for a file of {expected} bytes")]
    Size {
        /// The node's size.
        expected: u64,
        /// Length of the bytes.
        found: u64,
    },
    /// A root or live directory that is not a directory of the tree, or lies in another of its sort.
    #[error("`{}` is no directory of the tree, or lies in or above another", .path.escape_ascii())]
    Place {
        /// The path.
        path: Vec<u8>,
    },
    /// More nodes than an image can number.
    #[error("more than 4294967294 nodes")]
    TooMany,
}

/// The node of `/.quell/index`.
pub(crate) const INDEX_NODE: NodeId = NodeId(2);

impl Tree {
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
        if root.kind != Kind::Directory {
            return Err(TreeError::Kind { kind: root.kind });
        }
        let root = tree.push(root, Body::directory())?;
        let directory = tree.add(root, INDEX_PATH[0], own_attributes(Kind::Directory))?;
        tree.add(directory, INDEX_PATH[1], own_attributes(Kind::Regular))?;
        Ok(tree)
    }

    /// The root directory.
    pub fn root(&self) -> NodeId {
        NodeId(0)
    }

    /// Number of nodes, with the root and the two that hold the index.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: there is always a root.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds anything but a symbolic link. A directory is [`Coverage::Uncovered`], a regular file not held, a node
    /// [`Use::Listed`] until told otherwise.
    pub fn add(&mut self, parent: NodeId, name: &[u8], attributes: Attributes) -> Result<NodeId, TreeError> {
        let body = match attributes.kind {
            Kind::Directory => Body::directory(),
            Kind::Regular => Body::File(None),
            Kind::Symlink => return Err(TreeError::Kind { kind: Kind::Symlink }),
            Kind::CharacterDevice | Kind::BlockDevice | Kind::Fifo | Kind::Socket => Body::Special,
        };
        self.insert(parent, name, attributes, body)
    }

    /// Adds a symbolic link. Its size is that of `target`.
    pub fn add_symlink(
        &mut self,
        parent: NodeId,
        name: &[u8],
        attributes: Attributes,
        target: &[u8],
    ) -> Result<NodeId, TreeError> {
        if attributes.kind != Kind::Symlink {
            return Err(TreeError::Kind { kind: attributes.kind });
        }
        if target.is_empty() || target.len() >= BLOCK || target.contains(&0) {
            return Err(TreeError::Target { len: target.len() });
        }
        let attributes = Attributes { size: target.len() as u64, ..attributes };
        self.insert(parent, name, attributes, Body::Symlink(target.to_vec()))
    }

    /// Gives `node` a further name. The attributes carry the number of links; it is not counted here.
    pub fn link(&mut self, parent: NodeId, name: &[u8], node: NodeId) -> Result<(), TreeError> {
        let kind = self.node(node).attributes.kind;
        if kind == Kind::Directory {
            return Err(TreeError::Kind { kind });
        }
        self.vacant(parent, name)?.entries.insert(name.into(), node);
        Ok(())
    }

    /// Says how much of a directory's names is known.
    pub fn cover(&mut self, directory: NodeId, coverage: Coverage) -> Result<(), TreeError> {
        self.directory(directory)?.coverage = coverage;
        Ok(())
    }

    /// Says that `name` is known not to be in `directory`. It counts while the directory is
    /// [`Coverage::Partial`].
    pub fn absent(&mut self, directory: NodeId, name: &[u8]) -> Result<(), TreeError> {
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
    pub fn touch(&mut self, node: NodeId) {
        self.node_mut(node).usage = Use::Touched;
    }

    /// Sets the extended attributes, pairs of name and value.
    pub fn set_xattrs(&mut self, node: NodeId, mut xattrs: NamedValues) -> Result<(), TreeError> {
        xattrs.sort();
        xattr::encode(&xattrs).ok_or(TreeError::Xattrs)?;
        self.node_mut(node).xattrs = xattrs;
        Ok(())
    }

    /// Promises the content of a regular file. Data is laid out in the order of these calls; a file that is held
    /// already keeps its place and source.
    pub fn hold(&mut self, file: NodeId, source: Source) -> Result<(), TreeError> {
        self.promise(file, Held { source, part: None })
    }

    /// Promises a part of the content: the blocks of `part`, in groups of some for files of more than 4 GiB. Nothing
    /// is promised if there is none within the file; all of it if there is no other.
    pub fn hold_part(&mut self, file: NodeId, source: Source, part: &BlockSet) -> Result<(), TreeError> {
        let size = self.node(file).attributes.size;
        let limit = blocks_for(size);
        let part = part.grouped(1 << chunk::bits_for_part(size), limit);
        match part.len() {
            0 => Ok(()),
            blocks if blocks == limit => self.hold(file, source),
            _ => self.promise(file, Held { source, part: Some(part) }),
        }
    }

    fn promise(&mut self, file: NodeId, content: Held) -> Result<(), TreeError> {
        let node = self.node_mut(file);
        let kind = node.attributes.kind;
        let Body::File(held) = &mut node.body else { return Err(TreeError::Kind { kind }) };
        if let Source::Bytes(bytes) = &content.source
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

    /// Stores what the recordings asked for, as the packer encodes it, in `/.quell/asked`.
    pub fn set_asked(&mut self, asked: Vec<u8>) -> Result<(), TreeError> {
        let directory = self.child(self.root(), ASKED_PATH[0]);
        let attributes = Attributes { size: asked.len() as u64, ..own_attributes(Kind::Regular) };
        let node = self.add(directory.unwrap_or(self.root()), ASKED_PATH[1], attributes)?;
        self.node_mut(node).body = Body::File(Some(Held { source: Source::Bytes(asked), part: None }));
        self.asked = Some(node);
        Ok(())
    }

    /// Sets where the recorded command was started: an absolute path.
    pub fn set_directory(&mut self, directory: &[u8]) {
        self.directory = directory.to_vec();
    }

    /// Says what a run may turn to beyond the image.
    pub fn set_beyond(&mut self, beyond: Beyond) {
        self.beyond = beyond;
    }

    /// Declares the directory at `path` a root, for a `reason` that a person reads.
    pub fn add_root(&mut self, path: &[u8], reason: &str, file_system: &str) -> Result<(), TreeError> {
        let chosen = self.choose(path, reason, file_system, &self.roots)?;
        self.roots.push(chosen);
        self.roots.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Declares the directory at `path`, below a root, one that must stay the original.
    pub fn add_live(&mut self, path: &[u8], reason: &str) -> Result<(), TreeError> {
        let chosen = self.choose(path, reason, "", &self.live)?;
        self.live.push(chosen);
        self.live.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// The node at an absolute path, links not followed.
    pub fn find(&self, path: &[u8]) -> Option<NodeId> {
        components(path.strip_prefix(b"/")?).try_fold(self.root(), |node, name| self.child(node, name))
    }

    /// The node that `name` means in `directory`.
    pub fn child(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        match &self.node(directory).body {
            Body::Directory(found) => found.entries.get(name).copied(),
            _ => None,
        }
    }

    /// What was given for `node`.
    pub fn attributes(&self, node: NodeId) -> &Attributes {
        &self.node(node).attributes
    }

    /// How much of a directory's names is known; `None` of anything else.
    pub fn coverage(&self, node: NodeId) -> Option<Coverage> {
        match &self.node(node).body {
            Body::Directory(directory) => Some(directory.coverage),
            _ => None,
        }
    }

    /// The names in a directory, sorted; none of anything else.
    pub fn names(&self, node: NodeId) -> impl Iterator<Item = &[u8]> {
        let directory = match &self.node(node).body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        };
        directory.into_iter().flat_map(|directory| directory.entries.keys().map(|name| &name[..]))
    }

    /// Totals of the image that it becomes.
    pub fn totals(&self) -> Totals {
        Totals {
            held_files: self.held.len() as u64,
            nodes: self.nodes.len() as u64,
            content_bytes: self.held.iter().filter_map(|&file| self.bytes_held_of(file)).sum(),
        }
    }

    /// Bytes of content that are promised of one file; `None` if nothing is.
    pub fn bytes_held_of(&self, file: NodeId) -> Option<u64> {
        match &self.node(file).body {
            Body::File(Some(held)) => Some(held.bytes(self.attributes(file).size)),
            _ => None,
        }
    }

    /// Bytes of the files of which content is promised, held or not.
    pub fn held_files_bytes(&self) -> u64 {
        self.held.iter().map(|&file| self.attributes(file).size).sum()
    }

    pub(crate) fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.0 as usize]
    }

    fn node_mut(&mut self, node: NodeId) -> &mut Node {
        &mut self.nodes[node.0 as usize]
    }

    fn directory(&mut self, node: NodeId) -> Result<&mut Directory, TreeError> {
        match &mut self.node_mut(node).body {
            Body::Directory(directory) => Ok(directory),
            _ => Err(TreeError::NotDirectory { node }),
        }
    }

    /// The directory `parent`, if it can take `name`.
    fn vacant(&mut self, parent: NodeId, name: &[u8]) -> Result<&mut Directory, TreeError> {
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
        parent: NodeId,
        name: &[u8],
        attributes: Attributes,
        body: Body,
    ) -> Result<NodeId, TreeError> {
        self.vacant(parent, name)?;
        let node = self.push(attributes, body)?;
        self.vacant(parent, name)?.entries.insert(name.into(), node);
        Ok(node)
    }

    fn push(&mut self, attributes: Attributes, body: Body) -> Result<NodeId, TreeError> {
        for timestamp in [attributes.mtime, attributes.ctime] {
            if timestamp.nanoseconds >= 1_000_000_000 {
                return Err(TreeError::Timestamp { timestamp });
            }
        }
        if crate::erofs::inode::encode_device(attributes.rdev).is_none() {
            return Err(TreeError::Device { device: attributes.rdev });
        }
        // Inodes number their rows from 1, in 32 bits.
        let number = u32::try_from(self.nodes.len()).ok().filter(|&number| number < u32::MAX - 1);
        let node = NodeId(number.ok_or(TreeError::TooMany)?);
        self.nodes.push(Node { attributes, usage: Use::Listed, xattrs: Vec::new(), body });
        Ok(node)
    }

    fn choose(
        &self,
        path: &[u8],
        reason: &str,
        file_system: &str,
        others: &[Chosen],
    ) -> Result<Chosen, TreeError> {
        let refused = || TreeError::Place { path: path.to_vec() };
        let node = self.find(path).ok_or_else(refused)?;
        let nested = others.iter().any(|other| is_within(path, &other.path) || is_within(&other.path, path));
        if nested || self.node(node).attributes.kind != Kind::Directory {
            return Err(refused());
        }
        Ok(Chosen { path: path.to_vec(), node, reason: reason.into(), file_system: file_system.into() })
    }
}

impl Body {
    fn directory() -> Self {
        Self::Directory(Directory {
            entries: BTreeMap::new(),
            coverage: Coverage::Uncovered,
            absences: BTreeSet::new(),
        })
    }
}

/// Attributes of what is quell's own: the same in every image.
fn own_attributes(kind: Kind) -> Attributes {
    let (permissions, nlink) = if kind == Kind::Directory { (0o555, 2) } else { (0o444, 1) };
    Attributes {
        kind,
        permissions,
        uid: 0,
        gid: 0,
        size: 0,
        nlink,
        rdev: Device::default(),
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
        let mut tree = Tree::new(own_attributes(Kind::Directory)).unwrap();
        let root = tree.root();
        let file = own_attributes(Kind::Regular);
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
        let mut tree = Tree::new(own_attributes(Kind::Directory)).unwrap();
        let a = tree.add(tree.root(), b"a", own_attributes(Kind::Directory)).unwrap();
        tree.add(a, b"b", own_attributes(Kind::Directory)).unwrap();
        tree.add(tree.root(), b"ab", own_attributes(Kind::Directory)).unwrap();
        tree.add_root(b"/a/b", "because", "nfs4").unwrap();
        for path in ["/a", "/a/b", "/none", "relative"] {
            assert!(tree.add_root(path.as_bytes(), "", "").is_err(), "{path}");
        }
        tree.add_root(b"/ab", "because", "").unwrap();
    }
}
