//! ptrace: attach, wait, query and resume.
//!
//! [`wait`] is the only source of [`Stopped`] values, each with the kind of its stop as a type. Requests take a
//! reference and resuming takes the value, so that a running thread cannot be queried. A thread may be killed at any
//! time, also while it is stopped. Requests then fail with `ESRCH`, which is not treated as an error because [`wait`]
//! will report the end. Or the thread has stopped once more, for its end: requests about the earlier stop then return
//! data of the later one. This module detects that case.
//!
//! Source: `ptrace(2)`.

use super::checked;
use crate::calls::native;
use quell_trace::{Exit, Pid};
use std::io;
use std::marker::PhantomData;

/// A thread that is stopped, at a stop of this kind.
#[derive(Debug)]
#[must_use = "a thread that is not resumed stays stopped for ever"]
pub(crate) struct Stopped<Kind> {
    thread: Pid,
    kind: PhantomData<Kind>,
}

/// Before a call that the filter picked.
#[derive(Debug)]
pub(crate) enum Entry {}
/// After a call.
#[derive(Debug)]
pub(crate) enum Return {}
/// In `fork`, `vfork` or `clone`, after the child was created.
#[derive(Debug)]
pub(crate) enum Making {}
/// In `execve`, after the program was replaced.
#[derive(Debug)]
pub(crate) enum Replaced {}
/// Before a signal is delivered.
#[derive(Debug)]
pub(crate) enum Delivery {}
/// Stopped by a signal like `SIGSTOP`, with its whole process.
#[derive(Debug)]
pub(crate) enum Group {}
/// About to end, with everything still in place.
#[derive(Debug)]
pub(crate) enum Leaving {}
/// New, or continued after a group stop.
#[derive(Debug)]
pub(crate) enum Pause {}

/// A stop, by kind.
#[derive(Debug)]
pub(crate) enum ThreadStop {
    Entry(Stopped<Entry>),
    Return(Stopped<Return>),
    Making(Stopped<Making>),
    Replaced(Stopped<Replaced>),
    Delivery(Stopped<Delivery>, i32),
    Group(Stopped<Group>, i32),
    Leaving(Stopped<Leaving>),
    Pause(Stopped<Pause>),
}

/// A change of a thread that [`wait`] reports.
#[derive(Debug)]
pub(crate) enum ThreadChange {
    Stopped(ThreadStop),
    Ended(Exit),
}

/// The point up to which a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// To the next stop of the filter, signal or event.
    NextStop,
    /// To the end of its current call.
    Return,
}

/// A call that is about to begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    pub(crate) thread: Pid,
    pub(crate) number: u64,
    pub(crate) arguments: [u64; 6],
    /// The word that the filter returned; 0 without a filter.
    pub(crate) word: u16,
    /// The architecture whose interface the call uses. Source: `AUDIT_ARCH_*` of `linux/audit.h`.
    pub(crate) architecture: u32,
    /// The stack pointer.
    pub(crate) stack: u64,
}

/// A side of a call at which a thread stops without a filter.
#[derive(Debug)]
pub(crate) enum CallSide {
    /// Before the call.
    Begin(Stopped<Entry>, Entered),
    /// After the call, with its return value.
    End(Stopped<Return>, i64),
}

/// The fate of the traced threads when the thread that traces them ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceeFate {
    /// They die: a filter would fail their calls.
    Die,
    /// They run on untraced. The kernel resumes those that are stopped.
    RunOn,
}

/// Attaches to a child of this process, which keeps running, and to all its descendants to come.
///
/// # Errors
/// `EPERM` where a security module, a container or another tracer forbids it.
pub(crate) fn seize(thread: Pid, fate: TraceeFate) -> io::Result<()> {
    let mut options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | libc::PTRACE_O_TRACESECCOMP;
    if fate == TraceeFate::Die {
        options |= libc::PTRACE_O_EXITKILL;
    }
    request(libc::PTRACE_SEIZE, thread, 0, options as usize).map(drop)
}

/// Stops a thread as soon as it is outside of the kernel. A call that a signal would end is ended.
pub(crate) fn interrupt(thread: Pid) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, thread, 0, 0).map(drop)
}

/// The result of waiting.
#[derive(Debug)]
pub(crate) enum WaitResult {
    /// A thread changed.
    Changed(Pid, ThreadChange),
    /// No thread changed: [`poll`] found none, or a signal interrupted [`wait`].
    Nothing,
    /// No thread is left.
    AllEnded,
}

