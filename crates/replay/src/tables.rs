//! The open files of recorded descriptors, and the directories of recorded processes: descriptor tables and working
//! directories, shared or copied as `clone(2)` was told. Only files of the tree are in them.

use super::steps::FileSlot;
use quell_trace::flags::{CLOSE_RANGE_CLOEXEC, F_DUPFD, F_DUPFD_CLOEXEC, F_SETFD, FD_CLOEXEC};
use quell_trace::{Call, Event, PathId, ProcessId};
use std::collections::BTreeMap;

/// An open file of the tree, by the process that opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldFile {
    pub(super) owner: ProcessId,
    pub(super) slot: FileSlot,
    pub(super) path: Option<PathId>,
    pub(super) closes_on_exec: bool,
}

/// The tables of one process. Its threads share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessTable {
    pub(super) files: BTreeMap<i32, HeldFile>,
    /// The working directory, resolved.
    pub(super) directory: Option<PathId>,
}

impl ProcessTable {
    /// Takes out what `execve` closes.
    pub(super) fn execute(&mut self) -> Vec<HeldFile> {
        let closed = self.files.extract_if(.., |_, held| held.closes_on_exec);
        closed.map(|(_, held)| held).collect()
    }

    /// Takes out what `close_range` closes, or has it closed on exec.
    pub(super) fn close_range(&mut self, event: &Event) -> Vec<HeldFile> {
        let (first, last) = (i64::from(event.fd.0 as u32), event.size.0.min(u64::from(u32::MAX)) as i64);
        let within = |fd: i32| (first..=last).contains(&i64::from(fd));
        if event.flags & CLOSE_RANGE_CLOEXEC != 0 {
            self.files
                .iter_mut()
                .filter(|(fd, _)| within(**fd))
                .for_each(|(_, held)| held.closes_on_exec = true);
            return Vec::new();
        }
        self.files.extract_if(.., |fd, _| within(*fd)).map(|(_, held)| held).collect()
    }

    /// The number that a call duplicates a descriptor to, with whether that closes on exec.
    pub(super) fn duplicates(event: &Event, value: i64) -> Option<(i32, bool)> {
        let to = i32::try_from(value).ok()?;
        match (event.call, event.flags) {
            (Call::Dup | Call::Dup2, _) | (Call::Fcntl, F_DUPFD) => Some((to, false)),
            (Call::Dup3, flags) => Some((to, flags & quell_trace::flags::O_CLOEXEC != 0)),
            (Call::Fcntl, F_DUPFD_CLOEXEC) => Some((to, true)),
            _ => None,
        }
    }

    /// `fcntl(F_SETFD)`.
    pub(super) fn set_flag(&mut self, event: &Event) {
        if (event.call, event.flags) == (Call::Fcntl, F_SETFD)
            && let Some(held) = self.files.get_mut(&event.fd.0)
        {
            held.closes_on_exec = event.size.0 & FD_CLOEXEC != 0;
        }
    }
}
