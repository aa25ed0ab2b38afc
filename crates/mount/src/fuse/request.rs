//! Requests of the kernel, parsed once, with every length checked.
//!
//! Source: `include/uapi/linux/fuse.h`. What we answer with a constant (`ENOSYS`, `ENOTTY`) keeps no body. A request
//! that is too short for its kind is [`Malformed`]: the kernel never sends one.

use super::abi::{IN_HEADER, NodeId, SetAttributes, Time, opcode};

/// Number that ties an answer to its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unique(pub(crate) u64);

/// The process that asks, as numbers of the mount's own user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Zero where the process cannot be seen from the process namespace of the mount.
    pub(crate) pid: u32,
}

/// Number of an open file or directory, as the answer to OPEN gave it. Zero: none was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileHandle(pub(crate) u64);

/// The owner of POSIX locks: the kernel's number for a process, or for an open file with locks of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LockOwner(pub(crate) u64);

/// One request.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) unique: Unique,
    /// The inode that it is about.
    pub(crate) node: NodeId,
    pub(crate) caller: Caller,
    pub(crate) operation: Operation<'a>,
}

/// The operation with its arguments. Names come without their zero byte and are never empty.
#[derive(Debug)]
pub(crate) enum Operation<'a> {
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
pub(crate) struct Lock {
    pub(crate) handle: FileHandle,
    pub(crate) owner: LockOwner,
    /// First byte.
    pub(crate) start: u64,
    /// Last byte; [`Lock::TO_THE_END`] for all that follow.
    pub(crate) end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub(crate) kind: u32,
    /// The process that asks, or that holds what is in the way.
    pub(crate) pid: u32,
    /// From flock(2): it belongs to the open file.
    pub(crate) whole_file: bool,
}

impl Lock {
    /// The largest `end`. Source: `OFFSET_MAX` of the kernel.
    pub(crate) const TO_THE_END: u64 = i64::MAX as u64;
}

/// Body of SETATTR.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetAttr {
    pub(crate) valid: SetAttributes,
    /// The open file by which it was asked for; counts with [`SetAttributes::HANDLE`].
    pub(crate) handle: FileHandle,
    pub(crate) size: u64,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Body of CREATE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Create<'a> {
    /// Of TMPFILE, which makes a file without a name, this means nothing.
    pub(crate) name: &'a [u8],
    /// The flags of the open call.
    pub(crate) flags: u32,
    /// Type and permissions, umask not applied.
    pub(crate) mode: u32,
    pub(crate) umask: u32,
}

/// Body of SETXATTR.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetXattr<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// `XATTR_CREATE`, `XATTR_REPLACE`.
    pub(crate) flags: u32,
}

/// Body of READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) handle: FileHandle,
    pub(crate) offset: u64,
    pub(crate) size: u32,
    /// The file is open with `O_DIRECT`: the kernel's cache is not involved.
    pub(crate) direct: bool,
}

impl Read {
    /// The bytes that are asked for.
    pub(crate) fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset.saturating_add(self.size.into())
    }
}

/// Body of WRITE.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) handle: FileHandle,
    pub(crate) offset: u64,
    /// `FUSE_WRITE_*`.
    pub(crate) write_flags: u32,
    /// The flags that the file was opened with, `O_APPEND` among them.
    pub(crate) open_flags: u32,
    pub(crate) data: &'a [u8],
}

/// Body of BATCH_FORGET.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForgetList<'a>(&'a [u8]);

impl ForgetList<'_> {
    /// Each inode with the number of lookups that are taken back.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.0.chunks_exact(16).filter_map(|one| {
            let mut fields = Fields(one);
            Some((NodeId(fields.u64().ok()?), fields.u64().ok()?))
        })
    }
}

/// A request that is shorter than its kind: only a program that is not the kernel sends one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// To answer it with an error, if as much as its number could be read.
    pub(crate) unique: Option<Unique>,
}

