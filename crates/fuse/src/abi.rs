//! Numbers and byte layouts of the FUSE protocol, version 7.
//!
//! Source of everything here: `include/uapi/linux/fuse.h` of the Linux kernel. All integers are in the machine's
//! own byte order. Requests are parsed in [`crate::request`]; this file only knows how answers are laid out.

use bitflags::bitflags;

/// `FUSE_KERNEL_VERSION`: the only major version there is.
pub const MAJOR: u32 = 7;

/// The minor version that our structures follow. The kernel uses the smaller one of its own and this.
pub const MINOR: u32 = 38;

/// Oldest minor version whose layouts we speak (Linux 4.18): the answer to INIT has its present length since 7.23,
/// RENAME2 exists since then, and no kernel on which a user can mount FUSE in a namespace is older.
pub const OLDEST_MINOR: u32 = 27;

/// Most bytes of one READ. 256 pages is the kernel's own upper bound (`FUSE_MAX_MAX_PAGES`).
pub const MAX_TRANSFER: u32 = 1 << 20;

/// Most bytes of one WRITE. Writes are exceptions; larger ones would only make the memory larger that each thread
/// keeps for its requests.
pub const MAX_WRITE: u32 = 128 << 10;

/// Most pages of one request, for kernels that negotiate them.
pub const MAX_PAGES: u16 = 256;

/// Length of `struct fuse_in_header`.
pub const IN_HEADER: usize = 40;

/// Length of `struct fuse_out_header`.
pub const OUT_HEADER: usize = 16;

/// Length of the buffer that requests are read into: the largest WRITE with its headers, in whole pages.
pub const REQUEST_BUFFER: usize = MAX_WRITE as usize + 4096;

bitflags! {
    /// `flags` of INIT, the lower 32 bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct InitFlags: u32 {
        /// Several READs of one file at a time.
        const ASYNC_READ = 1 << 0;
        /// fcntl locks are sent to us.
        const POSIX_LOCKS = 1 << 1;
        /// OPEN carries `O_TRUNC`.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// Modes of new files come without the umask applied, and the umask beside them.
        const DONT_MASK = 1 << 6;
        /// WRITEs of more than one page.
        const BIG_WRITES = 1 << 5;
        /// flock locks are sent to us.
        const FLOCK_LOCKS = 1 << 10;
        /// Cached pages and listings are dropped when fresh attributes show another mtime or size.
        const AUTO_INVAL_DATA = 1 << 12;
        /// The kernel may ask for entries together with their attributes.
        const DO_READDIRPLUS = 1 << 13;
        /// ... and does so only when the program is seen to want them.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Lookups and listings of one directory at the same time.
        const PARALLEL_DIROPS = 1 << 18;
        /// The kernel asks for access control lists and judges by them.
        const POSIX_ACL = 1 << 20;
        /// Writes gather in the kernel's cache, which has size and times of open files.
        const WRITEBACK_CACHE = 1 << 16;
        /// `max_pages` of the answer counts.
        const MAX_PAGES = 1 << 22;
        /// Targets of symbolic links are cached.
        const CACHE_SYMLINKS = 1 << 23;
        /// Writes take set-user-ID away when we are told to, so the kernel does not look before each of them.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// `flags2` follows.
        const INIT_EXT = 1 << 30;
    }
}

/// `FUSE_HAS_EXPIRE_ONLY`, bit 35, as seen in `flags2`: an entry can be made stale without being dropped.
pub const INIT2_HAS_EXPIRE_ONLY: u32 = 1 << 3;

/// `FUSE_DIRECT_IO_ALLOW_MMAP`, bit 36, as seen in `flags2`: a file that is open past the kernel's cache may be mapped.
pub const INIT2_DIRECT_IO_ALLOW_MMAP: u32 = 1 << 4;

bitflags! {
    /// `valid` of SETATTR: which fields are set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SetAttributes: u32 {
        const MODE = 1 << 0;
        const UID = 1 << 1;
        const GID = 1 << 2;
        const SIZE = 1 << 3;
        const ATIME = 1 << 4;
        const MTIME = 1 << 5;
        const ATIME_NOW = 1 << 7;
        const HANDLE = 1 << 6;
        const MTIME_NOW = 1 << 8;
        /// The kernel has the times of the file: that of change is its own.
        const CTIME = 1 << 10;
        const _ = !0;
    }
}

bitflags! {
    /// `open_flags` of the answer to OPEN and OPENDIR.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OpenFlags: u32 {
        /// Reads and writes go past the kernel's cache.
        const DIRECT_IO = 1 << 0;
        /// The kernel's cache of the file stays valid.
        const KEEP_CACHE = 1 << 1;
        /// The kernel keeps the listing.
        const CACHE_DIR = 1 << 3;
        /// No FLUSH when a descriptor is closed (Linux 5.16 and later).
        const NO_FLUSH = 1 << 5;
    }
}

