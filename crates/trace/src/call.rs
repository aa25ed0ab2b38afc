//! The system calls that quell records, under the kernel's names, each with its class of file-system request.
//!
//! One table declares the enum, the names in the trace and the classes, so that they cannot drift apart. Tests of the
//! recorder check its filter and argument table against it.

/// The class of a call: its request to a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Opens or creates a file by name.
    Open,
    /// Reads attributes, by name or by descriptor.
    Stat,
    /// Checks permissions by name.
    Access,
    /// Reads the target of a symbolic link.
    ReadLink,
    /// Lists a directory.
    List,
    /// Reads extended attributes.
    Xattr,
    /// Reads the state of a file system.
    StatFs,
    /// Changes names or attributes.
    Change,
    /// Replaces the program.
    Exec,
    /// Changes the working or root directory.
    Directory,
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Maps a file into memory.
    Map,
    /// Moves a file offset.
    Seek,
    /// Forces data to storage.
    Sync,
    /// Locks a file.
    Lock,
    /// Handles descriptors without asking the file system.
    Descriptor,
    /// Changes mounts or namespaces.
    Mount,
    /// Watches files, or submits asynchronous input and output whose operations are not recorded.
    Watch,
}

impl Class {
    /// The name of the class in the trace and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Stat => "stat",
            Self::Access => "access",
            Self::ReadLink => "readlink",
            Self::List => "list",
            Self::Xattr => "xattr",
            Self::StatFs => "statfs",
            Self::Change => "change",
            Self::Exec => "exec",
            Self::Directory => "directory",
            Self::Read => "read",
            Self::Write => "write",
            Self::Map => "map",
            Self::Seek => "seek",
            Self::Sync => "sync",
            Self::Lock => "lock",
            Self::Descriptor => "descriptor",
            Self::Mount => "mount",
            Self::Watch => "watch",
        }
    }

    /// True for metadata operations: calls on names or attributes, which a metadata server may have to answer.
    pub fn is_metadata(self) -> bool {
        use Class::{Access, Change, Directory, Exec, List, Open, ReadLink, Stat, StatFs, Xattr};
        matches!(self, Open | Stat | Access | ReadLink | List | Xattr | StatFs | Change | Exec | Directory)
    }
}

macro_rules! calls {
    ($($variant:ident $name:literal $class:ident;)*) => {
        /// A recorded system call. The discriminant is not part of the format: the trace stores names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        #[allow(missing_docs, reason = "each variant is the kernel's name of the call")]
        pub enum Call { $($variant,)* }

        impl Call {
            /// Every call. Shape: sorted by class, then as declared; index equals discriminant.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The kernel's name of the call, as strace prints it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The class of the call.
            pub const fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class,)* }
            }
        }
    };
}