impl<'a> Request<'a> {
    /// Parses the bytes of one read from `/dev/fuse`.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let unreadable = Malformed { unique: None };
        let mut header = Fields(bytes);
        let length = header.u32().map_err(|_| unreadable)?;
        let code = header.u32().map_err(|_| unreadable)?;
        let unique = Unique(header.u64().map_err(|_| unreadable)?);
        let malformed = Malformed { unique: Some(unique) };
        let parse = || -> Result<Self, Short> {
            let node = NodeId(header.u64()?);
            let caller = Caller { uid: header.u32()?, gid: header.u32()?, pid: header.u32()? };
            let body = bytes.get(IN_HEADER..length as usize).ok_or(Short)?;
            Ok(Self { unique, node, caller, operation: Operation::parse(code, Fields(body))? })
        };
        let mut parse = parse;
        parse().map_err(|Short| malformed)
    }
}

impl<'a> Operation<'a> {
    fn parse(code: u32, mut body: Fields<'a>) -> Result<Self, Short> {
        Ok(match code {
            opcode::LOOKUP => Self::Lookup { name: body.name()? },
            opcode::GETATTR => get_attributes(body)?,
            opcode::OPEN => Self::Open { flags: body.u32()?, directory: false },
            opcode::OPENDIR => Self::Open { flags: body.u32()?, directory: true },
            opcode::RELEASE | opcode::RELEASEDIR => release(body)?,
            opcode::FLUSH => flush(body)?,
            opcode::READ => read(body)?,
            opcode::READDIR => list(body, false)?,
            opcode::READDIRPLUS => list(body, true)?,
            opcode::READLINK => Self::ReadLink,
            opcode::IOCTL => Self::Ioctl,
            opcode::FORGET => Self::ForgetOne { lookups: body.u64()? },
            opcode::BATCH_FORGET => batch_forget(body)?,
            opcode::INIT => init(body)?,
            opcode::STATFS => Self::FileSystem,
            opcode::GETXATTR => get_xattr(body)?,
            opcode::LISTXATTR => Self::ListXattr { size: body.u32()? },
            opcode::GETLK => Self::GetLock { lock: lock(body)? },
            opcode::SETLK => Self::Lock { lock: lock(body)?, waits: false },
            opcode::SETLKW => Self::Lock { lock: lock(body)?, waits: true },
            opcode::INTERRUPT => Self::Interrupt { unique: Unique(body.u64()?) },
            opcode::DESTROY => Self::Destroy,
            _ => return Self::parse_change(code, body),
        })
    }

    /// The operations that change something.
    fn parse_change(code: u32, mut body: Fields<'a>) -> Result<Self, Short> {
        Ok(match code {
            opcode::WRITE => write(body)?,
            opcode::SETATTR => set_attributes(body)?,
            opcode::CREATE => Self::Create(create(body)?),
            opcode::TMPFILE => Self::MakeUnnamed(create(body)?),
            opcode::MKNOD => make_node(body)?,
            opcode::MKDIR => make_directory(body)?,
            opcode::SYMLINK => Self::Symlink { name: body.name()?, target: body.name()? },
            opcode::UNLINK => Self::Unlink { name: body.name()? },
            opcode::RMDIR => Self::RemoveDirectory { name: body.name()? },
            opcode::RENAME => rename(body, false)?,
            opcode::RENAME2 => rename(body, true)?,
            opcode::LINK => Self::Link { old: NodeId(body.u64()?), name: body.name()? },
            opcode::FSYNC | opcode::FSYNCDIR => synchronise(body)?,
            opcode::FALLOCATE => allocate(body)?,
            opcode::SETXATTR => set_xattr(body)?,
            opcode::REMOVEXATTR => Self::RemoveXattr { name: body.name()? },
            _ => Self::Other,
        })
    }
}

fn init<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let (major, minor, max_readahead, flags) = (body.u32()?, body.u32()?, body.u32()?, body.u32()?);
    // Kernels before 7.36 send nothing more.
    let flags2 = body.u32().unwrap_or(0);
    Ok(Operation::Init { major, minor, max_readahead, flags, flags2 })
}

fn batch_forget<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let count = body.u32()? as usize;
    body.u32()?;
    let bytes = count.checked_mul(16).ok_or(Short)?;
    Ok(Operation::BatchForget { nodes: ForgetList(body.take(bytes)?) })
}

/// `FUSE_GETATTR_FH`.
const GETATTR_HANDLE: u32 = 1 << 0;

