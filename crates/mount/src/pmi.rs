//! The process manager of an MPI job, by the first version of PMI's wire protocol: it ends the job, and has a
//! key-value space in which the ranks meet.
//!
//! Hydra, the launcher of MPICH and Intel MPI, notices a rank that fails only once it has called PMI's `init`, which
//! the MPI library does: later than we refuse. The protocol is one line of text to the descriptor that the environment
//! names. Source: "PMI v1 wire protocol" in MPICH's developer documentation.

use std::os::fd::{BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::sys::process::inherited;

/// Ends the job whose process manager holds the other end of `descriptor`, with `status`.
///
/// **Errors** `EBADF` if the descriptor is not open, `ENOTSOCK` if it is something else: the variable was not the
/// launcher's own.
pub fn abort(descriptor: RawFd, status: u8) -> Result<(), Errno> {
    let manager = inherited(descriptor)?;
    let stat = rustix::fs::fstat(manager)?;
    if !FileType::from_raw_mode(stat.st_mode).is_socket() {
        return Err(Errno::NOTSOCK);
    }
    let line = format!("cmd=abort exitcode={status}\n");
    rustix::net::send(manager, line.as_bytes(), rustix::net::SendFlags::NOSIGNAL).map(|_bytes| ())
}

/// Meets all ranks of the job, and gets the value that one of them puts under `key`: `mine`, at that rank.
///
/// Every rank has to do this once, and afterwards must not use PMI any more.
///
/// **Errors** as [`abort`]; `ETIME` when not all ranks have come within a minute, or `stop` says so; `EPROTO` for another protocol,
/// or when no rank has put a value.
pub fn share(
    descriptor: RawFd,
    key: &str,
    mine: Option<&str>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<String, Errno> {
    let manager = inherited(descriptor)?;
    if !FileType::from_raw_mode(rustix::fs::fstat(manager)?.st_mode).is_socket() {
        return Err(Errno::NOTSOCK);
    }
    let until = Instant::now() + PATIENCE;
    let ask = |line: &str, answer: &str| {
        rustix::net::send(manager, format!("{line}\n").as_bytes(), rustix::net::SendFlags::NOSIGNAL)?;
        let said = read_line(manager, until, stop)?;
        said.starts_with(&format!("cmd={answer}")).then_some(said).ok_or(Errno::PROTO)
    };
    ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
    let space = ask("cmd=get_my_kvsname", "my_kvsname")?;
    let space = word(&space, "kvsname").ok_or(Errno::PROTO)?;
    if let Some(mine) = mine {
        ask(&format!("cmd=put kvsname={space} key={key} value={mine}"), "put_result")?;
    }
    ask("cmd=barrier_in", "barrier_out")?;
    let got = ask(&format!("cmd=get kvsname={space} key={key}"), "get_result")?;
    // A rank that has begun must take its leave, or its end counts as a failure.
    ask("cmd=finalize", "finalize_ack")?;
    word(&got, "value").map(str::to_owned).ok_or(Errno::PROTO)
}

/// The longest that ranks wait for each other.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest line. Source: `PMI_SIMPLE_MAXLINE` is 1024 in old versions and 4096 in present ones.
const LINE_MAX: usize = 4096;

/// The value of a word `NAME=VALUE` in a line.
fn word<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn read_line(
    manager: BorrowedFd<'_>,
    until: Instant,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<String, Errno> {
    let glance = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let mut line = Vec::new();
    while line.len() < LINE_MAX {
        if stop() || Instant::now() >= until {
            return Err(Errno::TIME);
        }
        let mut ready = [PollFd::new(&manager, PollFlags::IN)];
        if !poll(&mut ready, Some(&glance)).is_ok_and(|ready| ready > 0) {
            continue;
        }
        // Bytes after the line stay in the descriptor: the next process of this rank may read them.
        let mut byte = [0];
        match rustix::io::read(manager, &mut byte)? {
            0 => return Err(Errno::PROTO),
            _ if byte == *b"\n" => return String::from_utf8(line).map_err(|_| Errno::PROTO),
            _ => line.push(byte[0]),
        }
    }
    Err(Errno::PROTO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::AsRawFd;

    #[test]
    fn only_a_socket_is_written_to() {
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        abort(near.as_raw_fd(), 1).unwrap();
        let mut said = [0; 64];
        let length = rustix::io::read(&far, &mut said).unwrap();
        assert_eq!(&said[..length], b"cmd=abort exitcode=1\n");
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(abort(file.as_raw_fd(), 1), Err(Errno::NOTSOCK));
        assert_eq!(abort(RawFd::MAX, 1), Err(Errno::BADF));
        assert_eq!(abort(-1, 1), Err(Errno::BADF));
    }
}