/// Waits for the next change of any thread.
pub(crate) fn wait() -> io::Result<WaitResult> {
    news(libc::__WALL)
}

/// The next change of any thread, if one is pending.
pub(crate) fn poll() -> io::Result<WaitResult> {
    news(libc::__WALL | libc::WNOHANG)
}

fn news(options: i32) -> io::Result<WaitResult> {
    loop {
        let mut status = 0;
        match wait_for_any(&mut status, options) {
            Ok(0) => return Ok(WaitResult::Nothing),
            Ok(thread) => {
                let thread = Pid(thread as i32);
                if let Some(change) = change(thread, status) {
                    return Ok(WaitResult::Changed(thread, change));
                }
            }
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(WaitResult::AllEnded),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(WaitResult::Nothing),
            Err(error) => return Err(error),
        }
    }
}

/// `waitpid` without the C library's handling of thread cancellation, because this runs twice a call.
fn wait_for_any(status: &mut i32, options: i32) -> io::Result<i64> {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: `status` is a valid place for the result; the last argument may be null.
    checked(unsafe {
        libc::syscall(libc::SYS_wait4, -1_i64, status as *mut i32, i64::from(options), nothing)
    })
}

/// The word of a call's stop, with `PTRACE_O_TRACESYSGOOD`.
const CALL_STOP: i32 = libc::SIGTRAP | 0x80;

fn change(thread: Pid, status: i32) -> Option<ThreadChange> {
    if libc::WIFEXITED(status) {
        return Some(ThreadChange::Ended(Exit::Status(libc::WEXITSTATUS(status))));
    }
    if libc::WIFSIGNALED(status) {
        return Some(ThreadChange::Ended(Exit::Signal(libc::WTERMSIG(status))));
    }
    libc::WIFSTOPPED(status)
        .then(|| ThreadChange::Stopped(stop(thread, libc::WSTOPSIG(status), status >> 16)))
}

fn stop(thread: Pid, signal: i32, event: i32) -> ThreadStop {
    match (event, signal) {
        (0, CALL_STOP) => ThreadStop::Return(Stopped::at(thread)),
        (0, signal) => ThreadStop::Delivery(Stopped::at(thread), signal),
        (libc::PTRACE_EVENT_SECCOMP, _) => ThreadStop::Entry(Stopped::at(thread)),
        (libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE, _) => {
            ThreadStop::Making(Stopped::at(thread))
        }
        (libc::PTRACE_EVENT_EXEC, _) => ThreadStop::Replaced(Stopped::at(thread)),
        (libc::PTRACE_EVENT_EXIT, _) => ThreadStop::Leaving(Stopped::at(thread)),
        (libc::PTRACE_EVENT_STOP, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU) => {
            ThreadStop::Group(Stopped::at(thread), signal)
        }
        _ => ThreadStop::Pause(Stopped::at(thread)),
    }
}

impl<Kind> Stopped<Kind> {
    fn at(thread: Pid) -> Self {
        Self { thread, kind: PhantomData }
    }

    /// The thread's number.
    pub(crate) fn thread(&self) -> Pid {
        self.thread
    }

    /// The general registers.
    pub(crate) fn registers(&self) -> io::Result<Registers> {
        let mut registers = Registers([0; REGISTERS]);
        let mut area =
            libc::iovec { iov_base: registers.0.as_mut_ptr().cast(), iov_len: size_of_val(&registers.0) };
        request(libc::PTRACE_GETREGSET, self.thread, GENERAL_REGISTERS, &raw mut area as usize)?;
        Ok(registers)
    }

    /// Replaces the general registers.
    pub(crate) fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        let mut area = libc::iovec {
            iov_base: registers.0.as_ptr().cast_mut().cast(),
            iov_len: size_of_val(&registers.0),
        };
        request(libc::PTRACE_SETREGSET, self.thread, GENERAL_REGISTERS, &raw mut area as usize).map(drop)
    }

    /// Resumes the thread.
    pub(crate) fn resume(self, until: Until) -> io::Result<()> {
        resume(self.thread, until, 0)
    }
}

