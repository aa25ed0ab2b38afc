//! Computes absolute paths from call arguments. It replays descriptor tables, working directories and mount namespaces
//! over the events of a recording, so that the recorder needs no `readlink` per call.
//!
//! Events come in the order in which calls ended. A descriptor is in its table from the end of its open to the start of
//! its close. Unknown state (a descriptor received over a socket) stays unknown: the event then has no target, never a
//! guessed one.
//!
//! A target is named from the root of the recorder. After `chroot` it begins with the new root. In a mount namespace with a
//! tree of its own it is named from the root of that namespace, as `/proc/PID/fd` names it, and only files that the recorder saw
//! have a name there.

mod descriptors;
mod mounts;
mod walk;

pub use walk::{LinkAnswer, Links, NoFileSystem};

use crate::flags::{
    AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW, CLONE_NEWNS, IN_DONT_FOLLOW, O_CLOEXEC, O_CREAT,
    O_EXCL, O_NOFOLLOW, O_TMPFILE, RESOLVE_IN_ROOT,
};
use crate::store::spool::{SeenFile, SeenPlace};
use crate::{
    Call, Class, Context, Errno, Event, Fd, Nanos, Outcome, PathId, PathTable, Process, SymbolicLink, Thread,
    ThreadId,
};
use descriptors::{Descriptor, RootDirectory, Tables};
use mounts::MountTable;
use std::collections::HashMap;
use walk::{Follow, WalkStart, Walker};

