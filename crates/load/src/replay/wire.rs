//! What quell's processes say to each other: messages with their length in front, and open files that go along.

use super::package;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Result, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What a process is told when it starts. The package comes along, then one file for each slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    /// Which recorded process it plays.
    pub(super) process: u32,
    /// For which rank.
    pub(super) rank: u32,
    /// Whether it waits for the word to begin, as ranks do.
    pub(super) waits: bool,
    /// The slots that it is given.
    pub(super) slots: Vec<u32>,
}

/// A process is ready, and may begin.
pub(super) const READY: u8 = b'R';
pub(super) const BEGIN: u8 = b'B';
/// Files in one message: Linux takes 253. Source: `unix(7)`.
const FILES: usize = 64;
/// No message is longer: stops a damaged or foreign length.
const LONGEST: u64 = 64 << 20;

/// Sends a message.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let body = package::encode(message)?;
    let mut whole = (body.len() as u64).to_le_bytes().to_vec();
    whole.extend_from_slice(&body);
    to.write_all(&whole)
}

/// Receives a message.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> Result<T> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body)?;
    package::decode(&body)
}

/// Sends open files, which their receiver has as its own.
pub(super) fn send_files(to: &impl AsFd, files: &[BorrowedFd<'_>]) -> Result<()> {
    for files in files.chunks(FILES) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(files));
        rustix::net::sendmsg(to, &[IoSlice::new(b"F")], &mut control, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Receives so many open files.
pub(super) fn receive_files(from: &impl AsFd, count: usize) -> Result<Vec<OwnedFd>> {
    let mut files = Vec::with_capacity(count.min(FILES));
    while files.len() < count {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut vector = [IoSliceMut::new(&mut byte)];
        let got = rustix::net::recvmsg(from, &mut vector, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let before = files.len();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(given) = message {
                files.extend(given);
            }
        }
        if got.bytes == 0 || files.len() == before {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(files)
}
