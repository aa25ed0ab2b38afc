//! Collects the recorded facts of each path: asked for, absent, read, changed. One pass over the events.
//!
//! The paths are those that the trace resolved, links followed as the calls follow them. The file system is asked
//! only for facts that no trace has: whether something watched is a directory, and where the loader of a program
//! is, which the kernel opens itself.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use quell_analyse::live::{Live, LiveJudge, is_for_writing};
use quell_image::path::split;
use quell_trace::flags::{O_DIRECTORY, O_PATH, O_TMPFILE};
use quell_trace::{Call, Class, Errno, Event, Outcome, PathId, Recording, ServedBy, Trace, TraceError};

use crate::extents::{ExtentTracker, UsedExtent};
use crate::path_tree::PathTree;

/// Collects the events of all recordings, in their order, in one tree of paths.
pub(crate) fn observe(trace: &Trace) -> Result<PathTree, TraceError> {
    let mut recorded = PathTree::default();
    let mut clock = 0;
    for recording in &trace.recordings {
        observe_one(recording, &mut recorded, &mut clock)?;
    }
    Ok(recorded)
}

/// The same for each recording by itself, in their order.
pub(crate) fn observe_each(trace: &Trace) -> Result<Vec<PathTree>, TraceError> {
    let one = |recording| {
        let mut recorded = PathTree::default();
        observe_one(recording, &mut recorded, &mut 0)?;
        Ok(recorded)
    };
    trace.recordings.iter().map(one).collect()
}

fn observe_one(recording: &Recording, recorded: &mut PathTree, clock: &mut u64) -> Result<(), TraceError> {
    let mounts = recording.context.mounts.iter();
    for mount in mounts.filter(|mount| mount.mount_point.len() <= PATH_MAX) {
        recorded.mount(mount.mount_point.as_bytes(), &mount.kind);
    }
    let mut observer = Observer::new(recording, recorded, clock)?;
    recording.for_each_event(|event| observer.event(event))?;
    observer.context();
    observer.extents();
    Ok(())
}

struct Observer<'a> {
    recording: &'a Recording,
    recorded: &'a mut PathTree,
    /// Counts events over all recordings: the order of first access.
    clock: &'a mut u64,
    judge: LiveJudge<'a>,
    /// The names and directories that the last event makes live.
    live: Vec<Live>,
    /// The program may read by asynchronous calls, which the recorder does not see.
    reads_unseen: bool,
    /// Files opened for reading, in order.
    opened: Vec<(u64, PathId)>,
    /// Files of which only a part may have been used.
    in_part: HashSet<Vec<u8>>,
    extents: ExtentTracker<'a>,
}

impl<'a> Observer<'a> {
    fn new(
        recording: &'a Recording,
        recorded: &'a mut PathTree,
        clock: &'a mut u64,
    ) -> Result<Self, TraceError> {
        let (live, opened) = (Vec::new(), Vec::new());
        let judge = LiveJudge::new(&recording.paths, &recording.context);
        let (in_part, extents) = (HashSet::new(), ExtentTracker::new(recording)?);
        let reads_unseen = false;
        Ok(Self { recording, recorded, clock, judge, live, reads_unseen, opened, in_part, extents })
    }

    fn event(&mut self, event: &Event) {
        *self.clock += 1;
        self.extents.event(event);
        if matches!(event.call, Call::IoUringSetup | Call::IoSetup) {
            self.reads_unseen = true;
        }
        if let Some(source) = event.copied_from() {
            self.read(self.path(source));
        }
        self.judge_live(event);
        let Some(target) = event.target else { return };
        match event.outcome {
            Outcome::Failure(errno) => self.failure(event, target, errno),
            Outcome::Success(_) | Outcome::Unfinished => self.success(event, target),
        }
    }

    /// Makes directories live that must stay the original because of an event.
    fn judge_live(&mut self, event: &Event) {
        let mut found = std::mem::take(&mut self.live);
        self.judge.event(event, &mut |live| found.push(live));
        for live in found.drain(..) {
            match live {
                Live::Parent(path, how) => self.change(self.path(path), how),
                Live::Itself(directory, why) => self.recorded.live_itself(self.path(directory), why),
                Live::Watched(path) => self.watch(self.path(path)),
                Live::Together(a, b, how) => {
                    let (a, b) = (self.path(a), self.path(b));
                    if split(a).0 != split(b).0 {
                        self.recorded.live_together(a, b, how);
                    }
                }
            }
        }
        self.live = found;
    }

    fn failure(&mut self, event: &Event, target: PathId, errno: Errno) {
        let path = self.path(target);
        if !event.call.class().is_metadata() {
            return;
        }
        self.count(event, path);
        if errno == Errno::ENOENT {
            self.recorded.seen(path).missed = true;
        } else {
            self.recorded.seen(path).touched = true;
        }
    }

