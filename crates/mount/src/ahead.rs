//! Reads a mapped image ahead of its use.
//!
//! Content lies in the order of first access. A fault of the mapping reads 128 KiB while its thread waits, and nothing meanwhile;
//! so two regions are read as soon as half of the one before them was used. A sparse use reads nothing ahead.

use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, fadvise};

/// The use of an image's file, by regions of [`REGION`] bytes.
#[derive(Debug)]
pub(crate) struct RegionUse {
    length: u64,
    /// Bytes that one advice reads.
    step: u64,
    /// Bytes of each region that were used; some twice.
    regions: Vec<AtomicU64>,
}

impl RegionUse {
    /// Nothing of a file of this length was used yet, which lies on this device.
    pub(crate) fn new(length: usize, device: u64) -> Self {
        let regions = (0..length.div_ceil(REGION)).map(|_| AtomicU64::new(0)).collect();
        Self { length: length as u64, step: read_at_once(device), regions }
    }

    /// The part from `start` is about to be used.
    pub(crate) fn about_to_use(&self, file: BorrowedFd<'_>, start: usize, bytes: usize) {
        each_region(start, bytes, |region, part| {
            let Some(used) = self.regions.get(region) else { return };
            let before = used.fetch_add(part, Ordering::Relaxed);
            if before < HALF && before + part >= HALF {
                // A disk takes as long for a region as a program for half of one: the second is under way meanwhile.
                self.read(file, region + 1);
                self.read(file, region + 2);
            }
        });
    }

    fn read(&self, file: BorrowedFd<'_>, region: usize) {
        let mut at = region as u64 * REGION as u64;
        let end = self.length.min(at + REGION as u64);
        while at < end {
            // A kernel that does not read ahead reads at the fault.
            _ = fadvise(file, at, NonZeroU64::new((end - at).min(self.step)), Advice::WillNeed);
            at += self.step;
        }
    }
}

fn each_region(start: usize, bytes: usize, mut count: impl FnMut(usize, u64)) {
    let end = start + bytes;
    let mut at = start;
    while at < end {
        let next = (at / REGION + 1) * REGION;
        count(at / REGION, (end.min(next) - at) as u64);
        at = next;
    }
}

/// Enough for a disk or a device to be busy while the program works on what was read.
const REGION: usize = 4 << 20;

/// From here on a use is dense.
const HALF: u64 = REGION as u64 / 2;

/// The kernel reads no more for one advice than it reads ahead on that device by itself.
fn read_at_once(device: u64) -> u64 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let set = std::fs::read_to_string(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"));
    let set = set.ok().and_then(|text| text.trim().parse::<u64>().ok()).map_or(0, |kib| kib << 10);
    set.clamp(LEAST_STEP, REGION as u64)
}

/// Linux's default for a disk.
const LEAST_STEP: u64 = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::mapping::Mapping;
    use std::os::fd::AsFd;

    #[test]
    fn a_part_counts_in_each_region_that_it_touches() {
        let mut counted = Vec::new();
        each_region(REGION - 10, REGION + 15, |region, part| counted.push((region, part)));
        assert_eq!(counted, [(0, 10), (1, REGION as u64), (2, 5)]);
    }

    /// Pages of a file in the page cache, by mincore(2) of a new mapping: each is one byte of the answer.
    fn cached(file: &std::fs::File, start: usize, length: usize) -> usize {
        let mapping = Mapping::of(file.as_fd(), start + length).unwrap();
        mapping.resident(start, length)
    }

    #[test]
    fn half_of_a_region_reads_the_next_two_and_less_reads_nothing() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        std::fs::write(file.path(), vec![7; 4 * REGION]).unwrap();
        let file = std::fs::File::open(file.path()).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        if cached(&file, 0, 4 * REGION) > 0 {
            println!("skipped, because this file system does not drop what it caches");
            return;
        }
        let regions = RegionUse::new(4 * REGION, 0);
        regions.about_to_use(file.as_fd(), 0, REGION / 2 - 1);
        assert_eq!(cached(&file, 0, 4 * REGION), 0);
        regions.about_to_use(file.as_fd(), REGION / 2, 1);
        // The kernel reads ahead while the program goes on.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(300);
        while [1, 2].iter().any(|region| cached(&file, region * REGION, REGION) == 0) {
            assert!(std::time::Instant::now() < until, "nothing is read ahead");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(cached(&file, 3 * REGION, REGION), 0);
        regions.about_to_use(file.as_fd(), 3 * REGION, REGION);
    }
}
