//! Lets a wait go on that a stop of the recorder ended: with `PTRACE_INTERRUPT`, or at a signal that the program ignores, which would
//! not wake it without a tracer.
//!
//! The kernel restarts most calls by itself, and `poll`, `select`, `nanosleep` and `futex` with the time that is left. Others, such as
//! `epoll_wait`, fail with `EINTR` also when no handler of the program runs. They are begun again, with their whole time: neither a
//! register nor memory of the program may change, since the recorder can be killed before it undoes that. A wait that is ended again
//! and again would never end. So one whose time is over gets the result of that instead.

#[cfg(target_arch = "x86_64")]
use crate::facts;
#[cfg(target_arch = "x86_64")]
use crate::sys::memory;
use crate::sys::ptrace::{EndedCall, Interruption, Stopped};
#[cfg(target_arch = "x86_64")]
use quell_trace::Pid;
#[cfg(target_arch = "x86_64")]
use rustix::net::sockopt::Timeout;
#[cfg(target_arch = "x86_64")]
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::time::{Duration, Instant};

/// A wait that goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// The time at which it began, or at which it was first ended where its beginning was not seen.
    began: Instant,
    /// The stack pointer of the call that is begun again: that of a signal handler's call differs. `None` once it has begun.
    awaited: Option<u64>,
    /// The first and the last of the stops that ended it, each within [`ASSUMED`] of the one before.
    stops: Option<(Instant, Instant)>,
}

impl Wait {
    /// A call, which may turn out to be a wait, begins now.
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), awaited: None, stops: None }
    }

    /// The same wait, where the call that begins now is that which it awaited.
    pub(super) fn again(self, stack: u64) -> Option<Self> {
        (self.awaited == Some(stack)).then_some(Self { awaited: None, ..self })
    }
}

/// The time after which a wait ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "stops leave no wait that could go on"))]
enum TimeLimit {
    Never,
    /// Its result is this then.
    After(Duration, i64),
    Unknown,
}

/// The limit that is assumed for an unknown one: a wait that stops end again and again for longer fails with `EINTR`, as under any
/// tracer. Where they come at longer intervals, such a wait ends between them.
const ASSUMED: Duration = Duration::from_secs(1);
/// Restarted unless a handler runs, as `pause` is. Source: `ERESTARTNOHAND` of `include/linux/errno.h`.
const UNLESS_HANDLED: i64 = -514;

/// Lets the wait go on that this stop alone ended, if it ended one. `wait`: that of the thread, where it is known.
pub(super) fn keep_waiting<Kind: Interruption>(stopped: &Stopped<Kind>, wait: &mut Option<Wait>) {
    let Some(call) = stopped.ended_call() else { return };
    let Some(limit) = limit(&call) else { return };
    let (now, begun) = (Instant::now(), wait.unwrap_or_else(Wait::begin));
    let stops = begun.stops.filter(|(_, last)| now.duration_since(*last) < ASSUMED);
    let first = stops.map_or(now, |(first, _)| first);
    let result = match limit {
        TimeLimit::After(time, result) if now.duration_since(begun.began) >= time => result,
        TimeLimit::Unknown if now.duration_since(first) >= ASSUMED => return,
        _ => {
            *wait = Some(Wait { awaited: Some(call.stack), stops: Some((first, now)), ..begun });
            UNLESS_HANDLED
        }
    };
    stopped.set_result(result);
}

/// The time limit of a call that has done nothing when it fails with `EINTR`, and that the kernel does not restart; `None` for other
/// calls. `close` is another: it frees its descriptor before it fails. Source: `signal(7)`, "Interruption of system calls and
/// library functions by stop signals".
#[cfg(target_arch = "x86_64")]
fn limit(call: &EndedCall) -> Option<TimeLimit> {
    const TIMED_OUT: i64 = -(libc::EAGAIN as i64);
    if call.is_of_32_bits {
        return limit_of_32_bits(call);
    }
    let timespec = |address: u64, result| time_at(call.thread, address, result);
    Some(match call.number {
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => milliseconds(call.arguments[3]),
        libc::SYS_epoll_pwait2 => timespec(call.arguments[3], 0),
        libc::SYS_rt_sigtimedwait => timespec(call.arguments[2], TIMED_OUT),
        libc::SYS_semop => TimeLimit::Never,
        libc::SYS_semtimedop => timespec(call.arguments[3], TIMED_OUT),
        libc::SYS_io_getevents | IO_PGETEVENTS => timespec(call.arguments[4], 0),
        libc::SYS_io_uring_enter => limit_of_ring(call),
        libc::SYS_connect => limit_of_socket(call, Timeout::Send, -i64::from(libc::EINPROGRESS)),
        libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_write | libc::SYS_writev => {
            limit_of_socket(call, Timeout::Send, TIMED_OUT)
        }
        libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_read
        | libc::SYS_readv => limit_of_socket(call, Timeout::Recv, TIMED_OUT),
        _ => return None,
    })
}

