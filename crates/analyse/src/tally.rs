//! Counts the events of one recording, one after the other, and becomes its [`Summary`].
//!
//! Everything an event touches is found by its number in a vector, and nothing is allocated per event: counting costs
//! less than reading the trace, and memory grows with the number of distinct paths only.

use crate::command::CommandTable;
use crate::counts::{CallCounts, CommandCounts, FileSystemCounts, PathCounts, Totals, add_bytes};
use crate::data::DataTally;
use crate::folding::FingerprintTally;
use crate::habits::{HabitJudge, HabitTally, changes, changes_second};
use crate::live::{Live, LiveJudge};
use crate::packages::PackageTally;
use crate::phases::PhaseTally;
use crate::searches::SearchTally;
use crate::span::Span;
use crate::summary::{FileSystem, Summary};
use crate::wrappers::WrapperTally;
use crate::{Activity, Durations, OperationPart, RecordingFacts};
use quell_trace::{
    Bytes, Call, Class, Context, Event, Header, MountId, Nanos, Outcome, PathId, PathTable, ServedBy,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// One recording being counted.
#[derive(Debug)]
pub struct Tally<'a> {
    paths: &'a PathTable,
    facts: RecordingFacts,
    totals: Totals,
    /// Shape: one entry a call, by its discriminant.
    calls: Vec<CallCounts>,
    /// Shape: one entry a call, by its discriminant.
    durations: Vec<Durations>,
    /// Shape: one entry a mount.
    mounts: Vec<MountTally>,
    unplaced: FileSystemCounts,
    /// Shape: one entry a path.
    by_path: Vec<PathTally>,
    judge: HabitJudge,
    live_judge: LiveJudge<'a>,
    /// Everything that must stay the original.
    live: HashSet<Live>,
    /// Names that are waited for: from when until when.
    awaited: HashMap<PathId, (Nanos, Nanos)>,
    commands: CommandTable,
    /// Shape: one entry a command line.
    by_command: Vec<CommandCounts>,
    searches: SearchTally<'a>,
    phases: PhaseTally<'a>,
    data: DataTally<'a>,
    packages: PackageTally<'a>,
    wrappers: WrapperTally<'a>,
    fingerprint: FingerprintTally<'a>,
    rest: Summary,
}

#[derive(Debug)]
struct MountTally {
    file_system: FileSystem,
    served_by: ServedBy,
    counts: FileSystemCounts,
}

/// A path: its counts, and one bit for each operation that has succeeded on it.
#[derive(Clone, Copy, Debug, Default)]
struct PathTally {
    counts: PathCounts,
    habits: HabitTally,
    succeeded: u64,
}

impl PathTally {
    /// True for the first success of its operation.
    fn succeed(&mut self, call: Call) -> OperationPart {
        let operation = 1 << OPERATION[call as usize];
        let part =
            if self.succeeded & operation == 0 { OperationPart::Needed } else { OperationPart::Repeated };
        self.succeeded |= operation;
        self.counts.repeated += u64::from(part == OperationPart::Repeated);
        part
    }
}

impl<'a> Tally<'a> {
    /// A tally of the recording that was opened under `name` and has these paths and this context.
    pub fn new(name: &str, header: &Header, paths: &'a PathTable, context: &'a Context) -> Self {
        let mounts = context.mounts.iter().map(|mount| MountTally {
            file_system: FileSystem {
                mount_point: mount.mount_point.clone(),
                kind: mount.file_system_type().to_owned(),
            },
            served_by: mount.served_by(),
            counts: FileSystemCounts::default(),
        });
        let commands = CommandTable::new(context);
        Self {
            paths,
            facts: RecordingFacts::new(name, header).with_variables(context),
            totals: Totals::default(),
            calls: vec![CallCounts::default(); Call::ALL.len()],
            durations: vec![Durations::default(); Call::ALL.len()],
            mounts: mounts.collect(),
            unplaced: FileSystemCounts::default(),
            by_path: vec![PathTally::default(); paths.len()],
            judge: HabitJudge::new(paths, context.processes.len()),
            live_judge: LiveJudge::new(paths, context),
            live: HashSet::new(),
            awaited: HashMap::new(),
            by_command: vec![CommandCounts::default(); commands.lines.len()],
            commands,
            searches: SearchTally::new(paths, context),
            phases: PhaseTally::new(paths, context),
            data: DataTally::new(header, paths, context),
            packages: PackageTally::new(paths, context),
            wrappers: WrapperTally::new(paths, context),
            fingerprint: FingerprintTally::new(name, header, paths, context),
            rest: Summary::of_run_paths(run_paths(paths, context)),
        }
    }

