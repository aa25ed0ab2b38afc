//! Inodes: the 64 bytes of the extended form, the only one with nanoseconds and 32-bit owners.
//!
//! ```text
//!  0 format u16   bit 0 = extended, bits 1..4 = layout     24 uid u32
//!  2 xattr_icount u16                                      28 gid u32
//!  4 mode u16                                              32 mtime i64
//!  6 reserved u16                                          40 mtime_nsec u32
//!  8 size u64                                              44 nlink u32
//! 16 start block u32, device number u32, or chunk format   48 reserved [16]
//! 20 ino u32      1 + number of the row in quell's index
//! ```

use crate::bytes::{i64_at, put, u16_at, u32_at, u64_at};
use crate::erofs::xattr;
use crate::model::{DeviceNumber, FileKind, Timestamp};

/// Size of an extended inode in bytes.
pub(crate) const INODE: usize = 64;

/// Bit of the format field that says "extended".
const EXTENDED: u16 = 1;

/// The place of an inode's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataLayout {
    /// In whole blocks (`EROFS_INODE_FLAT_PLAIN`).
    Plain,
    /// In whole blocks but for the last, which follows the inode (`EROFS_INODE_FLAT_INLINE`).
    Inline,
    /// By a map of chunks that follows the inode (`EROFS_INODE_CHUNK_BASED`).
    Chunks,
}

impl DataLayout {
    fn code(self) -> u16 {
        match self {
            Self::Plain => 0,
            Self::Inline => 2,
            Self::Chunks => 4,
        }
    }

    fn parse(code: u16) -> Option<Self> {
        [Self::Plain, Self::Inline, Self::Chunks].into_iter().find(|layout| layout.code() == code)
    }
}

/// An inode, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) layout: DataLayout,
    pub(crate) kind: FileKind,
    /// The twelve permission bits.
    pub(crate) permissions: u16,
    /// Bytes of data; of a directory, its blocks here and not what `stat` says of the original.
    pub(crate) size: u64,
    /// Start block, device number or chunk format, by kind and layout.
    pub(crate) start: u32,
    /// 1 + number of the row in quell's index.
    pub(crate) number: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Timestamp,
    pub(crate) nlink: u32,
    /// Bytes of the extended attributes that follow the header.
    pub(crate) xattr_bytes: u32,
}

impl Inode {
    /// Parses the inode at the start of `raw`; `None` if it is cut short or of a form that images do not have.
    pub(crate) fn parse(raw: &[u8]) -> Option<Self> {
        let format = u16_at(raw, 0)?;
        if format & EXTENDED == 0 {
            return None;
        }
        let mode = u16_at(raw, 4)?;
        let nanoseconds = u32_at(raw, 40)?;
        (nanoseconds < 1_000_000_000).then_some(())?;
        let inode = Self {
            layout: DataLayout::parse(format >> 1)?,
            kind: FileKind::from_mode(u32::from(mode))?,
            permissions: mode & 0o7777,
            size: u64_at(raw, 8)?,
            start: u32_at(raw, 16)?,
            number: u32_at(raw, 20)?,
            uid: u32_at(raw, 24)?,
            gid: u32_at(raw, 28)?,
            mtime: Timestamp { seconds: i64_at(raw, 32)?, nanoseconds },
            nlink: u32_at(raw, 44)?,
            xattr_bytes: xattr::body_bytes(u16_at(raw, 2)?),
        };
        (raw.len() >= INODE).then_some(inode)
    }

    /// The 64 bytes of this inode.
    pub(crate) fn encode(&self) -> [u8; INODE] {
        let mut raw = [0; INODE];
        put(&mut raw, 0, &(EXTENDED | self.layout.code() << 1).to_le_bytes());
        put(&mut raw, 2, &xattr::count_field(self.xattr_bytes).to_le_bytes());
        put(&mut raw, 4, &(self.kind.mode_bits() | self.permissions).to_le_bytes());
        put(&mut raw, 8, &self.size.to_le_bytes());
        put(&mut raw, 16, &self.start.to_le_bytes());
        put(&mut raw, 20, &self.number.to_le_bytes());
        put(&mut raw, 24, &self.uid.to_le_bytes());
        put(&mut raw, 28, &self.gid.to_le_bytes());
        put(&mut raw, 32, &self.mtime.seconds.to_le_bytes());
        put(&mut raw, 40, &self.mtime.nanoseconds.to_le_bytes());
        put(&mut raw, 44, &self.nlink.to_le_bytes());
        raw
    }
}

/// A device number as inodes keep it: `new_encode_dev` of the kernel. `None` above 12 bits of major or
/// 20 bits of minor number, which Linux does not have.
pub(crate) fn encode_device(device: DeviceNumber) -> Option<u32> {
    (device.major < 1 << 12 && device.minor < 1 << 20)
        .then_some((device.minor & 0xFF) | device.major << 8 | (device.minor & !0xFF) << 12)
}

/// The device number that `encode_device` stored: `new_decode_dev` of the kernel.
pub(crate) fn decode_device(code: u32) -> DeviceNumber {
    DeviceNumber { major: (code & 0xF_FF00) >> 8, minor: (code & 0xFF) | ((code >> 12) & 0xF_FF00) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_was_encoded() {
        for (layout, kind) in [
            (DataLayout::Plain, FileKind::Regular),
            (DataLayout::Inline, FileKind::Directory),
            (DataLayout::Chunks, FileKind::Regular),
            (DataLayout::Plain, FileKind::Socket),
        ] {
            let inode = Inode {
                layout,
                kind,
                permissions: 0o6751,
                size: 5 << 40,
                start: 9,
                number: 11,
                uid: 70_000,
                gid: u32::MAX,
                mtime: Timestamp { seconds: -3, nanoseconds: 999_999_999 },
                nlink: 66_000,
                xattr_bytes: 16,
            };
            assert_eq!(Inode::parse(&inode.encode()), Some(inode));
            assert_eq!(Inode::parse(&inode.encode()[..63]), None);
        }
    }

    #[test]
    fn device_numbers_survive() {
        for (major, minor) in [(0, 0), (1, 3), (259, 65_537), (4095, 1_048_575)] {
            let device = DeviceNumber { major, minor };
            assert_eq!(encode_device(device).map(decode_device), Some(device));
        }
        assert_eq!(encode_device(DeviceNumber { major: 4096, minor: 0 }), None);
        assert_eq!(encode_device(DeviceNumber { major: 0, minor: 1 << 20 }), None);
    }
}
