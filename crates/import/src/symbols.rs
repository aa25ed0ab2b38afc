//! The values of symbols that strace prints: flags, commands, errors, signals, and the names of calls.
//!
//! Values are those of Linux on x86-64, which the format uses too. Source: the man page named above each group, and the
//! kernel's headers that it names.

use quell_trace::{Call, Errno};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The value of a symbol of flags or commands; `None` for an unknown one.
pub(crate) fn value(symbol: &[u8]) -> Option<u64> {
    static VALUES: LazyLock<HashMap<&[u8], u64>> = LazyLock::new(|| SYMBOLS.iter().copied().collect());
    VALUES.get(symbol).copied()
}

/// The error of this name.
pub(crate) fn errno(name: &[u8]) -> Option<Errno> {
    static ERRORS: LazyLock<HashMap<Vec<u8>, Errno>> = LazyLock::new(|| {
        let named = (1..LAST_ERROR).map(|number| (Errno(number).name().into_bytes(), Errno(number)));
        let others = OTHER_ERRORS.iter().map(|&(name, number)| (name.to_vec(), Errno(number)));
        named.chain(others).collect()
    });
    ERRORS.get(name).copied()
}

/// The signal of this name.
pub(crate) fn signal(name: &[u8]) -> Option<i32> {
    let known = SIGNALS.iter().position(|known| known.as_bytes() == name);
    known.map(|index| index as i32 + 1).or_else(|| {
        let number = crate::number::number(name.strip_prefix(b"SIGRT_")?)?;
        i32::try_from(number)
            .ok()
            .filter(|number| (0..=32).contains(number))
            .map(|number| number + FIRST_REAL_TIME)
    })
}

/// The recorded call of this name, under any name that strace uses for it.
pub(crate) fn call(name: &[u8]) -> Option<Call> {
    static CALLS: LazyLock<HashMap<&[u8], Call>> = LazyLock::new(|| {
        let own = Call::ALL.iter().map(|call| (call.name().as_bytes(), *call));
        own.chain(OTHER_NAMES.iter().copied()).collect()
    });
    CALLS.get(name).copied()
}

/// Names of the same calls on 32-bit machines, for which strace prints 64-bit values as one argument too.
const OTHER_NAMES: &[(&[u8], Call)] = &[
    (b"oldstat", Call::Stat),
    (b"oldlstat", Call::Lstat),
    (b"oldfstat", Call::Fstat),
    (b"stat64", Call::Stat),
    (b"lstat64", Call::Lstat),
    (b"fstat64", Call::Fstat),
    (b"fstatat64", Call::Newfstatat),
    (b"fstatat", Call::Newfstatat),
    (b"mmap2", Call::Mmap),
    (b"fcntl64", Call::Fcntl),
    (b"truncate64", Call::Truncate),
    (b"ftruncate64", Call::Ftruncate),
    (b"sendfile64", Call::Sendfile),
    (b"chown32", Call::Chown),
    (b"lchown32", Call::Lchown),
    (b"fchown32", Call::Fchown),
    (b"utimensat_time64", Call::Utimensat),
    (b"umount", Call::Umount2),
    (b"pread", Call::Pread64),
    (b"pwrite", Call::Pwrite64),
];

/// One above the largest error number that has a name. Source: `asm-generic/errno.h`, `EHWPOISON` is 133.
const LAST_ERROR: u16 = 134;

/// Aliases, and kernel-internal errors that strace shows. Source: `linux/errno.h`.
const OTHER_ERRORS: &[(&[u8], u16)] = &[
    (b"EWOULDBLOCK", 11),
    (b"EDEADLOCK", 35),
    (b"ENOTSUP", 95),
    (b"ERESTARTSYS", 512),
    (b"ERESTARTNOINTR", 513),
    (b"ERESTARTNOHAND", 514),
    (b"ENOIOCTLCMD", 515),
    (b"ERESTART_RESTARTBLOCK", 516),
];

