//! Why a command could not be recorded.

use quell_trace::TraceError;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Why a recording was not made. In every case the command has not run.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No such program. Usual cause: a typing error, or a module that is not loaded.
    #[error("cannot find the command `{}`", command.display())]
    NotFound {
        /// The command as given.
        command: OsString,
    },
    /// It is there but cannot be executed. Usual cause: a directory, a missing permission, a missing interpreter.
    #[error("cannot execute `{}`", program.display())]
    NotExecutable {
        /// The file that was found.
        program: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// An argument or variable holds a zero byte, which no program can be given.
    #[error("`{}` holds a zero byte", text.display())]
    ZeroByte {
        /// The argument or variable.
        text: OsString,
    },
    /// The kernel does not let quell trace its own child.
    #[error("cannot trace the command: {barrier}")]
    Barred {
        /// The setting that forbids it.
        barrier: Barrier,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The command's process could not be made. Usual cause: a limit on processes or memory.
    #[error("cannot {action}")]
    Start {
        /// What was attempted.
        action: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The trace could not be created. Usual cause: the directory exists, or its parent is not writable.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// What forbids tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Barrier {
    /// The Yama module forbids it to everybody.
    #[error("`kernel.yama.ptrace_scope` is 3, which forbids ptrace until the next boot")]
    YamaForbids,
    /// The Yama module allows it to administrators alone.
    #[error("`kernel.yama.ptrace_scope` is 2, which allows ptrace to administrators only")]
    YamaAdministrators,
    /// SELinux forbids it.
    #[error("the SELinux boolean `deny_ptrace` is on")]
    Selinux,
    /// Another tracer was there first.
    #[error("process {tracer} traces it already, and a process has one tracer at most")]
    OtherTracer {
        /// The tracer's process number.
        tracer: i32,
    },
    /// A container's filter forbids the calls.
    #[error("a seccomp filter, as of a container, forbids `ptrace` or `seccomp`")]
    SeccompFilter,
    /// The kernel has no seccomp filters.
    #[error("this kernel has no seccomp filters (`CONFIG_SECCOMP_FILTER`)")]
    NoFilters,
    /// Nothing that quell knows of.
    #[error("a security module or the kernel forbids ptrace")]
    Unknown,
}
