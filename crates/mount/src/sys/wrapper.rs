//! Signals of a process that stands for its child: all are held back, and taken one by one.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit};

/// Signals, before they were held back.
pub(crate) struct Before {
    mask: libc::sigset_t,
    /// The action for children that end.
    children: libc::sighandler_t,
}

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) signal: i32,
    /// The process that sent it; `None` if it was the kernel.
    pub(crate) sender: Option<i32>,
}

/// Holds all signals back, so that each waits for [`Signals::take`].
pub(crate) fn hold_back() -> Before {
    let mut mask = empty();
    // SAFETY: both sets are valid.
    let _cannot_fail = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &all(), &raw mut mask) };
    // SAFETY: the default runs no code of ours. Where children were ignored, none could be waited for.
    let children = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    Before { mask, children }
}

impl Before {
    /// In the child, before it executes anything: as it was.
    pub(crate) fn restore(&self) {
        // SAFETY: what was found there. A process that executes another has no handlers worth keeping.
        let _previous = unsafe { libc::signal(libc::SIGCHLD, self.children) };
        // SAFETY: the set was filled by the kernel, and no old one is asked for.
        let _cannot_fail =
            unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut()) };
    }
}

/// The signals of the process that reads them, once it holds them back.
#[derive(Debug)]
pub(crate) struct Signals(OwnedFd);

impl Signals {
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set is valid, and -1 asks for a new descriptor.
        let descriptor = unsafe { libc::signalfd(-1, &all(), flags) };
        if descriptor < 0 {
            return Err(super::process::last_errno());
        }
        // SAFETY: it was just made, and has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// The next signal that has come.
    pub(crate) fn take(&self) -> Option<Arrived> {
        let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
        let number =
            |info: &[u8], at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        match rustix::io::read(&self.0, &mut info) {
            Ok(bytes) if bytes == info.len() => {
                // Source: signalfd(2). A signal that a process sent (SI_USER, SI_QUEUE, SI_TKILL, none of them above zero) names it.
                let (signal, code, process) = (number(&info, 0), number(&info, 8), number(&info, 12));
                Some(Arrived { signal, sender: (code <= 0).then_some(process) })
            }
            _ => None,
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends a signal of any number.
pub(crate) fn send(process: Pid, signal: i32) {
    // SAFETY: the process is a child that was not waited for, so the number is its own.
    let _it_has_ended = unsafe { libc::kill(process.as_raw_nonzero().get(), signal) };
}

/// Ends this process as `signal` ended the child, without another core file.
pub(crate) fn end_by(signal: i32) -> ! {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _no_core = rustix::process::setrlimit(Resource::Core, none);
    // SAFETY: the default action runs no code of ours.
    let _previous = unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: takes a number only; it waits until the mask lets it.
    let _sent = unsafe { libc::raise(signal) };
    // SAFETY: the set is valid, and no old one is asked for.
    let _cannot_fail = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &empty(), std::ptr::null_mut()) };
    super::process::exit_now(128 + signal)
}

fn empty() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set that it is given.
    let _cannot_fail = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: it was initialised above.
    unsafe { set.assume_init() }
}

fn all() -> libc::sigset_t {
    let mut set = empty();
    // SAFETY: the set is valid.
    let _cannot_fail = unsafe { libc::sigfillset(&raw mut set) };
    set
}
