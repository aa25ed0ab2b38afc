//! Writes a container: appends stay in memory until they fill large aligned pieces, or until they must be on stable storage.
//!
//! Bytes that cannot be written stay in memory, and are tried again: nothing that was appended is dropped.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use quell_base::lock;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Writes end at multiples of this, unless they must end earlier. Lustre's stripes and the blocks of object stores are not longer.
/// Unit: bytes.
pub const ALIGNED: u64 = 4 << 20;

/// Room that is reserved behind what is written, so that what memory holds has a place. Unit: bytes.
const RESERVED: u64 = 4 * ALIGNED;

/// A container that is written.
#[derive(Debug)]
pub struct Log {
    file: File,
    state: Mutex<LogState>,
    /// Held while the file is written to or synchronised.
    turn: Mutex<Turn>,
}

#[derive(Debug)]
struct LogState {
    /// The length of what the file has.
    written: u64,
    /// Bytes that come behind it.
    tail: Vec<u8>,
    /// The error of the last write; `None` once one has succeeded.
    failure: Option<Errno>,
    writes: u64,
}

#[derive(Debug, Default)]
struct Turn {
    /// The length of what is on stable storage.
    stable: u64,
    /// The end of the reserved room; `None` where the file system reserves none.
    reserved: Option<u64>,
    /// An error that a synchronisation met. The kernel tells each once, and forgets what it could not write.
    lost: Option<Errno>,
}

/// The amount to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amount {
    Aligned,
    All,
}

impl Log {
    /// Writes to a new file, opened for reading and writing.
    pub fn new(file: File) -> Self {
        let state = LogState { written: 0, tail: Vec::new(), failure: None, writes: 0 };
        let turn = Turn { reserved: Some(0), ..Turn::default() };
        Self { file, state: Mutex::new(state), turn: Mutex::new(turn) }
    }

    /// Appends, and returns the place at which the bytes lie from now on.
    pub fn append(&self, bytes: &[u8]) -> u64 {
        let mut state = lock(&self.state);
        let place = state.end();
        state.tail.extend_from_slice(bytes);
        place
    }

    /// The length of the container.
    pub fn end(&self) -> u64 {
        lock(&self.state).end()
    }

    /// Bytes that are in memory alone.
    pub fn unwritten(&self) -> u64 {
        lock(&self.state).tail.len() as u64
    }

    /// The number of writes that the file system was asked for.
    pub fn writes(&self) -> u64 {
        lock(&self.state).writes
    }

    /// The error of the last write, if it failed.
    pub fn failure(&self) -> Option<Errno> {
        lock(&self.state).failure
    }

