//! One recorded system call.

use crate::{Bytes, Call, Errno, Fd, MountId, Nanos, PathId, ProcessId, ThreadId};

/// The kernel's answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call succeeded with this return value (a descriptor, a number of bytes, or 0).
    Success(i64),
    /// The call failed.
    Failure(Errno),
    /// The call did not return: the thread ended in it.
    Unfinished,
}

impl Outcome {
    /// Follows the kernel's convention: -4095 to -1 is a failure. Source: `syscall(2)`.
    pub fn from_return_value(value: i64) -> Self {
        match value {
            -4095..=-1 => Self::Failure(Errno(value.unsigned_abs() as u16)),
            _ => Self::Success(value),
        }
    }

    /// True when the call succeeded.
    pub fn is_success(self) -> bool {
        matches!(self, Self::Success(_))
    }

    /// The error, if the call failed.
    pub fn errno(self) -> Option<Errno> {
        match self {
            Self::Failure(errno) => Some(errno),
            Self::Success(_) | Self::Unfinished => None,
        }
    }
}

/// One system call: its thread, time, arguments and result.
///
/// Events are stored in the order in which calls ended; within a thread that is the order of the calls. Arguments are
/// stored as the program passed them: paths are not joined with their directory. [`crate::resolve`] computes `target`
/// and `target2` from them afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time at which the call began.
    pub start: Nanos,
    /// The time from begin to end of the call, including the recorder's own work: an upper bound.
    pub duration: Nanos,
    /// The process that called.
    pub process: ProcessId,
    /// The thread that called.
    pub thread: ThreadId,
    /// The call.
    pub call: Call,
    /// The kernel's answer.
    pub outcome: Outcome,
    /// The descriptor argument: the file of a descriptor call, the directory of a path call.
    pub fd: Fd,
    /// The second descriptor argument (`renameat`, `linkat`, `dup2`, `sendfile`).
    pub fd2: Fd,
    /// The path argument as given.
    pub path: Option<PathId>,
    /// The second path argument as given: the new name of `rename`, `link` and `symlink`.
    pub path2: Option<PathId>,
    /// Flags or command: of `open`, with `openat2`'s `resolve` in the high half, the `AT_` flags, `mmap`'s protection in the high and flags in the low half,
    /// `fcntl`'s and `ioctl`'s command, `lseek`'s origin, `access`'s mode.
    pub flags: u64,
    /// Bytes asked for by a data call; `fcntl`'s argument; `close_range`'s last descriptor.
    pub size: Bytes,
    /// Offset in the file, where the call passes one (`pread64`, `mmap`, `lseek`).
    pub offset: Option<i64>,
    /// The file that the call refers to: absolute, links followed as the call follows them. `None` for pipes and
    /// sockets, and for unknown descriptors or namespaces.
    pub target: Option<PathId>,
    /// The second file (`rename`'s new name).
    pub target2: Option<PathId>,
    /// The mount that served `target`.
    pub file_system: Option<MountId>,
}

impl Event {
    /// An event with only its call set, for builders and tests.
    pub fn new(call: Call) -> Self {
        Self {
            start: Nanos(0),
            duration: Nanos(0),
            process: ProcessId(0),
            thread: ThreadId(0),
            call,
            outcome: Outcome::Success(0),
            fd: Fd::NONE,
            fd2: Fd::NONE,
            path: None,
            path2: None,
            flags: 0,
            size: Bytes(0),
            offset: None,
            target: None,
            target2: None,
            file_system: None,
        }
    }

    /// The time at which the call ended.
    pub fn end(&self) -> Nanos {
        Nanos(self.start.0.saturating_add(self.duration.0))
    }

    /// Bytes that the call moved: the return value of a data call that succeeded.
    pub fn bytes_moved(&self) -> Bytes {
        use crate::Class::{Read, Write};
        match (self.call.class(), self.outcome) {
            (Read | Write, Outcome::Success(moved)) if self.call != Call::Readahead => {
                Bytes(moved.max(0) as u64)
            }
            _ => Bytes(0),
        }
    }

    /// The file that a call which writes another one reads.
    pub fn copied_from(&self) -> Option<PathId> {
        let is_copy = self.call.class() == crate::Class::Write && self.outcome.errno().is_none();
        match self.call {
            Call::Sendfile => self.target2,
            Call::CopyFileRange | Call::Splice | Call::Tee => self.target,
            _ => None,
        }
        .filter(|_| is_copy)
    }

    /// True for a metadata operation that failed because the name is absent.
    pub fn is_miss(&self) -> bool {
        self.call.class().is_metadata() && self.outcome.errno().is_some_and(Errno::is_absence)
    }
}
