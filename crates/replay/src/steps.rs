//! The steps of a replay, process by process and thread by thread: recorded calls in a form that can be issued at once.

use quell_trace::Call;
use serde::{Deserialize, Serialize};

/// An open file of a process, from its open to its close. Range: index below [`Programme::slots`]. Numbers of descriptors are used
/// again; slots are not, so that threads cannot take one file for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct FileSlot(pub(super) u32);

/// A name, and where its path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct At {
    /// An open directory; `None` for the working directory, and for paths that are absolute.
    pub(super) directory: Option<FileSlot>,
    /// Index into [`Programme::paths`].
    pub(super) path: u32,
}

/// The directory that completes a path when the place of the tree is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum PathPrefix {
    /// They are relative, as the program passed them.
    None,
    /// The tree.
    Root,
    /// The directory that this rank may write to.
    Private,
}

/// A call that is issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ReplayOperation {
    Open {
        at: At,
        flags: u64,
        slot: FileSlot,
    },
    Stat {
        at: At,
        flags: u32,
    },
    Statx {
        at: At,
        flags: u32,
    },
    StatOpen(FileSlot),
    Access {
        at: At,
        mode: u32,
        flags: u32,
    },
    ReadLink(At),
    List {
        slot: FileSlot,
        size: u64,
    },
    Xattr {
        at: At,
        follow: bool,
        list: bool,
    },
    XattrOpen {
        slot: FileSlot,
        list: bool,
    },
    StatFs(At),
    StatFsOpen(FileSlot),
    /// The kernel's own use of the program's file: it is opened, and its first bytes are read.
    Execute(At),
    ChangeDirectory(At),
    ChangeDirectoryOpen(FileSlot),
    Read {
        slot: FileSlot,
        size: u64,
    },
    ReadAt {
        slot: FileSlot,
        size: u64,
        offset: u64,
    },
    Advise {
        slot: FileSlot,
        size: u64,
        offset: u64,
    },
    Seek {
        slot: FileSlot,
        offset: i64,
        origin: u64,
    },
    /// Reads the parts of a mapped file that the process touched. Shape: offset and size, in bytes.
    Touch {
        slot: FileSlot,
        extents: Vec<(u64, u64)>,
    },
    Duplicate {
        slot: FileSlot,
        to: FileSlot,
    },
    Close(FileSlot),
    Terminal(FileSlot),
    Write {
        slot: FileSlot,
        size: u64,
    },
    WriteAt {
        slot: FileSlot,
        size: u64,
        offset: u64,
    },
    Resize {
        slot: FileSlot,
        size: u64,
    },
    Sync(FileSlot),
    Rename {
        from: At,
        to: At,
        flags: u32,
    },
    Link {
        from: At,
        to: At,
    },
    SymbolicLink {
        content: u32,
        at: At,
    },
    Unlink {
        at: At,
        directory: bool,
    },
    MakeDirectory(At),
    SetMode(At),
    SetTimes(At),
}

impl ReplayOperation {
    /// Open files that it needs.
    pub(super) fn uses(&self) -> impl Iterator<Item = FileSlot> {
        let (first, second) = match self {
            Self::StatOpen(slot)
            | Self::StatFsOpen(slot)
            | Self::ChangeDirectoryOpen(slot)
            | Self::Terminal(slot)
            | Self::Sync(slot)
            | Self::List { slot, .. }
            | Self::XattrOpen { slot, .. }
            | Self::Read { slot, .. }
            | Self::ReadAt { slot, .. }
            | Self::Advise { slot, .. }
            | Self::Seek { slot, .. }
            | Self::Touch { slot, .. }
            | Self::Duplicate { slot, .. }
            | Self::Write { slot, .. }
            | Self::WriteAt { slot, .. }
            | Self::Resize { slot, .. } => (Some(*slot), None),
            Self::Rename { from, to, .. } | Self::Link { from, to } => (from.directory, to.directory),
            Self::Close(_) => (None, None),
            _ => (self.at().and_then(|at| at.directory), None),
        };
        first.into_iter().chain(second)
    }