/// The answer to OPEN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenReply {
    /// The handle that later requests carry; zero if none of them needs one.
    pub handle: u64,
    pub flags: OpenFlags,
}

impl OpenReply {
    /// The bytes of `struct fuse_open_out`.
    pub fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        Layout(&mut bytes).u64(self.handle).u32(self.flags.bits());
        bytes
    }
}

/// The bytes of `struct fuse_lk_out`: a lock that is in the way, or the one that was asked for with `F_UNLCK`.
pub fn encode_lock(start: u64, end: u64, kind: u32, pid: u32) -> [u8; 24] {
    let mut bytes = [0; 24];
    Layout(&mut bytes).u64(start).u64(end).u32(kind).u32(pid);
    bytes
}

/// `FUSE_WRITE_CACHE`: the WRITE comes from dirty pages of a shared map, not from a write call.
pub const WRITE_CACHE: u32 = 1 << 0;

/// `FUSE_WRITE_KILL_SUIDGID`: the file loses set-user-ID and set-group-ID with this WRITE.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;

/// `FUSE_EXPIRE_ONLY` of a NOTIFY_INVAL_ENTRY.
pub const EXPIRE_ONLY: u32 = 1 << 0;

/// `FUSE_NOTIFY_INVAL_INODE`.
pub const NOTIFY_INVAL_INODE: i32 = 2;

/// `FUSE_NOTIFY_INVAL_ENTRY`.
pub const NOTIFY_INVAL_ENTRY: i32 = 3;

/// `FUSE_NOTIFY_STORE`.
pub const NOTIFY_STORE: i32 = 4;

/// Operation codes (`enum fuse_opcode`).
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const TMPFILE: u32 = 51;
}

/// The time for which the kernel may keep an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// For the life of the mount: the answer comes from the image.
    Forever,
    /// One second: the answer comes from the original, which may change.
    Brief,
    /// Not at all: the kernel has to ask before it uses it.
    Never,
    /// For so many seconds.
    Seconds(u32),
}

impl Validity {
    /// Seconds, as `entry_valid` and `attr_valid` carry them. 2^32 - 1 seconds are 136 years; larger values would
    /// only be clamped by the kernel.
    fn seconds(self) -> u64 {
        match self {
            Self::Forever => u64::from(u32::MAX),
            Self::Brief => 1,
            Self::Never => 0,
            Self::Seconds(seconds) => u64::from(seconds),
        }
    }
}

/// Number by which the kernel knows an inode of this mount (`nodeid`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// `FUSE_ROOT_ID`.
    pub const ROOT: Self = Self(1);
}

/// `struct fuse_attr`: what `stat` of an inode shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attr {
    pub inode: u64,
    pub size: u64,
    pub blocks: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub block_size: u32,
}

/// Seconds since the epoch, negative before it, and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Time {
    pub seconds: i64,
    pub nanoseconds: u32,
}

impl Attr {
    /// Length of `struct fuse_attr`.
    pub const BYTES: usize = 88;

    fn put(&self, out: &mut Layout<'_>) {
        out.u64(self.inode).u64(self.size).u64(self.blocks);
        for time in [self.atime, self.mtime, self.ctime] {
            out.u64(time.seconds.cast_unsigned());
        }
        for time in [self.atime, self.mtime, self.ctime] {
            out.u32(time.nanoseconds);
        }
        out.u32(self.mode).u32(self.nlink).u32(self.uid).u32(self.gid);
        out.u32(self.rdev).u32(self.block_size).u32(0);
    }
}

/// The attributes of an original, for the kernel.
pub fn attr_of(stat: &rustix::fs::Stat) -> Attr {
    let time = |seconds: i64, nanoseconds: u64| Time {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or_default(),
    };
    Attr {
        inode: stat.st_ino,
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        mode: stat.st_mode,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: device_number(rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)),
        block_size: u32::try_from(stat.st_blksize).unwrap_or(BLOCK_SIZE),
    }
}

/// The block size that we suggest when the original does not say.
pub const BLOCK_SIZE: u32 = 4096;

