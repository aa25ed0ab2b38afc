//! Makes programmes of a recording: which calls are on the tree, on which file each is, and in which order processes and
//! threads come to be.

mod calls;
mod effects;
mod places;

use super::below::below;
use super::steps::{FileSlot, IssuedCall, PathPrefix, Programme, ReplayOperation, ReplayStep};
use super::tables::ProcessTable;
use super::tally::SkippedCalls;
use super::writes::{Changes, ReplayWrites};
use quell_trace::{Event, Nanos, PathId, ProcessId, Recording, ThreadId, Touched, TraceError};
use std::collections::HashMap;

/// Programmes being made.
pub(crate) struct Planner<'a> {
    recording: &'a Recording,
    from: &'a [u8],
    writes: ReplayWrites,
    changes: &'a Changes,
    /// Names that the recording has made so far and that are still there, without [`ReplayWrites::Private`].
    made: std::collections::HashSet<PathId>,
    /// Absolute links of the tree: where the tree lies elsewhere they would lead back.
    links: Vec<&'a [u8]>,
    touched: HashMap<(ProcessId, PathId), Vec<(u64, u64)>>,
    /// True if the recording says what processes touched.
    knows_touched: bool,
    threads: Vec<Thread>,
    drafts: Vec<Draft>,
    pub(crate) skipped: SkippedCalls,
}

#[derive(Debug)]
struct Thread {
    process: ProcessId,
    /// Its number in its process.
    number: usize,
    /// The end of its last call on the tree, or its start.
    last: Nanos,
    /// Processes that it started and that have not been waited for.
    children: Vec<ProcessId>,
}

#[derive(Debug, Default)]
struct Draft {
    programme: Programme,
    table: ProcessTable,
    paths: HashMap<(PathPrefix, Vec<u8>), u32>,
    /// Open files of others that are used here.
    adopted: HashMap<(ProcessId, FileSlot), FileSlot>,
    spawned: bool,
    /// The process that starts it, and hands it open files: not the one that a damaged trace calls its parent.
    from: Option<ProcessId>,
}

/// The reason for which a call is not issued.
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
    pub(crate) fn new(
        recording: &'a Recording,
        from: &'a [u8],
        moves: bool,
        writes: ReplayWrites,
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
            skipped: SkippedCalls::default(),
        })
    }

    /// Takes the next event.
    pub(crate) fn take(&mut self, event: &Event) {
        self.spawn_threads(event);
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
    pub(crate) fn finish(self) -> Vec<Programme> {
        let mut programmes: Vec<Programme> = self.drafts.into_iter().map(|draft| draft.programme).collect();
        // Children come after their parents: from the end on, what starts only idle processes is idle.
        for number in (0..programmes.len()).rev() {
            let mut threads = std::mem::take(&mut programmes[number].threads);
            for steps in &mut threads {
                steps.retain(|step| match step {
                    ReplayStep::Spawn(child) | ReplayStep::Await(child) => {
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
    fn spawn_threads(&mut self, event: &Event) {
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

    /// A thread begins: another one of its process, or the first of a new process. Where a log does not tell its parent, a
    /// thread comes from its process's first and a process from the command's.
    fn begin(&mut self, process: ProcessId, parent: Option<ThreadId>) {
        let parent = parent.map(|parent| parent.0 as usize);
        let Some(draft) = self.drafts.get_mut(process.0 as usize) else { return };
        if draft.spawned {
            let number = draft.programme.threads.len() as u32;
            let is_of = |thread: &Thread| thread.process == process;
            let told = parent.filter(|parent| self.threads.get(*parent).is_some_and(is_of));
            if let Some(parent) = told.or_else(|| self.threads.iter().position(is_of)) {
                self.push(parent, ReplayStep::Thread(number));
            }
            return;
        }
        draft.spawned = true;
        draft.table.directory = self.recording.context.working_directory;
        // Parents have smaller numbers: so no process is started twice, whatever a trace says.
        let may_start = |thread: &Thread| thread.process.0 < process.0;
        let told = parent.filter(|parent| self.threads.get(*parent).is_some_and(may_start));
        if let Some(from) = told.map(|parent| self.threads[parent].process)
            && let Some(table) = self.drafts.get(from.0 as usize).map(|of| of.table.clone())
        {
            let draft = &mut self.drafts[process.0 as usize];
            (draft.table, draft.from) = (table, Some(from));
        }
        if let Some(parent) =
            told.or_else(|| self.threads.first().filter(|first| may_start(first)).map(|_| 0))
        {
            self.push(parent, ReplayStep::Spawn(process.0));
            self.threads[parent].children.push(process);
        }
    }

    fn push(&mut self, thread: usize, step: ReplayStep) {
        let Some(Thread { process, number, .. }) = self.threads.get(thread) else { return };
        let draft = self.drafts.get_mut(process.0 as usize);
        if let Some(steps) = draft.and_then(|draft| draft.programme.threads.get_mut(*number)) {
            steps.push(step);
        }
    }

    /// Appends the call, after waiting for the processes that had ended before it began.
    fn issue(&mut self, event: &Event, operation: ReplayOperation) {
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
        ended.into_iter().for_each(|child| self.push(number, ReplayStep::Await(child.0)));
        let issue = IssuedCall {
            gap: event.start.since(since).0,
            call: event.call as u16,
            failed: event.outcome.errno().map_or(0, |errno| errno.0),
            operation,
        };
        self.push(number, ReplayStep::Issue(issue));
    }

    fn draft(&mut self, event: &Event) -> &mut Draft {
        &mut self.drafts[event.process.0 as usize]
    }
}

impl Draft {
    fn slot(&mut self) -> FileSlot {
        self.programme.slots += 1;
        FileSlot(self.programme.slots - 1)
    }

    fn path(&mut self, prefix: PathPrefix, path: &[u8]) -> u32 {
        let next = self.programme.paths.len() as u32;
        let number = *self.paths.entry((prefix, path.to_vec())).or_insert(next);
        if number == next {
            self.programme.paths.push((prefix, path.to_vec()));
        }
        number
    }
}