calls! {
    Open "open" Open;
    Openat "openat" Open;
    Openat2 "openat2" Open;
    Creat "creat" Open;
    OpenByHandleAt "open_by_handle_at" Open;
    Stat "stat" Stat;
    Lstat "lstat" Stat;
    Fstat "fstat" Stat;
    Newfstatat "newfstatat" Stat;
    Statx "statx" Stat;
    NameToHandleAt "name_to_handle_at" Stat;
    Access "access" Access;
    Faccessat "faccessat" Access;
    Faccessat2 "faccessat2" Access;
    Readlink "readlink" ReadLink;
    Readlinkat "readlinkat" ReadLink;
    Getdents "getdents" List;
    Getdents64 "getdents64" List;
    Getxattr "getxattr" Xattr;
    Lgetxattr "lgetxattr" Xattr;
    Fgetxattr "fgetxattr" Xattr;
    Listxattr "listxattr" Xattr;
    Llistxattr "llistxattr" Xattr;
    Flistxattr "flistxattr" Xattr;
    Statfs "statfs" StatFs;
    Fstatfs "fstatfs" StatFs;
    Rename "rename" Change;
    Renameat "renameat" Change;
    Renameat2 "renameat2" Change;
    Unlink "unlink" Change;
    Unlinkat "unlinkat" Change;
    Mkdir "mkdir" Change;
    Mkdirat "mkdirat" Change;
    Rmdir "rmdir" Change;
    Link "link" Change;
    Linkat "linkat" Change;
    Symlink "symlink" Change;
    Symlinkat "symlinkat" Change;
    Mknod "mknod" Change;
    Mknodat "mknodat" Change;
    Chmod "chmod" Change;
    Fchmod "fchmod" Change;
    Fchmodat "fchmodat" Change;
    Fchmodat2 "fchmodat2" Change;
    Chown "chown" Change;
    Lchown "lchown" Change;
    Fchown "fchown" Change;
    Fchownat "fchownat" Change;
    Utime "utime" Change;
    Utimes "utimes" Change;
    Futimesat "futimesat" Change;
    Utimensat "utimensat" Change;
    Truncate "truncate" Change;
    Ftruncate "ftruncate" Change;
    Fallocate "fallocate" Change;
    Setxattr "setxattr" Change;
    Lsetxattr "lsetxattr" Change;
    Fsetxattr "fsetxattr" Change;
    Removexattr "removexattr" Change;
    Lremovexattr "lremovexattr" Change;
    Fremovexattr "fremovexattr" Change;
    Execve "execve" Exec;
    Execveat "execveat" Exec;
    Chdir "chdir" Directory;
    Fchdir "fchdir" Directory;
    Chroot "chroot" Directory;
    Getcwd "getcwd" Descriptor;
    Read "read" Read;
    Readv "readv" Read;
    Pread64 "pread64" Read;
    Preadv "preadv" Read;
    Preadv2 "preadv2" Read;
    Readahead "readahead" Read;
    Write "write" Write;
    Writev "writev" Write;
    Pwrite64 "pwrite64" Write;
    Pwritev "pwritev" Write;
    Pwritev2 "pwritev2" Write;
    Sendfile "sendfile" Write;
    CopyFileRange "copy_file_range" Write;
    Splice "splice" Write;
    Tee "tee" Write;
    Mmap "mmap" Map;
    Msync "msync" Sync;
    Lseek "lseek" Seek;
    Fadvise64 "fadvise64" Seek;
    Fsync "fsync" Sync;
    Fdatasync "fdatasync" Sync;
    SyncFileRange "sync_file_range" Sync;
    Syncfs "syncfs" Sync;
    Sync "sync" Sync;
    Flock "flock" Lock;
    Fcntl "fcntl" Descriptor;
    Ioctl "ioctl" Descriptor;
    Close "close" Descriptor;
    CloseRange "close_range" Descriptor;
    Dup "dup" Descriptor;
    Dup2 "dup2" Descriptor;
    Dup3 "dup3" Descriptor;
    Pipe "pipe" Descriptor;
    Pipe2 "pipe2" Descriptor;
    MemfdCreate "memfd_create" Descriptor;
    PidfdGetfd "pidfd_getfd" Descriptor;
    Recvmsg "recvmsg" Descriptor;
    PivotRoot "pivot_root" Mount;
    Mount "mount" Mount;
    Umount2 "umount2" Mount;
    OpenTree "open_tree" Mount;
    MoveMount "move_mount" Mount;
    Fsopen "fsopen" Mount;
    Fsmount "fsmount" Mount;
    Fspick "fspick" Mount;
    Fsconfig "fsconfig" Mount;
    MountSetattr "mount_setattr" Mount;
    Setns "setns" Mount;
    Unshare "unshare" Mount;
    InotifyInit1 "inotify_init1" Watch;
    InotifyInit "inotify_init" Watch;
    InotifyAddWatch "inotify_add_watch" Watch;
    FanotifyInit "fanotify_init" Watch;
    FanotifyMark "fanotify_mark" Watch;
    IoSetup "io_setup" Watch;
    IoSubmit "io_submit" Watch;
    IoUringSetup "io_uring_setup" Watch;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_call() {
        for (index, call) in Call::ALL.iter().enumerate() {
            assert_eq!(Call::ALL.iter().filter(|other| other.name() == call.name()).count(), 1);
            assert_eq!(*call as usize, index);
        }
    }

    #[test]
    fn data_and_descriptor_calls_are_no_metadata_operations() {
        assert!(Call::Openat.class().is_metadata() && Call::Fstat.class().is_metadata());
        assert!(!Call::Read.class().is_metadata() && !Call::Close.class().is_metadata());
    }
}
