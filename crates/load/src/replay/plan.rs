//! Makes programmes of a recording: which calls are on the tree, on which file each is, and in which order processes and
//! threads come to be.
//!
//! A path is issued as the program passed it, so that the kernel walks the same names: relative to the same directory, or
//! with the recorded root's part replaced. Only where the given path begins outside the tree and leads into it, by a link,
//! the resolved path is taken.

use super::steps::{At, Issue, Operation, Prefix, Programme, Slot, Step};
use super::tables::{Held, Table};
use super::writes::{self, Changes};
use super::{Skipped, Writes, below};
use quell_trace::flags::{AT_EMPTY_PATH, LOCK_COMMANDS, O_CLOEXEC};
use quell_trace::{
    Call, Class, Errno, Event, Nanos, Outcome, PathId, ProcessId, Recording, ThreadId, Touched, TraceError,
};
use std::collections::HashMap;

/// Programmes being made.
pub(super) struct Planner<'a> {
    recording: &'a Recording,
    from: &'a [u8],
    writes: Writes,
    changes: &'a Changes,
    /// Names that the recording has made so far and that are still there, without [`Writes::Private`].
    made: std::collections::HashSet<PathId>,
    /// Absolute links of the tree: where the tree lies elsewhere they would lead back.
    links: Vec<&'a [u8]>,
    touched: HashMap<(ProcessId, PathId), Vec<(u64, u64)>>,
    /// Whether the recording says what processes touched.
    knows_touched: bool,
    threads: Vec<Thread>,
    drafts: Vec<Draft>,
    pub(super) skipped: Skipped,
}

#[derive(Debug)]
struct Thread {
    process: ProcessId,
    /// Its number in its process.
    number: usize,
    /// When its last call on the tree ended, or it came to be.
    last: Nanos,
    /// Processes that it started and that have not been waited for.
    children: Vec<ProcessId>,
}

#[derive(Debug, Default)]
struct Draft {
    programme: Programme,
    table: Table,
    paths: HashMap<(Prefix, Vec<u8>), u32>,
    /// Open files of others that are used here.
    adopted: HashMap<(ProcessId, Slot), Slot>,
    born: bool,
}

