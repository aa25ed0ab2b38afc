//! Reads of one file by several threads: by calls, and through one shared mapping.

use super::phase::{Failed, PhaseLimit, PreparedPhase, in_threads};
use super::protocol::{DataAccess, DataTransfer, PhaseResult};
use crate::operation::{OperationTime, elapsed};
use crate::sys::Mapping;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;
use std::time::Instant;

/// Scattered accesses are at least so far apart: the kernel maps what it has of the 64 KiB around a fault
/// (`fault_around_bytes`), so a second touch of them would be none.
pub(crate) const SPOT: u64 = 64 << 10;

/// Blocks that are written before the server has them all: memory takes them faster, so without it the limit of time would
/// not hold. Not less than what is usually written.
const UNSYNCED: u64 = 128;

pub(super) fn prepare<'a>(data: &'a DataTransfer, root: BorrowedFd<'_>) -> Result<PreparedPhase<'a>, Failed> {
    let failed = |errno| (data.file.clone(), errno);
    if data.part >= data.parts {
        return Err(failed(Errno::INVAL));
    }
    let flags = match data.access {
        DataAccess::Write => OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC,
        _ => OFlags::RDONLY | OFlags::CLOEXEC,
    };
    let file =
        rustix::fs::openat(root, data.file.as_str(), flags, Mode::from_raw_mode(0o644)).map_err(failed)?;
    if data.drop_pages {
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).map_err(failed)?;
    }
    let mapping = match data.access {
        DataAccess::Mapped => {
            let bytes = usize::try_from(data.bytes).map_err(|_| failed(Errno::FBIG))?;
            Some(Mapping::of(file.as_fd(), bytes).map_err(failed)?)
        }
        DataAccess::Random => {
            rustix::fs::fadvise(&file, 0, None, Advice::Random).map_err(failed)?;
            None
        }
        DataAccess::Write | DataAccess::Sequential => None,
    };
    let reader = DataReader { data, file, mapping };
    Ok(Box::new(move || reader.run().map_err(|errno| (data.file.clone(), errno))))
}

#[derive(Debug)]
struct DataReader<'a> {
    data: &'a DataTransfer,
    file: OwnedFd,
    mapping: Option<Mapping>,
}

impl DataReader<'_> {
    fn run(&self) -> Result<PhaseResult, Errno> {
        let limit = PhaseLimit::of(self.data.limit_ms);
        let share = |thread: usize| self.share(thread as u64, limit).map_err(|errno| (String::new(), errno));
        let done = match self.data.threads {
            0 | 1 => share(0),
            threads => in_threads(threads.into(), share),
        };
        let done = done.map_err(|(_, errno)| errno)?;
        if self.data.access == DataAccess::Write {
            rustix::fs::fsync(&self.file)?;
        }
        Ok(done)
    }

    /// The accesses of one thread in its part of the file.
    fn share(&self, thread: u64, limit: PhaseLimit) -> Result<PhaseResult, Errno> {
        let step = if self.is_scattered() { SPOT } else { self.data.access.bytes() };
        let own = self.data.bytes / step / self.data.parts / u64::from(self.data.threads.max(1));
        let first = own * (self.data.part * u64::from(self.data.threads.max(1)) + thread);
        let mut buffer = vec![0x51; usize::try_from(self.data.access.bytes()).unwrap_or(0)];
        let mut done = PhaseResult::default();
        for number in 0..self.data.count {
            let (round, spot) = (number / own.max(1), number % own.max(1));
            // One access at least: a thread may begin late, and a rate of none means nothing.
            let is_over = number > 0 && limit.is_over();
            if is_over || own == 0 || (round > 0 && self.mapping.is_none() && !self.is_scattered()) {
                break;
            }
            if round > 0 && spot == 0 {
                self.forget(first * step, own * step)?;
            }
            let spot = if self.is_scattered() { scattered(spot, own) } else { spot };
            let began = Instant::now();
            self.access((first + spot) * step, &mut buffer)?;
            done.add(OperationTime { operation: elapsed(began), close: None });
            if self.data.access == DataAccess::Write && done.count.is_multiple_of(UNSYNCED) {
                rustix::fs::fsync(&self.file)?;
            }
        }
        Ok(done)
    }

    fn is_scattered(&self) -> bool {
        matches!(self.data.access, DataAccess::Random | DataAccess::Mapped)
    }

    fn access(&self, at: u64, buffer: &mut [u8]) -> Result<(), Errno> {
        let at_byte = |done: usize| at + done as u64;
        match (self.data.access, &self.mapping) {
            (DataAccess::Write, _) => {
                whole(|done| rustix::io::pwrite(&self.file, &buffer[done..], at_byte(done)), buffer.len())
            }
            (DataAccess::Mapped, Some(mapping)) => {
                let touched = usize::try_from(at).ok().and_then(|at| mapping.touch(at));
                touched.map(drop).ok_or(Errno::FAULT)
            }
            _ => {
                let bytes = buffer.len();
                whole(|done| rustix::io::pread(&self.file, &mut buffer[done..], at_byte(done)), bytes)
            }
        }
    }

    fn forget(&self, at: u64, bytes: u64) -> Result<(), Errno> {
        let (Some(mapping), Ok(at), Ok(bytes)) = (&self.mapping, usize::try_from(at), usize::try_from(bytes))
        else {
            return Ok(());
        };
        mapping.forget(at..at.saturating_add(bytes))
    }
}

/// A permutation of `0..count` whose neighbours are far apart: read-ahead must not guess the next.
fn scattered(number: u64, count: u64) -> u64 {
    // Two thirds of the way round, moved up to the next step that shares no divisor with the count.
    let step = (count * 2 / 3 + 1..).find(|step| divisor(*step, count) == 1).unwrap_or(1);
    number * step % count.max(1)
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Calls until all bytes went over. A file that ends early is an error: it was written whole.
fn whole(mut call: impl FnMut(usize) -> Result<usize, Errno>, bytes: usize) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes {
        match call(done)? {
            0 => return Err(Errno::IO),
            count => done += count,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_spots_are_a_permutation_without_neighbours() {
        for count in 1..500 {
            let mut spots: Vec<u64> = (0..count).map(|number| scattered(number, count)).collect();
            let follows = spots.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            assert!(count < 5 || follows == 0, "{count}");
            spots.sort_unstable();
            assert_eq!(spots, (0..count).collect::<Vec<_>>(), "{count}");
        }
    }
}