/// Resolves the events of one recording, in their order.
#[derive(Debug)]
pub struct Resolver {
    processes: Vec<Process>,
    threads: Vec<Thread>,
    born: usize,
    tables: Tables,
    mounts: MountTable,
    walker: Walker,
    resolved: HashMap<(Option<PathId>, PathId, PathId, Follow), Option<PathId>>,
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
        let Learned { files, described } = self.learn(event);
        self.find_targets(paths, links, event);
        if described.is_some() && event.path.is_none() && describes_fd(event) {
            event.target = described;
        }
        // The new file has no name: the target is its directory.
        let makes_nameless = makes_nameless(event);
        event.target = files[0].filter(|_| !makes_nameless).or(event.target);
        event.target2 = files[1].or(event.target2);
        event.file_system = event
            .target
            .and_then(|target| self.mounts.serving(event.process, event.start, target, paths.bytes(target)));
        self.follow(event, if makes_nameless { files[0] } else { event.target });
    }

    /// Takes an observation at the call of the event that is resolved next.
    pub(crate) fn see(&mut self, seen: SeenFile) {
        self.seen.push(seen);
    }

    /// Lets observations override the replayed state. One of the call's own descriptors was made when the call began: a number
    /// that another thread's open took meanwhile keeps that file.
    fn learn(&mut self, event: &Event) -> Learned {
        let mut learned = Learned::default();
        for SeenFile { thread, place, path } in self.seen.drain(..) {
            match place {
                SeenPlace::First => learned.files[0] = path,
                SeenPlace::Second => learned.files[1] = path,
                SeenPlace::WorkingDirectory => self.tables.change_directory(thread, path),
                SeenPlace::Root => {
                    let root = path.map_or(RootDirectory::Elsewhere, RootDirectory::At);
                    self.tables.change_root(thread, root);
                }
                SeenPlace::Descriptor(number) => {
                    let is_own = thread == event.thread && [event.fd, event.fd2].contains(&Fd(number));
                    let at = if is_own { event.start } else { Nanos(u64::MAX) };
                    self.tables.see(thread, number, path, at);
                    if is_own && Fd(number) == event.fd {
                        learned.described = path;
                    }
                }
            }
        }
        learned
    }

    /// True when the recorder sees the tree of files that a thread sees.
    pub(crate) fn sees(&self, thread: ThreadId) -> bool {
        self.tables.root(thread) != RootDirectory::Elsewhere
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
        if let Some(path) = event.path.filter(|_| !makes_symlink(event.call)) {
            event.target = self.path_target(paths, links, event, event.fd, path, CallPlace::First);
        } else if event.call == Call::Close {
            event.target = self.tables.closed(event.thread, event.fd, event.start);
        } else if event.path.is_none() && describes_fd(event) {
            event.target = self.tables.descriptor(event.thread, event.fd).and_then(|known| known.path);
        }
        if let Some(path) = event.path2 {
            event.target2 = self.path_target(paths, links, event, event.fd2, path, CallPlace::Second);
        } else if event.call != Call::PidfdGetfd {
            // The number that `pidfd_getfd` takes belongs to another process.
            event.target2 = self.tables.descriptor(event.thread, event.fd2).and_then(|known| known.path);
        }
        if makes_symlink(event.call) {
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
        place: CallPlace,
    ) -> Option<PathId> {
        let root = match self.tables.root(event.thread) {
            RootDirectory::Recorders => None,
            RootDirectory::At(root) => Some(root),
            RootDirectory::Elsewhere => return None,
        };
        let bytes = paths.bytes(path);
        let is_in_root = event.call == Call::Openat2 && event.flags & RESOLVE_IN_ROOT != 0;
        let base = match (bytes.first(), fd.number()) {
            (None, Some(_)) if event.flags & AT_EMPTY_PATH != 0 || event.call == Call::Readlinkat => {
                return self.tables.descriptor(event.thread, fd)?.path;
            }
            (None, _) => return None,
            (Some(b'/'), _) if !is_in_root => root.unwrap_or_else(|| paths.intern(b"/")),
            (Some(_), Some(_)) => self.tables.descriptor(event.thread, fd)?.path?,
            (Some(_), None) => self.tables.directory(event.thread)?,
        };
        let follow = match event.outcome {
            Outcome::Failure(errno) if errno.is_absence() => Follow::UntilAbsent,
            // A trailing slash asks for a directory, so that every call follows a link there.
            _ if follows_last(event.call, event.flags, place) || paths.bytes(path).ends_with(b"/") => {
                Follow::All
            }
            _ => Follow::Directories,
        };
        let root = if is_in_root { Some(base) } else { root };
        if let Some(&known) = self.resolved.get(&(root, base, path, follow)) {
            return known;
        }
        let from = WalkStart { root: root.map_or(b"/", |root| paths.bytes(root)), base: paths.bytes(base) };
        let absolute = self.walker.walk(links, from, paths.bytes(path), follow);
        let target = absolute.map(|absolute| paths.intern(&absolute));
        self.resolved.insert((root, base, path, follow), target);
        target
    }

    /// Applies a call's effect on descriptors, directories and namespaces. `opened` is the file of the descriptor that it made.
    fn follow(&mut self, event: &Event, opened: Option<PathId>) {
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
            Call::Chroot => {
                let root = event.target.map_or(RootDirectory::Elsewhere, RootDirectory::At);
                self.tables.change_root(thread, root);
            }
            Call::PivotRoot => self.tables.change_root(thread, RootDirectory::Elsewhere),
            Call::Unshare => self.tables.unshare(thread, event.flags),
            // Entering another mount namespace sets root and working directory to its root. The value 0 allows any namespace.
            Call::Setns if event.flags == 0 || event.flags & CLONE_NEWNS != 0 => {
                if event.flags != 0 {
                    self.tables.change_root(thread, RootDirectory::Elsewhere);
                }
                self.tables.change_directory(thread, None);
            }
            Call::Execve | Call::Execveat => self.tables.execute(thread),
            call if call.class() == Class::Open => {
                let closes_on_exec = call != Call::Creat && event.flags & O_CLOEXEC != 0;
                let descriptor = Descriptor::new(opened, event.end(), closes_on_exec);
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

/// The files that observations show at one call.
#[derive(Clone, Copy, Debug, Default)]
struct Learned {
    /// The files of the call. Shape: the first, the second.
    files: [Option<PathId>; 2],
    /// The file of its descriptor.
    described: Option<PathId>,
}

/// True for a call that opens a directory's new file without a name. Its target is the directory.
fn makes_nameless(event: &Event) -> bool {
    event.call.class() == Class::Open && event.call != Call::Creat && event.flags & O_TMPFILE == O_TMPFILE
}

/// One of a call's two path arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPlace {
    /// The first.
    First,
    /// The second.
    Second,
}

/// True for a call that creates one name, its second path. Its first path is the link's content.
pub fn makes_symlink(call: Call) -> bool {
    matches!(call, Call::Symlink | Call::Symlinkat)
}

/// True when the descriptor argument alone determines the call's file.
fn describes_fd(event: &Event) -> bool {
    // `open_by_handle_at` accepts any descriptor on the same mount.
    let by_name_only =
        event.call.class() == Class::Open || matches!(event.call, Call::Stat | Call::Lstat | Call::Access);
    !by_name_only && event.fd.number().is_some()
}

/// True when a call follows a link in the last component. Source: the calls' man pages.
pub fn follows_last(call: Call, flags: u64, place: CallPlace) -> bool {
    use Call::*;
    match call {
        Lstat | Readlink | Readlinkat | Lchown | Lgetxattr | Llistxattr | Lsetxattr | Lremovexattr => false,
        Rename | Renameat | Renameat2 | Unlink | Unlinkat | Rmdir | Mkdir | Mkdirat | Mknod | Mknodat => {
            false
        }
        Symlink | Symlinkat | Link => false,
        Linkat => place == CallPlace::First && flags & AT_SYMLINK_FOLLOW != 0,
        Open | Openat => flags & O_NOFOLLOW == 0 && flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL,
        Newfstatat | Statx | Faccessat2 | Fchmodat2 | Fchownat | Utimensat | Execveat | OpenTree
        | MountSetattr => flags & AT_SYMLINK_NOFOLLOW == 0,
        NameToHandleAt => flags & AT_SYMLINK_FOLLOW != 0,
        InotifyAddWatch => flags & IN_DONT_FOLLOW == 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests;
