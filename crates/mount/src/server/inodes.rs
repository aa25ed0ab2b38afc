//! Inode numbers that stay different when roots of several file systems become one mount.
//!
//! All roots are shown by one connection, so by one `st_dev`. Programs take equal device and inode numbers for the
//! same file (the dynamic loader would not load the second of two libraries), and small sequential inode numbers of
//! two servers do meet. So the numbers of the first root's file system are the original's, and those of every other
//! one get a constant of their own into their upper bits.

use std::path::{Path, PathBuf};

/// The constants.
#[derive(Debug)]
pub(crate) struct InodeNumbers {
    /// The first root's device, as the packing node saw it.
    first: u64,
    /// Each root with its constant.
    roots: Vec<(PathBuf, u64)>,
}

impl InodeNumbers {
    /// For these roots and their devices, the first root first.
    pub(crate) fn new(roots: impl IntoIterator<Item = (PathBuf, u64)>) -> Self {
        let roots: Vec<(PathBuf, u64)> = roots.into_iter().collect();
        let first = roots.first().map_or(0, |(_, device)| *device);
        let constants = roots.into_iter().map(|(path, device)| (path, constant(first, device))).collect();
        Self { first, roots: constants }
    }

    /// The number to show for `inode` of the recorded `device`.
    pub(crate) fn of_device(&self, device: u64, inode: u64) -> u64 {
        inode ^ constant(self.first, device)
    }

    /// The number to show for `inode` of an original at `path`, whose device number may differ from node to node.
    pub(crate) fn of_path(&self, path: &Path, inode: u64) -> u64 {
        let root = self.roots.iter().find(|(root, _)| path.starts_with(root));
        inode ^ root.map_or(0, |(_, constant)| *constant)
    }

    /// The root that `path` lies in.
    pub(crate) fn root_of(&self, path: &Path) -> Option<&Path> {
        self.roots.iter().map(|(root, _)| root.as_path()).find(|root| path.starts_with(root))
    }
}

/// Zero for the first device, else twelve bits of a hash of the device, where inode numbers rarely have any.
fn constant(first: u64, device: u64) -> u64 {
    // Knuth's multiplicative hash spreads neighbouring device numbers.
    let spread = device.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
    if device == first { 0 } else { (spread | 1) << 51 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_of_two_file_systems_differ() {
        let roots = [(PathBuf::from("/apps"), 40), (PathBuf::from("/home/u"), 41), (PathBuf::from("/x"), 40)];
        let numbers = InodeNumbers::new(roots);
        assert_eq!(numbers.of_device(40, 7), 7);
        assert_ne!(numbers.of_device(41, 7), 7);
        assert_eq!(numbers.of_path(Path::new("/home/u/a"), 7), numbers.of_device(41, 7));
        assert_eq!(numbers.of_path(Path::new("/x/a"), 7), 7);
        assert_eq!(numbers.of_path(Path::new("/homely"), 7), 7);
    }
}
