//! Processes, their threads, and the programs that they executed.

use crate::{Nanos, PathId, Pid, ProcessId, ThreadId};
use serde::{Deserialize, Serialize};

/// How a process ended.
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
    /// Who made it; `None` for the command itself.
    pub parent: Option<ProcessId>,
    /// When it came to be.
    pub start: Nanos,
    /// When it ended; `None` when the recording ended first.
    pub end: Option<Nanos>,
    /// How it ended.
    pub exit: Option<Exit>,
}

impl Process {
    /// The command itself, which is there from the beginning, and has not ended.
    pub fn first(pid: Pid) -> Self {
        Self { pid, parent: None, start: Nanos(0), end: None, exit: None }
    }
}

/// A thread, with what it shares with the thread that made it. Source: `clone(2)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// The kernel's number.
    pub tid: Pid,
    /// The process that it belongs to.
    pub process: ProcessId,
    /// The thread that made it; `None` for the command's first.
    pub parent: Option<ThreadId>,
    /// When it came to be. It inherits descriptors and working directory as they were then.
    pub start: Nanos,
    /// `CLONE_FILES`: it shares the descriptor table, rather than having a copy.
    pub shares_files: bool,
    /// `CLONE_FS`: it shares the working and root directory.
    pub shares_directory: bool,
}

impl Thread {
    /// The first of the command itself.
    pub fn first(tid: Pid, process: ProcessId) -> Self {
        Self { tid, process, parent: None, start: Nanos(0), shares_files: false, shares_directory: false }
    }
}

/// A successful `execve`: from here the process runs this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The process.
    pub process: ProcessId,
    /// The thread that called; it is the only one left.
    pub thread: ThreadId,
    /// When the call ended.
    pub at: Nanos,
    /// The program, as `/proc/PID/exe` names it.
    pub program: Option<PathId>,
    /// The arguments. Bytes that are not text are escaped.
    pub arguments: Vec<String>,
}
