//! Tells files of this node's file systems from those of network file systems.

use std::os::fd::OwnedFd;

use quell_base::mountinfo;
use rustix::fs::Stat;

/// Tells whether the file lies on a file system of this node, which the page cache serves as fast as memory.
///
/// The table of mounts answers, because statfs(2) asks every server of a parallel file system. Only a device that is not
/// in the table, such as that of a btrfs subvolume, needs statfs.
pub(crate) fn is_local(file: &OwnedFd, stat: &Stat) -> bool {
    match file_system_type(&mountinfo::own_table(), stat.st_dev) {
        Some(kind) => LOCAL_TYPES.contains(&&*kind),
        None => is_local_magic(file),
    }
}

/// The type of the file system with this device number.
fn file_system_type(table: &[u8], device: u64) -> Option<String> {
    let mount = mountinfo::entries(table).find(|mount| mount.device == device)?;
    String::from_utf8(mount.kind.into_owned()).ok()
}

/// File systems of one node. Any other counts as a network file system.
const LOCAL_TYPES: [&str; 13] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ramfs", "f2fs", "overlay", "zfs", "erofs", "squashfs",
    "bcachefs",
];

/// The same by the magic number of the file system. Source: statfs(2), `include/uapi/linux/magic.h`.
fn is_local_magic(file: &OwnedFd) -> bool {
    /// btrfs, overlay, ZFS, bcachefs: those whose files may have device numbers that are not in the table of mounts.
    const LOCAL: [u32; 4] = [0x9123_683E, 0x794C_7630, 0x2FC1_2FC1, 0xCA45_1A4E];
    // The type's sign and width differ between architectures; the magic numbers have 32 bits.
    rustix::fs::fstatfs(file).is_ok_and(|stat| LOCAL.contains(&(stat.f_type as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_file_system_is_read_from_the_table_of_mounts() {
        let mountinfo = b"36 35 98:0 / / rw,noatime master:1 - ext4 /dev/root rw\n\
            40 36 0:50 / /mnt rw - fuse.mfs mfs rw\n";
        let cases = [((98, 0), Some("ext4")), ((0, 50), Some("fuse.mfs")), ((0, 5), None)];
        for ((major, minor), expected) in cases {
            let device = rustix::fs::makedev(major, minor);
            assert_eq!(file_system_type(mountinfo, device).as_deref(), expected);
        }
    }
}
