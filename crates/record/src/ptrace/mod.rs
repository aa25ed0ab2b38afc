//! The engine that observes with ptrace and a seccomp filter: two stops for each call of the set, none for others.
//!
//! ```text
//! recorder                                child
//! fork ---------------------------------> waits at a pipe
//! PTRACE_SEIZE
//! release ------------------------------> installs the filter, execve
//! wait: before a call of the set <------- seccomp stop
//!   arguments, paths; PTRACE_SYSCALL ---> the kernel does the call
//! wait: after the call <----------------- stop at its return
//!   result; PTRACE_CONT ----------------> runs at full speed to the next call of the set
//! wait: a thread ends <------------------ stop with its memory still there
//!   of the last: which pages; CONT -----> ends
//! ```
//!
//! The engine refuses no call: a call that it cannot interpret runs on and is counted. Once the filter is installed the
//! recorder must stay until the last process has ended, because without a tracer the kernel fails every call that the
//! filter stops.
//!
//! So the engine installs no filter where only the start is recorded. Every call then stops twice, in the set or not,
//! until a [`StartJudge`](crate::started::StartJudge) finds the start over; then all threads are left alone (`leave.rs`), and the command runs on at
//! full speed. There the recorder may also be killed without harm to the command.

pub(crate) mod attach;
pub(crate) mod births;
pub(crate) mod forward;
pub(crate) mod join;
pub(crate) mod joining;
mod leave;
mod leftovers;
mod memories;
mod placement;
mod run;
mod start;
mod tracee;
mod waiting;
mod waits;

use crate::RecordError;
use crate::engine::{Engine, Observer};
use crate::started::StartLimits;
use crate::sys::ptrace::TraceeFate;
use crate::sys::spawn::SpawnProgram;
use attach::Attached;
use quell_trace::Exit;
use run::TracedRun;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Instant;

/// Records a command with ptrace.
#[derive(Debug)]
pub(crate) struct Ptrace {
    attached: Attached,
    program: PathBuf,
    began: Instant,
    scope: RecordedScope,
}

/// The part of a run that is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedScope {
    /// All of it, to the end of the last process.
    #[default]
    Run,
    /// The start. Afterwards the command runs on untraced, unless it ended before.
    Start(StartLimits),
}

impl Ptrace {
    /// Creates the command's process, which waits, and attaches to it. The thread that records a start attaches itself.
    ///
    /// # Errors
    /// [`RecordError::Barred`] where the system forbids ptrace.
    pub(crate) fn attach(program: &SpawnProgram, scope: RecordedScope) -> Result<Self, RecordError> {
        let attached = Attached::new(program)?;
        if scope == RecordedScope::Run {
            attached.seize(TraceeFate::Die)?;
        }
        let file = OsStr::from_bytes(program.file.as_bytes());
        Ok(Self { attached, program: file.into(), began: Instant::now(), scope })
    }
}

impl Engine for Ptrace {
    fn name(&self) -> &'static str {
        "ptrace"
    }

    fn run(self, observer: &mut dyn Observer) -> Result<Exit, RecordError> {
        let Self { attached, program, began, scope } = self;
        let command = attached.command();
        if let RecordedScope::Start(limits) = scope {
            return start::run(attached, &program, began, limits, observer);
        }
        let (mut forwarding, failure) = attached.release()?;
        let mut run = TracedRun::new(command, began, &mut forwarding, observer);
        let exit = run.until_all_ended().map_err(|source| RecordError::Start { action: "wait", source });
        drop(run);
        attach::explain_failure(failure, &program)?;
        exit
    }
}
