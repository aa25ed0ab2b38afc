//! Errors of recording a command.

use quell_trace::TraceError;
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
