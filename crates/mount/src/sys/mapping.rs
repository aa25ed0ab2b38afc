//! Read-only memory maps of files.

use std::os::fd::BorrowedFd;
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A file mapped read-only from its first byte.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Maps the first `bytes` bytes of `file`, which stay mapped when the descriptor is closed.
    ///
    /// **Errors** `EINVAL` for zero bytes; what mmap(2) says otherwise.
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

impl AsRef<[u8]> for Mapping {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` and `bytes` are those of a mapping that lives as long as `self`; it is readable, and
        // whoever made it promised not to read bytes that are still being written (see `of`).
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
