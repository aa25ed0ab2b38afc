//! Descriptor tables and working directories of threads, shared or copied as `clone(2)` requested.

use crate::flags::{
    CLONE_FILES, CLONE_FS, CLONE_NEWNS, CLONE_NEWUSER, CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE, F_DUPFD,
    F_DUPFD_CLOEXEC, F_SETFD, FD_CLOEXEC,
};
use crate::{Event, Fd, Nanos, PathId, ThreadId};
use std::collections::HashMap;

/// An open descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    /// The file; `None` for a file without a path.
    pub(super) path: Option<PathId>,
    /// The time at which it was opened.
    pub(super) since: Nanos,
    pub(super) closes_on_exec: bool,
}

impl Descriptor {
    pub(super) fn new(path: Option<PathId>, since: Nanos, closes_on_exec: bool) -> Self {
        Self { path, since, closes_on_exec }
    }
}

/// A descriptor table. A close frees the number at its start: an open in another thread may get it before the close
/// ends.
#[derive(Debug, Default)]
struct Files {
    open: HashMap<i32, Descriptor>,
    /// Descriptors whose number was reused, until their close ends.
    overtaken: Vec<(i32, Descriptor)>,
}

impl Files {
    /// A copy for another process, which closes in this one do not affect.
    fn copy(&self) -> Self {
        Self { open: self.open.clone(), overtaken: Vec::new() }
    }

    /// Assigns a free number to a file.
    fn open(&mut self, fd: i32, descriptor: Descriptor) {
        self.overtaken.extend(self.open.insert(fd, descriptor).map(|before| (fd, before)));
    }

    /// The descriptor that a close starting at `start` refers to.
    fn closed(&self, fd: i32, start: Nanos) -> Option<Descriptor> {
        let open = self.open.get(&fd).filter(|open| open.since <= start);
        open.copied().or_else(|| self.overtaken_before(fd, start).map(|index| self.overtaken[index].1))
    }

    fn close(&mut self, fd: i32, start: Nanos) {
        if self.open.get(&fd).is_some_and(|open| open.since <= start) {
            self.open.remove(&fd);
        } else if let Some(index) = self.overtaken_before(fd, start) {
            self.overtaken.swap_remove(index);
        }
    }

    fn overtaken_before(&self, fd: i32, start: Nanos) -> Option<usize> {
        let of_number = self.overtaken.iter().enumerate();
        let earlier = of_number.filter(|(_, (number, before))| *number == fd && before.since <= start);
        earlier.max_by_key(|(_, (_, before))| before.since).map(|(index, _)| index)
    }
}

/// The directory at which absolute paths of a thread begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RootDirectory {
    /// The recorder's own.
    Recorders,
    /// This directory below it.
    At(PathId),
    /// A directory in another tree, which the recorder does not see.
    Elsewhere,
}

#[derive(Clone, Copy, Debug)]
struct Directory {
    working: Option<PathId>,
    root: RootDirectory,
}

/// The tables that a thread uses, as indexes, because threads may share them.
#[derive(Clone, Copy, Debug)]
struct Uses {
    files: usize,
    directory: usize,
}

/// Every table of a recording. Shape: `threads` is indexed by [`ThreadId`].
#[derive(Debug, Default)]
pub(super) struct Tables {
    threads: Vec<Uses>,
    files: Vec<Files>,
    directories: Vec<Directory>,
}

impl Tables {
    /// The command's first thread.
    pub(super) fn begin(&mut self, working: Option<PathId>, inherited: &[(i32, Option<PathId>)]) {
        let since = Nanos(0);
        let open = inherited.iter().map(|&(fd, path)| (fd, Descriptor::new(path, since, false)));
        self.threads.push(Uses { files: self.files.len(), directory: self.directories.len() });
        self.files.push(Files { open: open.collect(), overtaken: Vec::new() });
        self.directories.push(Directory { working, root: RootDirectory::Recorders });
    }

    /// Adds the next thread, which shares or copies its parent's tables.
    pub(super) fn inherit(&mut self, parent: ThreadId, shares_files: bool, shares_directory: bool) {
        let Some(&(mut uses)) = self.threads.get(parent.0 as usize) else {
            return self.begin(None, &[]);
        };
        if !shares_files {
            uses.files = self.copy_files(uses.files);
        }
        if !shares_directory {
            uses.directory = copy(&mut self.directories, uses.directory);
        }
        self.threads.push(uses);
    }

    pub(super) fn descriptor(&self, thread: ThreadId, fd: Fd) -> Option<Descriptor> {
        let uses = self.threads.get(thread.0 as usize)?;
        self.files[uses.files].open.get(&fd.number()?).copied()
    }

    pub(super) fn directory(&self, thread: ThreadId) -> Option<PathId> {
        let uses = self.threads.get(thread.0 as usize)?;
        self.directories[uses.directory].working
    }

    pub(super) fn root(&self, thread: ThreadId) -> RootDirectory {
        let uses = self.threads.get(thread.0 as usize);
        uses.map_or(RootDirectory::Elsewhere, |uses| self.directories[uses.directory].root)
    }

    pub(super) fn open(&mut self, thread: ThreadId, fd: i32, descriptor: Descriptor) {
        if let Some(files) = self.files_of(thread) {
            files.open(fd, descriptor);
        }
    }

