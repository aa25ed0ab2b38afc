//! The parts of files that a recording used: pages that its processes touched through mappings, and bytes that calls read.
//!
//! A trace has a call's offset only where the call passes one; where another one read follows from the calls before it
//! on the same open file: it begins at 0, continues at the end of the last one, and `lseek` returns it. Where it cannot
//! be followed, the file counts as whole: an open file that processes share by fork or may have been passed on, a
//! call that ended with its thread. So does a file that a process mapped or executed and was not seen to touch: it had
//! unmapped it before the recorder looked at its pages. Where the recorder did not look, and where events were lost, every
//! file is whole.

use std::collections::{HashMap, HashSet};

use quell_image::BlockSet;
use quell_trace::flags::{CLONE_FILES, F_DUPFD, F_DUPFD_CLOEXEC};
use quell_trace::{Call, Class, Event, Outcome, PathId, ProcessId, Recording, ThreadId, Touched, TraceError};

/// The used part of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsedExtent {
    /// All of it may have been.
    pub whole: bool,
    /// Else these blocks.
    pub blocks: BlockSet,
    /// Size and time of modification of the file that they are of, if known. **Unit** bytes, nanoseconds since 1970.
    pub version: Option<(u64, u64)>,
}

impl UsedExtent {
    /// Adds the used part of another recording.
    pub fn add(&mut self, other: &Self) {
        // Blocks of two versions of a file mean nothing together.
        self.whole |= other.whole || self.version.zip(other.version).is_some_and(|(a, b)| a != b);
        self.version = self.version.or(other.version);
        self.blocks.union(&other.blocks);
    }
}

/// Follows the open files of a recording over its events.
#[derive(Debug)]
pub struct ExtentTracker<'a> {
    recording: &'a Recording,
    /// `None` when the recorder did not look at the touched pages, or lost events.
    touched: Option<Vec<Touched>>,
    files: HashMap<PathId, UsedExtent>,
    /// Files that processes mapped or executed.
    mapped: HashSet<(ProcessId, PathId)>,
    /// Threads that have come to be, each with the number of its descriptor table.
    uses: Vec<usize>,
    tables: Vec<HashMap<i32, usize>>,
    open: Vec<Open>,
    /// Descriptors may have been passed in ways that the trace does not show.
    passed: bool,
}

/// An open file description.
#[derive(Debug, Clone, Copy)]
struct Open {
    path: Option<PathId>,
    /// Offset of the next read, if it is known.
    position: Option<u64>,
    /// Several processes have it.
    shared: bool,
}

impl<'a> ExtentTracker<'a> {
    /// Nothing was used yet.
    pub fn new(recording: &'a Recording) -> Result<Self, TraceError> {
        let touched = match recording.header.recorder.lost {
            0 => recording.touched()?,
            _ => None,
        };
        Ok(Self {
            recording,
            touched,
            files: HashMap::new(),
            mapped: HashSet::new(),
            uses: Vec::new(),
            tables: Vec::new(),
            open: Vec::new(),
            passed: false,
        })
    }

    /// Takes the next event.
    pub fn event(&mut self, event: &Event) {
        if self.touched.is_none() {
            return;
        }
        self.spawn_threads(event);
        match (event.call.class(), event.target) {
            (Class::Map | Class::Exec, Some(target)) if event.outcome.errno().is_none() => {
                self.mapped.insert((event.process, target));
            }
            (Class::Read, Some(target)) if event.call != Call::Readahead => self.read(event, target),
            _ => {}
        }
        if let Outcome::Success(value) = event.outcome {
            self.follow(event, value);
        }
    }

    /// The used part of each file. Shape: no file twice.
    pub fn finish(mut self) -> impl Iterator<Item = (PathId, UsedExtent)> {
        let touched = self.touched.take();
        let all = touched.is_none();
        let rows = touched.unwrap_or_default();
        let looked_at: HashSet<_> = rows.iter().map(|row| (row.process, row.path)).collect();
        let executed = self.recording.context.executions.iter();
        self.mapped.extend(executed.filter_map(|execution| Some((execution.process, execution.program?))));
        for row in &rows {
            let blocks = &mut self.files.entry(row.path).or_default().blocks;
            blocks.insert_bytes(row.offset..row.end());
        }
        for (_, path) in self.mapped.difference(&looked_at) {
            self.files.entry(*path).or_default().whole = true;
        }
        for file in &self.recording.context.files {
            if let (Some(extent), Ok(modified)) =
                (self.files.get_mut(&file.path), u64::try_from(file.modified))
            {
                extent.version = Some((file.size, modified));
            }
        }
        self.files.into_iter().filter(move |_| !all)
    }