fn get_attributes<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let flags = body.u32()?;
    body.u32()?;
    let handle = body.handle()?;
    Ok(Operation::GetAttributes { handle: (flags & GETATTR_HANDLE != 0).then_some(handle) })
}

/// `FUSE_RELEASE_FLOCK_UNLOCK`.
const RELEASE_LOCKS: u32 = 1 << 1;

fn release<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let handle = body.handle()?;
    body.u32()?;
    let locks = body.u32()? & RELEASE_LOCKS != 0;
    let owner = LockOwner(body.u64()?);
    Ok(Operation::Release { handle, owner: locks.then_some(owner) })
}

fn flush<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let handle = body.handle()?;
    body.u64()?;
    Ok(Operation::Flush { handle, owner: LockOwner(body.u64()?) })
}

fn read<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let handle = body.handle()?;
    let (offset, size) = (body.u64()?, body.u32()?);
    // struct fuse_read_in: then flags of the request, owner of a lock, flags of the open call.
    body.take(12)?;
    let direct = body.u32()? & libc::O_DIRECT.cast_unsigned() != 0;
    Ok(Operation::Read(Read { handle, offset, size, direct }))
}

fn list<'a>(mut body: Fields<'a>, plus: bool) -> Result<Operation<'a>, Short> {
    let handle = body.handle()?;
    Ok(Operation::ListDirectory { handle, offset: body.u64()?, size: body.u32()?, plus })
}

fn get_xattr<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let size = body.u32()?;
    body.u32()?;
    Ok(Operation::GetXattr { size, name: body.name()? })
}

/// `FUSE_LK_FLOCK`.
const LOCK_OF_WHOLE_FILE: u32 = 1 << 0;

fn lock(mut body: Fields<'_>) -> Result<Lock, Short> {
    let (handle, owner) = (body.handle()?, LockOwner(body.u64()?));
    let (start, end, kind, pid) = (body.u64()?, body.u64()?, body.u32()?, body.u32()?);
    let whole_file = body.u32()? & LOCK_OF_WHOLE_FILE != 0;
    Ok(Lock { handle, owner, start, end, kind, pid, whole_file })
}

fn write<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let handle = body.handle()?;
    let (offset, size, write_flags) = (body.u64()?, body.u32()?, body.u32()?);
    body.u64()?;
    let open_flags = body.u32()?;
    body.u32()?;
    let data = body.take(size as usize)?;
    Ok(Operation::Write(Write { handle, offset, write_flags, open_flags, data }))
}

fn set_attributes<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let valid = SetAttributes::from_bits_retain(body.u32()?);
    body.u32()?;
    let handle = body.handle()?;
    let size = body.u64()?;
    body.u64()?;
    let (atime, mtime, _ctime) = (body.u64()?, body.u64()?, body.u64()?);
    let (atime_nanos, mtime_nanos, _ctime_nanos) = (body.u32()?, body.u32()?, body.u32()?);
    let mode = body.u32()?;
    body.u32()?;
    let (uid, gid) = (body.u32()?, body.u32()?);
    Ok(Operation::SetAttributes(SetAttr {
        valid,
        handle,
        size,
        atime: Time { seconds: atime.cast_signed(), nanoseconds: atime_nanos },
        mtime: Time { seconds: mtime.cast_signed(), nanoseconds: mtime_nanos },
        mode,
        uid,
        gid,
    }))
}

fn create<'a>(mut body: Fields<'a>) -> Result<Create<'a>, Short> {
    let (flags, mode, umask) = (body.u32()?, body.u32()?, body.u32()?);
    body.u32()?;
    Ok(Create { flags, mode, umask, name: body.name()? })
}

fn make_node<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let (mode, device, umask) = (body.u32()?, body.u32()?, body.u32()?);
    body.u32()?;
    Ok(Operation::MakeNode { mode, umask, device, name: body.name()? })
}

fn make_directory<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let (mode, umask) = (body.u32()?, body.u32()?);
    Ok(Operation::MakeDirectory { mode, umask, name: body.name()? })
}

fn set_xattr<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let (size, flags) = (body.u32()?, body.u32()?);
    Ok(Operation::SetXattr(SetXattr { flags, name: body.name()?, value: body.take(size as usize)? }))
}

