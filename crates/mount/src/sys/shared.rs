//! Memory that a process shares with every process it forks, or with those that it sends the descriptor to.

use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::process::SingleThreaded;

/// Zeroed memory that stays one and the same across fork(2). Its pages come into being when they are touched.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// True while an [`Exclusive`] exists in this process.
    claimed: AtomicBool,
}

impl SharedMemory {
    /// Memory of `bytes` bytes, rounded up to whole pages.
    ///
    /// **Errors** `ENOMEM` where the address space or the memory that may be promised is used up.
    pub(crate) fn new(bytes: usize) -> Result<Self, Errno> {
        let bytes = bytes.next_multiple_of(PAGE);
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address (null), so no existing mapping is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        Ok(Self {
            start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?,
            bytes,
            claimed: AtomicBool::new(false),
        })
    }

    /// The first `bytes` bytes of a file of memory, which is not shortened while it is mapped: it has a seal against that.
    ///
    /// **Errors** what mmap(2) says.
    pub(crate) fn of_file(file: impl AsFd, bytes: usize) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address (null), so no existing mapping is replaced.
        let start = unsafe { mmap(null_mut(), bytes, access, MapFlags::SHARED, file, 0) }?;
        Ok(Self {
            start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?,
            bytes,
            claimed: AtomicBool::new(false),
        })
    }

    /// **Unit** bytes.
    pub(crate) fn length(&self) -> usize {
        self.bytes
    }

    /// The first byte, at a multiple of a page.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The integer at byte `at`, which every process sees change.
    ///
    /// **Panics** if it does not lie in this memory at a multiple of 8.
    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.bytes, "a word lies in its memory");
        // SAFETY: `at` is inside the mapping, as was just verified.
        let word = unsafe { self.start.add(at) };
        // SAFETY: the mapping is page-aligned, so the address is a multiple of 8; it is mapped as long as `self`
        // lives, and zeroed at first. What an `Exclusive` hands out as bytes is used as words only between its uses.
        unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) }
    }

    /// The first half of the integer at byte `at`, to wait for its change.
    ///
    /// **Panics** as [`Self::word`].
    pub(crate) fn half_word(&self, at: usize) -> &AtomicU32 {
        let word = self.word(at).as_ptr().cast();
        // SAFETY: aligned and mapped as in `word`; no place of this memory is used both as a whole word and as a half.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// Makes every page present and writable in this process.
    ///
    /// Before Linux 5.14 each page is written to instead.
    pub(crate) fn bring_in(&self) {
        // SAFETY: the range is exactly the one that mmap returned; the advice changes no bytes and takes no page away.
        if unsafe { madvise(self.start.as_ptr().cast(), self.bytes, Advice::LinuxPopulateWrite) }.is_ok() {
            return;
        }
        for page in (0..self.bytes).step_by(PAGE) {
            let word = self.word(page);
            let now = word.load(Ordering::Relaxed);
            // A compiler may make a mere read of a write that changes nothing, but not of one that may fail.
            let _is_as_it_was = word.compare_exchange(now, now, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// This memory for one user alone; `None` if this process has given it to one already.
    pub(crate) fn claim(self: &Arc<Self>) -> Option<Exclusive> {
        (!self.claimed.swap(true, Ordering::AcqRel)).then(|| Exclusive(Arc::clone(self)))
    }

    /// In a process that was forked by one of several threads: the thread that had claimed this memory does not
    /// exist here.
    pub(crate) fn forsake(&self, _alone: &SingleThreaded) {
        self.claimed.store(false, Ordering::Release);
    }
}

/// Memory that one user in this process has for itself. That no other process uses its bytes meanwhile is the promise
/// of the thread that claims it.
#[derive(Debug)]
pub(crate) struct Exclusive(Arc<SharedMemory>);

impl Exclusive {
    /// The memory, for its words.
    pub(crate) fn memory(&self) -> &SharedMemory {
        &self.0
    }

    /// The words before byte `at`, and the bytes from there on.
    ///
    /// **Panics** if `at` lies beyond the end.
    pub(crate) fn split(&mut self, at: usize) -> (SharedWords<'_>, &mut [u8]) {
        let memory = &*self.0;
        assert!(at <= memory.bytes, "the bytes lie in their memory");
        let words = SharedWords { start: memory.start, bytes: at, memory: PhantomData };
        // SAFETY: `at` is inside the mapping or at its end, as was just verified.
        let first = unsafe { memory.start.add(at) };
        // SAFETY: the rest of the mapping is readable, writable and initialised; this is its only user in this
        // process (`claimed`), and `&mut self` keeps that one from using it twice.
        (words, unsafe { std::slice::from_raw_parts_mut(first.as_ptr(), memory.bytes - at) })
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        self.0.claimed.store(false, Ordering::Release);
    }
}

/// The first words of a memory whose other bytes are in use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedWords<'m> {
    start: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'m SharedMemory>,
}

impl<'m> SharedWords<'m> {
    /// Word number `number`.
    ///
    /// **Panics** if there are not that many.
    pub(crate) fn at(&self, number: usize) -> &'m AtomicU64 {
        assert!(number < self.bytes / 8, "a word lies before the bytes");
        // SAFETY: the word is inside the mapping, as was just verified.
        let word = unsafe { self.start.add(number * 8) };
        // SAFETY: aligned and mapped as in `SharedMemory::word`, for as long as the memory is borrowed; the bytes
        // that `split` handed out begin behind the words.
        unsafe { AtomicU64::from_ptr(word.as_ptr().cast()) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the one that mmap returned, and no borrow of it outlives `self`.
        let _unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the mapping is memory like any other, and nothing of it is thread-local.
unsafe impl Send for SharedMemory {}
// SAFETY: shared access is through atomic integers only.
unsafe impl Sync for SharedMemory {}

/// The smallest page of the machines that quell is built for. Mappings are whole pages of the machine, which are not
/// smaller.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_bytes_are_one_memory_with_one_user() {
        let memory = Arc::new(SharedMemory::new(10_000).unwrap());
        assert_eq!(memory.length(), 12_288);
        memory.word(8).store(7, Ordering::Release);
        let mut claimed = memory.claim().unwrap();
        assert!(memory.claim().is_none());
        let (words, bytes) = claimed.split(4096);
        assert_eq!((words.at(1).load(Ordering::Acquire), bytes.len()), (7, 8192));
        bytes[0] = 9;
        let word = claimed.memory().word(4096).load(Ordering::Acquire);
        assert_eq!(word, u64::from_ne_bytes([9, 0, 0, 0, 0, 0, 0, 0]));
        drop(claimed);
        assert!(memory.claim().is_some());
    }
}
