//! Computes absolute paths from call arguments. It replays descriptor tables, working directories and mount namespaces
//! over the events of a recording, so that the recorder needs no `readlink` per call.
//!
//! Events come in the order in which calls ended. A descriptor is in its table from the end of its open to the start of
//! its close. Unknown state (a chroot, a descriptor received over a socket) stays unknown: the event then has no
//! target, never a guessed one.

mod descriptors;
mod mounts;
mod walk;

pub use walk::{LinkAnswer, Links, NoFileSystem};

use crate::flags::{
    AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW, CLONE_NEWNS, IN_DONT_FOLLOW, O_CLOEXEC, O_CREAT,
    O_EXCL, O_NOFOLLOW,
};
use crate::store::spool::SeenFile;
use crate::{
    Call, Class, Context, Errno, Event, Fd, Outcome, PathId, PathTable, Process, SymbolicLink, Thread,
};
use descriptors::{Descriptor, Tables};
use mounts::MountTable;
use std::collections::HashMap;
use walk::{Follow, Walker};

/// Resolves the events of one recording, in their order.
#[derive(Debug)]
pub struct Resolver {
    processes: Vec<Process>,
    threads: Vec<Thread>,
    born: usize,
    tables: Tables,
    mounts: MountTable,
    walker: Walker,
    resolved: HashMap<(PathId, PathId, Follow), Option<PathId>>,
    start_directory: Option<PathId>,
    inherited: Vec<(i32, Option<PathId>)>,
    /// Observations at the call of the next event.
    seen: Vec<SeenFile>,
}

impl Resolver {
    /// A resolver for a recording with this context. Links that the context holds are known from the start.
    pub fn new(context: &Context) -> Self {
        Self {
            processes: context.processes.clone(),
            threads: context.threads.clone(),
            born: 0,
            tables: Tables::default(),
            mounts: MountTable::new(&context.mounts, &context.namespaces),
            walker: Walker::default(),
            resolved: HashMap::new(),
            start_directory: context.working_directory,
            inherited: context.inherited.iter().map(|fd| (fd.fd, fd.path)).collect(),
            seen: Vec::new(),
        }
    }

    /// Fills the event's targets and file system, and applies its effect on descriptors and directories.
    pub fn resolve(&mut self, paths: &mut PathTable, links: &mut dyn Links, event: &mut Event) {
        self.spawn_threads(event);
        let opened = self.learn();
        self.find_targets(paths, links, event);
        if opened.is_some() && event.call.class() == Class::Open {
            event.target = opened;
        }
        event.file_system = event
            .target
            .and_then(|target| self.mounts.serving(event.process, event.start, target, paths.bytes(target)));
        self.follow(event);
    }

    /// Takes an observation at the call of the event that is resolved next.
    pub(crate) fn see(&mut self, seen: SeenFile) {
        self.seen.push(seen);
    }

    /// Lets observations override the replayed state; returns the file that the call opened.
    fn learn(&mut self) -> Option<PathId> {
        let mut opened = None;
        for SeenFile { thread, place, path } in self.seen.drain(..) {
            match place {
                Fd::NONE => opened = path,
                Fd::WORKING_DIRECTORY => self.tables.change_directory(thread, path),
                Fd(number) => self.tables.see(thread, number, path),
            }
        }
        opened
    }

    /// The links that were found. Shape: sorted by path.
    pub fn into_links(self, paths: &mut PathTable) -> Vec<SymbolicLink> {
        self.walker.into_links(paths)
    }

    /// Creates threads with their parents' tables as of the time of creation.
    fn spawn_threads(&mut self, event: &Event) {
        while let Some(thread) = self.threads.get(self.born) {
            if thread.start > event.end() {
                break;
            }
            match thread.parent {
                Some(parent) => self.tables.inherit(parent, thread.shares_files, thread.shares_directory),
                // The context tells the descriptors of the first process alone.
                None if self.born > 0 => self.tables.begin(self.start_directory, &[]),
                None => self.tables.begin(self.start_directory, &self.inherited),
            }
            let parent = self.processes.get(thread.process.0 as usize).and_then(|process| process.parent);
            self.mounts.spawn(thread.process, parent);
            self.born += 1;
        }
    }

    fn find_targets(&mut self, paths: &mut PathTable, links: &mut dyn Links, event: &mut Event) {
        if let Some(path) = event.path.filter(|_| !is_content(event.call, Place::First)) {
            event.target = self.path_target(paths, links, event, event.fd, path, Place::First);
        } else if event.call == Call::Close {
            event.target = self.tables.closed(event.thread, event.fd, event.start);
        } else if event.path.is_none() && describes_fd(event) {
            event.target = self.tables.descriptor(event.thread, event.fd).and_then(|known| known.path);
        }
        if let Some(path) = event.path2 {
            event.target2 = self.path_target(paths, links, event, event.fd2, path, Place::Second);
        } else if event.call != Call::PidfdGetfd {
            // The number that `pidfd_getfd` takes belongs to another process.
            event.target2 = self.tables.descriptor(event.thread, event.fd2).and_then(|known| known.path);
        }
        // `symlink` creates one name: its second argument.
        if is_content(event.call, Place::First) {
            event.target = event.target2.take();
        }
    }

