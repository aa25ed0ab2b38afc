//! A shared, read-only mapping of a file: the one thing here that safe code cannot have.

use rustix::fd::BorrowedFd;
use rustix::io::Result;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Pages of a file in memory. They are only read, one byte at a time.
#[derive(Debug)]
pub(crate) struct Mapping {
    begin: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the memory is never written through the mapping, and reads are volatile; any thread may read it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes of a file, with read-ahead switched off, so that each page is a fault of its own.
    ///
    /// **Errors**: those of mmap(2), such as `ENODEV` where the file system has no mappings.
    pub(crate) fn of(file: BorrowedFd<'_>, bytes: usize) -> Result<Self> {
        let none = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory of ours.
        let begin = unsafe { rustix::mm::mmap(none, bytes, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        let mapping = Self { begin: NonNull::new(begin).ok_or(rustix::io::Errno::NOMEM)?, bytes };
        // SAFETY: advice about memory that this value owns; `Random` changes no content.
        unsafe { rustix::mm::madvise(mapping.begin.as_ptr(), bytes, Advice::Random)? };
        Ok(mapping)
    }

    /// Takes the pages of a range out of the page tables, so that the next touch of each is a fault again; what the kernel
    /// has of the file stays in memory. Past the end is an error.
    pub(crate) fn forget(&self, range: std::ops::Range<usize>) -> Result<()> {
        if range.start > range.end || range.end > self.bytes {
            return Err(rustix::io::Errno::INVAL);
        }
        // SAFETY: the range is within the mapping, as compared above.
        let begin = unsafe { self.begin.cast::<u8>().add(range.start) };
        // SAFETY: a shared mapping of a file is read from the file again, so its content does not change.
        unsafe { rustix::mm::madvise(begin.as_ptr().cast(), range.len(), Advice::LinuxDontNeed) }
    }

    /// Reads the byte at `offset`, which brings its page in. `None` past the end.
    ///
    /// A file that is cut short meanwhile ends the process by `SIGBUS`: it is a file of the load, which no other
    /// program knows, and the process is a worker.
    pub(crate) fn touch(&self, offset: usize) -> Option<u8> {
        if offset >= self.bytes {
            return None;
        }
        // SAFETY: the offset is within the mapping, as compared above.
        let byte = unsafe { self.begin.cast::<u8>().add(offset) };
        // SAFETY: the mapping is readable and lives as long as `self`.
        Some(unsafe { byte.read_volatile() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing points into it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.begin.as_ptr(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of what mmap gave");
    }
}
