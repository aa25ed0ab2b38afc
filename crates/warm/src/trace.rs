//! The plan of a trace: one pass over the events of each recording.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use quell_pack::{ExtentTracker, UsedExtent};
use quell_trace::flags::{O_ACCMODE, O_DIRECTORY, O_PATH};
use quell_trace::{Class, Errno, Event, Outcome, PathId, Recording, Trace, TraceError};

use crate::plan::{Expected, PlannedData, WarmPlan, ranges};

/// The names and data that the programs of a trace asked for, in the order in which they did.
///
/// # Errors
/// Those of reading the events.
pub fn plan_of_trace(trace: &Trace) -> Result<WarmPlan, TraceError> {
    let mut plan = WarmPlan::default();
    let mut clock = 0;
    for recording in &trace.recordings {
        Planner::new(recording, &mut plan, &mut clock)?.run()?;
    }
    Ok(plan)
}

struct Planner<'a> {
    recording: &'a Recording,
    plan: &'a mut WarmPlan,
    clock: &'a mut u64,
    extents: ExtentTracker<'a>,
    /// Files of which data was read, with the time at which it first was.
    read: HashMap<PathId, u64>,
    /// Files of which no more is known than that.
    whole: HashSet<PathId>,
    /// Files that the program wrote: they will be others.
    written: HashSet<PathId>,
}

impl<'a> Planner<'a> {
    fn new(recording: &'a Recording, plan: &'a mut WarmPlan, clock: &'a mut u64) -> Result<Self, TraceError> {
        let extents = ExtentTracker::new(recording)?;
        let (read, whole, written) = (HashMap::new(), HashSet::new(), HashSet::new());
        Ok(Self { recording, plan, clock, extents, read, whole, written })
    }

    fn run(mut self) -> Result<(), TraceError> {
        self.before();
        self.recording.for_each_event(|event| self.event(event))?;
        self.data();
        Ok(())
    }

    /// Adds names that no event has: links on the way, and the files that the kernel reads when it executes a program.
    fn before(&mut self) {
        let context = &self.recording.context;
        for link in &context.links {
            self.outcome(link.path, Expected::There);
            self.plan.name(self.recording.paths.bytes(link.path), 0).link = true;
        }
        for program in context.executions.iter().filter_map(|execution| execution.program) {
            self.outcome(program, Expected::There);
            self.read.entry(program).or_insert(*self.clock);
        }
        for interpreter in context.elf_files.iter().filter_map(|file| file.interpreter.as_ref()) {
            let Ok(path) = Path::new(interpreter).canonicalize() else { continue };
            let path = path.into_os_string().into_vec();
            match self.recording.paths.find(&path) {
                Some(path) => _ = self.read.entry(path).or_insert(*self.clock),
                None => _ = self.plan.name(&path, 0).data.get_or_insert_default(),
            }
        }
    }

    fn event(&mut self, event: &Event) {
        *self.clock += 1;
        self.extents.event(event);
        if let Some(source) = event.copied_from() {
            self.read.entry(source).or_insert(*self.clock);
            self.whole.insert(source);
        }
        if event.call.class() == Class::Change {
            [event.target, event.target2]
                .into_iter()
                .flatten()
                .for_each(|path| self.outcome(path, Expected::Either));
            return;
        }
        let Some(target) = event.target else { return };
        match event.outcome {
            Outcome::Failure(Errno::ENOENT) => self.outcome(target, Expected::Absent),
            Outcome::Failure(_) => self.outcome(target, Expected::Either),
            Outcome::Success(_) | Outcome::Unfinished => self.success(event, target),
        }
    }

    fn success(&mut self, event: &Event, target: PathId) {
        let class = event.call.class();
        if class.is_metadata() {
            self.outcome(target, Expected::There);
        }
        match class {
            Class::Open if event.flags & (O_PATH | O_DIRECTORY) == 0 && event.flags & O_ACCMODE != 0 => {
                self.written.insert(target);
                self.outcome(target, Expected::Either);
            }
            Class::List => self.plan.name(self.recording.paths.bytes(target), *self.clock).listed = true,
            Class::ReadLink => self.plan.name(self.recording.paths.bytes(target), *self.clock).link = true,
            Class::Read if event.bytes_moved().0 > 0 => _ = self.read.entry(target).or_insert(*self.clock),
            Class::Exec | Class::Map => _ = self.read.entry(target).or_insert(*self.clock),
            _ => {}
        }
    }

    fn outcome(&mut self, path: PathId, outcome: Expected) {
        self.plan.name(self.recording.paths.bytes(path), *self.clock).expect(outcome);
    }

    /// Adds the parts of files that were read.
    fn data(self) {
        let Self { recording, plan, extents, read, whole, written, .. } = self;
        let known: HashMap<PathId, UsedExtent> = extents.finish().collect();
        let versions = recording.context.files.iter();
        let versions: HashMap<PathId, (u64, i128)> =
            versions.map(|file| (file.path, (file.size, file.modified.into()))).collect();
        let is_empty = |path: &PathId| versions.get(path).is_some_and(|(size, _)| *size == 0);
        for (path, at) in read.into_iter().filter(|(path, _)| !written.contains(path) && !is_empty(path)) {
            let known = known.get(&path).filter(|known| !known.whole && !whole.contains(&path));
            let ranges = known.map(|known| ranges(&known.blocks));
            let data = PlannedData { at, ranges, version: versions.get(&path).copied() };
            let name = plan.name(recording.paths.bytes(path), at);
            name.data = Some(match name.data.take() {
                Some(earlier) => earlier.with(data),
                None => data,
            });
        }
    }
}
