//! Outcomes as answers.

use rustix::io::Errno;

use super::slots::Attempt;
use crate::fuse::abi::{Entry, Opened};
use crate::fuse::reply::Reply;

/// Notes that everything is done but the answer. A program that has it goes on at once, so another server must not do
/// any of it again.
pub(crate) fn completed<T>(outcome: Result<T, Errno>, attempt: Attempt<'_>) -> Result<T, Errno> {
    attempt.complete(outcome.as_ref().map(|_| ()).map_err(|errno| *errno));
    outcome
}

/// Sends the answer that `success` makes of an outcome, or its error.
pub(crate) fn reply_with<T>(outcome: Result<T, Errno>, reply: Reply<'_>, success: impl FnOnce(T, Reply<'_>)) {
    match outcome {
        Ok(answer) => success(answer, reply),
        Err(errno) => reply.error(errno),
    }
}

/// Sends an entry, or the error.
pub(crate) fn reply_entry(outcome: Result<Entry, Errno>, reply: Reply<'_>) {
    reply_with(outcome, reply, |entry, reply| reply.entry(&entry));
}

/// Sends the entry of a file that was made and its handle, or the error.
pub(crate) fn reply_created(outcome: Result<(Entry, Opened), Errno>, reply: Reply<'_>) {
    reply_with(outcome, reply, |(entry, opened), reply| reply.parts(&[&entry.encode(), &opened.encode()]));
}

/// The answer to a WRITE: `struct fuse_write_out`.
pub(crate) fn written(bytes: usize) -> [u8; 8] {
    let mut written = [0; 8];
    written[..4].copy_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_ne_bytes());
    written
}

/// Answers with the value, or with its length if that is all that was asked for. Source: getxattr(2).
pub(crate) fn reply_xattr(value: Result<impl AsRef<[u8]>, Errno>, size: u32, reply: Reply<'_>) {
    let value = match &value {
        Ok(value) => value.as_ref(),
        Err(errno) => return reply.error(*errno),
    };
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    if size == 0 {
        let mut answer = [0; 8];
        answer[..4].copy_from_slice(&length.to_ne_bytes());
        reply.bytes(&answer);
    } else if length > size {
        reply.error(Errno::RANGE);
    } else {
        reply.bytes(value);
    }
}
