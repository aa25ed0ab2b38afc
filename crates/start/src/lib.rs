//! What Rust's start-up changes before `main`, so that a command that we execute finds it as without us: `SIGPIPE`, which
//! it ignores, and standard streams that were closed, which it opens.
//!
//! Beside the `sys` modules of `record` and `mount` this is the one place of unsafe code; both execute commands and
//! depend on it. It remembers by itself, before `main`, in every program that it is linked into.

use std::sync::atomic::{AtomicU8, Ordering};

/// Bits 0 to 2: the standard streams that were closed; [`PIPE_IGNORED`].
static AT_START: AtomicU8 = AtomicU8::new(0);

/// Bit of [`AT_START`]: `SIGPIPE` was ignored.
const PIPE_IGNORED: u8 = 8;

/// Runs before Rust's own start-up. Source: System V ABI, `.init_array`.
#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = remember;

extern "C" fn remember() {
    let mut found = 0;
    for stream in 0..3 {
        // SAFETY: asks for flags; a closed descriptor is an answer.
        if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
            found |= 1 << stream;
        }
    }
    // SAFETY: a structure of plain numbers may be all zeros.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    if action.sa_sigaction == libc::SIG_IGN {
        found |= PIPE_IGNORED;
    }
    AT_START.store(found, Ordering::Relaxed);
}

/// Makes both as they were, for the program that this process executes next. Streams that were closed stay open until
/// then, should the execution fail. Async-signal-safe.
pub fn restore() {
    let found = AT_START.load(Ordering::Relaxed);
    for stream in (0..3).filter(|stream| found & (1 << stream) != 0) {
        // SAFETY: a flag of a descriptor that nobody of ours uses.
        unsafe { libc::fcntl(stream, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let handler = if found & PIPE_IGNORED == 0 { libc::SIG_DFL } else { libc::SIG_IGN };
    // SAFETY: neither disposition runs code of ours.
    unsafe { libc::signal(libc::SIGPIPE, handler) };
}