fn rename<'a>(mut body: Fields<'a>, flagged: bool) -> Result<Operation<'a>, Short> {
    let new_parent = NodeId(body.u64()?);
    let flags = if flagged { body.u32()? } else { 0 };
    if flagged {
        body.u32()?;
    }
    Ok(Operation::Rename { new_parent, flags, name: body.name()?, new_name: body.name()? })
}

fn synchronise<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let handle = body.handle()?;
    Ok(Operation::Synchronise { handle, data_only: body.u32()? & 1 != 0 })
}

fn allocate<'a>(mut body: Fields<'a>) -> Result<Operation<'a>, Short> {
    let handle = body.handle()?;
    Ok(Operation::Allocate { handle, offset: body.u64()?, length: body.u64()?, mode: body.u32()? })
}

/// The rest of a request that has not been parsed yet.
#[derive(Debug, Clone, Copy)]
struct Fields<'a>(&'a [u8]);

/// The request ended too early.
#[derive(Debug)]
struct Short;

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Short> {
        let (field, rest) = self.0.split_at_checked(bytes).ok_or(Short)?;
        self.0 = rest;
        Ok(field)
    }

    fn u32(&mut self) -> Result<u32, Short> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Short)?;
        self.0 = rest;
        Ok(u32::from_ne_bytes(*field))
    }

    fn u64(&mut self) -> Result<u64, Short> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Short)?;
        self.0 = rest;
        Ok(u64::from_ne_bytes(*field))
    }

    fn handle(&mut self) -> Result<FileHandle, Short> {
        Ok(FileHandle(self.u64()?))
    }

    /// The bytes up to the next zero byte, which is left behind too.
    fn name(&mut self) -> Result<&'a [u8], Short> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Short)?;
        let name = self.take(end)?;
        self.take(1)?;
        if name.is_empty() { Err(Short) } else { Ok(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(code: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let length = u32::try_from(IN_HEADER + body.len()).unwrap();
        bytes.extend_from_slice(&length.to_ne_bytes());
        bytes.extend_from_slice(&code.to_ne_bytes());
        bytes.extend_from_slice(&9_u64.to_ne_bytes());
        bytes.extend_from_slice(&5_u64.to_ne_bytes());
        bytes.extend_from_slice(&[0; 16]);
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn a_lookup_has_its_name() {
        let bytes = request(opcode::LOOKUP, b"numpy\0");
        let parsed = Request::parse(&bytes).unwrap();
        assert_eq!((parsed.unique, parsed.node), (Unique(9), NodeId(5)));
        assert!(matches!(parsed.operation, Operation::Lookup { name: b"numpy" }));
    }

    #[test]
    fn a_rename_has_both_names_and_its_flags() {
        let mut body = 77_u64.to_ne_bytes().to_vec();
        body.extend_from_slice(&1_u32.to_ne_bytes());
        body.extend_from_slice(&0_u32.to_ne_bytes());
        body.extend_from_slice(b"old\0new\0");
        let bytes = request(opcode::RENAME2, &body);
        let Operation::Rename { name, new_parent, new_name, flags } =
            Request::parse(&bytes).unwrap().operation
        else {
            panic!("not a rename");
        };
        assert_eq!((name, new_parent, new_name, flags), (&b"old"[..], NodeId(77), &b"new"[..], 1));
    }

    #[test]
    fn short_requests_are_refused_at_every_length() {
        let whole = request(opcode::WRITE, &[0; 40]);
        for length in 0..whole.len() {
            assert!(Request::parse(&whole[..length]).is_err(), "{length} bytes were accepted");
        }
        assert!(Request::parse(&whole).is_ok());
    }

    #[test]
    fn a_length_beyond_the_bytes_is_refused() {
        let mut bytes = request(opcode::LOOKUP, b"a\0");
        bytes[..4].copy_from_slice(&1_000_u32.to_ne_bytes());
        assert!(Request::parse(&bytes).is_err());
        let mut forget = request(opcode::BATCH_FORGET, &[0xff; 16]);
        forget.truncate(IN_HEADER + 16);
        assert!(Request::parse(&forget).is_err());
    }
}
