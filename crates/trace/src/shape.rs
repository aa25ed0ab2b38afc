//! The meaning of each call's arguments: paths, descriptors, flags, sizes, offsets. Source: section 2 of the man pages.
//!
//! The recorder uses the table to read registers, the importer to read the text of a log.

use crate::Call;

/// The location of a call's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagsKind {
    /// The call has none.
    None,
    /// In this argument.
    Argument(u8),
    /// In two arguments: the `AT_` flags and an access mode, whose bits never overlap.
    Both(u8, u8),
    /// Protection (stored in the high half) and flags of `mmap`.
    Mapping(u8, u8),
    /// `open` flags, whose values differ between architectures.
    Open(u8),
    /// The `open` flags and, in the high half, the `resolve` flags of the `struct open_how` that this argument points to.
    OpenHow(u8),
    /// `creat`, which is `open` with fixed flags.
    Creat,
}

/// The location of the number of bytes that a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeKind {
    /// The call has none.
    None,
    /// In this argument.
    Argument(u8),
    /// The sum of an array of `struct iovec`: its address and its length.
    Vectors(u8, u8),
}

/// The argument index of each event field. Range of every index: 0 to 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallShape {
    /// The descriptor: [`crate::Event::fd`].
    pub fd: Option<u8>,
    /// The second descriptor.
    pub fd2: Option<u8>,
    /// The path as given.
    pub path: Option<u8>,
    /// The second path.
    pub path2: Option<u8>,
    /// Flags or command.
    pub flags: FlagsKind,
    /// Bytes asked for.
    pub size: SizeKind,
    /// Offset in the file.
    pub offset: Option<u8>,
}

/// A call without relevant arguments.
const PLAIN: CallShape = CallShape {
    fd: None,
    fd2: None,
    path: None,
    path2: None,
    flags: FlagsKind::None,
    size: SizeKind::None,
    offset: None,
};
/// A descriptor first.
const FD: CallShape = PLAIN.fd(0);
/// A path first.
const PATH: CallShape = PLAIN.path(0);
/// A directory's descriptor, then a path.
const AT: CallShape = PLAIN.fd(0).path(1);
/// A path, then another.
const TWO_PATHS: CallShape = PATH.path2(1);
/// Descriptor and path, then descriptor and path.
const TWO_AT: CallShape = AT.fd2(2).path2(3);
/// Descriptor, buffer, size.
const DATA: CallShape = FD.size(2);
/// Descriptor, vectors, their number.
const VECTORS: CallShape = CallShape { size: SizeKind::Vectors(1, 2), ..FD };

impl CallShape {
    const fn fd(self, index: u8) -> Self {
        Self { fd: Some(index), ..self }
    }

    const fn fd2(self, index: u8) -> Self {
        Self { fd2: Some(index), ..self }
    }

    const fn path(self, index: u8) -> Self {
        Self { path: Some(index), ..self }
    }

    const fn path2(self, index: u8) -> Self {
        Self { path2: Some(index), ..self }
    }

    const fn flags(self, index: u8) -> Self {
        Self { flags: FlagsKind::Argument(index), ..self }
    }

    const fn flags_of(self, flags: FlagsKind) -> Self {
        Self { flags, ..self }
    }

    const fn size(self, index: u8) -> Self {
        Self { size: SizeKind::Argument(index), ..self }
    }

    const fn offset(self, index: u8) -> Self {
        Self { offset: Some(index), ..self }
    }

