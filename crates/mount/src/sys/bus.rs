//! An end with words where a mapped file gives way.

use std::ptr::null_mut;

/// The words of that end, and the status that errors have.
const MESSAGE: &[u8] =
    b"quell: error: the image was cut short, or could not be read any more, while it was looked at\n\
    hint: make a copy of your own, and look at that\n";
const STATUS: libc::c_int = 2;

extern "C" fn end(_signal: libc::c_int) {
    // SAFETY: write(2) may be called in a handler, and the bytes are static.
    let _nowhere_to_say_so = unsafe { libc::write(2, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
    // SAFETY: so may _exit(2), which runs no code of the process that was interrupted.
    unsafe { libc::_exit(STATUS) }
}

/// Lets SIGBUS end the process as other errors do: it comes where a page is touched that its file has no more, as its
/// owner may cut it short at any time.
pub(crate) fn end_with_words() {
    // SAFETY: all-zero bytes are a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = end as extern "C" fn(libc::c_int) as usize;
    // SAFETY: `action` is whole, and its handler calls nothing that a handler may not.
    let _stays_as_it_was = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) };
}
