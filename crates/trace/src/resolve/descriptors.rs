//! Descriptor tables and working directories of threads, shared or copied as `clone(2)` was told.

use crate::flags::{
    CLONE_FILES, CLONE_FS, CLONE_NEWNS, CLONE_NEWUSER, CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE, F_DUPFD,
    F_DUPFD_CLOEXEC, F_SETFD, FD_CLOEXEC,
};
use crate::{Event, Fd, Nanos, PathId, ThreadId};
use std::collections::HashMap;

/// An open descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    /// The file; `None` for what has no path.
    pub(super) path: Option<PathId>,
    /// When it was opened.
    pub(super) since: Nanos,
    /// The file that had this number when it was opened: another thread's close of that has not ended yet.
    pub(super) before: Option<PathId>,
    pub(super) closes_on_exec: bool,
}

impl Descriptor {
    pub(super) fn new(path: Option<PathId>, since: Nanos, closes_on_exec: bool) -> Self {
        Self { path, since, before: None, closes_on_exec }
    }
}

#[derive(Clone, Debug, Default)]
struct Directory {
    working: Option<PathId>,
    /// The root directory changed: absolute paths mean something that we do not know.
    lost: bool,
}

/// Which tables a thread uses: indexes, because threads may share them.
#[derive(Clone, Copy, Debug)]
struct Uses {
    files: usize,
    directory: usize,
}

/// Every table of a recording. Shape: `threads` is indexed by [`ThreadId`].
#[derive(Debug, Default)]
pub(super) struct Tables {
    threads: Vec<Uses>,
    files: Vec<HashMap<i32, Descriptor>>,
    directories: Vec<Directory>,
}

impl Tables {
    /// The command's first thread.
    pub(super) fn begin(&mut self, working: Option<PathId>, inherited: &[(i32, Option<PathId>)]) {
        let since = Nanos(0);
        let open = inherited.iter().map(|&(fd, path)| (fd, Descriptor::new(path, since, false)));
        self.threads.push(Uses { files: self.files.len(), directory: self.directories.len() });
        self.files.push(open.collect());
        self.directories.push(Directory { working, lost: false });
    }

    /// The next thread, with its parent's tables: the same ones or copies.
    pub(super) fn inherit(&mut self, parent: ThreadId, shares_files: bool, shares_directory: bool) {
        let Some(&(mut uses)) = self.threads.get(parent.0 as usize) else {
            return self.begin(None, &[]);
        };
        if !shares_files {
            uses.files = copy(&mut self.files, uses.files);
        }
        if !shares_directory {
            uses.directory = copy(&mut self.directories, uses.directory);
        }
        self.threads.push(uses);
    }

    pub(super) fn descriptor(&self, thread: ThreadId, fd: Fd) -> Option<Descriptor> {
        let uses = self.threads.get(thread.0 as usize)?;
        self.files[uses.files].get(&fd.number()?).copied()
    }

    pub(super) fn directory(&self, thread: ThreadId) -> Option<PathId> {
        let uses = self.threads.get(thread.0 as usize)?;
        self.directories[uses.directory].working
    }

    pub(super) fn is_lost(&self, thread: ThreadId) -> bool {
        self.threads.get(thread.0 as usize).is_none_or(|uses| self.directories[uses.directory].lost)
    }

    /// The file that a close is about. A close frees the number at its start: another thread's open may have been given it before
    /// the close ended.
    pub(super) fn closed(&self, thread: ThreadId, fd: Fd, start: Nanos) -> Option<PathId> {
        let open = self.descriptor(thread, fd)?;
        if open.since <= start { open.path } else { open.before }
    }

    pub(super) fn open(&mut self, thread: ThreadId, fd: i32, descriptor: Descriptor) {
        if let Some(files) = self.files_of(thread) {
            let before = files.get(&fd).and_then(|open| open.path);
            files.insert(fd, Descriptor { before, ..descriptor });
        }
    }

    /// What a descriptor is, by somebody who saw it.
    pub(super) fn see(&mut self, thread: ThreadId, fd: i32, path: Option<PathId>) {
        if let Some(files) = self.files_of(thread) {
            let unknown = Descriptor::new(path, Nanos(0), false);
            files.entry(fd).or_insert(unknown).path = path;
        }
    }

    /// Frees the number, unless it has been given to another file already: see [`Self::closed`].
    pub(super) fn close(&mut self, thread: ThreadId, fd: Fd, start: Nanos) {
        if let Some(files) = self.files_of(thread)
            && files.get(&fd.0).is_some_and(|open| open.since <= start)
        {
            files.remove(&fd.0);
        }
    }

    pub(super) fn close_range(&mut self, thread: ThreadId, event: &Event) {
        if event.flags & CLOSE_RANGE_UNSHARE != 0 {
            self.unshare(thread, CLONE_FILES);
        }
        // The kernel takes both ends as unsigned.
        let (first, last) = (i64::from(event.fd.0 as u32), event.size.0.min(u64::from(u32::MAX)) as i64);
        let within = |fd: i32| (first..=last).contains(&i64::from(fd));
        let Some(files) = self.files_of(thread) else { return };
        if event.flags & CLOSE_RANGE_CLOEXEC != 0 {
            files.iter_mut().filter(|(fd, _)| within(**fd)).for_each(|(_, open)| open.closes_on_exec = true);
        } else {
            files.retain(|&fd, _| !within(fd));
        }
    }

    pub(super) fn duplicate(&mut self, thread: ThreadId, from: Fd, to: i32, at: Nanos, closes_on_exec: bool) {
        if from.0 == to {
            return;
        }
        match self.descriptor(thread, from) {
            Some(known) => self.open(thread, to, Descriptor::new(known.path, at, closes_on_exec)),
            None => _ = self.files_of(thread).and_then(|files| files.remove(&to)),
        }
    }

    pub(super) fn control(&mut self, event: &Event, value: i64) {
        match event.flags {
            F_DUPFD => self.duplicate(event.thread, event.fd, value as i32, event.end(), false),
            F_DUPFD_CLOEXEC => self.duplicate(event.thread, event.fd, value as i32, event.end(), true),
            F_SETFD => {
                if let Some(open) = self.files_of(event.thread).and_then(|files| files.get_mut(&event.fd.0)) {
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

    pub(super) fn lose(&mut self, thread: ThreadId) {
        if let Some(directory) = self.directory_of(thread) {
            *directory = Directory { working: None, lost: true };
        }
    }

    pub(super) fn unshare(&mut self, thread: ThreadId, flags: u64) {
        let Some(mut uses) = self.threads.get(thread.0 as usize).copied() else { return };
        if flags & CLONE_FILES != 0 {
            uses.files = copy(&mut self.files, uses.files);
        }
        // A namespace of one's own comes with a working directory of one's own.
        if flags & (CLONE_FS | CLONE_NEWNS | CLONE_NEWUSER) != 0 {
            uses.directory = copy(&mut self.directories, uses.directory);
        }
        self.threads[thread.0 as usize] = uses;
    }

    /// A new program has a descriptor table of its own, without the descriptors that close on exec.
    pub(super) fn execute(&mut self, thread: ThreadId) {
        self.unshare(thread, CLONE_FILES);
        if let Some(files) = self.files_of(thread) {
            files.retain(|_, open| !open.closes_on_exec);
        }
    }

    fn files_of(&mut self, thread: ThreadId) -> Option<&mut HashMap<i32, Descriptor>> {
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
