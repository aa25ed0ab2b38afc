//! Messages, each with its length in front, and open files that go along.
//!
//! ```text
//! length u64, little-endian | the message as postcard writes it
//! ```

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Read, Result, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Files in one message: Linux takes 253. Source: `unix(7)`.
const FILES: usize = 64;

/// Longest message: stops a damaged or foreign length. A million latencies fit.
const LONGEST: u64 = 64 << 20;

/// A value as the body of a message.
///
/// # Errors
/// None that the types of quell can cause.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(Error::other)
}

/// The value of a message's body.
///
/// # Errors
/// `InvalidData` for bytes of another type.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}

/// Sends a message.
///
/// # Errors
/// Those of the stream; `BrokenPipe` when the other end has gone.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let body = encode(message)?;
    let mut whole = (body.len() as u64).to_le_bytes().to_vec();
    whole.extend_from_slice(&body);
    to.write_all(&whole)?;
    to.flush()
}

/// Receives a message.
///
/// # Errors
/// `UnexpectedEof` when the other end has gone, `InvalidData` for what is no message of this type, and those of the stream.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> Result<T> {
    receive_within(from, LONGEST)
}

/// The same, of at most so many bytes: nothing is known yet of the other end.
///
/// # Errors
/// As [`receive`].
pub fn receive_within<T: DeserializeOwned>(from: &mut impl Read, longest: u64) -> Result<T> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > longest {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body)?;
    decode(&body)
}

/// Sends open files over a Unix socket. The receiver gets descriptors of its own.
///
/// # Errors
/// Those of `sendmsg(2)`.
pub fn send_files(to: &impl AsFd, files: &[BorrowedFd<'_>]) -> Result<()> {
    for files in files.chunks(FILES) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(files));
        rustix::net::sendmsg(to, &[IoSlice::new(b"F")], &mut control, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Receives `count` open files.
///
/// # Errors
/// `UnexpectedEof` when fewer come, and those of `recvmsg(2)`.
pub fn receive_files(from: &impl AsFd, count: usize) -> Result<Vec<OwnedFd>> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_and_another_length_is_refused() {
        let mut bytes = Vec::new();
        send(&mut bytes, &(7_u32, "seven")).unwrap();
        assert_eq!(receive::<(u32, String)>(&mut bytes.as_slice()).unwrap(), (7, "seven".to_owned()));
        let kind = |mut bytes: &[u8]| receive::<(u32, String)>(&mut bytes).unwrap_err().kind();
        assert_eq!(kind(&bytes[..9]), ErrorKind::UnexpectedEof);
        assert_eq!(kind(b"Welcome to the login node"), ErrorKind::InvalidData);
        assert_eq!(
            receive_within::<(u32, String)>(&mut bytes.as_slice(), 3).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
    }
}
