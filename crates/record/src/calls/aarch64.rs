//! Numbers of the recorded calls on aarch64, which has only the `*at` forms.
//!
//! Source: `include/uapi/asm-generic/unistd.h` of the kernel.

use quell_trace::Call::{self, *};

/// `AUDIT_ARCH_AARCH64`: the kernel's number of this architecture. Source: `linux/audit.h`.
pub(crate) const ARCHITECTURE: u32 = 0xc000_00b7;

/// This architecture has no second interface with its own range of numbers.
pub(crate) const FOREIGN_NUMBERS_FROM: Option<u32> = None;

/// Number of `clone`.
pub(crate) const CLONE: u32 = 220;
/// Number of `vfork`; `None` because it is a `clone` here.
pub(crate) const VFORK: Option<u32> = None;

/// Every recorded call. Shape: sorted by number.
pub(crate) const NUMBERS: &[(u32, Call)] = &[
    (0, IoSetup),
    (2, IoSubmit),
    (5, Setxattr),
    (6, Lsetxattr),
    (7, Fsetxattr),
    (8, Getxattr),
    (9, Lgetxattr),
    (10, Fgetxattr),
    (11, Listxattr),
    (12, Llistxattr),
    (13, Flistxattr),
    (14, Removexattr),
    (15, Lremovexattr),
    (16, Fremovexattr),
    (17, Getcwd),
    (23, Dup),
    (24, Dup3),
    (25, Fcntl),
    (26, InotifyInit1),
    (27, InotifyAddWatch),
    (29, Ioctl),
    (32, Flock),
    (33, Mknodat),
    (34, Mkdirat),
    (35, Unlinkat),
    (36, Symlinkat),
    (37, Linkat),
    (38, Renameat),
    (39, Umount2),
    (40, Mount),
    (41, PivotRoot),
    (43, Statfs),
    (44, Fstatfs),
    (45, Truncate),
    (46, Ftruncate),
    (47, Fallocate),
    (48, Faccessat),
    (49, Chdir),
    (50, Fchdir),
    (51, Chroot),
    (52, Fchmod),
    (53, Fchmodat),
    (54, Fchownat),
    (55, Fchown),
    (56, Openat),
    (57, Close),
    (59, Pipe2),
    (61, Getdents64),
    (62, Lseek),
    (63, Read),
    (64, Write),
    (65, Readv),
    (66, Writev),
    (67, Pread64),
    (68, Pwrite64),
    (69, Preadv),
    (70, Pwritev),
    (71, Sendfile),
    (76, Splice),
    (77, Tee),
    (78, Readlinkat),
    (79, Newfstatat),
    (80, Fstat),
    (81, Sync),
    (82, Fsync),
    (83, Fdatasync),
    (84, SyncFileRange),
    (88, Utimensat),
    (97, Unshare),
    (212, Recvmsg),
    (213, Readahead),
    (221, Execve),
    (222, Mmap),
    (223, Fadvise64),
    (227, Msync),
    (262, FanotifyInit),
    (263, FanotifyMark),
    (267, Syncfs),
    (268, Setns),
    (276, Renameat2),
    (279, MemfdCreate),
    (281, Execveat),
    (285, CopyFileRange),
    (286, Preadv2),
    (287, Pwritev2),
    (291, Statx),
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

/// Other architectures whose programs this kernel runs: their calls of the set are counted, not recorded. 32-bit Arm
/// shares the numbers of the most important calls with i386.
pub(crate) const FOREIGN: &[(u32, &[u32])] = &[(AUDIT_ARCH_ARM, ARM)];

/// Source: `linux/audit.h`.
const AUDIT_ARCH_ARM: u32 = 0x4000_0028;

/// Source: `arch/arm/tools/syscall.tbl` of the kernel.
const ARM: &[u32] = &[
    3, 4, 5, 6, 8, 9, 10, 11, 12, 14, 15, 16, 19, 21, 33, 36, 38, 39, 40, 41, 42, 52, 54, 55, 61, 63, 83, 85,
    92, 93, 94, 95, 99, 100, 106, 107, 108, 118, 133, 140, 141, 143, 144, 145, 146, 148, 180, 181, 182, 183,
    187, 192, 193, 194, 195, 196, 197, 198, 207, 212, 217, 218, 221, 225, 226, 227, 228, 229, 230, 231, 232,
    233, 234, 235, 236, 237, 239, 243, 246, 266, 267, 269, 270, 297, 316, 317, 322, 323, 324, 325, 326, 327,
    328, 329, 330, 331, 332, 333, 334, 337, 340, 341, 342, 343, 348, 352, 358, 359, 360, 361, 362, 367, 368,
    370, 371, 373, 375, 382, 385, 387, 391, 392, 393, 397, 412, 425, 428, 429, 430, 431, 432, 433, 436, 437,
    438, 439, 442, 452,
];

/// `open` flags that have other values here than on x86-64, whose values are those of the format.
/// Source: `arch/arm64/include/uapi/asm/fcntl.h`.
const OPEN_FLAGS: &[(u64, u64)] =
    &[(0o40000, 0o200_000), (0o100_000, 0o400_000), (0o200_000, 0o40000), (0o400_000, 0o100_000)];

/// `open` flags with the values of the format: `O_DIRECTORY`, `O_NOFOLLOW`, `O_DIRECT`, `O_LARGEFILE` moved.
pub(crate) const fn portable_open_flags(flags: u64) -> u64 {
    let (mut portable, mut index) = (flags, 0);
    while index < OPEN_FLAGS.len() {
        portable &= !OPEN_FLAGS[index].0;
        index += 1;
    }
    index = 0;
    while index < OPEN_FLAGS.len() {
        if flags & OPEN_FLAGS[index].0 != 0 {
            portable |= OPEN_FLAGS[index].1;
        }
        index += 1;
    }
    portable
}