/// Stops leave no wait of this architecture that could go on.
#[cfg(target_arch = "aarch64")]
fn limit(_: &EndedCall) -> Option<TimeLimit> {
    None
}

/// Source: `arch/x86/entry/syscalls/syscall_64.tbl`.
#[cfg(target_arch = "x86_64")]
const IO_PGETEVENTS: i64 = 333;

/// The same calls of 32-bit programs, of which only `epoll_wait` and `epoll_pwait` show their limit in a register. Source:
/// `arch/x86/entry/syscalls/syscall_32.tbl`.
#[cfg(target_arch = "x86_64")]
fn limit_of_32_bits(call: &EndedCall) -> Option<TimeLimit> {
    // `read`, `write`, `socketcall`, `ipc`, `readv`, `writev`, `rt_sigtimedwait`, `io_getevents`, `recvmmsg`, `sendmmsg`, `connect`,
    // `accept4`, `sendto`, `sendmsg`, `recvfrom`, `recvmsg`, `io_pgetevents`; with times of 64 bits `io_pgetevents`, `recvmmsg`,
    // `semtimedop`, `rt_sigtimedwait`; `io_uring_enter`, `epoll_pwait2`.
    const OTHERS: [i64; 23] = [
        3, 4, 102, 117, 145, 146, 177, 247, 337, 345, 362, 364, 369, 370, 371, 372, 385, 416, 417, 420, 421,
        426, 441,
    ];
    match call.number {
        256 | 319 => Some(milliseconds(call.arguments[3])),
        number => OTHERS.contains(&number).then_some(TimeLimit::Unknown),
    }
}

#[cfg(target_arch = "x86_64")]
fn milliseconds(argument: u64) -> TimeLimit {
    match u64::try_from(argument as i32) {
        Ok(time) => TimeLimit::After(Duration::from_millis(time), 0),
        Err(_) => TimeLimit::Never,
    }
}

/// The limit that a `struct timespec` states.
#[cfg(target_arch = "x86_64")]
fn time_at(thread: Pid, address: u64, result: i64) -> TimeLimit {
    if address == 0 {
        return TimeLimit::Never;
    }
    let word = |address| Some(memory::read_word(thread, address)? as i64);
    let seconds = word(address).and_then(|seconds| u64::try_from(seconds).ok());
    let nanos = word(address.wrapping_add(8)).and_then(|nanos| u32::try_from(nanos).ok());
    let (Some(seconds), Some(nanos)) = (seconds, nanos) else { return TimeLimit::Unknown };
    TimeLimit::After(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into())), result)
}

/// Source: `struct io_uring_getevents_arg` of `linux/io_uring.h`.
#[cfg(target_arch = "x86_64")]
fn limit_of_ring(call: &EndedCall) -> TimeLimit {
    const EXTENDED_ARGUMENT: u64 = 1 << 3;
    const ABSOLUTE_TIME: u64 = 1 << 5;
    const TIME: u64 = 16;
    let [.., flags, argument, _] = call.arguments;
    if flags & EXTENDED_ARGUMENT == 0 || flags & ABSOLUTE_TIME != 0 {
        return TimeLimit::Never;
    }
    match memory::read_word(call.thread, argument.wrapping_add(TIME)) {
        Some(address) => time_at(call.thread, address, -i64::from(libc::ETIME)),
        None => TimeLimit::Unknown,
    }
}

/// The limit of a call on a socket. Other files, as those of inotify, have none.
#[cfg(target_arch = "x86_64")]
fn limit_of_socket(call: &EndedCall, kind: Timeout, result: i64) -> TimeLimit {
    let fd = call.arguments[0] as i32;
    match facts::link(call.thread, &format!("fd/{fd}")) {
        Some(target) if target.starts_with(b"socket:") => {}
        Some(_) => return TimeLimit::Never,
        None => return TimeLimit::Unknown,
    }
    let timeout = || {
        let process = rustix::process::Pid::from_raw(facts::process_of(call.thread)?.0)?;
        let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
        let socket = pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()?;
        rustix::net::sockopt::socket_timeout(&socket, kind).ok()
    };
    match timeout() {
        Some(Some(time)) => TimeLimit::After(time, result),
        Some(None) => TimeLimit::Never,
        None => TimeLimit::Unknown,
    }
}
