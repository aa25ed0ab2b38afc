//! Asking the process manager of an MPI job to end it, by the first version of PMI's wire protocol.
//!
//! Hydra, the launcher of MPICH and Intel MPI, notices a rank that fails only once it has called PMI's `init`, which
//! the MPI library does: later than we refuse. The protocol is one line of text to the descriptor that the environment
//! names. Source: "PMI v1 wire protocol" in MPICH's developer documentation.

use std::os::fd::RawFd;

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
