//! Detects polling: a program asks for the same few names again and again, with pauses or without.
//!
//! The awaited change may happen on another node, so that the recording does not show it. A search asks for many names and
//! does not pause; a program that starts again asks for many names too.

use std::collections::{HashMap, HashSet};

use quell_trace::{
    Call, Class, Context, Errno, Event, Nanos, Outcome, PathId, PathTable, ProcessId, ThreadId,
};

/// The object of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Polled {
    /// A name that should appear, vanish or change.
    Name(PathId),
    /// A directory whose names should change.
    Names(PathId),
}

/// Watches the metadata operations of one recording.
#[derive(Debug)]
pub(crate) struct PollingDetector<'a> {
    paths: &'a PathTable,
    context: &'a Context,
    threads: HashMap<ThreadId, Round<'a>>,
    tries: HashMap<(ProcessId, PathId), Tries>,
    /// Programs that were executed: shells look for them before each start.
    programs: HashSet<PathId>,
    /// The last arguments of each process.
    arguments: HashMap<ProcessId, &'a [String]>,
}

/// The few names that a thread has been asking for, and nothing else.
#[derive(Debug, Default)]
struct Round<'a> {
    asked: Vec<Asked<'a>>,
    /// Sum of the thread's pauses while it asked for these.
    paused: Nanos,
    /// End of its last operation.
    ended: Nanos,
    /// Pauses so far.
    pauses: u32,
    /// Operations so far.
    operations: u64,
}

#[derive(Debug)]
struct Asked<'a> {
    path: PathId,
    /// The directory that it was asked for in; `None` of a directory that was listed.
    within: Option<&'a [u8]>,
    /// [`Round::paused`] when it was asked for first.
    paused_before: Nanos,
    /// Number of the pause before which it was asked for last.
    pause: u32,
    /// Number of tries, counting once between two pauses.
    rounds: u32,
    times: u32,
    /// [`Round::operations`] when it was asked for last.
    operation: u64,
}

/// Processes of one parent that asked for a name one after the other.
#[derive(Debug)]
struct Tries {
    last: ProcessId,
    since: Nanos,
    times: u32,
}

impl<'a> PollingDetector<'a> {
    pub(crate) fn new(paths: &'a PathTable, context: &'a Context) -> Self {
        let executions = &context.executions;
        let programs = executions.iter().filter_map(|execution| execution.program).collect();
        let arguments =
            executions.iter().map(|execution| (execution.process, &execution.arguments[..])).collect();
        Self { paths, context, threads: HashMap::new(), tries: HashMap::new(), programs, arguments }
    }

    /// Takes the next metadata operation, on `target`. Returns the name that the program is found to poll.
    pub(crate) fn event(&mut self, event: &Event, target: PathId) -> Option<Polled> {
        let awaited = match event.outcome {
            Outcome::Failure(Errno::ENOENT | Errno::EEXIST) => Polled::Name(target),
            Outcome::Failure(_) | Outcome::Unfinished => return None,
            Outcome::Success(_) if event.call.class() == Class::List => Polled::Names(target),
            Outcome::Success(_) if self.can_be_polled(event, target) => Polled::Name(target),
            Outcome::Success(_) => return None,
        };
        let within = match awaited {
            Polled::Name(name) => Some(directory(self.paths.bytes(name))),
            Polled::Names(_) => None,
        };
        let round = self.threads.entry(event.thread).or_default();
        let waits = round.ask(event, target, within) || self.tried_by_many(event, target, awaited);
        waits.then_some(awaited)
    }

    /// Tells whether success may mean that the program looks for a change of a file.
    fn can_be_polled(&self, event: &Event, target: PathId) -> bool {
        let looks = match event.call.class() {
            Class::Open => event.flags & quell_trace::flags::O_DIRECTORY == 0,
            Class::Stat => !matches!(event.call, Call::Fstat),
            _ => false,
        };
        looks && !self.programs.contains(&target)
    }

