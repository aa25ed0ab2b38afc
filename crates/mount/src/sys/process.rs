//! Fork, exec, namespaces and signals of the calling process.

use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::null;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

pub(crate) use quell_fuse::{unshare_namespaces, unshare_umask};

/// The two sides of a fork.
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
    /// Counts the threads of this process. A thread that was joined may still be on its way out of the kernel, so the count is repeated
    /// for up to [`LONGEST_WAIT_FOR_CORE`]. `None` if there are others, or where `/proc` does not tell.
    pub(crate) fn verify() -> Option<Self> {
        let start = Instant::now();
        while std::fs::read_dir("/proc/self/task").ok()?.count() != 1 {
            if start.elapsed() > LONGEST_WAIT_FOR_CORE {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(Self(()))
    }
}

/// The time in which a thread that ends gets a core, on a node that computes.
pub(crate) const LONGEST_WAIT_FOR_CORE: Duration = Duration::from_secs(10);

/// fork(2). The child may run any code: no other thread can have held a lock.
pub(crate) fn fork(_alone: &SingleThreaded) -> Result<Forked, Errno> {
    fork_among_threads()
}

/// clone(2) of a process with one thread, with one table of descriptors for both: each opens and closes descriptors for the
/// other, and descriptors stay open until both processes are gone.
///
/// The C library does not know of the child: it takes the number of the caller's thread for that of the child's first
/// one. So that thread starts another one, which does the work, and from then on makes no calls but system calls.
pub(crate) fn fork_sharing_descriptors(_alone: &SingleThreaded) -> Result<Forked, Errno> {
    let flags = libc::c_long::from(libc::CLONE_FILES | libc::SIGCHLD);
    // SAFETY: without CLONE_VM the child has its memory, stack and thread-local storage for itself, as after fork(2). The
    // process has one thread (`SingleThreaded`), so heap and locks are consistent. What fork(2) of a C library does
    // besides is not missed: no handlers of pthread_atfork are registered; no robust mutex is held; musl, whose raise and
    // abort use the remembered number and whose pthread_create locks with it, is used by the child's first thread only
    // to start one other, whose own number is right. glibc from 2.25 on remembers no process number (`getpid`), and
    // asks for the thread's in `raise` and `abort`; rustix always asks the kernel.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, NO, NO, NO, NO) };
    match i32::try_from(pid) {
        Ok(pid @ 0..) => Ok(Pid::from_raw(pid).map_or(Forked::Child, Forked::Parent)),
        _ => Err(last_errno()),
    }
}

/// An argument that is not used: the stack stays the caller's, and no number is written anywhere.
const NO: libc::c_long = 0;

/// fork(2) in a process with several threads: the child has the calling one alone, and a table of descriptors of its own.
///
/// Every C library that quell is linked with makes its own allocator usable in the child, which a plain clone(2) does
/// not. Locks of ours that another thread holds at this moment stay locked there for ever: the caller holds those that
/// the child will need.
pub(crate) fn fork_among_threads() -> Result<Forked, Errno> {
    // SAFETY: the C library repairs its own state in the child; what other threads were changing is not used there,
    // as the caller promises.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(last_errno());
    }
    Ok(Pid::from_raw(pid).map_or(Forked::Child, Forked::Parent))
}

/// Has [`PARENT_DIED`] wait for [`wait_for_parent_signal`], in this thread and those that it starts, and in children.
pub(crate) fn block_parent_signal() {
    // SAFETY: the set is valid, and no old set is asked for.
    let _cannot_fail = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &parent_signal(), std::ptr::null_mut()) };
}

/// Waits until [`PARENT_DIED`] comes, from any process; it must be blocked in all threads.
pub(crate) fn wait_for_parent_signal() {
    // SAFETY: the set is valid, and nothing else about the signal is asked for. An interruption is like a signal.
    let _which = unsafe { libc::sigwaitinfo(&parent_signal(), std::ptr::null_mut()) };
}

fn parent_signal() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the set that it is given.
    let _cannot_fail = unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: it was initialised above.
    let mut set = unsafe { set.assume_init() };
    // SAFETY: the set is valid, and so is the signal's number.
    let _cannot_fail = unsafe { libc::sigaddset(&raw mut set, PARENT_DIED.as_raw()) };
    set
}

/// The signal that a server has the kernel send when its holder dies. Its default action is none, so a stray one does no harm.
pub(crate) const PARENT_DIED: Signal = Signal::CHILD;