    /// The meaning of a call's arguments.
    pub const fn of(call: Call) -> Self {
        use Call::*;
        match call {
            Open => PATH.flags_of(FlagsKind::Open(1)),
            Openat => AT.flags_of(FlagsKind::Open(2)),
            Openat2 => AT.flags_of(FlagsKind::OpenHow(2)),
            Creat => PATH.flags_of(FlagsKind::Creat),
            OpenByHandleAt => FD.flags_of(FlagsKind::Open(2)),
            Stat | Lstat | Statfs => PATH,
            Fstat | Fstatfs => FD,
            Newfstatat => AT.flags(3),
            Statx => AT.flags(2),
            NameToHandleAt => AT.flags(4),
            Access => PATH.flags(1),
            Faccessat => AT.flags(2),
            Faccessat2 => AT.flags_of(FlagsKind::Both(3, 2)),
            Readlink => PATH.size(2),
            Readlinkat => AT.size(3),
            Getdents | Getdents64 => DATA,
            Getxattr | Lgetxattr => PATH.size(3),
            Fgetxattr => FD.size(3),
            Listxattr | Llistxattr => PATH.size(2),
            Flistxattr => FD.size(2),
            Setxattr | Lsetxattr => PATH.size(3).flags(4),
            Fsetxattr => FD.size(3).flags(4),
            Removexattr | Lremovexattr => PATH,
            Fremovexattr => FD,
            // The first argument of `symlink` is the link's content, the second its name.
            Rename | Link | Symlink | PivotRoot => TWO_PATHS,
            Renameat => TWO_AT,
            Renameat2 | Linkat | MoveMount => TWO_AT.flags(4),
            Symlinkat => PLAIN.path(0).fd2(1).path2(2),
            Unlink | Mkdir | Rmdir | Mknod | Chmod | Chown | Lchown | Utime | Utimes => PATH,
            Unlinkat => AT.flags(2),
            Mkdirat | Mknodat | Fchmodat | Futimesat => AT,
            Fchmod | Fchown => FD,
            Fchmodat2 | Utimensat => AT.flags(3),
            Fchownat => AT.flags(4),
            Truncate => PATH.size(1),
            Ftruncate => FD.size(1),
            Fallocate => FD.flags(1).offset(2).size(3),
            Execve | Chdir | Chroot => PATH,
            Execveat => AT.flags(4),
            Fchdir => FD,
            Getcwd => PLAIN.size(1),
            Read | Write => DATA,
            Readv | Writev => VECTORS,
            Pread64 | Pwrite64 => DATA.offset(3),
            Preadv | Pwritev => VECTORS.offset(3),
            Preadv2 | Pwritev2 => VECTORS.offset(3).flags(5),
            Readahead => FD.offset(1).size(2),
            Sendfile => FD.fd2(1).size(3),
            CopyFileRange | Splice => FD.fd2(2).size(4).flags(5),
            Tee => FD.fd2(1).size(2).flags(3),
            Mmap => PLAIN.fd(4).size(1).offset(5).flags_of(FlagsKind::Mapping(2, 3)),
            Msync => PLAIN.size(1).flags(2),
            Lseek => FD.offset(1).flags(2),
            Fadvise64 | SyncFileRange => FD.offset(1).size(2).flags(3),
            Fsync | Fdatasync | Syncfs | Close | Dup => FD,
            Sync | Pipe | InotifyInit | IoSetup | IoSubmit | IoUringSetup => PLAIN,
            Flock | Setns | Fsmount | Fsconfig => FD.flags(1),
            Fcntl => FD.flags(1).size(2),
            Ioctl => FD.flags(1),
            CloseRange => FD.size(1).flags(2),
            Dup2 => FD.fd2(1),
            Dup3 => FD.fd2(1).flags(2),
            Pipe2 | MemfdCreate | Fsopen => PLAIN.flags(1),
            PidfdGetfd => FD.fd2(1).flags(2),
            Recvmsg => FD.flags(2),
            // The mount source may be a device or a word; the mount point is a path.
            Mount => PLAIN.path(1).flags(3),
            Umount2 => PATH.flags(1),
            OpenTree | Fspick | MountSetattr | InotifyAddWatch => AT.flags(2),
            Unshare | InotifyInit1 | FanotifyInit => PLAIN.flags(0),
            FanotifyMark => PLAIN.fd(3).path(4).fd2(0).flags(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_where_the_man_pages_say() {
        let open = CallShape::of(Call::Openat);
        assert_eq!((open.fd, open.path, open.flags), (Some(0), Some(1), FlagsKind::Open(2)));
        let link = CallShape::of(Call::Linkat);
        assert_eq!((link.fd, link.path, link.fd2, link.path2), (Some(0), Some(1), Some(2), Some(3)));
        let symlink = CallShape::of(Call::Symlinkat);
        assert_eq!((symlink.fd, symlink.path, symlink.fd2, symlink.path2), (None, Some(0), Some(1), Some(2)));
        let map = CallShape::of(Call::Mmap);
        assert_eq!((map.fd, map.offset, map.size), (Some(4), Some(5), SizeKind::Argument(1)));
    }
}