    fn path_target(
        &mut self,
        paths: &mut PathTable,
        links: &mut dyn Links,
        event: &Event,
        fd: Fd,
        path: PathId,
        place: Place,
    ) -> Option<PathId> {
        let bytes = paths.bytes(path);
        let base = match (bytes.first(), fd.number()) {
            (None, Some(_)) if event.flags & AT_EMPTY_PATH != 0 || event.call == Call::Readlinkat => {
                return self.tables.descriptor(event.thread, fd)?.path;
            }
            (None, _) => return None,
            (Some(b'/'), _) => paths.intern(b"/"),
            (Some(_), Some(_)) => self.tables.descriptor(event.thread, fd)?.path?,
            (Some(_), None) => self.tables.directory(event.thread)?,
        };
        let follow = match event.outcome {
            Outcome::Failure(errno) if errno.is_absence() => Follow::UntilAbsent,
            // A trailing slash asks for a directory, so that every call follows a link there.
            _ if follows_last(event, place) || paths.bytes(path).ends_with(b"/") => Follow::All,
            _ => Follow::Directories,
        };
        if self.tables.is_lost(event.thread) {
            return None;
        }
        if let Some(&known) = self.resolved.get(&(base, path, follow)) {
            return known;
        }
        let absolute = self.walker.walk(links, paths.bytes(base), paths.bytes(path), follow);
        let target = absolute.map(|absolute| paths.intern(&absolute));
        self.resolved.insert((base, path, follow), target);
        target
    }

    /// Applies a call's effect on descriptors, directories and namespaces.
    fn follow(&mut self, event: &Event) {
        let thread = event.thread;
        let value = match event.outcome {
            Outcome::Success(value) => value,
            // A close that fails may lose data and still frees the descriptor. Source: `close(2)`, section "Dealing
            // with error returns".
            Outcome::Failure(errno) if event.call == Call::Close && errno != Errno::EBADF => 0,
            Outcome::Failure(_) | Outcome::Unfinished => return,
        };
        match event.call {
            Call::Close => self.tables.close(thread, event.fd, event.start),
            Call::CloseRange => self.tables.close_range(thread, event),
            Call::Dup | Call::Dup2 | Call::Dup3 => {
                let closes = event.call == Call::Dup3 && event.flags & O_CLOEXEC != 0;
                if event.call != Call::Dup && i64::from(event.fd.0) != value {
                    self.tables.replace(thread, value as i32);
                }
                self.tables.duplicate(thread, event.fd, value as i32, event.end(), closes);
            }
            Call::Fcntl => self.tables.control(event, value),
            Call::Chdir | Call::Fchdir => self.tables.change_directory(thread, event.target),
            Call::Chroot | Call::PivotRoot => self.tables.lose(thread),
            Call::Unshare => self.tables.unshare(thread, event.flags),
            // Entering another mount namespace sets the working directory to its root. The value 0 allows any
            // namespace.
            Call::Setns if event.flags == 0 || event.flags & CLONE_NEWNS != 0 => {
                self.tables.change_directory(thread, None);
            }
            Call::Execve | Call::Execveat => self.tables.execute(thread),
            call if call.class() == Class::Open => {
                let closes_on_exec = call != Call::Creat && event.flags & O_CLOEXEC != 0;
                let descriptor = Descriptor::new(event.target, event.end(), closes_on_exec);
                self.tables.open(thread, value as i32, descriptor);
            }
            Call::MemfdCreate | Call::PidfdGetfd | Call::InotifyInit | Call::InotifyInit1 => {
                let descriptor = Descriptor::new(None, event.end(), false);
                self.tables.open(thread, value as i32, descriptor);
            }
            _ => {}
        }
    }
}

/// One of a call's two path arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    First,
    Second,
}

/// True when this argument is a link's content rather than a name.
fn is_content(call: Call, place: Place) -> bool {
    place == Place::First && matches!(call, Call::Symlink | Call::Symlinkat)
}

/// True when the descriptor argument alone determines the call's file.
fn describes_fd(event: &Event) -> bool {
    // `open_by_handle_at` accepts any descriptor on the same mount.
    let by_name_only =
        event.call.class() == Class::Open || matches!(event.call, Call::Stat | Call::Lstat | Call::Access);
    !by_name_only && event.fd.number().is_some()
}

/// True when a call follows a link in the last component. Source: the calls' man pages.
fn follows_last(event: &Event, place: Place) -> bool {
    use Call::*;
    match event.call {
        Lstat | Readlink | Readlinkat | Lchown | Lgetxattr | Llistxattr | Lsetxattr | Lremovexattr => false,
        Rename | Renameat | Renameat2 | Unlink | Unlinkat | Rmdir | Mkdir | Mkdirat | Mknod | Mknodat => {
            false
        }
        Symlink | Symlinkat | Link => false,
        Linkat => place == Place::First && event.flags & AT_SYMLINK_FOLLOW != 0,
        Open | Openat => {
            event.flags & O_NOFOLLOW == 0 && event.flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL
        }
        Newfstatat | Statx | Faccessat2 | Fchmodat2 | Fchownat | Utimensat | Execveat | OpenTree
        | MountSetattr => event.flags & AT_SYMLINK_NOFOLLOW == 0,
        NameToHandleAt => event.flags & AT_SYMLINK_FOLLOW != 0,
        InotifyAddWatch => event.flags & IN_DONT_FOLLOW == 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
