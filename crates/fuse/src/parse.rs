//! Parses the bytes of a request. Source: `include/uapi/linux/fuse.h` of the Linux kernel.

use crate::abi::{IN_HEADER, NodeId, SetAttributes, Time, opcode};
use crate::request::{
    Caller, Create, FileHandle, ForgetList, Lock, LockOwner, Malformed, Operation, Read, Request, SetAttr,
    SetXattr, Unique, Write,
};

impl<'a> Request<'a> {
    /// Parses the bytes of one read from `/dev/fuse`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
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
            opcode::ACCESS => Self::Access { mask: body.u32()? },
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

impl ForgetList<'_> {
    /// Each inode with the number of lookups that are taken back.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        self.0.chunks_exact(16).filter_map(|one| {
            let mut fields = Fields(one);
            Some((NodeId(fields.u64().ok()?), fields.u64().ok()?))
        })
    }
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
