//! Appends that survive a killed server. The next server neither loses nor repeats data, except in one case: an append of
//! several pages was cut short, and another process appended the same bytes in that moment. A part may then be missing or
//! stand there twice (`docs/differences.md`).
//!
//! The kernel moves an open file's position within the same system call that appends, behind what it appended. The open
//! file outlives the server, so its position proves what a killed server did, whatever other processes append meanwhile: it
//! is set to zero first, and as long as it is zero nothing was appended.
//!
//! A system call that is cut short by the kill has appended the first part of the data. The rest is then appended by
//! itself. The length of the first part follows from the file's size before, or is looked for in the file.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::LiveTier;
use crate::fuse::request::Caller;
use crate::server::handles::Handle;
use crate::server::slots::{Attempt, EarlierProgress, SlotNote};

impl LiveTier {
    /// Appends `data`. The caller holds the handle's lock. Returns how many bytes of it were written.
    pub(crate) fn append(
        &self,
        handle: &Handle,
        file: &OwnedFd,
        data: &[u8],
        caller: Caller,
        attempt: Attempt<'_>,
    ) -> Result<usize, Errno> {
        let appended = match attempt.before() {
            EarlierProgress::Done(Ok(())) | EarlierProgress::Complete(Ok(())) => {
                return Ok(usize::try_from(attempt.remembered(SlotNote::Written)).unwrap_or(data.len()));
            }
            EarlierProgress::Done(Err(errno)) | EarlierProgress::Complete(Err(errno)) => return Err(errno),
            EarlierProgress::Begun => self.appended_before(handle, file, data, attempt)?,
            EarlierProgress::Nothing => {
                attempt.remember(SlotNote::Size, rustix::fs::fstat(file)?.st_size.cast_unsigned());
                rustix::fs::seek(file, SeekFrom::Start(0))?;
                attempt.remember(SlotNote::Progress, Progress { appended: 0, position: 0 }.pack());
                attempt.begin();
                0
            }
        };
        let outcome = if appended < data.len() {
            let rest = self
                .packed
                .viewer
                .act_as(caller, || self.bindings.originals.append(file, &data[appended..]))
                .flatten();
            match rest {
                Err(_) if appended > 0 => Ok(appended),
                rest => rest.map(|rest| appended + rest),
            }
        } else {
            Ok(appended)
        };
        attempt.remember(SlotNote::Written, *outcome.as_ref().unwrap_or(&0) as u64);
        attempt.finish(outcome.as_ref().map(|_| ()).map_err(|errno| *errno));
        outcome
    }

    /// Bytes of `data` that an earlier server appended before it was killed; noted for the next one.
    fn appended_before(
        &self,
        handle: &Handle,
        file: &OwnedFd,
        data: &[u8],
        attempt: Attempt<'_>,
    ) -> Result<usize, Errno> {
        let known = Progress::unpack(attempt.remembered(SlotNote::Progress));
        let position = rustix::fs::seek(file, SeekFrom::Current(0))?;
        let appended = known.appended.min(data.len());
        if position & POSITION == known.position {
            return Ok(appended);
        }
        let room = position.checked_sub(attempt.remembered(SlotNote::Size)).filter(|room| *room > 0);
        let rest = &data[appended..];
        // Less room than that only where another process cut the file meanwhile.
        let most = usize::try_from(room.unwrap_or(position)).map_or(rest.len(), |room| room.min(rest.len()));
        let region = self.region_before(handle, position, most);
        let appended = appended + region.map_or(most, |region| overlap(&region, rest));
        attempt.remember(SlotNote::Progress, Progress { appended, position: position & POSITION }.pack());
        Ok(appended)
    }

    /// The bytes of a file before `position`; `None` if they cannot be read.
    fn region_before(&self, handle: &Handle, position: u64, length: usize) -> Option<Vec<u8>> {
        let reader = if handle.reads() {
            handle.file()?
        } else {
            let original = self.bindings.pin(handle.node).ok()?;
            Arc::new(self.bindings.originals.open(&original, OFlags::RDONLY).ok()?)
        };
        let mut region = vec![0; length];
        let bytes = self.bindings.originals.read(&reader, &mut region, position - length as u64).ok()?;
        (bytes == length).then_some(region)
    }
}

/// Bytes at the beginning of `data` that stand at the end of `region`; all of the region where none do, because it was written
/// over since.
fn overlap(region: &[u8], data: &[u8]) -> usize {
    let most = region.len().min(data.len());
    (1..=most).rev().find(|length| region.ends_with(&data[..*length])).unwrap_or(most)
}

/// The progress of an append: the bytes that stand in the file, and the open file's position after them, modulo 2^40.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    appended: usize,
    position: u64,
}

const POSITION: u64 = (1 << 40) - 1;

impl Progress {
    fn pack(self) -> u64 {
        (self.appended as u64) << 40 | self.position
    }

    fn unpack(word: u64) -> Self {
        Self { appended: usize::try_from(word >> 40).unwrap_or(usize::MAX), position: word & POSITION }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_append_is_found_at_its_end() {
        assert_eq!(overlap(b"otherabc", b"abcdef"), 3);
        assert_eq!(overlap(b"abcdef", b"abcdef"), 6);
        assert_eq!(overlap(b"zzzz", b"abcdef"), 4, "written over since");
        assert_eq!(overlap(b"", b"abcdef"), 0);
    }

    #[test]
    fn progress_is_one_word() {
        let progress = Progress { appended: 1 << 20, position: POSITION };
        assert_eq!(Progress::unpack(progress.pack()), progress);
    }
}
