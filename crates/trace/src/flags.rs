//! Bits of [`crate::Event::flags`] and of descriptors as stored in a trace: the values of Linux on x86-64. The recorder
//! translates the `open` flags of other architectures into them. Part of the format.
#![allow(missing_docs, reason = "the names are the kernel's, and its man pages say what they mean")]

// Source: `open(2)`.
pub const O_ACCMODE: u64 = 0o3;
pub const O_CREAT: u64 = 0o100;
pub const O_EXCL: u64 = 0o200;
pub const O_TRUNC: u64 = 0o1000;
pub const O_APPEND: u64 = 0o2000;
pub const O_DIRECTORY: u64 = 0o200_000;
pub const O_NOFOLLOW: u64 = 0o400_000;
pub const O_CLOEXEC: u64 = 0o2_000_000;
pub const O_PATH: u64 = 0o10_000_000;
pub const O_TMPFILE: u64 = 0o20_200_000;

/// The place of `resolve` of `struct open_how` in the flags of `openat2`, in which the kernel accepts no `open` flag yet.
pub const RESOLVE_SHIFT: u32 = 32;
/// Source: `openat2(2)`.
pub const RESOLVE_IN_ROOT: u64 = 0x10 << RESOLVE_SHIFT;

// Source: `openat(2)`, `linkat(2)`, `statx(2)`.
pub const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
pub const AT_SYMLINK_FOLLOW: u64 = 0x400;
pub const AT_EMPTY_PATH: u64 = 0x1000;

// Source: `mmap(2)`. The protection is in the high half of `flags`, the rest in the low half.
pub const PROT_WRITE: u64 = 0x2;
pub const MAP_PRIVATE: u64 = 0x2;
pub const MAP_TYPE: u64 = 0x3;
pub const MAP_ANONYMOUS: u64 = 0x20;

// Source: `fcntl(2)`.
pub const F_DUPFD: u64 = 0;
pub const F_SETFD: u64 = 2;
pub const F_DUPFD_CLOEXEC: u64 = 1030;
pub const FD_CLOEXEC: u64 = 1;
/// `F_GETLK`, `F_SETLK`, `F_SETLKW`, `F_OFD_GETLK`, `F_OFD_SETLK`, `F_OFD_SETLKW`, `F_SETLEASE`, `F_NOTIFY`: commands
/// that take or query a lock or a lease, or request change notifications.
pub const LOCK_COMMANDS: [u64; 8] = [5, 6, 7, 36, 37, 38, 1024, 1026];

// Source: `close_range(2)`.
pub const CLOSE_RANGE_UNSHARE: u64 = 2;
pub const CLOSE_RANGE_CLOEXEC: u64 = 4;

// Source: `clone(2)`; `unshare(2)` and `setns(2)` take the same bits.
pub const CLONE_VM: u64 = 0x100;
pub const CLONE_FS: u64 = 0x200;
pub const CLONE_FILES: u64 = 0x400;
pub const CLONE_THREAD: u64 = 0x1_0000;
pub const CLONE_NEWNS: u64 = 0x2_0000;
pub const CLONE_NEWUSER: u64 = 0x1000_0000;

/// `inotify_add_watch`. Source: `inotify(7)`.
pub const IN_DONT_FOLLOW: u64 = 0x200_0000;
