//! Messages between ranks, server and builder: one JSON object and some descriptors in each packet.
//!
//! All ends are the same program of the same user. Still, what arrives is parsed, bounded and never trusted to be
//! complete: the other end may die at any byte.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::errands::Errands;
use crate::error::{SetupStep, Unavailable};

/// From a rank to the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum FromRank {
    /// Let me in. Comes first.
    Join {
        /// True if this rank started the server.
        created: bool,
        /// The file for this rank's statistics: bytes of an absolute path.
        stats: Option<Vec<u8>>,
        /// The file for lessons: the same.
        learned: Option<(Vec<u8>, usize)>,
        /// The permissions that the file of statistics must not get.
        umask: u32,
    },
    /// The command of this process, which was let in by another connection, has ended: write what it asked for now.
    Report,
    /// I execute the command now. Comes last: the connection ends with the exec.
    Started {
        /// Since the rank began.
        seconds_to_exec: f64,
        /// The errands for the end of the run.
        errands: Errands,
    },
}

/// From the server to a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum FromServer {
    /// Come in. With the mount namespace's descriptor, and the user namespace's before it if there is one.
    Ready {
        /// The directory in which a rank starts if its working directory is not in the namespace; for a root of its own.
        own_root: Option<Vec<u8>>,
    },
    /// There is nothing to come in to.
    Failed(UnavailableMessage),
    /// The report is written, or cannot be.
    Written,
}

/// From the builder of the namespace to the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum FromBuilder {
    /// The connection is mounted; with the descriptor of `/dev/fuse`. The server must answer from now on.
    Mounted,
    /// Everything is in place. With the descriptors that `FromServer::Ready` passes on.
    Done,
    /// The same for an extraction, in which so many names more than planned come from the originals.
    Extracted {
        /// The number of such files.
        unfilled: u64,
    },
    /// It did not work.
    Failed(UnavailableMessage),
}

/// [`Unavailable`], as bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct UnavailableMessage {
    step: SetupStep,
    errno: i32,
    path: Option<Vec<u8>>,
    then: Option<Box<UnavailableMessage>>,
}

impl From<Unavailable> for UnavailableMessage {
    fn from(unavailable: Unavailable) -> Self {
        use std::os::unix::ffi::OsStringExt;
        Self {
            step: unavailable.step,
            errno: unavailable.errno.raw_os_error(),
            path: unavailable.path.map(|path| path.into_os_string().into_vec()),
            then: unavailable.then.map(|then| Box::new((*then).into())),
        }
    }
}

impl From<UnavailableMessage> for Unavailable {
    fn from(failure: UnavailableMessage) -> Self {
        use std::os::unix::ffi::OsStringExt;
        Self {
            step: failure.step,
            errno: Errno::from_raw_os_error(failure.errno.clamp(1, 4095)),
            path: failure.path.map(|path| std::ffi::OsString::from_vec(path).into()),
            then: failure.then.map(|then| Box::new((*then).into())),
        }
    }
}

/// Sends one message with up to [`MAX_DESCRIPTORS`] descriptors.
///
/// **Errors** `EPIPE` when the other end is gone.
pub(crate) fn send<M: Serialize>(
    socket: impl AsFd,
    message: &M,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let bytes = serde_json::to_vec(message).map_err(|_| Errno::INVAL)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::INVAL);
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).map(|_bytes| ())
}

/// Waits for one message. `None` when the other end is gone.
///
/// **Errors** `BADMSG` for bytes that are no message.
pub(crate) fn receive<M: DeserializeOwned>(socket: impl AsFd) -> Result<Option<(M, Vec<OwnedFd>)>, Errno> {
    let mut bytes = vec![0; MAX_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut reset = false;
    let received = loop {
        match recvmsg(&socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            // The other end closed with unread data. Its earlier messages are still to come.
            Err(Errno::CONNRESET) if !reset => reset = true,
            Err(Errno::CONNRESET) => return Ok(None),
            outcome => break outcome?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let descriptors = control.drain().filter_map(rights).flatten().collect();
    let message = serde_json::from_slice(&bytes[..received.bytes]).map_err(|_| Errno::BADMSG)?;
    Ok(Some((message, descriptors)))
}

/// The same, for at most as long as `until` is not over.
///
/// **Errors** `ETIMEDOUT` too.
pub(crate) fn receive_until<M: DeserializeOwned>(
    socket: impl AsFd,
    until: Instant,
) -> Result<Option<(M, Vec<OwnedFd>)>, Errno> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| Errno::INVAL)?;
        match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(Errno::TIMEDOUT),
            Ok(_) => return receive(socket),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn rights(message: RecvAncillaryMessage<'_>) -> Option<impl Iterator<Item = OwnedFd>> {
    match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    }
}

/// Most descriptors in one message: the two namespaces.
const MAX_DESCRIPTORS: usize = 2;

/// Longest message: two paths of 4096 bytes, each byte as a number of up to three digits and a comma.
const MAX_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[test]
    fn a_message_arrives_with_its_descriptors_and_the_end_is_seen() {
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let message = FromBuilder::Failed(Unavailable::new(SetupStep::Mount, Errno::PERM).into());
        send(&near, &message, &[near.as_fd()]).unwrap();
        let (arrived, descriptors) = receive::<FromBuilder>(&far).unwrap().unwrap();
        assert_eq!(arrived, message);
        assert_eq!(descriptors.len(), 1);
        drop((near, descriptors));
        assert!(receive::<FromBuilder>(&far).unwrap().is_none());
    }
}
