//! Answers to requests, each sent exactly once.
//!
//! A [`Reply`] is consumed when it is sent. One that is dropped unsent answers `EIO`, so that no program ever waits
//! for an answer that was forgotten.

use std::io::IoSlice;

use rustix::io::Errno;

use crate::abi::{self, Attr, EntryReply, OpenReply, Validity};
use crate::device::Device;
use crate::request::Unique;

/// The right, and the duty, to answer one request.
#[derive(Debug)]
pub struct Reply<'d> {
    device: &'d Device,
    unique: Option<Unique>,
}

impl<'d> Reply<'d> {
    /// The answer to request `unique` of `device`.
    pub fn new(device: &'d Device, unique: Unique) -> Self {
        Self { device, unique: Some(unique) }
    }

    /// Gives up the duty: for the requests that have no answer (FORGET, INTERRUPT).
    pub fn none(mut self) {
        self.unique = None;
    }

    /// Success without data.
    pub fn done(self) {
        self.send(0, &[]);
    }

    /// Failure.
    pub fn error(self, errno: Errno) {
        self.send(-errno.raw_os_error(), &[]);
    }

    /// Success with the bytes of `data`.
    pub fn bytes(self, data: &[u8]) {
        self.send(0, &[data]);
    }

    /// Success with the bytes of all `parts`, one after the other, without copying them together.
    ///
    /// **Range** at most [`MAX_PARTS`] parts; more are cut off, which a READ may do.
    pub fn parts(self, parts: &[&[u8]]) {
        self.send(0, parts);
    }

    /// The answer to a lookup, or to whatever made a name.
    pub fn entry(self, entry: &EntryReply) {
        self.send(0, &[&entry.encode()]);
    }

    /// The answer to GETATTR and SETATTR.
    pub fn attr(self, attr: &Attr, valid: Validity) {
        self.send(0, &[&abi::encode_attr(attr, valid)]);
    }

    fn send(mut self, error: i32, parts: &[&[u8]]) {
        if let Some(unique) = self.unique.take() {
            transmit(self.device, unique, error, parts);
        }
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if let Some(unique) = self.unique.take() {
            transmit(self.device, unique, -Errno::IO.raw_os_error(), &[]);
        }
    }
}

/// Sends the answer that `success` makes of an outcome, or its error.
pub fn reply_with<T>(outcome: Result<T, Errno>, reply: Reply<'_>, success: impl FnOnce(T, Reply<'_>)) {
    match outcome {
        Ok(answer) => success(answer, reply),
        Err(errno) => reply.error(errno),
    }
}

/// Sends success without data, or the error.
pub fn reply_done(outcome: Result<(), Errno>, reply: Reply<'_>) {
    reply_with(outcome, reply, |(), reply| reply.done());
}

/// Sends an entry, or the error.
pub fn reply_entry(outcome: Result<EntryReply, Errno>, reply: Reply<'_>) {
    reply_with(outcome, reply, |entry, reply| reply.entry(&entry));
}

/// Sends the entry of a file that was made and its handle, or the error.
pub fn reply_created(outcome: Result<(EntryReply, OpenReply), Errno>, reply: Reply<'_>) {
    reply_with(outcome, reply, |(entry, opened), reply| reply.parts(&[&entry.encode(), &opened.encode()]));
}

/// The answer to a WRITE: `struct fuse_write_out`.
pub fn written(bytes: usize) -> [u8; 8] {
    let mut written = [0; 8];
    written[..4].copy_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_ne_bytes());
    written
}

/// Answers with the value, or with its length if that is all that was asked for. Source: getxattr(2).
pub fn reply_xattr(value: Result<impl AsRef<[u8]>, Errno>, size: u32, reply: Reply<'_>) {
    let value = match &value {
        Ok(value) => value.as_ref(),
        Err(errno) => return reply.error(*errno),
    };
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    if size == 0 {
        // `struct fuse_getxattr_out` is laid out like the answer to a WRITE.
        reply.bytes(&written(value.len()));
    } else if length > size {
        reply.error(Errno::RANGE);
    } else {
        reply.bytes(value);
    }
}

/// Most parts of one answer: a file of an image has at most a tail and some chunks.
pub const MAX_PARTS: usize = 15;

/// Writes one answer. `ENOENT` means that the program was killed while it waited, `ENODEV` that the mount is gone:
/// in both cases no program is left to be told.
fn transmit(device: &Device, unique: Unique, error: i32, parts: &[&[u8]]) {
    let parts = &parts[..parts.len().min(MAX_PARTS)];
    let length = abi::OUT_HEADER + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut header = [0; abi::OUT_HEADER];
    header[..4].copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.0.to_ne_bytes());
    let mut slices = [IoSlice::new(&[]); MAX_PARTS + 1];
    slices[0] = IoSlice::new(&header);
    for (slice, part) in slices[1..].iter_mut().zip(parts) {
        *slice = IoSlice::new(part);
    }
    let _no_program_waits = device.write(&slices[..=parts.len()]);
}