    /// Reads what was appended, from memory or from the file.
    ///
    /// # Errors
    /// `EIO` behind the end; the error of pread(2).
    pub fn read(&self, buffer: &mut [u8], place: u64) -> Result<(), Errno> {
        let in_file = {
            let state = lock(&self.state);
            let in_file = state.written.saturating_sub(place).min(buffer.len() as u64) as usize;
            let from = usize::try_from((place + in_file as u64) - state.written.min(place + in_file as u64));
            let from = from.map_err(|_| Errno::IO)?;
            let rest = &mut buffer[in_file..];
            let tail = state.tail.get(from..).and_then(|tail| tail.get(..rest.len()));
            if !rest.is_empty() {
                rest.copy_from_slice(tail.ok_or(Errno::IO)?);
            }
            in_file
        };
        let read = self.file.read_exact_at(&mut buffer[..in_file], place);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// Writes what fills aligned pieces.
    ///
    /// # Errors
    /// Those of pwrite(2). What was not written stays in memory.
    pub fn write_pieces(&self) -> Result<(), Errno> {
        self.write(&mut lock(&self.turn), Amount::Aligned)
    }

    /// Writes everything.
    ///
    /// # Errors
    /// As [`Self::write_pieces`].
    pub fn write_all(&self) -> Result<(), Errno> {
        self.write(&mut lock(&self.turn), Amount::All)
    }

    /// Writes everything up to `end`, and waits until it is on stable storage.
    ///
    /// # Errors
    /// Those of pwrite(2) and fdatasync(2). After an error of fdatasync(2) each later call fails with it too.
    pub fn synchronise(&self, end: u64) -> Result<(), Errno> {
        let mut turn = lock(&self.turn);
        if let Some(errno) = turn.lost {
            return Err(errno);
        }
        // Another one has waited for it.
        if turn.stable >= end {
            return Ok(());
        }
        self.write(&mut turn, Amount::All)?;
        let written = lock(&self.state).written;
        match rustix::fs::fdatasync(&self.file) {
            Ok(()) => turn.stable = written,
            Err(errno) => turn.lost = Some(errno),
        }
        turn.lost.map_or(Ok(()), Err)
    }

    /// Makes sure that `bytes` more can be written.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT` where the file system has no room for them; the error of the last write, where it fails again.
    pub fn reserve(&self, bytes: u64) -> Result<(), Errno> {
        let end = {
            let state = lock(&self.state);
            state.end() + bytes
        };
        let mut turn = lock(&self.turn);
        if let Some(errno) = turn.lost {
            return Err(errno);
        }
        let Some(reserved) = turn.reserved else {
            return if self.failure().is_some() { self.write(&mut turn, Amount::All) } else { Ok(()) };
        };
        if end <= reserved {
            return Ok(());
        }
        let allocate = |end: u64| fallocate(&self.file, FallocateFlags::KEEP_SIZE, reserved, end - reserved);
        // A nearly full file system may still have room for what is needed now.
        let asked = [end + RESERVED, end].into_iter().map(|end| (end, allocate(end)));
        match asked.reduce(|first, second| if first.1.is_ok() { first } else { second }) {
            Some((end, Ok(()))) => {
                turn.reserved = Some(end);
                Ok(())
            }
            Some((_, Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)))) => Err(errno),
            _ => {
                turn.reserved = None;
                Ok(())
            }
        }
    }

    /// Tries again where the last write failed.
    ///
    /// # Errors
    /// As [`Self::synchronise`].
    pub fn recheck(&self) -> Result<(), Errno> {
        if self.failure().is_some() {
            self.write_all()?;
        }
        lock(&self.turn).lost.map_or(Ok(()), Err)
    }

    /// Gives back the room that was reserved.
    pub fn trim(&self) {
        let mut turn = lock(&self.turn);
        if turn.reserved.take().is_some() {
            // The next process to write has less room otherwise, and nothing is wrong.
            _ = rustix::fs::ftruncate(&self.file, lock(&self.state).written);
        }
    }

    fn write(&self, _turn: &mut Turn, amount: Amount) -> Result<(), Errno> {
        let goal = {
            let state = lock(&self.state);
            match amount {
                Amount::All => state.end(),
                Amount::Aligned => state.end() / ALIGNED * ALIGNED,
            }
        };
        loop {
            // Others append and read meanwhile.
            let (at, part) = {
                let state = lock(&self.state);
                let end = goal.min((state.written / ALIGNED + 1) * ALIGNED);
                let Some(length) = end.checked_sub(state.written).filter(|length| *length > 0) else {
                    return Ok(());
                };
                (state.written, state.tail[..length as usize].to_vec())
            };
            let outcome = self.file.write_all_at(&part, at);
            let mut state = lock(&self.state);
            state.writes += 1;
            match outcome {
                Ok(()) => {
                    state.tail.drain(..part.len());
                    state.written += part.len() as u64;
                    state.failure = None;
                }
                Err(error) => {
                    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                    state.failure = Some(errno);
                    return Err(errno);
                }
            }
        }
    }
}

impl LogState {
    fn end(&self) -> u64 {
        self.written + self.tail.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_read_back_from_memory_and_file() {
        let log = Log::new(tempfile::tempfile().unwrap());
        let bytes: Vec<u8> = (0..9_000_000_u32).map(|at| (at / 7) as u8).collect();
        assert_eq!(log.append(&bytes[..5_000_000]), 0);
        log.write_pieces().unwrap();
        assert_eq!((log.unwritten(), log.writes()), (5_000_000 - ALIGNED, 1));
        assert_eq!(log.append(&bytes[5_000_000..]), 5_000_000);
        let check = |log: &Log| {
            for (place, length) in
                [(0, 10), (ALIGNED - 5, 10), (ALIGNED, 10), (8_999_990, 10), (0, 9_000_000)]
            {
                let mut buffer = vec![0; length];
                log.read(&mut buffer, place).unwrap();
                assert!(buffer == bytes[place as usize..][..length], "{place}");
            }
            assert_eq!(log.read(&mut [0; 2], 8_999_999), Err(Errno::IO));
        };
        check(&log);
        log.reserve(1 << 20).unwrap();
        log.synchronise(log.end()).unwrap();
        log.trim();
        assert_eq!((log.unwritten(), log.file.metadata().unwrap().len()), (0, 9_000_000));
        check(&log);
    }

    #[test]
    fn what_cannot_be_written_stays() {
        let log = Log::new(File::options().read(true).write(true).open("/dev/full").unwrap());
        log.append(b"kept");
        assert_eq!(log.write_all(), Err(Errno::NOSPC));
        assert_eq!(log.failure(), Some(Errno::NOSPC));
        let mut buffer = [0; 4];
        log.read(&mut buffer, 0).unwrap();
        assert_eq!((&buffer, log.synchronise(4)), (b"kept", Err(Errno::NOSPC)));
    }
}
