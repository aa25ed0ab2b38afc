//! The interface between an engine and its observer.
//!
//! An engine runs the command and sees its calls. It uses kernel numbers and does not depend on traces. An [`Observer`]
//! makes a recording of the observations and does not depend on the engine. Another engine, such as one inside the
//! recorded processes, needs no change to observers.

use crate::RecordError;
use crate::error::{GaveWay, JoinBarrier};
use quell_trace::writer::OpenedFile;
use quell_trace::{Call, Ended, Exit, Nanos, Outcome, Pid};

/// Runs a command and observes it.
pub trait Engine {
    /// The engine's name in a trace's header.
    fn name(&self) -> &'static str;

    /// The place from which it sees files.
    fn view(&self) -> EngineView {
        EngineView::OfProcess
    }

    /// Sentences on what the engine cannot see, for readers of the trace.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Runs the command until it and all its descendants have ended. An engine that leaves them alone runs until the
    /// command has ended.
    ///
    /// # Errors
    /// [`RecordError`] if the command could not be started. After the start, the result is the command's end.
    fn run(self, observer: &mut dyn Observer) -> Result<Exit, RecordError>;
}

/// The place from which an engine sees the files of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineView {
    /// Beside the process: its mounts are the originals, and its memory shows the pages that it touched.
    OfProcess,
    /// Between the process and its files: the recorder's mounts are the originals, and no page is touched that was not
    /// read.
    OfRecorder,
}

/// Receives observations in the order in which they become known.
///
/// The observed thread does not run until `observe` returns, so that `/proc` shows its state at that moment. A thread
/// that is left alone may run.
pub trait Observer: Send {
    /// Takes one observation.
    fn observe(&mut self, observation: Observation<'_>);
}

/// One observation.
#[derive(Clone, Copy, Debug)]
pub enum Observation<'a> {
    /// A thread was created; the first one is the command's.
    Born(ThreadBirth),
    /// A thread was found that ran already, and stands still. Of the first of its process the parent is `None`.
    Joined {
        /// The thread; it shares everything with its parent.
        birth: ThreadBirth,
        /// Its process.
        process: Pid,
        /// No thread of the process runs unobserved: its descriptors change no more without a call that is observed.
        is_last: bool,
    },
    /// A process that belongs to the others is not observed.
    LeftOut {
        /// The process.
        process: Pid,
        /// The barrier.
        barrier: JoinBarrier,
    },
    /// The recording ends now, for the sake of a call.
    GaveWay(GaveWay),
    /// A call ended, or its thread ended in it.
    Called(ObservedCall<'a>),
    /// `execve` replaced a program; the call itself was observed just before.
    Executed {
        /// The thread, which now has its process's number.
        thread: Pid,
        /// The time.
        at: Nanos,
        /// The new program, where the engine knows it; `None` lets the observer look at `/proc`.
        launched: Option<&'a Launched>,
    },
    /// `execve` in another thread than the first of its process gave it the number of the first.
    Renamed {
        /// The old number.
        from: Pid,
        /// The new number.
        to: Pid,
    },
    /// A process may be about to lose its memory, which no other process uses: this may be the last time that `/proc`
    /// shows it. The observation may come repeatedly, because `execve` may fail and the threads of a process end one by
    /// one.
    Leaving {
        /// A thread of the process; not always the first, which may have ended.
        thread: Pid,
        /// The reason.
        reason: MemoryEnd,
    },
    /// A thread ended. The end of a process's first thread is the end of the process.
    Ended {
        /// The thread.
        thread: Pid,
        /// The time.
        at: Nanos,
        /// The status or signal.
        exit: Exit,
    },
    /// A call of the set could not be observed.
    Lost(LostCall),
    /// The command and its descendants run on unobserved. Nothing is observed after this.
    LeftAlone {
        /// The time.
        at: Nanos,
        /// The reason.
        ended: Ended,
        /// The end of the command; `None` when it runs on.
        exit: Option<Exit>,
    },
    /// The command has ended, and these processes of its run on. The engine waits for them.
    Waiting {
        /// Shape: sorted.
        processes: &'a [Pid],
    },
}

/// The reason for which a process loses its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryEnd {
    /// It executes a program; the execution may still fail.
    Execution,
    /// It ends, or its last thread does.
    End,
    /// It keeps the memory, and is left alone.
    Alone,
}

/// A new thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadBirth {
    /// The thread's kernel number.
    pub thread: Pid,
    /// The thread that created it; `None` for the command's first thread.
    pub parent: Option<Pid>,
    /// The kind: a thread of the parent's process, or a new process.
    pub kind: BirthKind,
    /// It shares the descriptor table. Source: `CLONE_FILES` of `clone(2)`.
    pub shares_files: bool,
    /// It shares the working directory. Source: `CLONE_FS` of `clone(2)`.
    pub shares_directory: bool,
    /// It shares the memory. Source: `CLONE_VM` of `clone(2)`.
    pub shares_memory: bool,
    /// The time.
    pub at: Nanos,
}

/// Tells a new process from a further thread.
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
    /// The kernel's answer.
    pub outcome: Outcome,
    /// The begin of the call.
    pub start: Nanos,
    /// The end of the call.
    pub end: Nanos,
    /// The numeric arguments.
    pub arguments: CallArguments,
    /// The path as passed; `None` when the call has none or its address cannot be read.
    pub path: Option<&'a [u8]>,
    /// The second path.
    pub path2: Option<&'a [u8]>,
    /// The file that an open opened, where the engine knows it; `None` lets the observer look at `/proc`.
    pub opened: Option<OpenedFile>,
}

/// The program that a process executes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launched {
    /// The path of the executable file.
    pub program: Option<Vec<u8>>,
    /// The arguments, the name first; bytes that are not text are escaped.
    pub arguments: Vec<String>,
    /// The search variables. Shape: sorted by name.
    pub variables: Vec<(String, String)>,
}

/// The numeric arguments of a call. Fields are those of [`quell_trace::Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallArguments {
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

/// The reason for which a call is not in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LostCall {
    /// The call used the interface of another architecture, as 32-bit programs do.
    ForeignArchitecture,
    /// The recording could no longer be written.
    Unwritable,
    /// The thread is unknown: the kernel reported neither its creation nor its parent.
    UnknownThread,
}

impl LostCall {
    /// One sentence for readers of the trace.
    pub fn describe(self, count: u64) -> String {
        match self {
            Self::ForeignArchitecture => {
                format!("{count} calls of 32-bit programs were counted but not recorded")
            }
            Self::Unwritable => {
                format!("{count} calls were made after the recording could no longer be written")
            }
            Self::UnknownThread => format!("{count} calls came from threads whose origin is unknown"),
        }
    }
}
