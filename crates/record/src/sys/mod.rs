//! Thin wrappers around system calls: the only module of this crate with unsafe code.
//!
//! The callers see typed values. A stopped thread is a [`ptrace::Stopped`] that resuming consumes, so that a request to
//! a running thread does not compile.
#![allow(unsafe_code)]

pub(crate) mod memory;
pub(crate) mod pagemap;
pub(crate) mod ptrace;
pub(crate) mod seccomp;
pub(crate) mod signals;
pub(crate) mod spawn;
pub(crate) mod witness;

/// The error of a C library call that returned -1.
fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

/// The result of a C library call as a `Result`.
fn checked(result: impl Into<i64>) -> std::io::Result<i64> {
    match result.into() {
        -1 => Err(last_error()),
        value => Ok(value),
    }
}