/// An open descriptor of the shared table, by the number under which an earlier process of it was given it.
///
/// `None` if it is not open. The caller has that number from a record that says that no other owner has it.
pub(crate) fn adopt(number: RawFd) -> Option<OwnedFd> {
    let _is_open = inherited(number).ok()?;
    // SAFETY: it is open, as was just verified; its last owner died, and the caller is the one that its record passed to.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Ends this process at once: no destructors, no exit handlers of the program that was forked.
pub(crate) fn exit_now(status: i32) -> ! {
    // SAFETY: _exit never returns and touches no memory of ours.
    unsafe { libc::_exit(status) }
}

/// Gives the calling thread a table of descriptors of its own, with those in `kept` alone; all other threads, and other
/// processes of the same table, keep theirs.
///
/// Afterwards this thread uses no others. Descriptors that it opens are visible nowhere else, and closed when it ends.
pub(crate) fn keep_for_this_thread(kept: &[RawFd]) -> Result<(), Errno> {
    let beyond = kept.iter().copied().max().map_or(3, |last| last.max(2) + 1);
    // SAFETY: the thread's own numbers from `beyond` on are closed in a new table that leaves them out at once: the
    // close of a file that is copied first could wait for its file system. The caller gave them up in this thread.
    let outcome =
        unsafe { libc::syscall(libc::SYS_close_range, beyond, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE) };
    if outcome != 0 {
        // SAFETY: the numbers in `kept` mean the same as before; the caller gave up all others in this thread.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::FILES) }?;
    }
    close_all_but(kept);
    HAS_OWN_DESCRIPTORS.set(true);
    Ok(())
}

thread_local! {
    static HAS_OWN_DESCRIPTORS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Tells whether this thread has a table of descriptors of its own: a number from another thread may mean another file here.
pub(crate) fn has_own_descriptors() -> bool {
    HAS_OWN_DESCRIPTORS.get()
}

/// Keeps no descriptor except those in `kept`; standard streams that are not among them lead nowhere. The rule of [`close_all_but`] holds.
pub(crate) fn keep_only(kept: &[RawFd]) {
    close_all_but(kept);
    if let Ok(null) = rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _streams = rustix::stdio::dup2_stdin(&null);
        let _streams = rustix::stdio::dup2_stdout(&null);
        if !kept.contains(&2) {
            let _streams = rustix::stdio::dup2_stderr(&null);
        }
    }
}

/// Closes every descriptor from 3 on except those in `kept`.
///
/// Only for a thread whose table no living process or thread shares: owners of closed descriptors must never be used or
/// dropped afterwards.
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

/// Closes these descriptors. As with [`close_all_but`], their owners must never be used or dropped afterwards.
pub(crate) fn close_each(descriptors: &[RawFd]) {
    for descriptor in descriptors {
        // SAFETY: the caller gave up their owners; a number that is not open only gives EBADF.
        let _closed = unsafe { libc::close(*descriptor) };
    }
}

/// Closes a descriptor, and returns what close(2) says of its file: a file system may have kept an error until then.
pub(crate) fn close_checked(descriptor: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor has no other owner, and this one gives it up here. It is closed whatever is returned.
    if unsafe { libc::close(descriptor.into_raw_fd()) } == 0 { Ok(()) } else { Err(last_errno()) }
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

/// A descriptor that this process was started with, by the number that a variable or a record names.
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

/// The numbers of the open descriptors. A thread may have others than its process' first one, which /proc/self/fd shows.
pub(crate) fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/thread-self/fd") else {
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

/// Lets this process wait for disks behind all others. Source: ioprio_set(2).
pub(crate) fn idle_io() {
    const IOPRIO_WHO_PROCESS: libc::c_long = 1;
    /// IOPRIO_CLASS_IDLE, shifted as IOPRIO_PRIO_VALUE does.
    const IDLE: libc::c_long = 3 << 13;
    // SAFETY: the call takes three numbers; 0 is the calling process.
    let _stays_as_it_is = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, NO, IDLE) };
}

/// Lets all threads take memory from one heap: glibc would set 64 MiB of address space aside for each. Source: mallopt(3).
pub(crate) fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes two numbers.
    let _stays_as_it_is = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// execve(2) with this process' environment; returns only when it failed.
///
/// Puts back first what Rust's start-up changed: see [`quell_base::restore_inherited`].
pub(crate) fn exec(program: &CStr, arguments: &[CString]) -> Errno {
    let pointers: Vec<*const libc::c_char> =
        arguments.iter().map(|argument| argument.as_ptr()).chain([null()]).collect();
    quell_base::restore_inherited();
    // SAFETY: `program` and every argument end with a zero byte and outlive the call; the vector ends with null.
    let _failed = unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    last_errno()
}

/// The error of the last call of this thread through libc.
pub(super) fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