/// Shape: signal 1 first. Source: `signal(7)`.
const SIGNALS: &[&str] = &[
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// `SIGRT_0`, which strace also calls `SIGRTMIN`. Source: `signal(7)`, section "Real-time signals".
const FIRST_REAL_TIME: i32 = 32;

/// Symbols whose value is not zero.
const SYMBOLS: &[(&[u8], u64)] = &[
    // `open(2)`
    (b"O_WRONLY", 0x1),
    (b"O_RDWR", 0x2),
    (b"O_CREAT", 0x40),
    (b"O_EXCL", 0x80),
    (b"O_NOCTTY", 0x100),
    (b"O_TRUNC", 0x200),
    (b"O_APPEND", 0x400),
    (b"O_NONBLOCK", 0x800),
    (b"O_DSYNC", 0x1000),
    (b"O_SYNC", 0x10_1000),
    (b"O_ASYNC", 0x2000),
    (b"O_DIRECT", 0x4000),
    (b"O_LARGEFILE", 0x8000),
    (b"O_DIRECTORY", 0x1_0000),
    (b"O_NOFOLLOW", 0x2_0000),
    (b"O_NOATIME", 0x4_0000),
    (b"O_CLOEXEC", 0x8_0000),
    (b"O_PATH", 0x20_0000),
    (b"O_TMPFILE", 0x41_0000),
    // `open(2)` and the calls that end in `at`
    (b"AT_SYMLINK_NOFOLLOW", 0x100),
    (b"AT_REMOVEDIR", 0x200),
    (b"AT_EACCESS", 0x200),
    (b"AT_SYMLINK_FOLLOW", 0x400),
    (b"AT_NO_AUTOMOUNT", 0x800),
    (b"AT_EMPTY_PATH", 0x1000),
    (b"AT_STATX_FORCE_SYNC", 0x2000),
    (b"AT_STATX_DONT_SYNC", 0x4000),
    (b"AT_RECURSIVE", 0x8000),
    // `access(2)`
    (b"R_OK", 0x4),
    (b"W_OK", 0x2),
    (b"X_OK", 0x1),
    // `mmap(2)`
    (b"PROT_READ", 0x1),
    (b"PROT_WRITE", 0x2),
    (b"PROT_EXEC", 0x4),
    (b"PROT_GROWSDOWN", 0x100_0000),
    (b"PROT_GROWSUP", 0x200_0000),
    // `mmap(2)`
    (b"MAP_SHARED", 0x1),
    (b"MAP_PRIVATE", 0x2),
    (b"MAP_SHARED_VALIDATE", 0x3),
    (b"MAP_FIXED", 0x10),
    (b"MAP_ANONYMOUS", 0x20),
    (b"MAP_32BIT", 0x40),
    (b"MAP_GROWSDOWN", 0x100),
    (b"MAP_DENYWRITE", 0x800),
    (b"MAP_EXECUTABLE", 0x1000),
    (b"MAP_LOCKED", 0x2000),
    (b"MAP_NORESERVE", 0x4000),
    (b"MAP_POPULATE", 0x8000),
    (b"MAP_NONBLOCK", 0x1_0000),
    (b"MAP_STACK", 0x2_0000),
    (b"MAP_HUGETLB", 0x4_0000),
    (b"MAP_SYNC", 0x8_0000),
    (b"MAP_FIXED_NOREPLACE", 0x10_0000),
    // `fcntl(2)`
    (b"F_GETFD", 0x1),
    (b"F_SETFD", 0x2),
    (b"F_GETFL", 0x3),
    (b"F_SETFL", 0x4),
    (b"F_GETLK", 0x5),
    (b"F_SETLK", 0x6),
    (b"F_SETLKW", 0x7),
    (b"F_SETOWN", 0x8),
    (b"F_GETOWN", 0x9),
    (b"F_SETSIG", 0xa),
    (b"F_GETSIG", 0xb),
    (b"F_OFD_GETLK", 0x24),
    (b"F_OFD_SETLK", 0x25),
    (b"F_OFD_SETLKW", 0x26),
    (b"F_SETLEASE", 0x400),
    (b"F_GETLEASE", 0x401),
    (b"F_NOTIFY", 0x402),
    (b"F_DUPFD_CLOEXEC", 0x406),
    (b"F_SETPIPE_SZ", 0x407),
    (b"F_GETPIPE_SZ", 0x408),
    (b"F_ADD_SEALS", 0x409),
    (b"F_GET_SEALS", 0x40a),
    (b"FD_CLOEXEC", 0x1),
    // `lseek(2)`
    (b"SEEK_CUR", 0x1),
    (b"SEEK_END", 0x2),
    (b"SEEK_DATA", 0x3),
    (b"SEEK_HOLE", 0x4),
    // `flock(2)`
    (b"LOCK_SH", 0x1),
    (b"LOCK_EX", 0x2),
    (b"LOCK_NB", 0x4),
    (b"LOCK_UN", 0x8),
    // `msync(2)`
    (b"MS_ASYNC", 0x1),
    (b"MS_INVALIDATE", 0x2),
    (b"MS_SYNC", 0x4),
    // `posix_fadvise(2)`
    (b"POSIX_FADV_RANDOM", 0x1),
    (b"POSIX_FADV_SEQUENTIAL", 0x2),
    (b"POSIX_FADV_WILLNEED", 0x3),
    (b"POSIX_FADV_DONTNEED", 0x4),
    (b"POSIX_FADV_NOREUSE", 0x5),
    // `rename(2)`
    (b"RENAME_NOREPLACE", 0x1),
    (b"RENAME_EXCHANGE", 0x2),
    (b"RENAME_WHITEOUT", 0x4),
    // `setxattr(2)`
    (b"XATTR_CREATE", 0x1),
    (b"XATTR_REPLACE", 0x2),
    // `fallocate(2)`
    (b"FALLOC_FL_KEEP_SIZE", 0x1),
    (b"FALLOC_FL_PUNCH_HOLE", 0x2),
    (b"FALLOC_FL_COLLAPSE_RANGE", 0x8),
    (b"FALLOC_FL_ZERO_RANGE", 0x10),
    (b"FALLOC_FL_INSERT_RANGE", 0x20),
    (b"FALLOC_FL_UNSHARE_RANGE", 0x40),
    // `sync_file_range(2)`
    (b"SYNC_FILE_RANGE_WAIT_BEFORE", 0x1),
    (b"SYNC_FILE_RANGE_WRITE", 0x2),
    (b"SYNC_FILE_RANGE_WAIT_AFTER", 0x4),
    // `splice(2)`
    (b"SPLICE_F_MOVE", 0x1),
    (b"SPLICE_F_NONBLOCK", 0x2),
    (b"SPLICE_F_MORE", 0x4),
    (b"SPLICE_F_GIFT", 0x8),
    // `close_range(2)`
    (b"CLOSE_RANGE_UNSHARE", 0x2),
    (b"CLOSE_RANGE_CLOEXEC", 0x4),
    // `openat2(2)`
    (b"RESOLVE_BENEATH", 0x8),
    (b"RESOLVE_CACHED", 0x20),
    (b"RESOLVE_IN_ROOT", 0x10),
    (b"RESOLVE_NO_MAGICLINKS", 0x2),
    (b"RESOLVE_NO_SYMLINKS", 0x4),
    (b"RESOLVE_NO_XDEV", 0x1),
    // `readv(2)`
    (b"RWF_HIPRI", 0x1),
    (b"RWF_DSYNC", 0x2),
    (b"RWF_SYNC", 0x4),
    (b"RWF_NOWAIT", 0x8),
    (b"RWF_APPEND", 0x10),
    // `memfd_create(2)`
    (b"MFD_CLOEXEC", 0x1),
    (b"MFD_ALLOW_SEALING", 0x2),
    (b"MFD_HUGETLB", 0x4),
    // `clone(2)`
    (b"CLONE_VM", 0x100),
    (b"CLONE_FS", 0x200),
    (b"CLONE_FILES", 0x400),
    (b"CLONE_SIGHAND", 0x800),
    (b"CLONE_PTRACE", 0x2000),
    (b"CLONE_VFORK", 0x4000),
    (b"CLONE_PARENT", 0x8000),
    (b"CLONE_THREAD", 0x1_0000),
    (b"CLONE_NEWNS", 0x2_0000),
    (b"CLONE_SYSVSEM", 0x4_0000),
    (b"CLONE_SETTLS", 0x8_0000),
    (b"CLONE_PARENT_SETTID", 0x10_0000),
    (b"CLONE_CHILD_CLEARTID", 0x20_0000),
    (b"CLONE_UNTRACED", 0x80_0000),
    (b"CLONE_CHILD_SETTID", 0x100_0000),
    (b"CLONE_NEWCGROUP", 0x200_0000),
    (b"CLONE_NEWUTS", 0x400_0000),
    (b"CLONE_NEWIPC", 0x800_0000),
    (b"CLONE_NEWUSER", 0x1000_0000),
    (b"CLONE_NEWPID", 0x2000_0000),
    (b"CLONE_NEWNET", 0x4000_0000),
    (b"CLONE_IO", 0x8000_0000),
    // `inotify(7)`
    (b"IN_ACCESS", 0x1),
    (b"IN_MODIFY", 0x2),
    (b"IN_ATTRIB", 0x4),
    (b"IN_CLOSE_WRITE", 0x8),
    (b"IN_CLOSE_NOWRITE", 0x10),
    (b"IN_OPEN", 0x20),
    (b"IN_MOVED_FROM", 0x40),
    (b"IN_MOVED_TO", 0x80),
    (b"IN_CREATE", 0x100),
    (b"IN_DELETE", 0x200),
    (b"IN_DELETE_SELF", 0x400),
    (b"IN_MOVE_SELF", 0x800),
    (b"IN_ONLYDIR", 0x100_0000),
    (b"IN_DONT_FOLLOW", 0x200_0000),
    (b"IN_EXCL_UNLINK", 0x400_0000),
    (b"IN_MASK_ADD", 0x2000_0000),
    (b"IN_ISDIR", 0x4000_0000),
    (b"IN_ONESHOT", 0x8000_0000),
    (b"IN_NONBLOCK", 0x800),
    (b"IN_CLOEXEC", 0x8_0000),
    // `mount(2)`
    (b"MS_RDONLY", 0x1),
    (b"MS_NOSUID", 0x2),
    (b"MS_NODEV", 0x4),
    (b"MS_NOEXEC", 0x8),
    (b"MS_SYNCHRONOUS", 0x10),
    (b"MS_REMOUNT", 0x20),
    (b"MS_NOATIME", 0x400),
    (b"MS_NODIRATIME", 0x800),
    (b"MS_BIND", 0x1000),
    (b"MS_MOVE", 0x2000),
    (b"MS_REC", 0x4000),
    (b"MS_SILENT", 0x8000),
    (b"MS_UNBINDABLE", 0x2_0000),
    (b"MS_PRIVATE", 0x4_0000),
    (b"MS_SLAVE", 0x8_0000),
    (b"MS_SHARED", 0x10_0000),
    (b"MS_RELATIME", 0x20_0000),
    (b"MS_STRICTATIME", 0x100_0000),
    (b"MS_LAZYTIME", 0x200_0000),
    // `umount(2)`
    (b"MNT_FORCE", 0x1),
    (b"MNT_DETACH", 0x2),
    (b"MNT_EXPIRE", 0x4),
    (b"UMOUNT_NOFOLLOW", 0x8),
    // `recv(2)`
    (b"MSG_PEEK", 0x2),
    (b"MSG_TRUNC", 0x20),
    (b"MSG_DONTWAIT", 0x40),
    (b"MSG_WAITALL", 0x100),
    (b"MSG_ERRQUEUE", 0x2000),
    (b"MSG_CMSG_CLOEXEC", 0x4000_0000),
    // `ioctl(2)`
    (b"TCGETS", 0x5401),
    (b"TCSETS", 0x5402),
    (b"TCSETSW", 0x5403),
    (b"TIOCGWINSZ", 0x5413),
    (b"TIOCGPGRP", 0x540f),
    (b"TIOCSPGRP", 0x5410),
    (b"FIONREAD", 0x541b),
    (b"FIONBIO", 0x5421),
    (b"FIOCLEX", 0x5451),
    (b"FIONCLEX", 0x5450),
    (b"FICLONE", 0x4004_9409),
    (b"FS_IOC_GETFLAGS", 0x8008_6601),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_their_numbers() {
        assert_eq!(value(b"O_CLOEXEC"), Some(0o2_000_000));
        assert_eq!(value(b"O_NEVER"), None);
        assert_eq!((errno(b"ENOENT"), errno(b"EWOULDBLOCK")), (Some(Errno::ENOENT), Some(Errno::EAGAIN)));
        assert_eq!((errno(b"EOPNOTSUPP"), errno(b"ERESTARTSYS")), (Some(Errno(95)), Some(Errno(512))));
        assert_eq!(
            (signal(b"SIGKILL"), signal(b"SIGSYS"), signal(b"SIGRT_2")),
            (Some(9), Some(31), Some(34))
        );
        assert_eq!(
            (call(b"openat"), call(b"fstatat64"), call(b"brk")),
            (Some(Call::Openat), Some(Call::Newfstatat), None)
        );
    }

    #[test]
    fn no_symbol_is_there_twice() {
        let distinct: std::collections::HashSet<_> = SYMBOLS.iter().map(|(name, _)| name).collect();
        assert_eq!(distinct.len(), SYMBOLS.len());
    }
}