    /// The file that a close refers to.
    pub(super) fn closed(&self, thread: ThreadId, fd: Fd, start: Nanos) -> Option<PathId> {
        let uses = self.threads.get(thread.0 as usize)?;
        self.files[uses.files].closed(fd.number()?, start)?.path
    }

    pub(super) fn close(&mut self, thread: ThreadId, fd: Fd, start: Nanos) {
        if let Some(files) = self.files_of(thread) {
            files.close(fd.0, start);
        }
    }

    /// Sets the file of a descriptor as an observer saw it at this time.
    pub(super) fn see(&mut self, thread: ThreadId, fd: i32, path: Option<PathId>, at: Nanos) {
        if let Some(files) = self.files_of(thread) {
            let open = files.open.entry(fd).or_insert(Descriptor::new(path, Nanos(0), false));
            if open.since <= at {
                open.path = path;
            }
        }
    }

    pub(super) fn close_range(&mut self, thread: ThreadId, event: &Event) {
        if event.flags & CLOSE_RANGE_UNSHARE != 0 {
            self.unshare(thread, CLONE_FILES);
        }
        // The kernel treats both bounds as unsigned.
        let (first, last) = (i64::from(event.fd.0 as u32), event.size.0.min(u64::from(u32::MAX)) as i64);
        let within = |fd: i32| (first..=last).contains(&i64::from(fd));
        let Some(files) = self.files_of(thread) else { return };
        if event.flags & CLOSE_RANGE_CLOEXEC != 0 {
            let open = files.open.iter_mut().filter(|(fd, _)| within(**fd));
            open.for_each(|(_, open)| open.closes_on_exec = true);
        } else {
            files.open.retain(|&fd, _| !within(fd));
        }
    }

    /// Assigns the free number `to` to the file of `from`.
    pub(super) fn duplicate(&mut self, thread: ThreadId, from: Fd, to: i32, at: Nanos, closes_on_exec: bool) {
        if from.0 == to {
            return;
        }
        let known = self.descriptor(thread, from);
        if let Some(files) = self.files_of(thread) {
            match known {
                Some(known) => files.open(to, Descriptor { since: at, closes_on_exec, ..known }),
                None => _ = files.open.remove(&to),
            }
        }
    }

    /// Closes the descriptor at this number, for which no separate close follows.
    pub(super) fn replace(&mut self, thread: ThreadId, fd: i32) {
        if let Some(files) = self.files_of(thread) {
            files.open.remove(&fd);
        }
    }

    pub(super) fn control(&mut self, event: &Event, value: i64) {
        match event.flags {
            F_DUPFD => self.duplicate(event.thread, event.fd, value as i32, event.end(), false),
            F_DUPFD_CLOEXEC => self.duplicate(event.thread, event.fd, value as i32, event.end(), true),
            F_SETFD => {
                let files = self.files_of(event.thread);
                if let Some(open) = files.and_then(|files| files.open.get_mut(&event.fd.0)) {
                    open.closes_on_exec = event.size.0 & FD_CLOEXEC != 0;
                }
            }
            _ => {}
        }
    }

    pub(super) fn change_directory(&mut self, thread: ThreadId, to: Option<PathId>) {
        if let Some(directory) = self.directory_of(thread) {
            directory.working = to;
        }
    }

    /// Neither `chroot` nor `pivot_root` changes the working directory, but its name may be another then.
    pub(super) fn change_root(&mut self, thread: ThreadId, root: RootDirectory) {
        if let Some(directory) = self.directory_of(thread) {
            directory.root = root;
        }
    }

    pub(super) fn unshare(&mut self, thread: ThreadId, flags: u64) {
        let Some(mut uses) = self.threads.get(thread.0 as usize).copied() else { return };
        if flags & CLONE_FILES != 0 {
            uses.files = self.copy_files(uses.files);
        }
        // A private namespace implies a private working directory.
        if flags & (CLONE_FS | CLONE_NEWNS | CLONE_NEWUSER) != 0 {
            uses.directory = copy(&mut self.directories, uses.directory);
        }
        self.threads[thread.0 as usize] = uses;
    }

    /// A new program has a descriptor table of its own, without the descriptors that close on exec.
    pub(super) fn execute(&mut self, thread: ThreadId) {
        self.unshare(thread, CLONE_FILES);
        if let Some(files) = self.files_of(thread) {
            files.open.retain(|_, open| !open.closes_on_exec);
        }
    }

    fn copy_files(&mut self, index: usize) -> usize {
        self.files.push(self.files[index].copy());
        self.files.len() - 1
    }

    fn files_of(&mut self, thread: ThreadId) -> Option<&mut Files> {
        let uses = self.threads.get(thread.0 as usize)?;
        self.files.get_mut(uses.files)
    }

    fn directory_of(&mut self, thread: ThreadId) -> Option<&mut Directory> {
        let uses = self.threads.get(thread.0 as usize)?;
        self.directories.get_mut(uses.directory)
    }
}

fn copy<T: Clone>(tables: &mut Vec<T>, index: usize) -> usize {
    let table = tables[index].clone();
    tables.push(table);
    tables.len() - 1
}
