//! Operations that a container records.

use serde::{Deserialize, Serialize};

/// The number of the directory that is gathered.
pub const TOP: u64 = 1;

/// Bytes of a piece of a file. Part of the format.
pub const PIECE: u64 = 64 << 10;

/// The longest name of a file. Source: `NAME_MAX`.
const NAME_MAX: usize = 255;

/// The record behind a header: the length of its data, and their meaning.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) data: u64,
    pub(crate) ops: Vec<Op>,
}

/// One change of what a container holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// The origin of the container: the first op.
    Begin(Begin),
    /// An inode is new, or has other attributes. The content of a file behind its size is forgotten.
    Inode {
        /// Its number.
        id: u64,
        /// Its type and attributes.
        node: Node,
    },
    /// A name leads to an inode, whatever it led to before.
    Name {
        /// The number of the directory.
        directory: u64,
        /// The name in it.
        name: Vec<u8>,
        /// The number of the inode.
        id: u64,
    },
    /// A name is gone.
    Remove {
        /// The number of the directory.
        directory: u64,
        /// The name in it.
        name: Vec<u8>,
        /// Something of that name lies in the real directory, or in a container that was there before, and is hidden.
        hides: bool,
    },
    /// Content of a file.
    Data {
        /// The number of the inode.
        id: u64,
        /// Its pieces, by their number in the file.
        pieces: Vec<(u64, Piece)>,
    },
    /// All ops up to here count.
    Commit,
    /// More content behind the end of pieces that the file has.
    Growth {
        /// The number of the inode.
        id: u64,
        /// The content behind each piece, by the piece's number in the file.
        pieces: Vec<(u64, Piece)>,
    },
}

impl Op {
    /// The content that the op names.
    pub fn pieces(&self) -> &[(u64, Piece)] {
        match self {
            Self::Data { pieces, .. } | Self::Growth { pieces, .. } => pieces,
            _ => &[],
        }
    }

    /// The same, to be changed.
    pub fn pieces_mut(&mut self) -> &mut [(u64, Piece)] {
        match self {
            Self::Data { pieces, .. } | Self::Growth { pieces, .. } => pieces,
            _ => &mut [],
        }
    }
}

/// The origin of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// A random number, by which other containers know this one.
    pub number: [u8; 16],
    /// The node.
    pub host: String,
    /// Job and step.
    pub job: String,
    /// The numbers of the containers that this one's programs saw, with the length of what they saw. One that has grown since is
    /// another node's of the same time.
    pub seen: Vec<([u8; 16], u64)>,
}

/// Content that lies in the container. **Range** at least one byte, at most [`PIECE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// In a member: from the beginning of its data. In the index: from the beginning of the container. Unit: bytes.
    pub place: u64,
    /// Unit: bytes.
    pub length: u32,
    /// crc32c.
    pub sum: u32,
}

/// An inode without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its type.
    pub kind: NodeKind,
    /// Permissions, without the type.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The length of a file. Unit: bytes.
    pub size: u64,
    /// The time of its last change.
    pub mtime: Time,
    /// The time at which it was last read.
    pub atime: Time,
    /// Extended attributes, by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Types of inodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory {
        /// Its beginning.
        origin: DirectoryOrigin,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        target: Vec<u8>,
    },
    /// A named pipe.
    Fifo,
}

/// The beginning of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryOrigin {
    /// It lies in the real directory, or in a container that was there before, and serves to reach what is below it.
    There,
    /// Programs made it.
    New,
    /// Programs made it in place of one that was there, of which nothing is left.
    Replacing,
    /// It was there, and programs gave it other attributes.
    Changed,
}

/// A time since the epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time {
    /// Seconds.
    pub seconds: i64,
    /// Nanoseconds besides.
    pub nanoseconds: u32,
}

/// True for a name that a directory can have: it leads nowhere else.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let leads_elsewhere = matches!(name, b"" | b"." | b"..");
    !leads_elsewhere && name.len() <= NAME_MAX && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}
