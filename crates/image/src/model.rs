//! The words that the tree, the writer and the reader share: node numbers, kinds, times, coverage.

use std::fmt;

/// Number of a node in an image: the byte offset of its inode divided by 32. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nid(u64);

impl Nid {
    /// Takes a number that came from outside, for example from a FUSE request. The reader checks it.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, to hand to the outside.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Nid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The type of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A symbolic link.
    Symlink,
}

impl FileKind {
    /// The kind that the type bits of a `st_mode` say.
    pub fn from_mode(mode: u32) -> Option<Self> {
        ALL_KINDS.into_iter().find(|kind| u32::from(kind.mode_bits()) == mode & 0o170_000)
    }

    /// The type bits of `st_mode` (`S_IFREG` and the like).
    pub fn mode_bits(self) -> u16 {
        match self {
            Self::Regular => 0o100_000,
            Self::Directory => 0o040_000,
            Self::CharacterDevice => 0o020_000,
            Self::BlockDevice => 0o060_000,
            Self::Fifo => 0o010_000,
            Self::Socket => 0o140_000,
            Self::Symlink => 0o120_000,
        }
    }

    /// The type as directory entries of EROFS carry it (`EROFS_FT_*`, the kernel's `FT_*`).
    pub(crate) fn dirent_type(self) -> u8 {
        match self {
            Self::Regular => 1,
            Self::Directory => 2,
            Self::CharacterDevice => 3,
            Self::BlockDevice => 4,
            Self::Fifo => 5,
            Self::Socket => 6,
            Self::Symlink => 7,
        }
    }

    pub(crate) fn from_dirent_type(code: u8) -> Option<Self> {
        ALL_KINDS.into_iter().find(|kind| kind.dirent_type() == code)
    }
}

/// Every kind, in the order of their types in directory entries.
const ALL_KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::CharacterDevice,
    FileKind::BlockDevice,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::Symlink,
];

/// A point in time as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since the epoch, negative before it.
    pub seconds: i64,
    /// **Range** below 1 000 000 000.
    pub nanoseconds: u32,
}

/// The number of a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DeviceNumber {
    /// **Range** below 2^12, as in Linux.
    pub major: u32,
    /// **Range** below 2^20, as in Linux.
    pub minor: u32,
}

/// Extended attributes: pairs of whole name and value.
pub type NamedValues = Vec<(Vec<u8>, Vec<u8>)>;

/// Knowledge of a directory's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coverage {
    /// Every name: one that is not listed is absent.
    Complete,
    /// Some names, and some absences: any other name is unknown.
    Partial,
    /// Nothing but what leads to covered directories: any other name is unknown.
    Uncovered,
}

/// The source of answers that an image does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Beyond {
    /// The originals.
    #[default]
    Originals,
    /// Nothing: the image is complete. A name that it does not have is absent, content that it does not hold cannot be
    /// read, and the originals need not exist.
    Nothing,
}

/// The reason for a node to be in the image, which decides whether a staleness check compares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeUse {
    /// The recording asked for it by name.
    Touched,
    /// It only appears in the listing of a covered directory.
    Listed,
}

/// The result of `stat` for a node: the original's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The type of the node.
    pub kind: FileKind,
    /// The twelve permission bits, with set-user-ID, set-group-ID and sticky.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes, as the original's `st_size`, also of directories.
    pub size: u64,
    /// Number of hard links of the original, which may have names outside the image.
    pub nlink: u32,
    /// Device number; zero but for device nodes.
    pub rdev: DeviceNumber,
    /// Last modification.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// The original's `st_ino`.
    pub inode: u64,
    /// The original's `st_dev`, as the packing node saw it.
    pub device: u64,
}

impl Attributes {
    /// `st_mode`: type and permissions.
    pub fn mode(&self) -> u32 {
        u32::from(self.kind.mode_bits() | self.permissions)
    }
}
