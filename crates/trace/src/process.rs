//! Processes, their threads, and the programs that they executed.

use crate::{Nanos, PathId, Pid, ProcessId, ThreadId};
use serde::{Deserialize, Serialize};

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exit {
    /// It returned this status. Range: 0 to 255.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// The status as a shell shows it: 128 + N for signal N.
    pub fn shell_status(self) -> i32 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// A process of the recording. The first is the command itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The kernel's number.
    pub pid: Pid,
    /// The process that created it; `None` for the command itself.
    pub parent: Option<ProcessId>,
    /// The time of its creation.
    pub start: Nanos,
    /// The time of its end; `None` when the recording ended first.
    pub end: Option<Nanos>,
    /// The exit status or signal, where known.
    pub exit: Option<Exit>,
}

impl Process {
    /// The command itself, alive since the start of the recording.
    pub fn first(pid: Pid) -> Self {
        Self { pid, parent: None, start: Nanos(0), end: None, exit: None }
    }
}

/// A thread, and the state that it shares with its creator. Source: `clone(2)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// The kernel's number.
    pub tid: Pid,
    /// The process that it belongs to.
    pub process: ProcessId,
    /// The thread that created it; `None` for the command's first thread.
    pub parent: Option<ThreadId>,
    /// The time of its creation. It inherits descriptors and the working directory as of this time.
    pub start: Nanos,
    /// `CLONE_FILES`: it shares the descriptor table instead of a copy.
    pub shares_files: bool,
    /// `CLONE_FS`: it shares the working and root directory.
    pub shares_directory: bool,
}

impl Thread {
    /// The command's first thread.
    pub fn first(tid: Pid, process: ProcessId) -> Self {
        Self { tid, process, parent: None, start: Nanos(0), shares_files: false, shares_directory: false }
    }
}

/// A successful `execve`, from which on the process runs this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The process.
    pub process: ProcessId,
    /// The thread that made the call. It is the only one left.
    pub thread: ThreadId,
    /// The time at which the call ended.
    pub at: Nanos,
    /// The program, as `/proc/PID/exe` names it.
    pub program: Option<PathId>,
    /// The arguments. Bytes that are not text are escaped.
    pub arguments: Vec<String>,
}

impl Execution {
    /// An execution by a process of a single thread of the same number; its program is not known.
    pub fn of(process: u32, at: Nanos, arguments: Vec<String>) -> Self {
        Self { process: ProcessId(process), thread: ThreadId(process), at, program: None, arguments }
    }
}