/// A device number as the kernel's `new_encode_dev` packs it, which is what FUSE carries.
pub fn device_number(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// The device that a number of FUSE stands for: the reverse of [`device_number`].
pub fn device_of(number: u32) -> rustix::fs::Dev {
    rustix::fs::makedev(number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xfff00)
}

/// `struct fuse_entry_out`: the answer to a lookup.
#[derive(Debug, Clone, Copy)]
pub struct EntryReply {
    /// The inode; `None` says that the name is absent.
    pub node: Option<NodeId>,
    /// The time for which the name, or its absence, may be kept.
    pub name_valid: Validity,
    /// The time for which the attributes may be kept.
    pub attr_valid: Validity,
    /// Attributes; ignored when the name is absent.
    pub attr: Attr,
}

impl EntryReply {
    /// Length of `struct fuse_entry_out`.
    pub const BYTES: usize = 40 + Attr::BYTES;

    /// The entry that says: this name does not exist.
    pub fn absent(valid: Validity) -> Self {
        Self { node: None, name_valid: valid, attr_valid: valid, attr: Attr::default() }
    }

    /// The bytes of the structure.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let mut out = Layout(&mut bytes);
        out.u64(self.node.map_or(0, |node| node.0)).u64(0);
        out.u64(self.name_valid.seconds()).u64(self.attr_valid.seconds()).u32(0).u32(0);
        self.attr.put(&mut out);
        bytes
    }
}

/// Length of `struct fuse_attr_out`.
pub const ATTR_OUT: usize = 16 + Attr::BYTES;

/// The bytes of `struct fuse_attr_out`: the answer to GETATTR and SETATTR.
pub fn encode_attr(attr: &Attr, valid: Validity) -> [u8; ATTR_OUT] {
    let mut bytes = [0; ATTR_OUT];
    let mut out = Layout(&mut bytes);
    out.u64(valid.seconds()).u32(0).u32(0);
    attr.put(&mut out);
    bytes
}

/// Length of `struct fuse_init_out`.
pub const INIT_OUT: usize = 64;

/// The bytes of `struct fuse_init_out`. `max_write` is the most bytes of one WRITE.
pub fn encode_init(
    minor: u32,
    max_readahead: u32,
    flags: InitFlags,
    flags2: u32,
    max_write: u32,
) -> [u8; INIT_OUT] {
    /// Requests in flight of readahead and the like; the default of 12 slows down parallel first reads.
    const MAX_BACKGROUND: u16 = 64;
    /// The number of requests at which the kernel calls the mount congested: three quarters, as by default.
    const CONGESTION: u16 = 48;
    let mut bytes = [0; INIT_OUT];
    let mut out = Layout(&mut bytes);
    out.u32(MAJOR).u32(minor).u32(max_readahead).u32(flags.bits());
    out.u16(MAX_BACKGROUND).u16(CONGESTION);
    out.u32(max_write).u32(1).u16(MAX_PAGES).u16(0).u32(flags2);
    bytes
}

/// The bytes of `struct fuse_statfs_out`: totals of a file system.
pub type StatfsBytes = [u8; 80];

/// The answer to STATFS.
pub fn encode_statfs(stat: &rustix::fs::StatVfs) -> StatfsBytes {
    let mut bytes = [0; size_of::<StatfsBytes>()];
    let mut out = Layout(&mut bytes);
    out.u64(stat.f_blocks).u64(stat.f_bfree).u64(stat.f_bavail).u64(stat.f_files).u64(stat.f_ffree);
    out.u32(narrow(stat.f_bsize)).u32(narrow(stat.f_namemax)).u32(narrow(stat.f_frsize));
    bytes
}

/// `value` in 32 bits, the largest one if it does not fit: block sizes and name lengths always do.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Writes integers one after the other into a structure of known length.
struct Layout<'a>(&'a mut [u8]);

impl Layout<'_> {
    fn put(&mut self, field: &[u8]) -> &mut Self {
        let rest = std::mem::take(&mut self.0);
        if let Some((head, tail)) = rest.split_at_mut_checked(field.len()) {
            head.copy_from_slice(field);
            self.0 = tail;
        }
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_entry_has_node_zero_and_lasts() {
        let bytes = EntryReply::absent(Validity::Forever).encode();
        assert_eq!(bytes[..8], [0; 8]);
        assert_eq!(bytes[16..24], u64::from(u32::MAX).to_ne_bytes());
    }

    #[test]
    fn attributes_lie_where_the_kernel_reads_them() {
        let attr = Attr { inode: 1, size: 2, mode: 0o100_644, nlink: 3, ..Attr::default() };
        let bytes = encode_attr(&attr, Validity::Brief);
        assert_eq!(bytes[..8], 1_u64.to_ne_bytes());
        assert_eq!(bytes[16..24], 1_u64.to_ne_bytes());
        assert_eq!(bytes[24..32], 2_u64.to_ne_bytes());
        assert_eq!(bytes[16 + 60..16 + 64], 0o100_644_u32.to_ne_bytes());
        assert_eq!(bytes[16 + 64..16 + 68], 3_u32.to_ne_bytes());
    }
}