impl Stopped<Entry> {
    /// The call that is about to begin; `None` when the thread was killed meanwhile. The thread must not be resumed
    /// then. If it stops for its end, [`wait`] reports that.
    pub(crate) fn entered(&self) -> Option<Entered> {
        match call_facts(self.thread) {
            Ok(facts) if facts.kind != BEFORE_A_CALL => None,
            Ok(facts) => Some(facts.entered(self.thread, facts.word as u16)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
            Err(_) => self.entered_by_registers(),
        }
    }

    /// The same from registers, for kernels before 5.3.
    fn entered_by_registers(&self) -> Option<Entered> {
        let registers = self.registers().ok()?;
        let word = event_message(self.thread)? as u16;
        Some(registers.entered(self.thread, word))
    }
}

impl Stopped<Return> {
    /// The side of a call at which the thread stopped. `is_inside`: its last stop of this kind was before a call, which
    /// kernels before 5.3 do not tell. `None` when the thread was killed meanwhile, as with [`Stopped::entered`].
    pub(crate) fn side(self, is_inside: bool) -> Option<CallSide> {
        let thread = self.thread;
        match call_facts(thread) {
            Ok(facts) if facts.kind == BEGIN_OF_A_CALL => {
                Some(CallSide::Begin(Stopped::at(thread), facts.entered(thread, 0)))
            }
            Ok(facts) if facts.kind == END_OF_A_CALL => Some(CallSide::End(self, facts.number as i64)),
            Ok(_) => None,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => None,
            Err(_) if is_inside => self.return_value().map(|value| CallSide::End(self, value)),
            Err(_) => {
                let entered = self.registers().ok()?.entered(thread, 0);
                Some(CallSide::Begin(Stopped::at(thread), entered))
            }
        }
    }

    /// The return value of the call; `None` when the thread was killed meanwhile, as with [`Stopped::entered`].
    pub(crate) fn return_value(&self) -> Option<i64> {
        return_value(self.thread)
    }
}

impl Stopped<Making> {
    /// The new thread or process; `None` when the thread was killed meanwhile, as with [`Stopped::entered`].
    pub(crate) fn made(&self) -> Option<Pid> {
        event_message(self.thread).map(|message| Pid(message as i32))
    }
}

impl Stopped<Replaced> {
    /// The earlier number of the thread, to which `execve` gave the number of its process.
    pub(crate) fn former(&self) -> Option<Pid> {
        event_message(self.thread).map(|message| Pid(message as i32))
    }
}

impl Stopped<Delivery> {
    /// Delivers the signal and resumes the thread.
    pub(crate) fn deliver(self, signal: i32, until: Until) -> io::Result<()> {
        resume(self.thread, until, signal)
    }

    /// The process that sent the signal; `None` for other sources.
    pub(crate) fn sender(&self) -> Option<Pid> {
        let facts = signal(self.thread)?;
        // SAFETY: the kernel filled the structure; the field is meaningful for this code.
        (facts.si_code == libc::SI_USER).then(|| Pid(unsafe { facts.si_pid() }))
    }
}

impl<Kind: Interruption> Stopped<Kind> {
    /// The call that this stop ended with `EINTR`; `None` where it ended none, or one that the kernel restarts by itself.
    pub(crate) fn ended_call(&self) -> Option<EndedCall> {
        ended_call(self.thread)
    }

    /// Replaces the result of the call. The kernel treats codes of its own, which no program sees, as if the call had given them.
    pub(crate) fn set_result(&self, result: i64) {
        set_result(self.thread, result);
    }
}

/// A call that has ended with `EINTR`.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "the kernel does not show the call"))]
pub(crate) struct EndedCall {
    pub(crate) thread: Pid,
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
    /// The stack pointer.
    pub(crate) stack: u64,
    pub(crate) is_of_32_bits: bool,
}

/// A stop that may end a call of the program: the thread was interrupted, or has a signal.
pub(crate) trait Interruption {}
impl Interruption for Pause {}
impl Interruption for Delivery {}

impl Stopped<Group> {
    /// Leaves the thread in its group stop, from which only `SIGCONT` wakes it.
    pub(crate) fn listen(self) -> io::Result<()> {
        match request(libc::PTRACE_LISTEN, self.thread, 0, 0) {
            // The thread was killed and has stopped for its end.
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Ok(()),
            result => unless_gone(result.map(drop)),
        }
    }
}

fn resume(thread: Pid, until: Until, signal: i32) -> io::Result<()> {
    let how = match until {
        Until::NextStop => libc::PTRACE_CONT,
        Until::Return => libc::PTRACE_SYSCALL,
    };
    unless_gone(request(how, thread, 0, signal as usize).map(drop))
}

/// Treats a thread that was killed while it was stopped as resumed.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        result => result,
    }
}

