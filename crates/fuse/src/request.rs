//! Requests of the kernel, parsed once, with every length checked.
//!
//! Source: `include/uapi/linux/fuse.h`. Operations that are answered with a constant (`ENOSYS`, `ENOTTY`) keeps no body. A request
//! that is too short for its kind is [`Malformed`]: the kernel never sends one.

use crate::abi::{NodeId, SetAttributes, Time};

/// Number that ties an answer to its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unique(pub u64);

/// The process that asks, as numbers of the mount's own user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// Zero where the process cannot be seen from the process namespace of the mount.
    pub pid: u32,
}

/// Number of an open file or directory, as the answer to OPEN gave it. Zero: none was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle(pub u64);

/// The owner of POSIX locks: the kernel's number for a process, or for an open file with locks of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockOwner(pub u64);

/// One request.
#[derive(Debug)]
pub struct Request<'a> {
    pub unique: Unique,
    /// The inode that it is about.
    pub node: NodeId,
    pub caller: Caller,
    pub operation: Operation<'a>,
}

/// The operation with its arguments. Names come without their zero byte and are never empty.
#[derive(Debug)]
pub enum Operation<'a> {
    Init {
        major: u32,
        minor: u32,
        max_readahead: u32,
        flags: u32,
        flags2: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    BatchForget {
        nodes: ForgetList<'a>,
    },
    ForgetOne {
        lookups: u64,
    },
    GetAttributes {
        /// The open file that is asked about, if it is one.
        handle: Option<FileHandle>,
    },
    SetAttributes(SetAttr),
    /// OPEN and OPENDIR.
    Open {
        /// The flags of the open call, without those that make a file.
        flags: u32,
        directory: bool,
    },
    /// RELEASE and RELEASEDIR: the last descriptor of an open file is gone.
    Release {
        handle: FileHandle,
        /// The owner of locks of flock(2) that end with it, if there may be any.
        owner: Option<LockOwner>,
    },
    /// A descriptor of an open file was closed.
    Flush {
        handle: FileHandle,
        owner: LockOwner,
    },
    ReadLink,
    /// A check of permissions, for a mount without `default_permissions` alone.
    Access {
        /// `R_OK`, `W_OK` and `X_OK` of access(2).
        mask: u32,
    },
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Create(Create<'a>),
    /// TMPFILE.
    MakeUnnamed(Create<'a>),
    MakeNode {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        device: u32,
    },
    MakeDirectory {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    RemoveDirectory {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        new_parent: NodeId,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        old: NodeId,
        name: &'a [u8],
    },
    Read(Read),
    Write(Write<'a>),
    /// FSYNC and FSYNCDIR.
    Synchronise {
        handle: FileHandle,
        data_only: bool,
    },
    Allocate {
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: u32,
    },
    ListDirectory {
        handle: FileHandle,
        offset: u64,
        size: u32,
        plus: bool,
    },
    FileSystem,
    GetXattr {
        name: &'a [u8],
        size: u32,
    },
    ListXattr {
        size: u32,
    },
    SetXattr(SetXattr<'a>),
    RemoveXattr {
        name: &'a [u8],
    },
    /// SETLK and SETLKW.
    Lock {
        lock: Lock,
        /// The program waits until the lock is free.
        waits: bool,
    },
    GetLock {
        lock: Lock,
    },
    Ioctl,
    /// A signal reached the program that waits for request `unique`.
    Interrupt {
        unique: Unique,
    },
    Destroy,
    /// Anything that is answered with `ENOSYS`: the kernel then does without, for the life of the mount.
    Other,
}

/// Body of SETLK, SETLKW and GETLK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    pub handle: FileHandle,
    pub owner: LockOwner,
    /// First byte.
    pub start: u64,
    /// Last byte; [`Lock::TO_THE_END`] for all that follow.
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: u32,
    /// The process that asks, or that holds the conflicting lock.
    pub pid: u32,
    /// From flock(2): it belongs to the open file.
    pub whole_file: bool,
}

impl Lock {
    /// The largest `end`. Source: `OFFSET_MAX` of the kernel.
    pub const TO_THE_END: u64 = i64::MAX as u64;
}

/// Body of SETATTR.
#[derive(Debug, Clone, Copy)]
pub struct SetAttr {
    pub valid: SetAttributes,
    /// The open file by which it was asked for; counts with [`SetAttributes::HANDLE`].
    pub handle: FileHandle,
    pub size: u64,
    pub atime: Time,
    pub mtime: Time,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// Body of CREATE.
#[derive(Debug, Clone, Copy)]
pub struct Create<'a> {
    /// Of TMPFILE, which makes a file without a name, this means nothing.
    pub name: &'a [u8],
    /// The flags of the open call.
    pub flags: u32,
    /// Type and permissions, umask not applied.
    pub mode: u32,
    pub umask: u32,
}

/// Body of SETXATTR.
#[derive(Debug, Clone, Copy)]
pub struct SetXattr<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// `XATTR_CREATE`, `XATTR_REPLACE`.
    pub flags: u32,
}

/// Body of READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    pub handle: FileHandle,
    pub offset: u64,
    pub size: u32,
    /// The file is open with `O_DIRECT`: the kernel's cache is not involved.
    pub direct: bool,
}

impl Read {
    /// The bytes that are asked for.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset.saturating_add(self.size.into())
    }
}

/// Body of WRITE.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    pub handle: FileHandle,
    pub offset: u64,
    /// `FUSE_WRITE_*`.
    pub write_flags: u32,
    /// The flags that the file was opened with, `O_APPEND` among them.
    pub open_flags: u32,
    pub data: &'a [u8],
}

/// Body of BATCH_FORGET.
#[derive(Debug, Clone, Copy)]
pub struct ForgetList<'a>(pub(crate) &'a [u8]);

/// A request that is shorter than its kind: only a program that is not the kernel sends one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// To answer it with an error, if as much as its number could be read.
    pub unique: Option<Unique>,
}
