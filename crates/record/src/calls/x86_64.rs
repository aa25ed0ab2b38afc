//! Numbers of the recorded calls on x86-64, and of the calls of 32-bit programs.
//!
//! Source: `arch/x86/entry/syscalls/syscall_64.tbl` and `syscall_32.tbl` of the kernel.

use quell_trace::Call::{self, *};

/// `AUDIT_ARCH_X86_64`: the kernel's number of this architecture. Source: `linux/audit.h`.
pub(crate) const ARCHITECTURE: u32 = 0xc000_003e;

/// The first number of the x32 interface. Source: `__X32_SYSCALL_BIT` of `asm/unistd.h`.
pub(crate) const FOREIGN_NUMBERS_FROM: Option<u32> = Some(0x4000_0000);

/// Number of `clone`.
pub(crate) const CLONE: u32 = 56;
/// Number of `vfork`, which some architectures lack.
pub(crate) const VFORK: Option<u32> = Some(58);

/// Every recorded call. Shape: sorted by number.
pub(crate) const NUMBERS: &[(u32, Call)] = &[
    (0, Read),
    (1, Write),
    (2, Open),
    (3, Close),
    (4, Stat),
    (5, Fstat),
    (6, Lstat),
    (8, Lseek),
    (9, Mmap),
    (16, Ioctl),
    (17, Pread64),
    (18, Pwrite64),
    (19, Readv),
    (20, Writev),
    (21, Access),
    (22, Pipe),
    (26, Msync),
    (32, Dup),
    (33, Dup2),
    (40, Sendfile),
    (47, Recvmsg),
    (59, Execve),
    (72, Fcntl),
    (73, Flock),
    (74, Fsync),
    (75, Fdatasync),
    (76, Truncate),
    (77, Ftruncate),
    (78, Getdents),
    (79, Getcwd),
    (80, Chdir),
    (81, Fchdir),
    (82, Rename),
    (83, Mkdir),
    (84, Rmdir),
    (85, Creat),
    (86, Link),
    (87, Unlink),
    (88, Symlink),
    (89, Readlink),
    (90, Chmod),
    (91, Fchmod),
    (92, Chown),
    (93, Fchown),
    (94, Lchown),
    (132, Utime),
    (133, Mknod),
    (137, Statfs),
    (138, Fstatfs),
    (155, PivotRoot),
    (161, Chroot),
    (162, Sync),
    (165, Mount),
    (166, Umount2),
    (187, Readahead),
    (188, Setxattr),
    (189, Lsetxattr),
    (190, Fsetxattr),
    (191, Getxattr),
    (192, Lgetxattr),
    (193, Fgetxattr),
    (194, Listxattr),
    (195, Llistxattr),
    (196, Flistxattr),
    (197, Removexattr),
    (198, Lremovexattr),
    (199, Fremovexattr),
    (206, IoSetup),
    (209, IoSubmit),
    (217, Getdents64),
    (221, Fadvise64),
    (235, Utimes),
    (253, InotifyInit),
    (254, InotifyAddWatch),
    (257, Openat),
    (258, Mkdirat),
    (259, Mknodat),
    (260, Fchownat),
    (261, Futimesat),
    (262, Newfstatat),
    (263, Unlinkat),
    (264, Renameat),
    (265, Linkat),
    (266, Symlinkat),
    (267, Readlinkat),
    (268, Fchmodat),
    (269, Faccessat),
    (272, Unshare),
    (275, Splice),
    (276, Tee),
    (277, SyncFileRange),
    (280, Utimensat),
    (285, Fallocate),
    (292, Dup3),
    (293, Pipe2),
    (294, InotifyInit1),
    (295, Preadv),
    (296, Pwritev),
    (300, FanotifyInit),
    (301, FanotifyMark),
    (303, NameToHandleAt),
    (304, OpenByHandleAt),
    (306, Syncfs),
    (308, Setns),
    (316, Renameat2),
    (319, MemfdCreate),
    (322, Execveat),
    (326, CopyFileRange),
    (327, Preadv2),
    (328, Pwritev2),
    (332, Statx),
    (425, IoUringSetup),
    (428, OpenTree),
    (429, MoveMount),
    (430, Fsopen),
    (431, Fsconfig),
    (432, Fsmount),
    (433, Fspick),
    (436, CloseRange),
    (437, Openat2),
    (438, PidfdGetfd),
    (439, Faccessat2),
    (442, MountSetattr),
    (452, Fchmodat2),
];

/// Other architectures whose programs this kernel runs: their calls of the set are counted, not recorded. Shape: one
/// entry an architecture, numbers sorted.
pub(crate) const FOREIGN: &[(u32, &[u32])] = &[(AUDIT_ARCH_I386, I386)];

/// Source: `linux/audit.h`.
const AUDIT_ARCH_I386: u32 = 0x4000_0003;

const I386: &[u32] = &[
    3, 4, 5, 6, 8, 9, 10, 11, 12, 14, 15, 16, 18, 19, 21, 22, 28, 30, 33, 36, 38, 39, 40, 41, 42, 52, 54, 55,
    61, 63, 83, 84, 85, 89, 90, 92, 93, 94, 95, 99, 100, 106, 107, 108, 118, 133, 140, 141, 143, 144, 145,
    146, 148, 180, 181, 182, 183, 187, 192, 193, 194, 195, 196, 197, 198, 207, 212, 217, 220, 221, 225, 226,
    227, 228, 229, 230, 231, 232, 233, 234, 235, 236, 237, 239, 245, 248, 250, 268, 269, 271, 272, 291, 292,
    295, 296, 297, 298, 299, 300, 301, 302, 303, 304, 305, 306, 307, 310, 313, 314, 315, 320, 324, 330, 331,
    332, 333, 334, 338, 339, 341, 342, 344, 346, 353, 356, 358, 372, 377, 378, 379, 383, 412, 425, 428, 429,
    430, 431, 432, 433, 436, 437, 438, 439, 442, 452,
];

/// Returns the flags unchanged, because the format uses the values of this architecture.
pub(crate) const fn portable_open_flags(flags: u64) -> u64 {
    flags
}