/// The message of a stop's event; `None` when the thread was killed meanwhile.
fn event_message(thread: Pid) -> Option<u64> {
    let mut message = 0_u64;
    request(libc::PTRACE_GETEVENTMSG, thread, 0, &raw mut message as usize).ok()?;
    // A stop for the end carries the exit status. A thread only reaches that stop from another one, so a thread that is
    // not there now was not there before.
    (signal(thread)?.si_code >> 8 != libc::PTRACE_EVENT_EXIT).then_some(message)
}

/// The signal at which a thread has stopped.
fn signal(thread: Pid) -> Option<libc::siginfo_t> {
    // SAFETY: a structure of plain numbers may be all zeros.
    let mut facts: libc::siginfo_t = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETSIGINFO, thread, 0, &raw mut facts as usize).ok()?;
    Some(facts)
}

#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

/// One ptrace request. `data` is a number or the address of a place that fits the request.
fn request(request: Request, thread: Pid, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: callers in this file pass, where the request takes an address, that of a live local of the size that
    // the request writes or reads; the kernel checks everything about the thread.
    checked(unsafe { libc::ptrace(request, thread.0, address, data) } as i64)
}

/// Source: `linux/ptrace.h`, from kernel 5.3.
const PTRACE_GET_SYSCALL_INFO: Request = 0x420e;

/// `PTRACE_SYSCALL_INFO_ENTRY`.
const BEGIN_OF_A_CALL: u8 = 1;
/// `PTRACE_SYSCALL_INFO_EXIT`.
const END_OF_A_CALL: u8 = 2;
/// `PTRACE_SYSCALL_INFO_SECCOMP`.
const BEFORE_A_CALL: u8 = 3;

fn call_facts(thread: Pid) -> io::Result<CallFacts> {
    let mut facts = CallFacts::default();
    let address = &raw mut facts as usize;
    request(PTRACE_GET_SYSCALL_INFO, thread, size_of::<CallFacts>(), address)?;
    Ok(facts)
}

/// `struct ptrace_syscall_info` of a stop before a call. After a call, the result has the place of the number.
#[derive(Debug, Default)]
#[repr(C)]
struct CallFacts {
    kind: u8,
    padding: [u8; 3],
    architecture: u32,
    instruction: u64,
    stack: u64,
    number: u64,
    arguments: [u64; 6],
    word: u32,
    reserved: u32,
}

impl CallFacts {
    fn entered(&self, thread: Pid, word: u16) -> Entered {
        let Self { number, arguments, architecture, stack, .. } = *self;
        Entered { thread, number, arguments, word, architecture, stack }
    }
}

/// `NT_PRSTATUS`. Source: `linux/elf.h`.
const GENERAL_REGISTERS: usize = 1;

/// Words of the general register set. Source: `struct user_regs_struct` of `sys/user.h`.
#[cfg(target_arch = "x86_64")]
const REGISTERS: usize = 27;
#[cfg(target_arch = "aarch64")]
const REGISTERS: usize = 34;

/// The general registers of a stopped thread.
#[derive(Clone, Debug)]
pub(crate) struct Registers([u64; REGISTERS]);

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// The positions of rdi, rsi, rdx, r10, r8 and r9.
    const ARGUMENTS: [usize; 6] = [14, 13, 12, 7, 9, 8];
    /// The position of orig_rax.
    const NUMBER: usize = 15;

    /// The architecture whose interface the current call uses, by the code segment: 32-bit code has its own.
    fn architecture(&self) -> u32 {
        const CODE_SEGMENT: usize = 17;
        const SEGMENT_OF_32_BITS: u64 = 0x23;
        let is_foreign = self.0[CODE_SEGMENT] == SEGMENT_OF_32_BITS;
        native::FOREIGN.iter().find(|_| is_foreign).map_or(native::ARCHITECTURE, |(foreign, _)| *foreign)
    }
}

/// The position of sp.
#[cfg(target_arch = "aarch64")]
const STACK: usize = 31;

#[cfg(target_arch = "aarch64")]
impl Registers {
    /// The positions of x0 to x5.
    const ARGUMENTS: [usize; 6] = [0, 1, 2, 3, 4, 5];
    /// The position of x8.
    const NUMBER: usize = 8;