/// Why a call is not issued.
enum Without {
    /// It is not on the tree.
    Elsewhere,
    /// It would change something.
    Writes,
    /// It is about something that the recording itself made.
    Made,
    /// It cannot be issued again from what the trace says.
    Unable,
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        recording: &'a Recording,
        from: &'a [u8],
        moves: bool,
        writes: Writes,
        changes: &'a Changes,
    ) -> Result<Self, TraceError> {
        let context = &recording.context;
        let mut touched: HashMap<_, Vec<_>> = HashMap::new();
        let rows = recording.touched()?;
        let knows_touched = rows.is_some();
        for Touched { process, path, offset, size } in rows.into_iter().flatten() {
            touched.entry((process, path)).or_default().push((offset, size));
        }
        let leads_back = |target: &str| moves && below(target.as_bytes(), from).is_some();
        let links = context.links.iter().filter(|link| leads_back(&link.target));
        let links = links.map(|link| recording.paths.bytes(link.path)).collect();
        let drafts = context.processes.iter().map(|_| Draft::default()).collect();
        Ok(Self {
            recording,
            from,
            writes,
            changes,
            made: std::collections::HashSet::new(),
            links,
            touched,
            knows_touched,
            threads: Vec::new(),
            drafts,
            skipped: Skipped::default(),
        })
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: &Event) {
        self.bear(event);
        let known =
            self.threads.get(event.thread.0 as usize).is_some_and(|thread| thread.process == event.process);
        if !known || event.process.0 as usize >= self.drafts.len() {
            return;
        }
        match self.operation(event) {
            Ok(operation) => self.issue(event, operation),
            Err(Without::Elsewhere) => {}
            Err(Without::Writes) => self.skipped.writes += 1,
            Err(Without::Made) => self.skipped.made += 1,
            Err(Without::Unable) => self.skipped.unable += 1,
        }
        self.follow(event);
    }

    /// The programmes. Shape: one entry a process; those that have nothing to do are empty.
    pub(super) fn finish(self) -> Vec<Programme> {
        let mut programmes: Vec<Programme> = self.drafts.into_iter().map(|draft| draft.programme).collect();
        // Children come after their parents: from the end on, what starts only idle processes is idle.
        for number in (0..programmes.len()).rev() {
            let mut threads = std::mem::take(&mut programmes[number].threads);
            for steps in &mut threads {
                steps.retain(|step| match step {
                    Step::Spawn(child) | Step::Await(child) => {
                        programmes.get(*child as usize).is_some_and(|child| !child.is_empty())
                    }
                    _ => true,
                });
            }
            programmes[number].threads = threads;
        }
        programmes
    }

    /// Threads come to be with their parent's tables as those were at that time.
    fn bear(&mut self, event: &Event) {
        while let Some(thread) = self.recording.context.threads.get(self.threads.len()) {
            if thread.start > event.end() {
                break;
            }
            let process = thread.process;
            self.begin(process, thread.parent);
            let number = match self.drafts.get_mut(process.0 as usize) {
                Some(draft) => {
                    draft.programme.threads.push(Vec::new());
                    draft.programme.threads.len() - 1
                }
                None => 0,
            };
            self.threads.push(Thread { process, number, last: thread.start, children: Vec::new() });
        }
    }

    /// A thread begins: another one of its process, or the first of a new process. Where a log does not tell who made it, a
    /// thread comes from its process's first and a process from the command's.
    fn begin(&mut self, process: ProcessId, parent: Option<ThreadId>) {
        let parent = parent.map(|parent| parent.0 as usize);
        let Some(draft) = self.drafts.get_mut(process.0 as usize) else { return };
        if draft.born {
            let number = draft.programme.threads.len() as u32;
            let is_of = |thread: &Thread| thread.process == process;
            let told = parent.filter(|parent| self.threads.get(*parent).is_some_and(is_of));
            if let Some(parent) = told.or_else(|| self.threads.iter().position(is_of)) {
                self.push(parent, Step::Thread(number));
            }
            return;
        }
        draft.born = true;
        draft.table.directory = self.recording.context.working_directory;
        // Parents have smaller numbers: so nobody is started twice, whatever a trace says.
        let may_start = |thread: &Thread| thread.process.0 < process.0;
        let told = parent.filter(|parent| self.threads.get(*parent).is_some_and(may_start));
        if let Some(of) = told.and_then(|parent| self.drafts.get(self.threads[parent].process.0 as usize)) {
            self.drafts[process.0 as usize].table = of.table.clone();
        }
        if let Some(parent) =
            told.or_else(|| self.threads.first().filter(|first| may_start(first)).map(|_| 0))
        {
            self.push(parent, Step::Spawn(process.0));
            self.threads[parent].children.push(process);
        }
    }

    fn push(&mut self, thread: usize, step: Step) {
        let Some(Thread { process, number, .. }) = self.threads.get(thread) else { return };
        let draft = self.drafts.get_mut(process.0 as usize);
        if let Some(steps) = draft.and_then(|draft| draft.programme.threads.get_mut(*number)) {
            steps.push(step);
        }
    }

    /// Appends the call, after waiting for the processes that had ended before it began.
    fn issue(&mut self, event: &Event, operation: Operation) {
        let number = event.thread.0 as usize;
        let ends = |child: &ProcessId| {
            self.recording.context.processes.get(child.0 as usize).and_then(|child| child.end)
        };
        let thread = &mut self.threads[number];
        let (ended, running): (Vec<_>, Vec<_>) = std::mem::take(&mut thread.children)
            .into_iter()
            .partition(|child| ends(child).is_some_and(|end| end <= event.start));
        thread.children = running;
        let since = ended.iter().filter_map(ends).max().unwrap_or_default().max(thread.last);
        thread.last = event.end();
        ended.into_iter().for_each(|child| self.push(number, Step::Await(child.0)));
        let issue = Issue {
            gap: event.start.since(since).0,
            call: event.call as u16,
            failed: event.outcome.errno().map_or(0, |errno| errno.0),
            operation,
        };
        self.push(number, Step::Issue(issue));
    }

    fn draft(&mut self, event: &Event) -> &mut Draft {
        &mut self.drafts[event.process.0 as usize]
    }

    /// The open file of a descriptor argument.
    fn held(&mut self, event: &Event, fd: i32) -> Result<Slot, Without> {
        let held = self.drafts[event.process.0 as usize].table.files.get(&fd).copied();
        let held = held.ok_or(Without::Elsewhere)?;
        let slot = self.adopt(event.process, held);
        if held.owner != event.process {
            let own = Held { owner: event.process, slot, ..held };
            self.draft(event).table.files.insert(fd, own);
        }
        Ok(slot)
    }

    /// The slot of an open file in a process: its own, or one that comes with its start.
    fn adopt(&mut self, process: ProcessId, held: Held) -> Slot {
        if held.owner == process {
            return held.slot;
        }
        let known = self.drafts[process.0 as usize].adopted.get(&(held.owner, held.slot));
        if let Some(slot) = known {
            return *slot;
        }
        let parent = self.recording.context.processes[process.0 as usize].parent;
        let of_parent = match parent.filter(|parent| parent.0 < process.0) {
            Some(parent) => self.adopt(parent, held),
            None => held.slot,
        };
        let draft = &mut self.drafts[process.0 as usize];
        let slot = draft.slot();
        draft.programme.inherits.push((of_parent, slot));
        draft.adopted.insert((held.owner, held.slot), slot);
        slot
    }

    /// Where a path argument leads, as it is issued.
    fn place(
        &mut self,
        event: &Event,
        fd: quell_trace::Fd,
        path: PathId,
        target: Option<PathId>,
    ) -> Result<At, Without> {
        let from = self.from;
        let resolved = target.map(|target| (target, self.recording.paths.bytes(target)));
        let inside = resolved.and_then(|(target, path)| below(path, from).map(|name| (target, path, name)));
        if let Some((target, path, name)) = inside
            && self.changes.covers(target, path)
        {
            match self.writes {
                Writes::Private => return Ok(self.at(event, Prefix::Private, name)),
                Writes::Skip if self.made.contains(&target) => return Err(Without::Made),
                Writes::Skip => {}
            }
        }
        let given = self.recording.paths.bytes(path);
        if given.starts_with(b"/") {
            if let Some(name) =
                below(given, from).filter(|name| stays_inside(name, 0) && !self.leads_back(given))
            {
                return Ok(self.at(event, Prefix::Root, name));
            }
        } else if let Some(at) = self.relative(event, fd, given) {
            return Ok(at);
        }
        match inside {
            Some((_, _, name)) => Ok(self.at(event, Prefix::Root, name)),
            None => Err(Without::Elsewhere),
        }
    }

    /// A relative path that begins in the tree and stays there.
    fn relative(&mut self, event: &Event, fd: quell_trace::Fd, given: &[u8]) -> Option<At> {
        let table = &self.drafts[event.process.0 as usize].table;
        let (directory, base) = match fd.number() {
            None => (None, table.directory?),
            Some(fd) => (Some(fd), table.files.get(&fd)?.path?),
        };
        let depth = below(self.recording.paths.bytes(base), self.from)?;
        let depth = depth.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count();
        if !stays_inside(given, depth) || given.is_empty() {
            return None;
        }
        let directory = match directory {
            Some(fd) => Some(self.held(event, fd).ok()?),
            None => None,
        };
        let at = self.at(event, Prefix::None, given);
        Some(At { directory, ..at })
    }

    fn leads_back(&self, given: &[u8]) -> bool {
        self.links.iter().any(|link| given == *link || below(given, link).is_some())
    }

    fn at(&mut self, event: &Event, prefix: Prefix, path: &[u8]) -> At {
        At { directory: None, path: self.draft(event).path(prefix, path) }
    }

    /// The place of the first path argument.
    fn first(&mut self, event: &Event) -> Result<At, Without> {
        let path = event.path.ok_or(Without::Elsewhere)?;
        self.place(event, event.fd, path, event.target)
    }

    /// The open file of the first descriptor argument.
    fn open_file(&mut self, event: &Event) -> Result<Slot, Without> {
        self.held(event, event.fd.number().ok_or(Without::Elsewhere)?)
    }

    /// What is issued for an event.
    fn operation(&mut self, event: &Event) -> Result<Operation, Without> {
        if event.outcome == Outcome::Unfinished {
            return Err(Without::Elsewhere);
        }
        match event.call.class() {
            Class::Open => self.open(event),
            Class::Stat => self.stat(event),
            Class::Access => {
                let (mode, flags) = match event.call {
                    // A mode is in the low bits, `AT_` flags are above them.
                    Call::Faccessat2 => (event.flags & 7, event.flags & !7),
                    _ => (event.flags & 7, 0),
                };
                Ok(Operation::Access { at: self.first(event)?, mode: mode as u32, flags: flags as u32 })
            }
            Class::ReadLink => Ok(Operation::ReadLink(self.first(event)?)),
            Class::List => Ok(Operation::List { slot: self.open_file(event)?, size: event.size.0 }),
            Class::Xattr => self.attribute(event),
            Class::StatFs if event.path.is_some() => Ok(Operation::StatFs(self.first(event)?)),
            Class::StatFs => Ok(Operation::StatFsOpen(self.open_file(event)?)),
            Class::Exec => Ok(Operation::Execute(self.first(event)?)),
            Class::Directory => self.directory(event),
            Class::Read => self.read(event),
            Class::Map => self.map(event),
            Class::Seek => self.seek(event),
            Class::Descriptor => self.descriptor(event),
            Class::Change => self.change(event),
            Class::Write => self.write(event),
            Class::Sync => match event.call {
                Call::Fsync | Call::Fdatasync => self.changing(event, Operation::Sync),
                _ => Err(Without::Elsewhere),
            },
            Class::Lock => self.open_file(event).and(Err(Without::Unable)),
            Class::Mount | Class::Watch => self.first(event).and(Err(Without::Unable)),
        }
    }

    fn open(&mut self, event: &Event) -> Result<Operation, Without> {
        let at = self.first(event)?;
        if writes::writes(event) {
            self.may_write(event, at)?;
        }
        let flags = if event.call == Call::Creat { 0o1101 } else { event.flags };
        let slot = self.draft(event).slot();
        if let Outcome::Success(fd) = event.outcome
            && let Ok(fd) = i32::try_from(fd)
        {
            let closes_on_exec = flags & O_CLOEXEC != 0;
            let held = Held { owner: event.process, slot, path: event.target, closes_on_exec };
            self.draft(event).table.files.insert(fd, held);
        }
        Ok(Operation::Open { at, flags, slot })
    }

    /// Whether a call that changes something may be issued at this place.
    fn may_write(&mut self, event: &Event, at: At) -> Result<(), Without> {
        let is_private = self
            .draft(event)
            .programme
            .paths
            .get(at.path as usize)
            .is_some_and(|path| path.0 == Prefix::Private);
        match self.writes {
            Writes::Private if is_private => Ok(()),
            _ => Err(Without::Writes),
        }
    }

    fn stat(&mut self, event: &Event) -> Result<Operation, Without> {
        const NO_FOLLOW: u64 = quell_trace::flags::AT_SYMLINK_NOFOLLOW;
        let by_descriptor = event.call == Call::Fstat
            || event.flags & AT_EMPTY_PATH != 0
                && event.path.is_none_or(|path| self.recording.paths.bytes(path).is_empty());
        if by_descriptor {
            return Ok(Operation::StatOpen(self.open_file(event)?));
        }
        let at = self.first(event)?;
        match event.call {
            Call::Lstat => Ok(Operation::Stat { at, flags: NO_FOLLOW as u32 }),
            Call::Stat => Ok(Operation::Stat { at, flags: 0 }),
            Call::Newfstatat => Ok(Operation::Stat { at, flags: event.flags as u32 }),
            Call::Statx => Ok(Operation::Statx { at, flags: event.flags as u32 }),
            _ => Err(Without::Unable),
        }
    }

    fn attribute(&mut self, event: &Event) -> Result<Operation, Without> {
        let list = matches!(event.call, Call::Listxattr | Call::Llistxattr | Call::Flistxattr);
        match event.call {
            Call::Fgetxattr | Call::Flistxattr => {
                Ok(Operation::XattrOpen { slot: self.open_file(event)?, list })
            }
            call => {
                let follow = !matches!(call, Call::Lgetxattr | Call::Llistxattr);
                Ok(Operation::Xattr { at: self.first(event)?, follow, list })
            }
        }
    }

    fn directory(&mut self, event: &Event) -> Result<Operation, Without> {
        match event.call {
            Call::Chdir => Ok(Operation::ChangeDirectory(self.first(event)?)),
            Call::Fchdir => Ok(Operation::ChangeDirectoryOpen(self.open_file(event)?)),
            _ => self.first(event).and(Err(Without::Unable)),
        }
    }

    fn read(&mut self, event: &Event) -> Result<Operation, Without> {
        let slot = self.open_file(event)?;
        let size = event.size.0;
        let offset = event.offset.and_then(|offset| u64::try_from(offset).ok());
        match (event.call, offset) {
            (Call::Readahead, Some(offset)) => Ok(Operation::Advise { slot, size, offset }),
            (_, Some(offset)) => Ok(Operation::ReadAt { slot, size, offset }),
            (_, None) => Ok(Operation::Read { slot, size }),
        }
    }

    /// The parts of a file that a process touched are read at its first mapping; all of the mapping where nobody looked.
    fn map(&mut self, event: &Event) -> Result<Operation, Without> {
        let slot = self.open_file(event)?;
        if !event.outcome.is_success() {
            return Err(Without::Elsewhere);
        }
        let whole = || vec![(event.offset.map_or(0, |offset| offset.max(0) as u64), event.size.0)];
        let touched = event.target.map(|path| self.touched.remove(&(event.process, path)));
        let extents = match touched {
            _ if !self.knows_touched => whole(),
            Some(Some(extents)) => extents,
            Some(None) | None => Vec::new(),
        };
        Ok(Operation::Touch { slot, extents })
    }

    fn seek(&mut self, event: &Event) -> Result<Operation, Without> {
        let slot = self.open_file(event)?;
        let offset = event.offset.unwrap_or(0);
        match event.call {
            Call::Lseek => Ok(Operation::Seek { slot, offset, origin: event.flags }),
            _ => Ok(Operation::Advise { slot, size: event.size.0, offset: offset.max(0) as u64 }),
        }
    }

    fn descriptor(&mut self, event: &Event) -> Result<Operation, Without> {
        /// `TCGETS`: is it a terminal? Source: `ioctl_tty(2)`.
        const TCGETS: u64 = 0x5401;
        match event.call {
            Call::Close => {
                let slot = self.open_file(event)?;
                Ok(Operation::Close(slot))
            }
            Call::Dup | Call::Dup2 | Call::Dup3 => self.duplicate(event),
            Call::Fcntl if LOCK_COMMANDS.contains(&event.flags) => {
                self.open_file(event).and(Err(Without::Unable))
            }
            Call::Fcntl => self.duplicate(event),
            Call::Ioctl if event.flags == TCGETS => Ok(Operation::Terminal(self.open_file(event)?)),
            Call::Ioctl => self.open_file(event).and(Err(Without::Unable)),
            _ => Err(Without::Elsewhere),
        }
    }

    fn duplicate(&mut self, event: &Event) -> Result<Operation, Without> {
        let Outcome::Success(value) = event.outcome else { return Err(Without::Elsewhere) };
        let Some((to, closes_on_exec)) = Table::duplicates(event, value) else {
            return Err(Without::Elsewhere);
        };
        let slot = self.open_file(event)?;
        if event.fd.0 == to {
            return Err(Without::Elsewhere);
        }
        let path = self.draft(event).table.files.get(&event.fd.0).and_then(|held| held.path);
        let new = self.draft(event).slot();
        self.release(event, &[to]);
        let held = Held { owner: event.process, slot: new, path, closes_on_exec };
        self.draft(event).table.files.insert(to, held);
        Ok(Operation::Duplicate { slot, to: new })
    }

    fn write(&mut self, event: &Event) -> Result<Operation, Without> {
        use Call::{CopyFileRange, Sendfile, Splice, Tee};
        let (source, is_transfer) = match event.call {
            Sendfile => (event.fd2, true),
            CopyFileRange | Splice | Tee => (event.fd, true),
            _ => (event.fd, false),
        };
        if is_transfer {
            // What is read of the tree is read; where it goes to is another matter.
            let slot = self.held(event, source.number().ok_or(Without::Elsewhere)?)?;
            return Ok(Operation::Read { slot, size: event.bytes_moved().0 });
        }
        // What was written, not what was to be: a short write ends a call.
        let size = event.bytes_moved().0;
        match event.offset.and_then(|offset| u64::try_from(offset).ok()) {
            Some(offset) => self.changing(event, |slot| Operation::WriteAt { slot, size, offset }),
            None => self.changing(event, |slot| Operation::Write { slot, size }),
        }
    }

    /// A call that changes an open file: such a file is in the table only if it may be written to.
    fn changing(
        &mut self,
        event: &Event,
        operation: impl FnOnce(Slot) -> Operation,
    ) -> Result<Operation, Without> {
        match self.open_file(event) {
            Ok(slot) if self.writes == Writes::Private => Ok(operation(slot)),
            Ok(_) => Err(Without::Writes),
            Err(_) if self.is_in_tree(event.target) => Err(Without::Writes),
            Err(error) => Err(error),
        }
    }

    fn is_in_tree(&self, target: Option<PathId>) -> bool {
        target.is_some_and(|target| below(self.recording.paths.bytes(target), self.from).is_some())
    }

    fn change(&mut self, event: &Event) -> Result<Operation, Without> {
        use Call::*;
        if !self.is_in_tree(event.target) && !self.is_in_tree(event.target2) {
            return Err(Without::Elsewhere);
        }
        if self.writes == Writes::Skip {
            return Err(Without::Writes);
        }
        match event.call {
            Ftruncate => {
                let size = event.size.0;
                return self.changing(event, |slot| Operation::Resize { slot, size });
            }
            Rename | Renameat | Renameat2 | Link | Linkat => return self.two_names(event),
            Symlink | Symlinkat => return self.symbolic_link(event),
            _ => {}
        }
        let at = self.first(event)?;
        self.may_write(event, at)?;
        match event.call {
            Unlink => Ok(Operation::Unlink { at, directory: false }),
            Unlinkat => Ok(Operation::Unlink { at, directory: event.flags & AT_REMOVEDIR != 0 }),
            Rmdir => Ok(Operation::Unlink { at, directory: true }),
            Mkdir | Mkdirat => Ok(Operation::MakeDirectory(at)),
            Chmod | Fchmodat | Fchmodat2 => Ok(Operation::SetMode(at)),
            Utime | Utimes | Futimesat | Utimensat if event.path.is_some() => Ok(Operation::SetTimes(at)),
            _ => Err(Without::Unable),
        }
    }

    fn two_names(&mut self, event: &Event) -> Result<Operation, Without> {
        let from = self.first(event)?;
        let path = event.path2.ok_or(Without::Elsewhere)?;
        let to = self.place(event, event.fd2, path, event.target2)?;
        self.may_write(event, from)?;
        self.may_write(event, to)?;
        Ok(match event.call {
            Call::Link | Call::Linkat => Operation::Link { from, to },
            _ => Operation::Rename { from, to, flags: event.flags as u32 },
        })
    }

    /// Of `symlink` the first path is the link's content, and the target is what the second names.
    fn symbolic_link(&mut self, event: &Event) -> Result<Operation, Without> {
        let (content, name) = event.path.zip(event.path2).ok_or(Without::Elsewhere)?;
        let at = self.place(event, event.fd2, name, event.target)?;
        self.may_write(event, at)?;
        let content = self.recording.paths.bytes(content);
        let content = self.draft(event).path(Prefix::None, content);
        Ok(Operation::SymbolicLink { content, at })
    }

    /// What a call does to descriptors, directories, and the names that the recording made.
    fn follow(&mut self, event: &Event) {
        let succeeded = event.outcome.is_success();
        match event.call {
            Call::Close if succeeded || event.outcome.errno() != Some(Errno::EBADF) => {
                self.draft(event).table.files.remove(&event.fd.0);
            }
            Call::CloseRange if succeeded => {
                let closed = self.draft(event).table.close_range(event);
                self.release_held(event, &closed);
            }
            Call::Fcntl => self.draft(event).table.set_flag(event),
            Call::Execve | Call::Execveat if succeeded => {
                let closed = self.draft(event).table.execute();
                self.release_held(event, &closed);
            }
            Call::Chdir | Call::Fchdir if succeeded => self.draft(event).table.directory = event.target,
            _ => {}
        }
        // A number that was given again without a close that we saw is another file's.
        if let (Class::Open, Outcome::Success(fd)) = (event.call.class(), event.outcome)
            && let Ok(fd) = i32::try_from(fd)
            && self.draft(event).table.files.get(&fd).is_some_and(|held| held.path != event.target)
        {
            self.draft(event).table.files.remove(&fd);
        }
        self.follow_names(event);
    }

    fn follow_names(&mut self, event: &Event) {
        if !event.outcome.is_success() || !(event.call.class() == Class::Change || writes::writes(event)) {
            return;
        }
        match (event.call, event.target, event.target2) {
            (Call::Unlink | Call::Unlinkat | Call::Rmdir, Some(target), _) => _ = self.made.remove(&target),
            (Call::Rename | Call::Renameat | Call::Renameat2, Some(from), Some(to)) => {
                self.made.remove(&from);
                self.made.insert(to);
            }
            (Call::Link | Call::Linkat, _, Some(to)) => _ = self.made.insert(to),
            (_, Some(target), _) if self.is_new(target) => _ = self.made.insert(target),
            _ => {}
        }
    }

    /// Whether a name that was changed had not been there before the recording.
    fn is_new(&self, target: PathId) -> bool {
        let name = below(self.recording.paths.bytes(target), self.from);
        name.is_some_and(|name| !self.changes.prepared.contains_key(name))
    }

    fn release(&mut self, event: &Event, numbers: &[i32]) {
        let files = &mut self.draft(event).table.files;
        let held: Vec<Held> = numbers.iter().filter_map(|number| files.remove(number)).collect();
        self.release_held(event, &held);
    }

    fn release_held(&mut self, event: &Event, held: &[Held]) {
        for held in held.iter().filter(|held| held.owner == event.process) {
            self.push(event.thread.0 as usize, Step::Release(held.slot));
        }
    }
}

/// `AT_REMOVEDIR`. Source: `unlinkat(2)`.
const AT_REMOVEDIR: u64 = 0x200;

impl Draft {
    fn slot(&mut self) -> Slot {
        self.programme.slots += 1;
        Slot(self.programme.slots - 1)
    }

    fn path(&mut self, prefix: Prefix, path: &[u8]) -> u32 {
        let next = self.programme.paths.len() as u32;
        let number = *self.paths.entry((prefix, path.to_vec())).or_insert(next);
        if number == next {
            self.programme.paths.push((prefix, path.to_vec()));
        }
        number
    }
}

/// Whether a path that begins `depth` names below the tree's root never leaves the tree, by its names alone.
fn stays_inside(path: &[u8], depth: usize) -> bool {
    let mut depth = depth as i64;
    path.split(|byte| *byte == b'/').all(|part| {
        depth += match part {
            b"" | b"." => 0,
            b".." => -1,
            _ => 1,
        };
        depth >= 0
    })
}
