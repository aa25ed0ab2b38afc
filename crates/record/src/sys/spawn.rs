//! Creates the process that becomes the command: it waits until it is traced, then installs the filter and executes.

use super::signals::Mask;
use super::{checked, seccomp};
use crate::filter::Instruction;
use quell_trace::Pid;
use std::ffi::{CStr, CString, c_char};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

/// The program to execute. All of it is allocated before the fork, because a child must not allocate between `fork` and
/// `execve`.
#[derive(Debug)]
pub(crate) struct SpawnProgram {
    /// The file.
    pub(crate) file: CString,
    /// Shape: the name first.
    pub(crate) arguments: Vec<CString>,
    /// Shape: `NAME=value` each.
    pub(crate) environment: Vec<CString>,
    /// `None` for an engine that stops every call.
    pub(crate) filter: Option<Vec<Instruction>>,
}

/// The process before it is released.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) process: Pid,
    gate: PipeWriter,
    failure: PipeReader,
}

/// Reports, once the process has ended, the step that failed.
#[derive(Debug)]
pub(crate) struct SpawnFailure(PipeReader);

/// The step of the new process that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpawnStep {
    /// Installing the filter.
    Filter,
    /// Executing the program.
    Execute,
}

/// The shell that runs a script without `#!`, as `execvp(3)` does.
const SHELL: &CStr = c"/bin/sh";

/// Creates the process. It has the caller's descriptors, and the signal state that the caller itself inherited. It carries
/// out `prepare` before it waits, and ends if that fails.
///
/// # Errors
/// `EAGAIN` or `ENOMEM` where the system cannot create another process.
pub(crate) fn spawn(
    program: &SpawnProgram,
    mask: &Mask,
    prepare: impl FnOnce() -> io::Result<()>,
) -> io::Result<Waiting> {
    let (gate_in, gate) = io::pipe()?;
    let (failure, failure_out) = io::pipe()?;
    let plan = Plan::new(program, mask);
    // SAFETY: the child never returns from `become_command`. It calls async-signal-safe functions only, but for `prepare`,
    // which may allocate: every C library that quell is linked with makes its allocator usable in the child.
    let process = checked(unsafe { libc::fork() })?;
    if process == 0 {
        if prepare().is_err() {
            exit();
        }
        plan.become_command(gate_in.as_raw_fd(), gate.as_raw_fd(), failure_out.as_raw_fd());
    }
    Ok(Waiting { process: Pid(process as i32), gate, failure })
}

/// Continues in a child. Returns its number in the parent, and `None` in the child. This process must have one thread.
///
/// # Errors
/// `EAGAIN` or `ENOMEM` where the system cannot create another process.
pub(crate) fn continue_in_child() -> io::Result<Option<Pid>> {
    // SAFETY: no other thread exists that could hold a lock of the child's.
    let process = checked(unsafe { libc::fork() })?;
    Ok((process > 0).then_some(Pid(process as i32)))
}

impl Waiting {
    /// Lets the process continue to its `execve`.
    pub(crate) fn release(mut self) -> io::Result<SpawnFailure> {
        self.gate.write_all(&[0])?;
        Ok(SpawnFailure(self.failure))
    }

    /// Ends the process, which has run nothing, and reaps it. A traced one stops before it ends: left there, it would keep a later
    /// recording of this process waiting for ever.
    pub(crate) fn abandon(self) {
        let process = self.process;
        drop(self);
        loop {
            let mut status = 0;
            // SAFETY: `status` is a valid place for the result.
            let waited = unsafe { libc::waitpid(process.0, &raw mut status, libc::__WALL) };
            if waited != process.0 || !libc::WIFSTOPPED(status) {
                return;
            }
            // A signal would not end this stop, since the process is ending already.
            // SAFETY: takes numbers. The process is not reaped, so that the number is its own.
            if unsafe { libc::ptrace(libc::PTRACE_CONT, process.0, 0, 0) } != 0 {
                return;
            }
        }
    }
}

impl SpawnFailure {
    /// The failed step and its errno; `None` when the command was executed.
    pub(crate) fn read(mut self) -> Option<(SpawnStep, i32)> {
        let mut report = [0; 5];
        self.0.read_exact(&mut report).ok()?;
        let [step, errno @ ..] = report;
        let step = if step == SpawnStep::Filter as u8 { SpawnStep::Filter } else { SpawnStep::Execute };
        Some((step, i32::from_le_bytes(errno)))
    }
}

/// Pointers for `execve`, made before the fork. They point into the program, which outlives them.
struct Plan<'a> {
    program: &'a SpawnProgram,
    mask: &'a Mask,
    arguments: Vec<*const c_char>,
    /// For a script without `#!`: the shell, the file, the arguments after the name.
    shell_arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
}

impl<'a> Plan<'a> {
    fn new(program: &'a SpawnProgram, mask: &'a Mask) -> Self {
        let arguments = program.arguments.iter().map(CString::as_c_str);
        let shell = [SHELL, &*program.file].into_iter().chain(arguments.clone().skip(1));
        Self {
            program,
            mask,
            shell_arguments: pointers(shell),
            arguments: pointers(arguments),
            environment: pointers(program.environment.iter().map(CString::as_c_str)),
        }
    }

    fn become_command(&self, gate: RawFd, gate_writer: RawFd, failure: RawFd) -> ! {
        if !is_released(gate, gate_writer) {
            exit();
        }
        quell_base::restore_inherited();
        self.mask.restore();
        if let Some(Err(errno)) = self.program.filter.as_deref().map(seccomp::install) {
            report(failure, SpawnStep::Filter, errno);
        }
        let mut errno = execute(&self.program.file, &self.arguments, &self.environment);
        if errno == libc::ENOEXEC {
            errno = execute(SHELL, &self.shell_arguments, &self.environment);
        }
        report(failure, SpawnStep::Execute, errno)
    }
}

fn pointers<'a>(strings: impl Iterator<Item = &'a CStr>) -> Vec<*const c_char> {
    strings.map(CStr::as_ptr).chain([std::ptr::null()]).collect()
}

/// Waits for the recorder's release; false when the recorder is gone.
fn is_released(gate: RawFd, gate_writer: RawFd) -> bool {
    // SAFETY: closes this process's copy of a descriptor that only the recorder writes to.
    unsafe { libc::close(gate_writer) };
    let mut word = 0_u8;
    // SAFETY: one byte into a local.
    unsafe { libc::read(gate, (&raw mut word).cast(), 1) == 1 }
}

/// Returns only on failure, with the errno.
fn execute(file: &CStr, arguments: &[*const c_char], environment: &[*const c_char]) -> i32 {
    // SAFETY: both arrays end with a null pointer, and every string with a zero.
    unsafe { libc::execve(file.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    super::last_error().raw_os_error().unwrap_or(libc::EIO)
}

fn report(failure: RawFd, step: SpawnStep, errno: i32) -> ! {
    let [a, b, c, d] = errno.to_le_bytes();
    let report = [step as u8, a, b, c, d];
    // SAFETY: writes a local array.
    unsafe { libc::write(failure, report.as_ptr().cast(), report.len()) };
    exit()
}

/// Ends the process without running any code of the recorder's.
fn exit() -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(125) }
}