    /// The architecture whose interface the current call uses. Only kernels that do not tell it need this, and those
    /// give fewer registers of 32-bit programs, so that they are not taken for native ones.
    fn architecture(&self) -> u32 {
        native::ARCHITECTURE
    }
}

impl Registers {
    fn entered(&self, thread: Pid, word: u16) -> Entered {
        let arguments = std::array::from_fn(|index| self.argument(index));
        let (number, architecture) = (self.call_number(), self.architecture());
        Entered { thread, number, arguments, word, architecture, stack: self.0[STACK] }
    }

    /// The number of the thread's current call.
    pub(crate) fn call_number(&self) -> u64 {
        self.0[Self::NUMBER]
    }

    /// An argument of the thread's current call. Range of `index`: 0 to 5.
    pub(crate) fn argument(&self, index: usize) -> u64 {
        self.0[Self::ARGUMENTS[index]]
    }

    /// Sets an argument.
    pub(crate) fn set_argument(&mut self, index: usize, value: u64) {
        self.0[Self::ARGUMENTS[index]] = value;
    }
}

/// Reads a single register, because this runs once a call.
#[cfg(target_arch = "x86_64")]
fn return_value(thread: Pid) -> Option<i64> {
    peek(thread, RESULT)
}

/// The positions of rax, orig_rax and cs in `struct user_regs_struct`.
#[cfg(target_arch = "x86_64")]
const RESULT: usize = 10;
#[cfg(target_arch = "x86_64")]
const NUMBER: usize = 15;
#[cfg(target_arch = "x86_64")]
const SEGMENT: usize = 17;

/// One register, whatever the width of the program.
#[cfg(target_arch = "x86_64")]
fn peek(thread: Pid, register: usize) -> Option<i64> {
    let mut value = 0_i64;
    let offset = register * size_of::<u64>();
    // The raw call, because the C library cannot tell a value of -1 from an error.
    // SAFETY: the kernel writes one word to `value`.
    let result = unsafe {
        libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKUSER as i64, thread.0, offset, &raw mut value)
    };
    (result == 0).then_some(value)
}

/// Reads a single register, because this runs once a call.
#[cfg(target_arch = "aarch64")]
fn return_value(thread: Pid) -> Option<i64> {
    let mut value = 0_i64;
    let mut area = libc::iovec { iov_base: (&raw mut value).cast(), iov_len: size_of::<i64>() };
    request(libc::PTRACE_GETREGSET, thread, GENERAL_REGISTERS, &raw mut area as usize).ok()?;
    Some(value)
}

/// The positions of rsp, and of ebx, ecx, edx, esi, edi and ebp, in `struct user_regs_struct`.
#[cfg(target_arch = "x86_64")]
const STACK: usize = 19;
#[cfg(target_arch = "x86_64")]
const ARGUMENTS_OF_32_BITS: [usize; 6] = [5, 11, 12, 13, 14, 4];

#[cfg(target_arch = "x86_64")]
fn ended_call(thread: Pid) -> Option<EndedCall> {
    const SEGMENT_OF_32_BITS: i64 = 0x23;
    if peek(thread, RESULT)? as i32 != -libc::EINTR {
        return None;
    }
    let (number, is_of_32_bits) = (peek(thread, NUMBER)?, peek(thread, SEGMENT)? == SEGMENT_OF_32_BITS);
    let places = if is_of_32_bits { ARGUMENTS_OF_32_BITS } else { Registers::ARGUMENTS };
    let arguments = places.map(|register| peek(thread, register).unwrap_or(0) as u64);
    Some(EndedCall { thread, number, arguments, stack: peek(thread, STACK)? as u64, is_of_32_bits })
}

#[cfg(target_arch = "x86_64")]
fn set_result(thread: Pid, result: i64) {
    // A thread that was killed meanwhile needs no result.
    _ = request(libc::PTRACE_POKEUSER, thread, RESULT * size_of::<u64>(), result as usize);
}

/// The kernel has changed the program counter before such a stop, and does not show the argument that the result replaced.
#[cfg(target_arch = "aarch64")]
fn ended_call(_: Pid) -> Option<EndedCall> {
    None
}

#[cfg(target_arch = "aarch64")]
fn set_result(_: Pid, _: i64) {}
