//! Inode numbers that stay different when roots of several file systems become one mount.
//!
//! All roots are shown by one connection, so by one `st_dev`. Programs take equal device and inode numbers for the
//! same file (the dynamic loader would not load the second of two libraries), and small sequential inode numbers of
//! two servers do meet. So the numbers of the first root's file system are the original's, and those of every other
//! one get a constant of their own into their upper bits.

/// The constants.
#[derive(Debug)]
pub(crate) struct InodeNumbers {
    /// The first root's device, as the packing node saw it.
    first: u64,
}

impl InodeNumbers {
    /// For an image whose first root lies on this device.
    pub(crate) fn new(first: u64) -> Self {
        Self { first }
    }

    /// The number to show for `inode` of a device: as the image names it, or of this node's if the image does not know it.
    pub(crate) fn of_device(&self, device: u64, inode: u64) -> u64 {
        inode ^ constant(self.first, device)
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
        let numbers = InodeNumbers::new(40);
        assert_eq!(numbers.of_device(40, 7), 7);
        assert_ne!(numbers.of_device(41, 7), 7);
        assert_ne!(numbers.of_device(41, 7), numbers.of_device(42, 7));
    }
}
