//! Fork, exec, namespaces and signals of the calling process.

use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::null;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Which side of a fork this is.
#[derive(Debug)]
pub(crate) enum Forked {
    /// The calling process; holds the child's number.
    Parent(Pid),
    /// The new process.
    Child,
}

/// Proof that the process had one thread when it was made, which fork and user namespaces need.
#[derive(Debug)]
pub(crate) struct SingleThreaded(());

impl SingleThreaded {
    /// Counts the threads of this process. A thread that was joined may still be on its way out of the kernel, so
    /// the count is repeated for up to 50 ms. `None` if there are others.
    pub(crate) fn verify() -> Option<Self> {
        for _ in 0..50 {
            match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
                Ok(1) => return Some(Self(())),
                _ => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
        None
    }
}

/// fork(2). The child may run any code, because no other thread can have held a lock.
pub(crate) fn fork(_alone: &SingleThreaded) -> Result<Forked, Errno> {
    // SAFETY: the process has one thread (`SingleThreaded`), so the child's heap and locks are consistent.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(last_errno());
    }
    Ok(Pid::from_raw(pid).map_or(Forked::Child, Forked::Parent))
}

/// fork(2) in a process with several threads: the child has the calling one alone.
///
/// Every C library that quell is linked with makes its own allocator usable in the child. Locks of ours that another
/// thread holds at this moment stay locked there for ever: the caller holds those that the child will need.
pub(crate) fn fork_among_threads() -> Result<Forked, Errno> {
    // SAFETY: the C library repairs its own state in the child; what other threads were changing is not used there,
    // as the caller promises.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(last_errno());
    }
    Ok(Pid::from_raw(pid).map_or(Forked::Child, Forked::Parent))
}

/// Ends this process at once: no destructors, no exit handlers of the program that was forked.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: _exit never returns and touches no memory of ours.
    unsafe { libc::_exit(status) }
}

/// unshare(2) for a new mount namespace, and a new user namespace if `flags` says so.
pub(crate) fn unshare_namespaces(flags: UnshareFlags) -> Result<(), Errno> {
    debug_assert!(
        (UnshareFlags::NEWNS | UnshareFlags::NEWUSER).contains(flags),
        "descriptor tables stay shared"
    );
    // SAFETY: the flags never contain CLONE_FILES, the one that is dangerous.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// unshare(2) for working directory, root and umask: the calling thread has its own from then on.
pub(crate) fn unshare_umask() -> Result<(), Errno> {
    // SAFETY: the flags do not contain CLONE_FILES, the one that is dangerous.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }
}

/// Gives the calling thread a table of descriptors of its own, with those in `kept` alone; all other threads keep theirs.
///
/// Afterwards this thread uses no others. What it opens nobody else sees.
pub(crate) fn keep_for_this_thread(kept: &[RawFd]) -> Result<(), Errno> {
    // SAFETY: the numbers in `kept` mean the same as before; the caller gave up all others in this thread.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }?;
    close_all_but(kept);
    Ok(())
}

/// Closes every descriptor from 3 on except those in `kept`.
///
/// Only for a process that has just been forked and is about to drop everything it inherited: owners of closed
/// descriptors must never be used or dropped afterwards.
pub(crate) fn close_all_but(kept: &[RawFd]) {
    let mut kept: Vec<RawFd> = kept.iter().copied().filter(|descriptor| *descriptor > 2).collect();
    kept.sort_unstable();
    let mut first = 3;
    for descriptor in kept {
        close_range(first, descriptor - 1);
        first = descriptor + 1;
    }
    close_range(first, RawFd::MAX);
}

/// close_range(2), or the same one by one where the kernel is older than 5.9.
fn close_range(first: RawFd, last: RawFd) {
    if last < first {
        return;
    }
    // SAFETY: the caller of `close_all_but` gave up the owners of these descriptors.
    let outcome = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if outcome == 0 {
        return;
    }
    for descriptor in open_descriptors() {
        if (first..=last).contains(&descriptor) {
            // SAFETY: as above; a number that is not open any more only gives EBADF.
            let _closed = unsafe { libc::close(descriptor) };
        }
    }
}

/// A descriptor that this process was started with, by the number that somebody told.
///
/// **Errors** `EBADF` if it is not open.
pub(crate) fn inherited(number: RawFd) -> Result<BorrowedFd<'static>, Errno> {
    // SAFETY: F_GETFD only looks the number up.
    if number < 0 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is open and not -1; nothing of ours owns, and so closes, what the launcher handed down.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

/// The numbers of the open descriptors, from /proc/self/fd.
fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Gives every signal its default action and blocks none, then ignores those in `ignored`.
pub(crate) fn reset_signals(ignored: &[libc::c_int]) {
    for signal in 1..=libc::SIGRTMAX() {
        let action = if ignored.contains(&signal) { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: SIG_DFL and SIG_IGN run no code of ours; numbers that cannot be changed give EINVAL.
        let _previous = unsafe { libc::signal(signal, action) };
    }
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set that it is given.
    let _cannot_fail = unsafe { libc::sigemptyset(none.as_mut_ptr()) };
    // SAFETY: the set was initialised above, and no old set is asked for.
    let _cannot_fail = unsafe { libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) };
}

/// execve(2) with this process' environment; returns only when it failed.
///
/// What Rust's start-up changed is put back first: see [`quell_start`].
pub(crate) fn exec(program: &CStr, arguments: &[CString]) -> Errno {
    let pointers: Vec<*const libc::c_char> =
        arguments.iter().map(|argument| argument.as_ptr()).chain([null()]).collect();
    quell_start::restore();
    // SAFETY: `program` and every argument end with a zero byte and outlive the call; the vector ends with null.
    let _failed = unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    last_errno()
}

/// The error of the last call of this thread through libc.
fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
