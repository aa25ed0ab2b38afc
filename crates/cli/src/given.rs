//! Files that the user names on a command line, read whole up to a limit. One may be a pipe, such as `<(COMMAND)` of a shell.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Reads a file, at most `limit` bytes and one, by which a larger one is known.
///
/// **Errors**: those of open(2) and read(2); `TimedOut`, after a second, for a pipe that no process has open for writing.
pub(crate) fn read(file: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    // Opened for waiting, a pipe without a writer would hold us for ever.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let open = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(file)?;
    let mut bytes = Vec::new();
    let (began, mut piece) = (Instant::now(), [0; 64 << 10]);
    while bytes.len() as u64 <= limit {
        match (&open).read(&mut piece) {
            Ok(0) if bytes.is_empty() && is_pipe(&open)? => wait_for_writer(began)?,
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            // A process has the pipe open and has not written yet: wait for it.
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait_for_bytes(&open)?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1));
    Ok(bytes)
}

fn is_pipe(file: &File) -> std::io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    Ok(file.metadata()?.file_type().is_fifo())
}

fn wait_for_writer(began: Instant) -> std::io::Result<()> {
    if began.elapsed() >= MOST_WAIT {
        return Err(std::io::Error::new(ErrorKind::TimedOut, "it is a pipe that no process writes to"));
    }
    std::thread::sleep(PAUSE);
    Ok(())
}

fn wait_for_bytes(file: &File) -> std::io::Result<()> {
    const MOST: Timespec = Timespec { tv_sec: 3600, tv_nsec: 0 };
    match rustix::event::poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&MOST)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The longest time that a pipe may be without a writer. A shell starts both ends of `<(COMMAND)` at once.
const MOST_WAIT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_read_up_to_its_limit_and_a_pipe_from_its_writer() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert_eq!(read(&file, 3).unwrap(), b"1234");
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(read(&pipe, 5).unwrap_err().kind(), ErrorKind::TimedOut);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut end = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
                end.write_all(b"ab").unwrap();
                std::thread::sleep(PAUSE * 3);
                end.write_all(b"cd").unwrap();
            });
            assert_eq!(read(&pipe, 5).unwrap(), b"abcd");
        });
        assert!(read(directory.path(), 5).is_err());
    }
}