    /// Counts an event. Events come in the order of the recording: which success is the first depends on it.
    pub fn add(&mut self, event: &Event) {
        self.facts.events += 1;
        let moved = event.bytes_moved();
        let is_metadata = event.call.class().is_metadata();
        self.count_call(event, moved);
        self.count_file_system(event, moved, is_metadata);
        self.count_command(event, is_metadata);
        if is_metadata {
            self.count_metadata(event);
        }
        self.note_changes(event);
        self.judge_live(event);
        if event.call.class() == Class::Exec && event.outcome.is_success() {
            self.judge.execute(event.process);
        }
        self.searches.add(event);
        self.phases.add(event);
        self.data.add(event);
        self.packages.add(event);
        self.wrappers.add(event);
    }

    /// The recording's summary.
    pub fn finish(self) -> Summary {
        let mut summary = self.rest;
        for (path, tally) in self.paths.iter().zip(&self.by_path) {
            let habits = tally.habits.finish();
            if tally.counts.metadata_operations > 0 {
                *summary.paths.entry(path.1.into()).or_default() += PathCounts { habits, ..tally.counts };
            }
        }
        for live in self.live {
            summary.add_live(live, self.paths);
        }
        for (path, (first, last)) in self.awaited {
            summary.awaited.insert(self.paths.bytes(path).into(), last.since(first));
        }
        for mount in self.mounts.into_iter().filter(|mount| mount.counts.calls > 0) {
            *summary.file_systems.entry(mount.file_system).or_default() += mount.counts;
        }
        let processes = self.commands.processes_by_line();
        let commands = self.commands.lines.into_iter().zip(self.by_command).zip(processes);
        for ((line, counts), processes) in commands {
            *summary.commands.entry(line).or_default() += CommandCounts { processes, ..counts };
        }
        summary.unplaced += self.unplaced;
        summary.add_calls(&self.calls);
        let durations = Call::ALL.iter().copied().zip(self.durations);
        summary.add_durations(durations.filter(|(_, durations)| *durations != Durations::default()));
        summary.add_totals(&self.totals);
        summary.searches = self.searches.finish();
        summary.phases = self.phases.finish();
        summary.data = self.data.finish();
        summary.packages = self.packages.finish();
        summary.wrappers = self.wrappers.finish();
        summary.fingerprints = self.fingerprint.finish();
        let operations = self.totals.metadata_operations;
        let is_too_fast = summary.span.is_some_and(|span| span.is_too_short_for(operations));
        if !self.facts.has_times() || is_too_fast {
            // The order of events stands in for their times: no rate follows from it.
            summary.activity = Activity::default();
            summary.phases = summary.phases.without_times();
        }
        summary.recordings = vec![self.facts];
        summary
    }

    fn count_call(&mut self, event: &Event, moved: Bytes) {
        let errors = u64::from(event.outcome.errno().is_some());
        self.calls[event.call as usize] += CallCounts { calls: 1, errors, time: event.duration };
        if event.outcome != Outcome::Unfinished {
            self.durations[event.call as usize].add(event.duration);
        }
        self.totals.calls += 1;
        self.totals.errors += errors;
        let (read, written) = directions(event.call, moved);
        add_bytes(&mut self.totals.bytes_read, read);
        add_bytes(&mut self.totals.bytes_written, written);
        if event.call == Call::IoUringSetup && event.outcome.is_success() {
            self.rest.rings += 1;
        }
    }

    fn count_file_system(&mut self, event: &Event, moved: Bytes, is_metadata: bool) {
        let (read, written) = directions(event.call, moved);
        let counts = FileSystemCounts {
            calls: 1,
            metadata_operations: is_metadata.into(),
            missed: event.is_miss().into(),
            bytes_read: read,
            bytes_written: written,
        };
        match event.file_system.and_then(|mount| self.mounts.get_mut(usize::from(mount.0))) {
            Some(mount) => mount.counts += counts,
            None => self.unplaced += counts,
        }
    }

