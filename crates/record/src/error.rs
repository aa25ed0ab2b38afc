//! Errors of recording a command.

use quell_trace::{Pid, TraceError};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// The reasons for which a recording was not made. In every case the command has not run.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program was not found. Usual cause: a typing error, or a module that is not loaded.
    #[error("cannot find the command `{}`", command.display())]
    NotFound {
        /// The command as given.
        command: OsString,
    },
    /// The program exists but cannot be executed. Usual cause: a directory, a missing permission, a missing
    /// interpreter.
    #[error("cannot execute `{}`", program.display())]
    NotExecutable {
        /// The file that was found.
        program: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// An argument or variable holds a zero byte, which `execve` cannot pass.
    #[error("`{}` holds a zero byte", text.display())]
    ZeroByte {
        /// The argument or variable.
        text: OsString,
    },
    /// The kernel does not let quell trace its own child.
    #[error("cannot trace the command: {barrier}")]
    Barred {
        /// The barrier that forbids it.
        barrier: TraceBarrier,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// There is no such process, or it has ended.
    #[error("there is no process {process}")]
    NoProcess {
        /// The number as given.
        process: Pid,
    },
    /// A process that runs already cannot be traced.
    #[error("cannot record process {process}: {barrier}")]
    Unjoinable {
        /// The process.
        process: Pid,
        /// The barrier that forbids it.
        barrier: JoinBarrier,
        /// The system's reason; `None` where it was not asked.
        #[source]
        source: Option<io::Error>,
    },
    /// The command's own namespace could not be made, or no file system could be mounted in it.
    #[error("cannot record through a mount: cannot {action}")]
    Unmountable {
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// No directory is left to record in.
    #[error("cannot record through a mount: `{}` is no directory", root.display())]
    NoRoot {
        /// The directory that was asked for.
        root: PathBuf,
    },
    /// The command's process could not be created. Usual cause: a limit on processes or memory.
    #[error("cannot {action}")]
    Start {
        /// The attempted action.
        action: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The hook for Python could not be written. Usual cause: a full disk.
    #[error("cannot write the hook for Python")]
    Hook(#[source] io::Error),
    /// The trace could not be created. Usual cause: the directory exists, or its parent is not writable.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// The setting or module that forbids tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceBarrier {
    /// The Yama module forbids it to all users.
    #[error("`kernel.yama.ptrace_scope` is 3, which forbids ptrace until the next boot")]
    YamaForbids,
    /// The Yama module allows it to administrators alone.
    #[error("`kernel.yama.ptrace_scope` is 2, which allows ptrace to administrators only")]
    YamaAdministrators,
    /// SELinux forbids it.
    #[error("the SELinux boolean `deny_ptrace` is on")]
    Selinux,
    /// Another tracer is attached already.
    #[error("process {tracer} traces it already, and a process has one tracer at most")]
    OtherTracer {
        /// The tracer's process number.
        tracer: i32,
    },
    /// Another recorder of quell is attached already.
    #[error("`quell record` (process {recorder}) records it already, and a process has one recorder at most")]
    Recorded {
        /// The recorder's process number.
        recorder: i32,
    },
    /// A container's filter forbids tracing.
    #[error("a seccomp filter, as of a container, forbids `ptrace`")]
    PtraceFiltered,
    /// A container's filter forbids a filter of one's own. Tracing is allowed.
    #[error("a seccomp filter, as of a container, forbids `seccomp`")]
    SeccompFiltered,
    /// The kernel has no seccomp filters.
    #[error("this kernel has no seccomp filters (`CONFIG_SECCOMP_FILTER`)")]
    NoFilters,
    /// No cause that quell knows of.
    #[error("a security module or the kernel forbids ptrace")]
    Unknown,
}

/// The reason for which a process that runs already cannot be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinBarrier {
    /// The Yama module allows it to ancestors and administrators alone.
    #[error("`kernel.yama.ptrace_scope` is 1, which allows ptrace of one's own descendants only")]
    YamaDescendants,
    /// The process belongs to another user.
    #[error("it belongs to user {user}")]
    OtherUser {
        /// The number of the user.
        user: u32,
    },
    /// The process runs with privileges, or has asked not to be traced. Source: `PR_SET_DUMPABLE` of `prctl(2)`.
    #[error("it has or had privileges of its own, or asked not to be traced")]
    Undumpable,
    /// The kernel traces none of its own threads.
    #[error("it is a thread of the kernel")]
    KernelThread,
    /// The recorder would wait for itself.
    #[error("it is this `quell`")]
    Ourselves,
    /// The recorder may depend on a process that it stops.
    #[error("this `quell` runs below it")]
    Ancestor,
    /// The recorder, or what it records, may wait for an answer of a process that it stops.
    #[error("it serves a FUSE file system, which would not answer while it is stopped")]
    ServesFuse,
    /// A reason for which no process could be traced, or this one has a tracer.
    #[error(transparent)]
    Trace(#[from] TraceBarrier),
}

/// The end of a recording before a call that would fail, or give less, under a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recording ended before process {process} {call}")]
pub struct GaveWay {
    /// The process.
    pub process: Pid,
    /// The call.
    pub call: HinderedCall,
}

/// A call that a recorder hinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HinderedCall {
    /// `ptrace`, as of debuggers and leak checkers: a process has one tracer at most.
    #[error("traced a process, or let itself be traced: a process has one tracer at most")]
    Trace,
    /// The execution of a program with privileges of its own, which the kernel does not give to a traced process.
    #[error("executed a set-user-ID or set-group-ID program, which has no privileges under a recorder")]
    Privileges,
    /// A server of FUSE begins: the recorder, or what it records, may wait for an answer of a process that it stops.
    #[error("opened `/dev/fuse`: a server of FUSE would not answer while it is stopped")]
    ServeFuse,
}
