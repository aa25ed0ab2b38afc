//! Watches the file of a mapped image for changes since it was opened.
//!
//! A mapping changes with its file, and reading beyond the end of a truncated file ends the process (SIGBUS). So its
//! size and time of modification are asked for before anything is answered from it: 0.2 us of a request that takes 5. A
//! file that was only touched is verified once more and used on; a changed file is never answered from again.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::Stat;

use crate::lock;

/// The file, and the times at which it was last known to be unchanged.
#[derive(Debug)]
pub(crate) struct Witness {
    file: OwnedFd,
    size: i64,
    /// Time of modification; `None` once the file is lost.
    known: Mutex<KnownTime>,
}

/// Seconds and nanoseconds of the time of modification.
pub(crate) type KnownTime = Option<(i64, u64)>;

impl Witness {
    /// For `file`, of which `stat` was taken when it was opened.
    pub(crate) fn new(file: OwnedFd, stat: &Stat) -> Self {
        Self { file, size: stat.st_size, known: Mutex::new(Some(modified(stat))) }
    }

    /// Lets no other thread look meanwhile.
    pub(crate) fn pause(&self) -> MutexGuard<'_, KnownTime> {
        lock(&self.known)
    }

    /// Tells whether the file is unchanged. If its time has changed and its size has not, `is_intact` decides.
    pub(crate) fn is_sound(&self, is_intact: impl FnOnce() -> bool) -> bool {
        let mut known = lock(&self.known);
        let Some(time) = *known else { return false };
        let now = rustix::fs::fstat(&self.file);
        *known = match now {
            Ok(stat) if stat.st_size != self.size => None,
            Ok(stat) if modified(&stat) == time => Some(time),
            Ok(stat) if is_intact() => Some(modified(&stat)),
            Ok(_) | Err(_) => None,
        };
        known.is_some()
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

fn modified(stat: &Stat) -> (i64, u64) {
    (stat.st_mtime, stat.st_mtime_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_touched_file_is_looked_at_and_a_cut_one_is_lost() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"image").unwrap();
        let stat = rustix::fs::fstat(file.as_file()).unwrap();
        let witness = Witness::new(file.as_file().try_clone().unwrap().into(), &stat);
        assert!(witness.is_sound(|| unreachable!("nothing changed")));
        let touch = |seconds| {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            file.as_file().set_modified(time).unwrap();
        };
        touch(7);
        assert!(witness.is_sound(|| true));
        assert!(witness.is_sound(|| unreachable!("that time is known now")));
        touch(8);
        assert!(!witness.is_sound(|| false));
        assert!(!witness.is_sound(|| true), "what is lost stays lost");
        let witness = Witness::new(file.as_file().try_clone().unwrap().into(), &stat);
        file.as_file().set_len(1).unwrap();
        assert!(!witness.is_sound(|| true));
    }
}
