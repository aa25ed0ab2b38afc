//! Whether a file lies on a file system of this node.

use std::os::fd::OwnedFd;

use rustix::fs::Stat;

/// Whether the file lies on a file system of this node, which the page cache serves as fast as memory.
///
/// By the table of mounts, because statfs(2) asks every server of a parallel file system. A device that is not in the
/// table, such as a subvolume's, is asked for after all.
pub(crate) fn is_local(file: &OwnedFd, stat: &Stat) -> bool {
    let mountinfo = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let device = format!("{}:{}", rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    match file_system_type(&mountinfo, &device) {
        Some(kind) => LOCAL_TYPES.contains(&kind),
        None => is_local_magic(file),
    }
}

/// The type of the file system with this device number. Source: proc_pid_mountinfo(5).
fn file_system_type<'m>(mountinfo: &'m [u8], device: &str) -> Option<&'m str> {
    mountinfo.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let found = fields.nth(2)? == device.as_bytes();
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        found.then(|| str::from_utf8(kind).ok()).flatten()
    })
}

/// File systems of one node. What is not here counts as a network file system.
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
        let cases = [("98:0", Some("ext4")), ("0:50", Some("fuse.mfs")), ("0:5", None)];
        for (device, expected) in cases {
            assert_eq!(file_system_type(mountinfo, device), expected);
        }
    }
}
