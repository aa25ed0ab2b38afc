//! Signals of the recorder itself: its initial dispositions, the signals that it waits for, and those that it forwards.

use super::checked;
use quell_trace::Pid;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::time::Duration;

/// A set of blocked signals.
#[derive(Clone, Copy)]
pub(crate) struct Mask(libc::sigset_t);

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask")
    }
}

impl Mask {
    /// A set of these signals.
    pub(crate) fn of(signals: &[i32]) -> Self {
        Self::empty().with(signals)
    }

    /// The set with these signals in addition. One change of a thread's mask lets no signal through between two.
    pub(crate) fn with(mut self, signals: &[i32]) -> Self {
        for &signal in signals {
            // SAFETY: adds a number to an initialised set.
            unsafe { libc::sigaddset(&raw mut self.0, signal) };
        }
        self
    }

    fn empty() -> Self {
        // SAFETY: a signal set is plain bits.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: initialises the set that it is given.
        unsafe { libc::sigemptyset(&raw mut set) };
        Self(set)
    }

    /// Blocks every signal in this thread and returns the earlier mask.
    pub(crate) fn block_all() -> Self {
        let mut all = Self::empty();
        // SAFETY: fills the set that it is given.
        unsafe { libc::sigfillset(&raw mut all.0) };
        all.change(libc::SIG_SETMASK)
    }

    /// Sets this mask for the thread. Async-signal-safe.
    pub(crate) fn restore(&self) {
        self.change(libc::SIG_SETMASK);
    }

    fn change(&self, how: i32) -> Self {
        let mut before = Self::empty();
        // SAFETY: both sets are valid; the call cannot fail with a valid `how`.
        unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before.0) };
        before
    }
}

/// A signal that was taken from the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) signal: i32,
    /// The process that sent it; `None` for the kernel, as for a key on the terminal.
    pub(crate) sender: Option<Pid>,
}

/// Takes the next signal of the set, which must be blocked in every thread.
pub(crate) fn wait_for(signals: &Mask) -> Option<Received> {
    // SAFETY: a structure of plain numbers may be all zeros.
    let mut facts: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let signal = loop {
        // SAFETY: both point to live values.
        let signal = unsafe { libc::sigwaitinfo(&raw const signals.0, &raw mut facts) };
        // A stop and continuation of this process interrupts the wait.
        match super::last_error().raw_os_error() {
            _ if signal > 0 => break signal,
            Some(libc::EINTR) => {}
            _ => return None,
        }
    };
    // SAFETY: the kernel filled the structure, and senders are set where the code says that a process sent it.
    let sender = (facts.si_code <= 0).then(|| Pid(unsafe { facts.si_pid() }));
    Some(Received { signal, sender })
}

/// Discards the signals of the set that have come and that no thread has taken.
pub(crate) fn discard_pending(signals: &Mask) {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set and the time are valid, and the kernel reports no facts where the pointer is null.
    while unsafe { libc::sigtimedwait(&raw const signals.0, std::ptr::null_mut(), &raw const now) } > 0 {}
}

/// Sends a signal to a process.
pub(crate) fn send(process: Pid, signal: i32) -> io::Result<()> {
    // SAFETY: takes numbers.
    checked(unsafe { libc::kill(process.0, signal) }).map(drop)
}

/// Sends a signal to one thread of this process.
pub(crate) fn wake<T>(thread: &std::thread::JoinHandle<T>, signal: i32) {
    // SAFETY: the handle keeps the thread's number valid until it is joined.
    unsafe { libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, signal) };
}

/// Sets another disposition of a signal while it lives, and restores the earlier one afterwards.
pub(crate) struct Disposition {
    signal: i32,
    before: libc::sigaction,
}

impl std::fmt::Debug for Disposition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disposition").field("signal", &self.signal).finish_non_exhaustive()
    }
}

impl Disposition {
    /// Ignores the signal.
    pub(crate) fn ignored(signal: i32) -> Self {
        Self { signal, before: set_action(signal, libc::SIG_IGN, 0) }
    }

    /// Suppresses signals for stops of children: they stop twice a call, and `waitpid` reports everything.
    pub(crate) fn quiet_children() -> Self {
        let signal = libc::SIGCHLD;
        Self { signal, before: set_action(signal, libc::SIG_DFL, libc::SA_NOCLDSTOP) }
    }
}

impl Drop for Disposition {
    fn drop(&mut self) {
        // The kernel kept signals that came while this one was blocked. Ignoring the signal discards them, as they have
        // no meaning to the caller.
        set_action(self.signal, libc::SIG_IGN, 0);
        // SAFETY: puts back what the kernel gave.
        unsafe { libc::sigaction(self.signal, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// Interrupts the waiting of the thread that made it, again and again, while it lives.
pub(crate) struct Ticks {
    timer: libc::timer_t,
    _handler: Disposition,
}

impl std::fmt::Debug for Ticks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ticks")
    }
}

impl Ticks {
    /// Interrupts this thread every `period`, by `SIGALRM`. Range of `period`: below a second.
    pub(crate) fn begin(period: Duration) -> io::Result<Self> {
        const TO_THREAD: i32 = 4; // `SIGEV_THREAD_ID` of `asm-generic/siginfo.h`
        extern "C" fn nothing(_: i32) {}
        let handler = nothing as extern "C" fn(i32) as libc::sighandler_t;
        // Without `SA_RESTART`, so that the signal ends a wait.
        let before = set_action(libc::SIGALRM, handler, 0);
        let handler = Disposition { signal: libc::SIGALRM, before };
        // SAFETY: a structure of plain numbers may be all zeros.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = TO_THREAD;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both structures are valid.
        let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
        checked(made)?;
        let ticks = Self { timer, _handler: handler };
        let period = libc::timespec { tv_sec: 0, tv_nsec: period.subsec_nanos().into() };
        let times = libc::itimerspec { it_interval: period, it_value: period };
        // SAFETY: the timer exists, and the times are valid; the earlier ones are not asked for.
        checked(unsafe { libc::timer_settime(ticks.timer, 0, &raw const times, std::ptr::null_mut()) })?;
        Ok(ticks)
    }

    /// Lets them through. The thread's mask may block them before.
    pub(crate) fn unblock(&self) {
        Mask::of(&[libc::SIGALRM]).change(libc::SIG_UNBLOCK);
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        // SAFETY: the timer exists until here.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Stops this process as `signal` stops a program that does not handle it, until the process is continued.
pub(crate) fn stop_by(signal: i32) {
    let ignored = set_action(signal, libc::SIG_DFL, 0);
    // SAFETY: takes a number.
    unsafe { libc::raise(signal) };
    // SAFETY: puts back what the kernel gave.
    unsafe { libc::sigaction(signal, &raw const ignored, std::ptr::null_mut()) };
}

fn set_action(signal: i32, handler: libc::sighandler_t, flags: i32) -> libc::sigaction {
    // SAFETY: a structure of plain numbers may be all zeros: nothing blocked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: both structures are valid; the handler is one of the two constants.
    unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
    before
}