    fn success(&mut self, event: &Event, target: PathId) {
        let path = self.path(target);
        let class = event.call.class();
        if class.is_metadata() {
            self.count(event, path);
            self.recorded.seen(path).touched = true;
        }
        match class {
            Class::Open => self.open(event, target),
            Class::List => self.recorded.seen(path).entered = true,
            Class::Exec => self.read_part(path),
            Class::Read if event.bytes_moved().0 > 0 => self.read_part(path),
            Class::Map => self.read_part(path),
            Class::Change => event.target2.into_iter().for_each(|second| {
                self.recorded.seen(self.path(second)).touched = true;
            }),
            _ => {}
        }
    }

    fn open(&mut self, event: &Event, target: PathId) {
        let path = self.path(target);
        let flags = event.flags;
        if flags & O_TMPFILE == O_TMPFILE || is_for_writing(event) {
            return;
        }
        if flags & O_DIRECTORY != 0 {
            self.recorded.seen(path).entered = true;
        } else if flags & O_PATH == 0 {
            self.opened.push((*self.clock, target));
        }
    }

    /// A watched directory is never served from an image.
    fn watch(&mut self, path: &[u8]) {
        if Path::new(OsStr::from_bytes(path)).is_dir() {
            self.recorded.live_itself(path, "the program watches it for changes");
        } else {
            self.recorded.live_parent(path, "is watched for changes");
        }
    }

    /// Notes that the recording changed `path`, so that its directory is live; or, of bytecode that a first run
    /// writes, that later runs will read it.
    fn change(&mut self, path: &[u8], how: &str) {
        let bytecode = path.split(|&byte| byte == b'/').any(|name| name == b"__pycache__");
        if bytecode {
            self.read(path);
        } else {
            self.recorded.live_parent(path, how);
        }
    }

    /// The content of `path` was needed, all of it.
    fn read(&mut self, path: &[u8]) {
        let clock = *self.clock;
        let seen = self.recorded.seen(path);
        seen.read.get_or_insert(clock);
        seen.extent.whole = true;
    }

    /// The content of `path` was needed, or a part of it.
    fn read_part(&mut self, path: &[u8]) {
        let clock = *self.clock;
        self.recorded.seen(path).read.get_or_insert(clock);
        if !self.in_part.contains(path) {
            self.in_part.insert(path.to_vec());
        }
    }

    /// Counts a metadata operation that a metadata server had to answer.
    fn count(&mut self, event: &Event, path: &[u8]) {
        let mount = event.file_system.and_then(|id| self.recording.context.mounts.get(usize::from(id.0)));
        if mount.is_some_and(|mount| mount.served_by() == ServedBy::Network) {
            self.recorded.seen(path).operations += 1;
        }
    }

    /// Adds facts of the context that no event has: links on the way, programs and their interpreters, which the
    /// kernel opens itself.
    fn context(&mut self) {
        let context = &self.recording.context;
        for link in &context.links {
            self.recorded.seen(self.path(link.path)).touched = true;
        }
        for program in context.executions.iter().filter_map(|execution| execution.program) {
            let path = self.path(program);
            self.recorded.seen(path).touched = true;
            self.read_part(path);
        }
        for interpreter in context.elf_files.iter().filter_map(|file| file.interpreter.as_ref()) {
            if let Ok(path) = Path::new(interpreter).canonicalize() {
                let path = path.into_os_string().into_vec();
                self.recorded.seen(&path).touched = true;
                self.read_part(&path);
            }
        }
        if self.reads_unseen {
            for (clock, path) in std::mem::take(&mut self.opened) {
                let path = self.path(path);
                let seen = self.recorded.seen(path);
                seen.read.get_or_insert(clock);
                seen.extent.whole = true;
            }
        }
    }

    /// Says of each file how much of it was used: all of it where that is not known.
    fn extents(self) {
        let Self { recording, recorded, in_part, extents, .. } = self;
        let known: HashMap<&[u8], UsedExtent> =
            extents.finish().map(|(path, extent)| (recording.paths.bytes(path), extent)).collect();
        let whole = UsedExtent { whole: true, ..UsedExtent::default() };
        for path in in_part {
            recorded.seen(&path).extent.add(known.get(&path[..]).unwrap_or(&whole));
        }
    }

    /// A path, for as long as the recording lives. One that is longer than any can be counts as `/`, which is never
    /// packed as a whole. So a forged trace cannot make the tree deeper than recursion over it can go.
    fn path(&self, id: PathId) -> &'a [u8] {
        let path = self.recording.paths.bytes(id);
        if path.len() <= PATH_MAX { path } else { b"/" }
    }
}

/// Paths that are longer cannot be opened, and have no place in an image. Source: `limits.h` of Linux.
const PATH_MAX: usize = 4096;