    /// True if it may change a file or a name.
    pub(super) fn changes(&self) -> bool {
        use quell_trace::flags::{O_ACCMODE, O_CREAT, O_TMPFILE, O_TRUNC};
        match self {
            Self::Open { flags, .. } => {
                flags & (O_ACCMODE | O_CREAT | O_TRUNC) != 0 || flags & O_TMPFILE == O_TMPFILE
            }
            Self::Write { .. } | Self::WriteAt { .. } | Self::Resize { .. } | Self::Sync(_) => true,
            Self::Rename { .. } | Self::Link { .. } | Self::SymbolicLink { .. } | Self::Unlink { .. } => true,
            Self::MakeDirectory(_) | Self::SetMode(_) | Self::SetTimes(_) => true,
            _ => false,
        }
    }

    /// Names that it may change; none where it changes nothing, or an open file.
    pub(super) fn changed(&self) -> impl Iterator<Item = At> {
        let second = match self {
            Self::Rename { to, .. } | Self::Link { to, .. } => Some(*to),
            _ => None,
        };
        self.at().filter(|_| self.changes()).into_iter().chain(second)
    }

    /// The name that it is about.
    pub(super) fn at(&self) -> Option<At> {
        match self {
            Self::Open { at, .. }
            | Self::Stat { at, .. }
            | Self::Statx { at, .. }
            | Self::Access { at, .. }
            | Self::Xattr { at, .. }
            | Self::SymbolicLink { at, .. }
            | Self::Unlink { at, .. }
            | Self::ReadLink(at)
            | Self::StatFs(at)
            | Self::Execute(at)
            | Self::ChangeDirectory(at)
            | Self::MakeDirectory(at)
            | Self::SetMode(at)
            | Self::SetTimes(at) => Some(*at),
            Self::Rename { from, .. } | Self::Link { from, .. } => Some(*from),
            _ => None,
        }
    }
}

/// A step of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ReplayStep {
    /// Issues a recorded call.
    Issue(IssuedCall),
    /// Starts the process of this number.
    Spawn(u32),
    /// Waits until a process that was started has ended, as it had in the recording.
    Await(u32),
    /// Starts the thread of this number.
    Thread(u32),
    /// Closes what `execve` closed.
    Release(FileSlot),
}

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IssuedCall {
    /// Time between the end of the call before and this one. Unit: nanoseconds.
    pub(super) gap: u64,
    /// Index into [`Call::ALL`].
    pub(super) call: u16,
    /// Its error in the recording; 0 when it succeeded.
    pub(super) failed: u16,
    pub(super) operation: ReplayOperation,
}

impl IssuedCall {
    /// The recorded call. Range: any number that a damaged plan holds is taken for the first call.
    pub(super) fn recorded(&self) -> Call {
        Call::ALL.get(usize::from(self.call)).copied().unwrap_or(Call::ALL[0])
    }
}

/// The steps of one recorded process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Programme {
    /// The number of open files.
    pub(super) slots: u32,
    /// Open files of the parent that this process uses: the parent's slot and this process's.
    pub(super) inherits: Vec<(FileSlot, FileSlot)>,
    pub(super) paths: Vec<(PathPrefix, Vec<u8>)>,
    /// Shape: one entry a thread, the first thread first.
    pub(super) threads: Vec<Vec<ReplayStep>>,
}

impl Programme {
    /// True if a call changes names of the private directory alone, or nothing.
    pub(super) fn spares_tree(&self, operation: &ReplayOperation) -> bool {
        let is_private =
            |at: At| self.paths.get(at.path as usize).is_some_and(|path| path.0 == PathPrefix::Private);
        operation.changed().all(is_private)
    }

    /// True if any of its calls changes a name, or opens a file to change it.
    pub(super) fn changes(&self) -> bool {
        self.threads.iter().flatten().any(|step| match step {
            ReplayStep::Issue(issue) => issue.operation.changed().next().is_some(),
            _ => false,
        })
    }

    /// True if it does nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.threads.iter().all(|steps| steps.iter().all(|step| matches!(step, ReplayStep::Thread(_))))
    }
}
