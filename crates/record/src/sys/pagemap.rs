//! Lists the present pages of a process's memory.
//!
//! From kernel 6.7 one call walks the page tables and returns runs of present pages (`PAGEMAP_SCAN`); earlier kernels
//! need a word read for each page. Source: `Documentation/admin-guide/mm/pagemap.rst`.

use super::checked;
use quell_trace::Pid;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// A range of addresses.
pub(crate) type Addresses = Range<u64>;

/// `/proc/PID/pagemap` of a stopped thread.
#[derive(Debug)]
pub(crate) struct PageMap<'a> {
    file: File,
    page: u64,
    way: &'a mut Way,
}

/// The method of the query. Words are read where the kernel cannot scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By `PAGEMAP_SCAN`.
    Scan,
    /// By reading a word a page.
    Words,
}

impl<'a> PageMap<'a> {
    /// Opens the map of a thread. `way` remembers a kernel that cannot scan for later calls.
    ///
    /// # Errors
    /// `EACCES` where the process may not be inspected, such as one that cleared `PR_SET_DUMPABLE`.
    pub(crate) fn open(thread: Pid, way: &'a mut Way) -> io::Result<Self> {
        let file = File::open(format!("/proc/{thread}/pagemap"))?;
        Ok(Self { file, page: page_size(), way })
    }

    /// Calls `each` for every run of pages in a range that are present or swapped out. Ascending.
    pub(crate) fn present(&mut self, range: &Addresses, mut each: impl FnMut(Addresses)) -> io::Result<()> {
        if *self.way == Way::Scan {
            match self.scan(range, &mut each) {
                Err(error) if cannot_scan(&error) => *self.way = Way::Words,
                result => return result,
            }
        }
        self.words(range, each)
    }

    /// True when the memory still existed at this time. A killed process loses it at any time, and then no page is
    /// present.
    pub(crate) fn is_alive(&self, address: u64) -> bool {
        let mut word = [0; WORD];
        self.file.read_exact_at(&mut word, address / self.page * WORD as u64).is_ok()
    }

    fn scan(&self, range: &Addresses, each: &mut impl FnMut(Addresses)) -> io::Result<()> {
        let mut regions = [Region::default(); REGIONS];
        let mut start = range.start;
        while start < range.end {
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                start,
                end: range.end,
                regions: regions.as_mut_ptr() as u64,
                regions_length: REGIONS as u64,
                any_of: IS_PRESENT | IS_SWAPPED,
                ..Scan::default()
            };
            // SAFETY: `scan` is the structure that the request takes, and points to `regions` with its length; both
            // outlive the call, and the kernel checks the range.
            let found = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
            let found = checked(found)? as usize;
            regions.iter().take(found).for_each(|region| each(region.start..region.end));
            if scan.walk_end <= start {
                break;
            }
            start = scan.walk_end;
        }
        Ok(())
    }

    fn words(&self, range: &Addresses, mut each: impl FnMut(Addresses)) -> io::Result<()> {
        let mut words = vec![0; AT_ONCE.min((range.end - range.start) / self.page * WORD as u64) as usize];
        let mut run = range.start..range.start;
        let mut address = range.start;
        while address < range.end {
            let wanted = words.len().min(((range.end - address) / self.page) as usize * WORD);
            let read = self.file.read_at(&mut words[..wanted], address / self.page * WORD as u64)?;
            if read < WORD {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for word in words[..read].as_chunks::<WORD>().0 {
                let next = address + self.page;
                if u64::from_ne_bytes(*word) & (PRESENT | SWAPPED) != 0 {
                    run = joined(run, address..next, &mut each);
                }
                address = next;
            }
        }
        joined(run, range.end..range.end, &mut each);
        Ok(())
    }
}

/// Joins a run with an adjacent one. Otherwise passes `run` to `each` and begins with `next`.
fn joined(run: Addresses, next: Addresses, each: &mut impl FnMut(Addresses)) -> Addresses {
    if run.end == next.start && !next.is_empty() {
        return run.start..next.end;
    }
    if !run.is_empty() {
        each(run);
    }
    next
}

/// Kernels before 6.7 return `ENOTTY`; a filter may return `EPERM` or `ENOSYS`.
fn cannot_scan(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL | libc::EPERM | libc::ENOSYS))
}

/// The page size of this machine. Unit: bytes.
pub(crate) fn page_size() -> u64 {
    // SAFETY: the call has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

/// The size of the file's entry for a page. Unit: bytes.
const WORD: usize = 8;
/// The number of bytes read at once: the words of 32768 pages.
const AT_ONCE: u64 = 1 << 18;
/// Bits of an entry.
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

/// The maximum number of runs that one call returns.
const REGIONS: usize = 256;
/// Source: `linux/fs.h`: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610_u32 as libc::Ioctl;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;

/// `struct pm_scan_arg` of `linux/fs.h`.
#[derive(Debug, Default)]
#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region` of `linux/fs.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}