    /// Tells whether processes of one parent, each after the other, were started to look for `target`.
    fn tried_by_many(&mut self, event: &Event, target: PathId, awaited: Polled) -> bool {
        let by_name = event.outcome.errno().is_some() || matches!(awaited, Polled::Names(_));
        let processes = &self.context.processes;
        let Some(process) = processes.get(event.process.0 as usize).filter(|_| by_name) else { return false };
        let Some(parent) = process.parent.filter(|_| self.is_argument(event.process, target)) else {
            return false;
        };
        let new = Tries { last: event.process, since: process.start, times: 1 };
        let tries = self.tries.entry((parent, target)).or_insert(new);
        if tries.last == event.process {
            return false;
        }
        let before = processes.get(tries.last.0 as usize).and_then(|process| process.end);
        if before.is_some_and(|end| end <= process.start) {
            tries.times += 1;
        }
        tries.last = event.process;
        tries.times >= BUSY || (tries.times >= ROUNDS && process.start.since(tries.since) >= PAUSED)
    }

    /// Tells whether an argument of the process names `target`.
    fn is_argument(&self, process: ProcessId, target: PathId) -> bool {
        let path = self.paths.bytes(target);
        let named = |argument: &String| {
            let name = argument.trim_start_matches("./").trim_end_matches('/').as_bytes();
            let rest = path.strip_suffix(name).filter(|_| !name.is_empty());
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with(b"/"))
        };
        self.arguments.get(&process).is_some_and(|arguments| arguments.iter().skip(1).any(named))
    }
}

impl<'a> Round<'a> {
    /// Takes the thread's next operation; tells whether the thread polls `path`.
    fn ask(&mut self, event: &Event, path: PathId, within: Option<&'a [u8]>) -> bool {
        let gap = event.start.since(self.ended);
        self.ended = Nanos(event.start.0.saturating_add(event.duration.0));
        if gap >= PAUSE {
            self.pauses += 1;
            self.paused.0 += gap.0;
            let pauses = self.pauses;
            self.asked.retain(|asked| asked.pause + TURN >= pauses);
        }
        self.operations += 1;
        let operations = self.operations;
        self.asked.retain(|asked| asked.operation + LEFT >= operations);
        let known = self.asked.iter().position(|asked| asked.path == path);
        let at = known.unwrap_or_else(|| self.begin(path, within));
        let searches = within.is_some() && self.asks_outside(within);
        let asked = &mut self.asked[at];
        asked.times += 1;
        asked.operation = operations;
        if asked.rounds == 0 || asked.pause != self.pauses {
            asked.rounds += 1;
        }
        asked.pause = self.pauses;
        let paused = asked.rounds >= ROUNDS && self.paused.since(asked.paused_before) >= PAUSED;
        let busy = asked.times >= BUSY && event.outcome.errno().is_some();
        !searches && (paused || busy)
    }

    /// Tells whether names were asked for in other directories too: a search goes from one to the next.
    fn asks_outside(&self, directory: Option<&[u8]>) -> bool {
        self.asked.iter().any(|asked| asked.within.is_some() && asked.within != directory)
    }

    /// Notes a further name. Too many names are no polling: counting starts again.
    fn begin(&mut self, path: PathId, within: Option<&'a [u8]>) -> usize {
        if self.asked.len() == NAMES {
            self.asked.clear();
        }
        self.asked.push(Asked {
            path,
            within,
            paused_before: self.paused,
            pause: self.pauses,
            rounds: 0,
            times: 0,
            operation: self.operations,
        });
        self.asked.len() - 1
    }
}

/// The most names that a polling program cycles through: the awaited one, and those that would tell it to stop.
const NAMES: usize = 8;

/// Pauses after which a name that was not asked for again is no longer one of them: two names may take turns.
const TURN: u32 = 2;

/// Operations after which a name that was not asked for again is no longer one of them: the program asked for it before it
/// began to poll.
const LEFT: u64 = 4 * NAMES as u64;

/// A thread without a file-system call for this long pauses. Slow servers answer sooner.
const PAUSE: Nanos = Nanos(5_000_000);

/// A program polls when it asked this often, with pauses of this length in all. A retry after an error is rarer.
const ROUNDS: u32 = 3;
const PAUSED: Nanos = Nanos(1_000_000_000);

/// The same for an absent name and a program that never pauses: it asks so often for it and a few others in one directory, and for
/// nothing else. Larger, and a run waits for ever for a name that an image says is absent; smaller, and a directory stays
/// the original for a few retries.
const BUSY: u32 = 50;

/// The directory of a resolved path.
fn directory(path: &[u8]) -> &[u8] {
    path.iter().rposition(|&byte| byte == b'/').map_or(&[], |slash| &path[..slash.max(1)])
}
