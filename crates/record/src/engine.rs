//! What an engine observes, and who it tells.
//!
//! An engine runs the command and sees its calls; it knows kernel numbers and nothing of traces. An [`Observer`]
//! makes a recording of what it is told and knows nothing of how it was seen. Another engine, such as one inside the
//! recorded processes, needs no change on this side of the trait.

use crate::RecordError;
use quell_trace::{Call, Exit, Nanos, Outcome, Pid};

/// Runs a command and observes it.
pub trait Engine {
    /// Its name in a trace's header.
    fn name(&self) -> &'static str;

    /// Runs the command until it and all its descendants have ended.
    ///
    /// # Errors
    /// [`RecordError`] where the command could not be started. Once it runs, its end is the result.
    fn run(self, observer: &mut dyn Observer) -> Result<Exit, RecordError>;
}

/// Is told what happens, in the order in which it becomes known.
///
/// The thread that an observation is about does not run until `observe` returns, so that `/proc` shows it as it is
/// at that moment.
pub trait Observer {
    /// Takes one observation.
    fn observe(&mut self, observation: Observation<'_>);
}

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub enum Observation<'a> {
    /// A thread came to be; the first of all is the command's.
    Born(Birth),
    /// A call ended, or its thread did.
    Called(ObservedCall<'a>),
    /// A program was replaced by `execve`; the call itself was observed just before.
    Executed {
        /// The thread, which now has its process's number.
        thread: Pid,
        /// When.
        at: Nanos,
    },
    /// `execve` in a thread that is not the first of its process gave it that one's number.
    Renamed {
        /// The number until now.
        from: Pid,
        /// The number from now on.
        to: Pid,
    },
    /// A process is about to lose its memory, which no other process uses: `/proc` shows it for the last time. It may
    /// come more often than that: `execve` may fail, the threads of a process end one by one.
    Leaving {
        /// A thread of the process. Not always the first, which may have ended.
        thread: Pid,
        /// Why.
        reason: Leave,
    },
    /// A thread ended. When it is the first of its process, the process ended.
    Ended {
        /// The thread.
        thread: Pid,
        /// When.
        at: Nanos,
        /// How.
        exit: Exit,
    },
    /// A call of the set was made but could not be observed.
    Lost(Loss),
}

/// Why a process loses its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It executes a program, unless that fails.
    Execution,
    /// It ends, or its last thread does.
    End,
}

/// A new thread.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    /// The thread's kernel number.
    pub thread: Pid,
    /// The thread that made it; `None` for the command's first.
    pub parent: Option<Pid>,
    /// Whether it belongs to its parent's process or is a process of its own.
    pub kind: BirthKind,
    /// It shares the descriptor table. Source: `CLONE_FILES` of `clone(2)`.
    pub shares_files: bool,
    /// It shares the working directory. Source: `CLONE_FS` of `clone(2)`.
    pub shares_directory: bool,
    /// It shares the memory. Source: `CLONE_VM` of `clone(2)`.
    pub shares_memory: bool,
    /// When.
    pub at: Nanos,
}

/// Whether a new thread is a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BirthKind {
    /// The first thread of a new process.
    Process,
    /// Another thread of its parent's process.
    Thread,
}

/// A call with its result. Fields are those of [`quell_trace::Event`].
#[derive(Clone, Copy, Debug)]
pub struct ObservedCall<'a> {
    /// The thread that called.
    pub thread: Pid,
    /// The call.
    pub call: Call,
    /// What the kernel answered.
    pub outcome: Outcome,
    /// When it began.
    pub start: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// Its numbers.
    pub arguments: Arguments,
    /// Its path as given; `None` when the call has none, or an address that cannot be read.
    pub path: Option<&'a [u8]>,
    /// Its second path.
    pub path2: Option<&'a [u8]>,
}

/// The arguments of a call that are numbers. Fields are those of [`quell_trace::Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments {
    /// The descriptor.
    pub fd: quell_trace::Fd,
    /// The second descriptor.
    pub fd2: quell_trace::Fd,
    /// Flags or command.
    pub flags: u64,
    /// Bytes asked for.
    pub size: quell_trace::Bytes,
    /// Offset in the file.
    pub offset: Option<i64>,
}

/// Why a call is not in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// It was made through the interface of another architecture: a 32-bit program.
    ForeignArchitecture,
    /// The recording could not be written any more.
    Unwritable,
    /// Its thread was not known: the kernel reported neither its birth nor its parent.
    UnknownThread,
}

impl Loss {
    /// One sentence for a reader of the trace.
    pub fn describe(self, count: u64) -> String {
        match self {
            Self::ForeignArchitecture => {
                format!("{count} calls of 32-bit programs were counted but not recorded")
            }
            Self::Unwritable => {
                format!("{count} calls were made after the recording could not be written any more")
            }
            Self::UnknownThread => format!("{count} calls came from threads whose origin is unknown"),
        }
    }
}
