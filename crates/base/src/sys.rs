//! Undoes for a child command the changes that Rust's start-up makes before `main`: it ignores `SIGPIPE` and opens
//! standard streams that were closed.
//!
//! Every program that links this module records the earlier state, without a call.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

/// Bits 0 to 2: the standard streams that were closed; [`PIPE_IGNORED`].
static AT_START: AtomicU8 = AtomicU8::new(0);

/// Bit of [`AT_START`]: `SIGPIPE` was ignored.
const PIPE_IGNORED: u8 = 8;

/// Has no error of this process capture a backtrace. The release has no tables of unwinding, without which a capture aborts.
/// Children find the environment as it was.
pub fn forgo_backtraces() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(VARIABLE);
    // SAFETY: the first statement of `main` calls this, while the process has one thread.
    unsafe { std::env::set_var(VARIABLE, "0") };
    // The standard library reads the variable once.
    drop(std::backtrace::Backtrace::capture());
    match before {
        // SAFETY: as above.
        Some(value) => unsafe { std::env::set_var(VARIABLE, value) },
        // SAFETY: as above.
        None => unsafe { std::env::remove_var(VARIABLE) },
    }
}

/// Runs before Rust's own start-up. Source: System V ABI, `.init_array`.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

extern "C" fn remember() {
    let mut found = 0;
    for stream in 0..3 {
        // SAFETY: reads flags; a closed descriptor is a valid answer.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            found |= 1 << stream;
        }
    }
    // SAFETY: a structure of plain numbers may be all zeros.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the disposition.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    if action.sa_sigaction == libc::SIG_IGN {
        found |= PIPE_IGNORED;
    }
    AT_START.store(found, Ordering::Relaxed);
}

/// Restores, for the program that this process executes next, the `SIGPIPE` disposition and the closed standard streams
/// that this process inherited.
///
/// The streams close at the execution, so that an error can still be written if it fails. Async-signal-safe.
pub fn restore_inherited() {
    let found = AT_START.load(Ordering::Relaxed);
    for stream in (0..3).filter(|stream| found & (1 << stream) != 0) {
        // SAFETY: sets a flag of a descriptor that no code of ours uses.
        unsafe { libc::fcntl(stream, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let handler = if found & PIPE_IGNORED == 0 { libc::SIG_DFL } else { libc::SIG_IGN };
    // SAFETY: neither disposition runs code of ours.
    unsafe { libc::signal(libc::SIGPIPE, handler) };
}
