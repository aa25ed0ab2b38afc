//! Read-only memory maps of files.

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A file mapped read-only from its first byte.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps the first `bytes` bytes of `file`, which stay mapped when the descriptor is closed.
    ///
    /// **Errors** `EINVAL` for zero bytes; else those of mmap(2).
    ///
    /// The caller keeps two promises that the type cannot: the file is not shortened while it is mapped (a touched
    /// page beyond its end raises SIGBUS), and bytes that are still being written are not read.
    pub(crate) fn of(file: BorrowedFd<'_>, bytes: usize) -> Result<Self, Errno> {
        // SAFETY: the kernel chooses the address (null), so no existing mapping is replaced.
        let start = unsafe { mmap(null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { start, bytes })
    }
}

impl Mapping {
    /// Brings the pages of `length` bytes from `start` into this process, as if they had been read.
    ///
    /// **Errors** `EFAULT` for bytes that the file does not have any more, where reading them would raise SIGBUS;
    /// `EINVAL` before Linux 5.14, and for bytes outside the mapping.
    pub(crate) fn bring_in(&self, start: usize, length: usize) -> Result<(), Errno> {
        let first = start - start % PAGE;
        let length = (start % PAGE).checked_add(length).ok_or(Errno::INVAL)?;
        if first.checked_add(length).is_none_or(|end| end > self.bytes) {
            return Err(Errno::INVAL);
        }
        // SAFETY: `first` is inside the mapping, as was just verified.
        let address = unsafe { self.start.add(first) };
        // SAFETY: the advice changes no bytes and takes no page away, and the range lies in the mapping.
        unsafe { madvise(address.as_ptr().cast(), length, Advice::LinuxPopulateRead) }
    }

    /// Pages of a range that are in memory.
    #[cfg(test)]
    pub(crate) fn resident(&self, start: usize, length: usize) -> usize {
        let mut pages = vec![0_u8; length.div_ceil(PAGE)];
        // SAFETY: the range lies in the mapping.
        let first = unsafe { self.start.add(start) };
        // SAFETY: the vector has a byte for each page of the range.
        let known = unsafe { libc::mincore(first.as_ptr().cast(), length, pages.as_mut_ptr()) };
        assert_eq!(known, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }
}

/// The unit of the advice's addresses. Machines with larger pages say `EINVAL` for others, as old kernels do.
const PAGE: usize = 4096;

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` and `bytes` are those of a mapping that lives as long as `self`; it is readable, and
        // its maker promised not to read bytes that are still being written (see `of`).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the one that mmap returned, and no borrow of it outlives `self`.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the mapping is memory like any other, readable from every thread, and nothing of it is thread-local.
unsafe impl Send for Mapping {}
// SAFETY: shared access only reads.
unsafe impl Sync for Mapping {}
