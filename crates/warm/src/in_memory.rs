//! File systems whose files are in memory, or are no files at all: nothing can be warmed there, and to read may wait for ever.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use quell_base::mountinfo::{self, is_made_up};

/// The mounts of this node that are left alone.
#[derive(Debug, Default)]
pub(crate) struct InMemory {
    devices: HashSet<u64>,
    /// Every mount point, and whether its file system is one of these. Sorted by length, the longest first; of mounts at one place
    /// the last is first.
    mounts: Vec<(PathBuf, bool)>,
}

impl InMemory {
    pub(crate) fn of_this_node() -> Self {
        Self::of_table(&mountinfo::own_table())
    }

    fn of_table(table: &[u8]) -> Self {
        let mut found = Self::default();
        for mount in mountinfo::entries(table) {
            let is_one = std::str::from_utf8(&mount.kind)
                .is_ok_and(|kind| is_made_up(kind) || IN_MEMORY.contains(&kind));
            found.mounts.insert(0, (Path::new(OsStr::from_bytes(&mount.mount_point)).to_owned(), is_one));
            if is_one {
                found.devices.insert(mount.device);
            }
        }
        found.mounts.sort_by_key(|(point, _)| std::cmp::Reverse(point.as_os_str().len()));
        found
    }

    /// Tells whether `path`, which is absolute, lies on one of them. No file system is asked.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.mounts.iter().find(|(point, _)| path.starts_with(point)).is_some_and(|(_, is_one)| *is_one)
    }

    /// Tells whether a file of `device` does.
    pub(crate) fn has_device(&self, device: u64) -> bool {
        self.devices.contains(&device)
    }
}

/// File systems in memory, and those that mount others. The files that the kernel makes up are [`is_made_up`]'s.
const IN_MEMORY: &[&str] = &["autofs", "hugetlbfs", "ramfs", "tmpfs"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_decides_and_of_two_the_upper_one() {
        let found = InMemory::of_table(
            b"1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:5 / /proc rw - proc proc rw\n3 2 0:6 / /proc/sw rw - nfs4 s:/ rw\n\
              4 1 0:7 / /run rw - tmpfs t rw\n5 1 8:1 /r /run rw - ext4 /dev/a rw\n",
        );
        for (path, expected) in [
            ("/proc/1/stat", true),
            ("/proc/sw/a", false),
            ("/process", false),
            ("/run/a", false),
            ("/", false),
        ] {
            assert_eq!(found.holds(Path::new(path)), expected, "{path}");
        }
        assert!(found.has_device(rustix::fs::makedev(0, 5)) && !found.has_device(rustix::fs::makedev(8, 1)));
    }
}
