//! Outcomes of attempts as answers.

use rustix::io::Errno;

use super::slots::Attempt;
pub(crate) use crate::fuse::reply::{reply_created, reply_entry, reply_with, reply_xattr, written};

/// Notes that everything is done but the answer. A program that has it goes on at once, so another server must not do
/// any of it again.
pub(crate) fn completed<T>(outcome: Result<T, Errno>, attempt: Attempt<'_>) -> Result<T, Errno> {
    attempt.complete(outcome.as_ref().map(|_| ()).map_err(|errno| *errno));
    outcome
}