    fn read(&mut self, event: &Event, target: PathId) {
        let length = match event.outcome {
            Outcome::Success(length) if length > 0 => length.unsigned_abs(),
            Outcome::Unfinished => return self.whole(target),
            Outcome::Success(_) | Outcome::Failure(_) => return,
        };
        let positioned = matches!(event.call, Call::Pread64 | Call::Preadv | Call::Preadv2);
        let start = match event.offset {
            Some(offset) if positioned && offset >= 0 => Some(offset.unsigned_abs()),
            // An offset of -1 means the position to `preadv2`.
            None if positioned => None,
            _ => self.advance(event, target, length),
        };
        match start.and_then(|start| Some(start..start.checked_add(length)?)) {
            Some(range) => self.files.entry(target).or_default().blocks.insert_bytes(range),
            None => self.whole(target),
        }
    }

    /// Returns the offset of a read at the position, and moves the position.
    fn advance(&mut self, event: &Event, target: PathId, length: u64) -> Option<u64> {
        if self.passed {
            return None;
        }
        let open = self.description(event.thread, event.fd.0).filter(|open| open.path == Some(target))?;
        let start = open.position?;
        open.position = start.checked_add(length);
        Some(start)
    }

    fn whole(&mut self, path: PathId) {
        self.files.entry(path).or_default().whole = true;
    }

    /// Applies a successful call to descriptors and positions.
    fn follow(&mut self, event: &Event, value: i64) {
        let thread = event.thread;
        match event.call {
            Call::Lseek => {
                if let Some(open) = self.description(thread, event.fd.0) {
                    open.position = u64::try_from(value).ok().filter(|_| !open.shared);
                }
            }
            Call::Dup | Call::Dup2 | Call::Dup3 => self.duplicate(thread, event.fd.0, value),
            Call::Fcntl if matches!(event.flags, F_DUPFD | F_DUPFD_CLOEXEC) => {
                self.duplicate(thread, event.fd.0, value);
            }
            Call::Recvmsg | Call::PidfdGetfd => self.passed = true,
            Call::Unshare if event.flags & CLONE_FILES != 0 => self.unshare(thread),
            Call::Execve | Call::Execveat => self.unshare(thread),
            call if call.class() == Class::Open => {
                self.open.push(Open { path: event.target, position: Some(0), shared: false });
                self.set(thread, value, self.open.len() - 1);
            }
            // These calls move the position of either file by an offset that the trace does not have.
            call if call.class() == Class::Write => {
                for fd in [event.fd.0, event.fd2.0] {
                    if let Some(open) = self.description(thread, fd) {
                        open.position = None;
                    }
                }
            }
            _ => {}
        }
    }

    fn duplicate(&mut self, thread: ThreadId, from: i32, to: i64) {
        let known = self.table(thread).and_then(|table| table.get(&from).copied());
        if let Some(known) = known {
            self.set(thread, to, known);
        }
    }

    fn set(&mut self, thread: ThreadId, fd: i64, description: usize) {
        if let (Some(table), Ok(fd)) = (self.table(thread), i32::try_from(fd)) {
            table.insert(fd, description);
        }
    }

    fn table(&mut self, thread: ThreadId) -> Option<&mut HashMap<i32, usize>> {
        self.tables.get_mut(*self.uses.get(thread.0 as usize)?)
    }

    fn description(&mut self, thread: ThreadId, fd: i32) -> Option<&mut Open> {
        let description = *self.table(thread)?.get(&fd)?;
        self.open.get_mut(description)
    }

    /// Gives a thread a table of its own with the same descriptions.
    fn unshare(&mut self, thread: ThreadId) {
        if let Some(table) = self.table(thread).cloned() {
            self.tables.push(table);
            self.uses[thread.0 as usize] = self.tables.len() - 1;
        }
    }

    /// Threads come to be with their parent's table, or with a copy of it: then either process moves the positions of
    /// the files that are open in both, in an order that is not known.
    fn spawn_threads(&mut self, event: &Event) {
        let threads = &self.recording.context.threads;
        while let Some(thread) = threads.get(self.uses.len()).filter(|thread| thread.start <= event.end()) {
            let parent = thread.parent.and_then(|parent| self.uses.get(parent.0 as usize).copied());
            let table = match parent {
                Some(parent) if thread.shares_files => parent,
                Some(parent) => {
                    let shared = self.tables[parent].clone();
                    for &description in shared.values() {
                        let open = &mut self.open[description];
                        (open.position, open.shared) = (None, true);
                    }
                    self.tables.push(shared);
                    self.tables.len() - 1
                }
                None => {
                    self.tables.push(HashMap::new());
                    self.tables.len() - 1
                }
            };
            self.uses.push(table);
        }
    }
}