    fn count_command(&mut self, event: &Event, is_metadata: bool) {
        if let Some(line) = self.commands.running(event.process, event.start) {
            self.by_command[line] += CommandCounts {
                processes: 0,
                calls: 1,
                metadata_operations: is_metadata.into(),
                missed: event.is_miss().into(),
            };
        }
    }

    fn count_metadata(&mut self, event: &Event) {
        self.totals.metadata_operations += 1;
        self.rest.span = Some(Span::of(event).union(self.rest.span));
        let served_by = event.file_system.and_then(|mount| self.served_by(mount));
        self.rest.served.add(served_by, 1);
        let mut path = event.target.and_then(|target| self.by_path.get_mut(target.0 as usize));
        if let Some(path) = &mut path {
            let missed = event.is_miss().into();
            let counts = PathCounts { metadata_operations: 1, missed, served_by, ..PathCounts::default() };
            path.counts += counts;
            self.judge.count(&mut path.habits, event);
        }
        let part = match (event.outcome, path) {
            _ if event.is_miss() => OperationPart::Missed,
            (Outcome::Failure(_) | Outcome::Unfinished, _) => OperationPart::Failed,
            (Outcome::Success(_), None) => OperationPart::Unnamed,
            (Outcome::Success(_), Some(path)) => path.succeed(event.call),
        };
        if let (OperationPart::Failed, Outcome::Failure(errno)) = (part, event.outcome) {
            *self.rest.failures.entry((event.call, errno)).or_default() += 1;
        }
        self.totals.count(part);
        self.fingerprint.add(event, part);
        self.rest.activity.add(event.call.class(), part, event.start);
    }

    fn judge_live(&mut self, event: &Event) {
        let (live, awaited) = (&mut self.live, &mut self.awaited);
        self.live_judge.event(event, &mut |found| {
            live.insert(found);
            if let Some(path) = found.awaited() {
                awaited.entry(path).or_insert((event.start, event.start)).1 = event.start;
            }
        });
    }

    fn note_changes(&mut self, event: &Event) {
        if changes(event)
            && let Some(path) = self.path(event.target)
        {
            path.habits.change();
        }
        if changes_second(event)
            && let Some(path) = self.path(event.target2)
        {
            path.habits.change();
            if event.call.class() == Class::Change {
                path.habits.take();
            }
        }
    }

    fn path(&mut self, path: Option<PathId>) -> Option<&mut PathTally> {
        self.by_path.get_mut(path?.0 as usize)
    }

    fn served_by(&self, mount: MountId) -> Option<ServedBy> {
        self.mounts.get(usize::from(mount.0)).map(|mount| mount.served_by)
    }
}

/// The RUNPATH, else the RPATH, of each program and library.
fn run_paths(paths: &PathTable, context: &Context) -> BTreeMap<Box<[u8]>, String> {
    let of = |file: &quell_trace::ElfFile| {
        let list = file.runpath.as_ref().or(file.rpath.as_ref())?;
        Some((paths.bytes(file.path).into(), list.clone()))
    };
    context.elf_files.iter().filter_map(of).collect()
}

/// Bytes read and written, seen from the descriptor that the call names first: what is copied between two
/// descriptors is counted once, at the one whose file the event is about.
fn directions(call: Call, moved: Bytes) -> (Bytes, Bytes) {
    match (call, call.class()) {
        (Call::CopyFileRange | Call::Splice | Call::Tee, _) => (moved, Bytes(0)),
        (_, Class::Write) => (Bytes(0), moved),
        _ => (moved, Bytes(0)),
    }
}

/// The bit of each call's operation, by discriminant: one for all calls of a class, but one for each call that
/// changes something, because `mkdir` and `chmod` of one name are not the same again.
const OPERATION: [u8; Call::ALL.len()] = {
    let mut bits = [0; Call::ALL.len()];
    let mut next = Class::Watch as u8 + 1;
    let mut index = 0;
    while index < bits.len() {
        let class = Call::ALL[index].class();
        if matches!(class, Class::Change) {
            bits[index] = next;
            next += 1;
        } else {
            bits[index] = class as u8;
        }
        index += 1;
    }
    assert!(next <= u64::BITS as u8, "more operations than bits in a word");
    bits
};
