//! Creates the command's process and attaches to it, or reports the barrier that forbids that.

use super::forward::Forwarding;
use crate::RecordError;
use crate::error::TraceBarrier;
use crate::facts;
use crate::sys::ptrace::{self, TraceeFate};
use crate::sys::signals::Mask;
use crate::sys::spawn::{self, SpawnFailure, SpawnProgram, SpawnStep, Waiting};
use quell_trace::Pid;
use std::io;
use std::path::Path;

/// The command's process, waiting. If dropped before its release, it ends without having run anything.
#[derive(Debug)]
pub(super) struct Attached {
    waiting: Option<Waiting>,
    command: Pid,
    mask: Mask,
}

impl Attached {
    pub(super) fn new(program: &SpawnProgram) -> Result<Self, RecordError> {
        let mask = Mask::block_all();
        let waiting = spawn::spawn(program, &mask, || Ok(())).map_err(|source| {
            mask.restore();
            RecordError::Start { action: "create a process for the command", source }
        })?;
        Ok(Self { command: waiting.process, waiting: Some(waiting), mask })
    }

    /// Makes this thread the tracer of the command. `fate`: of the command when this thread ends.
    pub(super) fn seize(&self, fate: TraceeFate) -> Result<(), RecordError> {
        let seize = || {
            ptrace::seize(self.command, fate)?;
            // Without a filter, calls stop a thread only after another stop. Its read from the gate is restarted.
            if fate == TraceeFate::RunOn { ptrace::interrupt(self.command) } else { Ok(()) }
        };
        seize().map_err(|source| RecordError::Barred { barrier: barrier(self.command, &source), source })
    }

    /// The signal mask of this process.
    pub(super) fn mask(&self) -> Mask {
        self.mask
    }

    pub(super) fn command(&self) -> Pid {
        self.command
    }

    /// Starts the command. From here on signals to the recorder are forwarded to it.
    pub(super) fn release(mut self) -> Result<(Forwarding, Option<SpawnFailure>), RecordError> {
        let start = |source| RecordError::Start { action: "start the command", source };
        let forwarding = Forwarding::begin(self.command, self.mask).map_err(start)?;
        let failure = self.waiting.take().map(Waiting::release).transpose().map_err(start)?;
        Ok((forwarding, failure))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.abandon();
            self.mask.restore();
        }
    }
}

/// Maps a failure of the process's last steps to an error.
pub(crate) fn explain_failure(failure: Option<SpawnFailure>, program: &Path) -> Result<(), RecordError> {
    let Some((step, errno)) = failure.and_then(SpawnFailure::read) else { return Ok(()) };
    let source = io::Error::from_raw_os_error(errno);
    Err(match step {
        SpawnStep::Execute => RecordError::NotExecutable { program: program.to_owned(), source },
        SpawnStep::Filter if errno == libc::EINVAL => {
            RecordError::Barred { barrier: TraceBarrier::NoFilters, source }
        }
        SpawnStep::Filter => RecordError::Barred { barrier: TraceBarrier::SeccompFiltered, source },
    })
}

/// The barrier for which the kernel refused to trace a process.
pub(super) fn barrier(process: Pid, error: &io::Error) -> TraceBarrier {
    let status = word(&format!("/proc/{process}/status")).unwrap_or_default();
    let selinux = word("/sys/fs/selinux/booleans/deny_ptrace");
    match judge(&status, yama().as_deref(), selinux.as_deref(), error) {
        TraceBarrier::OtherTracer { tracer } => {
            other_tracer(process).unwrap_or(TraceBarrier::OtherTracer { tracer })
        }
        barrier => barrier,
    }
}

/// The setting of the Yama module; `None` without it.
pub(super) fn yama() -> Option<String> {
    word("/proc/sys/kernel/yama/ptrace_scope")
}

/// The tracer that a process has already.
pub(super) fn other_tracer(process: Pid) -> Option<TraceBarrier> {
    let thread = facts::field(process, "TracerPid:").filter(|&tracer| tracer > 0)?;
    let tracer = facts::tracer(process).map_or(thread, |tracer| tracer.0);
    Some(match facts::name(Pid(thread)) == "quell" {
        true => TraceBarrier::Recorded { recorder: tracer },
        false => TraceBarrier::OtherTracer { tracer },
    })
}

fn word(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Finds the barrier from `/proc/PID/status` and the settings of security modules.
fn judge(status: &str, yama: Option<&str>, selinux: Option<&str>, error: &io::Error) -> TraceBarrier {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<i32>().ok()
    };
    match (yama, field("TracerPid:"), field("Seccomp:")) {
        (_, Some(tracer), _) if tracer > 0 => TraceBarrier::OtherTracer { tracer },
        (Some("3"), _, _) => TraceBarrier::YamaForbids,
        (Some("2"), _, _) => TraceBarrier::YamaAdministrators,
        _ if selinux.is_some_and(|state| state.starts_with('1')) => TraceBarrier::Selinux,
        (_, _, Some(mode)) if mode > 0 => TraceBarrier::PtraceFiltered,
        _ if error.raw_os_error() == Some(libc::ENOSYS) => TraceBarrier::PtraceFiltered,
        _ => TraceBarrier::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_is_named() {
        let refused = io::Error::from_raw_os_error(libc::EPERM);
        let free = "Name:\tx\nTracerPid:\t0\nSeccomp:\t0\n";
        for (status, yama, selinux, expected) in [
            (free, Some("3"), None, TraceBarrier::YamaForbids),
            (free, Some("2"), None, TraceBarrier::YamaAdministrators),
            (free, Some("1"), Some("1 1"), TraceBarrier::Selinux),
            ("TracerPid:\t12\nSeccomp:\t0\n", Some("3"), None, TraceBarrier::OtherTracer { tracer: 12 }),
            ("TracerPid:\t0\nSeccomp:\t2\n", None, None, TraceBarrier::PtraceFiltered),
            (free, Some("1"), Some("0 0"), TraceBarrier::Unknown),
        ] {
            assert_eq!(judge(status, yama, selinux, &refused), expected);
        }
    }
}
