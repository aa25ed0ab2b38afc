//! The second pass: passes processes, threads and calls to a sink, in the order in which calls ended.

use crate::assemble::{ALONE, AssembledLine, Assembler, Begun, LineEvent};
use crate::call::{self, Decoded, Reading, Return};
use crate::clock::{Clock, Relative, Times};
use crate::merge::Merge;
use crate::remarks::{ImportFacts, Lack, LogPosition, Misreading, Remarks};
use crate::scan;
use crate::sink::LogSink;
use crate::source::{ImportError, LogSource};
use crate::survey::{Birth, Survey};
use crate::value::StringArgument;
use quell_base::{escape, shown};
use quell_trace::context::is_search_variable;
use quell_trace::flags::{AT_EMPTY_PATH, CLONE_FILES, CLONE_FS, CLONE_THREAD};
use quell_trace::resolve::makes_symlink;
use quell_trace::{
    Call, Class, Errno, Event, Execution, Exit, Fd, Nanos, PathId, Pid, Process, ProcessId, Thread, ThreadId,
};
use std::collections::{HashMap, VecDeque};

/// The result of the second pass.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) processes: u64,
    pub(crate) exit: Option<Exit>,
    /// The time from the first line to the last; `None` where the log has no times.
    pub(crate) took: Option<Nanos>,
    pub(crate) lost: u64,
    /// Shape: one sentence each.
    pub(crate) notes: Vec<String>,
}

/// A living thread.
#[derive(Clone, Copy, Debug)]
struct Known {
    process: ProcessId,
    thread: ThreadId,
    /// True for the first thread of a process, which has the process's number.
    is_first: bool,
    /// The time at which its last call ended.
    idle_since: Nanos,
    /// The status that the thread passed to `exit_group`.
    status: Option<i32>,
    /// The knowledge of its working directory.
    directory: Directory,
}

/// The state of a working directory: a known one resolves relative paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directory {
    Known,
    Unknown,
}

/// The initial state of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begin {
    /// True when the starting directory is known.
    pub(crate) has_directory: bool,
    pub(crate) has_mounts: bool,
}

/// Reads the logs into the sink.
pub(crate) fn replay<S: LogSource>(
    sources: &[S],
    survey: Survey,
    begin: Begin,
    sink: &mut dyn LogSink,
) -> Result<Replayed, ImportError> {
    let relative = if sources.len() > 1 { Relative::Ignored } else { Relative::Counts };
    let mut merge = Merge::new(sources, &survey)?;
    let mut replay = Replay {
        sink,
        assembler: Assembler::new(Clock::new(relative)),
        remarks: Remarks::default(),
        births: survey.births.clone(),
        threads: HashMap::new(),
        begin,
        born: 0,
        processes: 0,
        exit: None,
    };
    while let Some(line) = merge.next()? {
        let of = survey.logs[line.log].thread;
        let item = replay.assembler.take(of, line.log, &line.raw(), &mut replay.remarks);
        if matches!(item.what, LineEvent::Summary) {
            break;
        }
        replay.take(item).map_err(|stop| stop.explain(sources))?;
    }
    replay.finish(sources, &survey)
}

/// The reason for which reading stops.
enum Stop {
    Failed(ImportError),
    SecondRun(LogPosition),
}

impl Stop {
    fn explain<S: LogSource>(self, sources: &[S]) -> ImportError {
        match self {
            Self::Failed(error) => error,
            Self::SecondRun(place) => {
                ImportError::SecondRun { path: sources[place.log].path().to_owned(), line: place.line }
            }
        }
    }
}

impl<E: Into<ImportError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

struct Replay<'a> {
    sink: &'a mut dyn LogSink,
    assembler: Assembler,
    remarks: Remarks,
    births: HashMap<i32, VecDeque<Birth>>,
    /// By the kernel's thread number.
    threads: HashMap<i32, Known>,
    begin: Begin,
    /// The number of threads created so far.
    born: u32,
    processes: u64,
    /// The end of the command.
    exit: Option<Exit>,
}

impl Replay<'_> {
    fn take(&mut self, item: AssembledLine<'_>) -> Result<(), Stop> {
        if let LineEvent::Foreign = item.what {
            self.remarks.lacks(Lack::Foreign, Some(item.place));
        }
        if matches!(item.what, LineEvent::Foreign | LineEvent::Part | LineEvent::Summary) {
            return Ok(());
        }
        if item.thread.is_none() && matches!(item.what, LineEvent::Talk) && item.unreturned.is_none() {
            return Ok(());
        }
        let begins = matches!(&item.what, LineEvent::Call(text, _) if is_exec(text));
        let number = self.number(item.thread);
        self.meet(number, item.place, item.at, begins)?;
        if let Some(begun) = item.unreturned {
            self.never_returned(number, &begun, item.at)?;
        }
        match item.what {
            LineEvent::Call(text, began) => self.called(number, &text, item.place, began, item.at)?,
            LineEvent::Exited(exit) => self.ended(number, item.at, exit)?,
            LineEvent::Superseded(by) => self.superseded(number, by),
            LineEvent::Talk
            | LineEvent::Begun
            | LineEvent::Part
            | LineEvent::Foreign
            | LineEvent::Summary => {}
        }
        Ok(())
    }

    /// The number of a line's thread. A line without a number belongs to the only living thread, or to the command.
    fn number(&self, named: Option<i32>) -> i32 {
        match named {
            Some(number) => number,
            None if self.threads.len() == 1 => self.threads.keys().next().copied().unwrap_or(ALONE),
            None => {
                let command = self.threads.iter().find(|(_, known)| known.thread == ThreadId(0));
                command.map_or(ALONE, |(number, _)| *number)
            }
        }
    }

    /// Registers a thread before its first line is processed.
    fn meet(&mut self, number: i32, place: LogPosition, at: Nanos, begins: bool) -> Result<(), Stop> {
        if self.threads.contains_key(&number) {
            return Ok(());
        }
        if let Some(birth) = self.births.get_mut(&number).and_then(VecDeque::pop_front) {
            return self.spawn(number, &birth, at);
        }
        if self.born == 0 {
            return self.first(number, at);
        }
        // The log shows the command's number only once there is a second thread.
        if let Some(alone) = self.threads.remove(&ALONE) {
            self.threads.insert(number, alone);
            return Ok(());
        }
        if begins && self.exit.is_some() && self.threads.is_empty() {
            return Err(Stop::SecondRun(place));
        }
        self.remarks.lacks(Lack::Maker, Some(place));
        self.orphan(number, at)
    }

    /// Registers the command itself.
    fn first(&mut self, number: i32, at: Nanos) -> Result<(), Stop> {
        let start = self.assembler.clock.tick(at);
        let process = self.process(number, None, start)?;
        let directory = if self.begin.has_directory { Directory::Known } else { Directory::Unknown };
        self.thread(number, process, None, start, 0, directory, true)
    }

    /// Registers a process whose creator is unknown, as a descendant of the command with unknown state. A thread
    /// recorded as its own creator marks this.
    fn orphan(&mut self, number: i32, at: Nanos) -> Result<(), Stop> {
        let start = self.assembler.clock.tick(at);
        let process = self.process(number, Some(ProcessId(0)), start)?;
        self.thread(number, process, Some(ThreadId(self.born)), start, 0, Directory::Unknown, true)
    }

    fn spawn(&mut self, number: i32, birth: &Birth, at: Nanos) -> Result<(), Stop> {
        let maker = if birth.maker == ALONE { self.number(None) } else { birth.maker };
        // The log shows the command's number only once there is a second thread, whose lines may come first.
        if !self.threads.contains_key(&maker)
            && let Some(alone) = self.threads.remove(&ALONE)
        {
            self.threads.insert(maker, alone);
        }
        let Some(&maker) = self.threads.get(&maker) else {
            self.remarks.lacks(Lack::Maker, Some(birth.place));
            return if self.born == 0 { self.first(number, at) } else { self.orphan(number, at) };
        };
        let start = self.assembler.clock.tick(at);
        let is_thread = birth.made.flags & CLONE_THREAD != 0;
        let process = match is_thread {
            true => maker.process,
            false => self.process(number, Some(maker.process), start)?,
        };
        let flags = birth.made.flags;
        self.thread(number, process, Some(maker.thread), start, flags, maker.directory, !is_thread)
    }

    fn process(&mut self, number: i32, parent: Option<ProcessId>, start: Nanos) -> Result<ProcessId, Stop> {
        self.processes += 1;
        Ok(self.sink.process(Process { pid: Pid(number), parent, start, end: None, exit: None })?)
    }

    #[allow(clippy::too_many_arguments, reason = "each is one fact of a thread")]
    fn thread(
        &mut self,
        number: i32,
        process: ProcessId,
        parent: Option<ThreadId>,
        start: Nanos,
        flags: u64,
        directory: Directory,
        is_first: bool,
    ) -> Result<(), Stop> {
        let (shares_files, shares_directory) = (flags & CLONE_FILES != 0, flags & CLONE_FS != 0);
        let thread = Thread { tid: Pid(number), process, parent, start, shares_files, shares_directory };
        let thread = self.sink.thread(thread)?;
        self.born += 1;
        let known = Known { process, thread, is_first, idle_since: start, status: None, directory };
        self.threads.insert(number, known);
        Ok(())
    }

    fn called(
        &mut self,
        number: i32,
        text: &[u8],
        place: LogPosition,
        began: Option<Nanos>,
        at: Nanos,
    ) -> Result<(), Stop> {
        let Some(scanned) = scan::scan(text) else { return Ok(()) };
        match call::read(&scanned, Return::Expected) {
            Reading::Recorded(decoded) => {
                let end = self.end(number, &decoded, began, at);
                self.event(number, &decoded, place, end)?;
                if decoded.call.class() == Class::Exec && decoded.outcome.is_success() {
                    self.executed(number, &decoded, &scanned, place, end.1)?;
                }
                Ok(())
            }
            Reading::Misread => {
                self.remarks.misread(Misreading::Nonsense, place);
                Ok(())
            }
            Reading::Other => self.other(number, &scanned, place, at),
        }
    }

    /// Handles calls that quell does not record but that create processes or end them.
    fn other(
        &mut self,
        number: i32,
        scanned: &scan::Scanned<'_>,
        place: LogPosition,
        at: Nanos,
    ) -> Result<(), Stop> {
        if scanned.name == b"exit_group" {
            let status = crate::number::number(scanned.argument(0)).map(|status| status as i32 & 0xff);
            if let Some(known) = self.threads.get_mut(&number) {
                known.status = status;
            }
        }
        let Some(made) = call::made(scanned) else { return Ok(()) };
        let births = self.births.entry(made.child).or_default();
        // The child's first line may precede the end of the call that created it.
        match births.pop_front_if(|birth| birth.place == place) {
            Some(birth) => self.spawn(made.child, &birth, at),
            None => Ok(()),
        }
    }

    /// The begin and end of a call. A call without a duration in the log takes no time.
    fn end(&mut self, number: i32, decoded: &Decoded, began: Option<Nanos>, at: Nanos) -> (Nanos, Nanos) {
        let idle_since = self.threads.get(&number).map_or(Nanos(0), |known| known.idle_since);
        let has_times = self.assembler.clock.times() != Times::None;
        let end = match (decoded.took, began) {
            (Some(took), began) => Nanos(began.unwrap_or(at).0.saturating_add(took.0)),
            (None, _) => at,
        };
        let before = self.assembler.clock.now();
        let end = self.assembler.clock.tick(end);
        let start = match (decoded.took, began) {
            // The order of lines tells whether a number was taken again while its close went on. Rounded times do not.
            (_, Some(began)) if decoded.call == Call::Close => began,
            (Some(took), None) if decoded.call == Call::Close => {
                Nanos(end.0.saturating_sub(took.0)).max(before)
            }
            (Some(took), _) => Nanos(end.0.saturating_sub(took.0)),
            (None, Some(began)) if has_times => began,
            (None, _) => end,
        };
        let start = start.max(idle_since).min(end);
        if let Some(known) = self.threads.get_mut(&number) {
            known.idle_since = end;
        }
        (start, end)
    }

    fn never_returned(&mut self, number: i32, begun: &Begun, at: Nanos) -> Result<(), Stop> {
        let Some(scanned) = scan::scan(&begun.text) else { return Ok(()) };
        if let Reading::Recorded(decoded) = call::read(&scanned, Return::Never) {
            let times = self.end(number, &decoded, Some(begun.at), at);
            self.event(number, &decoded, begun.place, times)?;
        }
        Ok(())
    }

    fn event(
        &mut self,
        number: i32,
        decoded: &Decoded,
        place: LogPosition,
        times: (Nanos, Nanos),
    ) -> Result<(), Stop> {
        let Some(&Known { process, thread, .. }) = self.threads.get(&number) else { return Ok(()) };
        for (at, file) in &decoded.seen {
            let path = if file.is_empty() { None } else { Some(self.sink.path(file)?) };
            self.sink.seen(thread, *at, path)?;
            if *at == Fd::WORKING_DIRECTORY && path.is_some() {
                self.find_directory(number);
            }
        }
        let path = self.path(decoded, &decoded.path, place)?;
        let path2 = self.path(decoded, &decoded.path2, place)?;
        self.look_at_directory(number, decoded, place);
        let (start, end) = times;
        let Decoded { outcome, fd, fd2, flags, size, offset, .. } = *decoded;
        let duration = end.since(start);
        let event = Event::new(decoded.call);
        let event = Event {
            start,
            duration,
            process,
            thread,
            outcome,
            fd,
            fd2,
            path,
            path2,
            flags,
            size,
            offset,
            ..event
        };
        Ok(self.sink.event(&event)?)
    }

    fn path(
        &mut self,
        decoded: &Decoded,
        text: &StringArgument,
        place: LogPosition,
    ) -> Result<Option<PathId>, Stop> {
        match text {
            StringArgument::Whole(bytes) => Ok(Some(self.sink.path(bytes)?)),
            StringArgument::Cut(_) => {
                self.remarks.lacks(Lack::CutPath, Some(place));
                Ok(None)
            }
            // Memory that the kernel cannot read either holds no path.
            StringArgument::Address if decoded.outcome.errno() != Some(EFAULT) => {
                self.remarks.lacks(Lack::AddressOfPath, Some(place));
                Ok(None)
            }
            StringArgument::Address | StringArgument::None => Ok(None),
        }
    }

    /// Counts relative paths that cannot be resolved, and notes when the directory becomes known.
    fn look_at_directory(&mut self, number: i32, decoded: &Decoded, place: LogPosition) {
        let is_relative = |text: &StringArgument| match text {
            StringArgument::Whole(path) => path.first().is_some_and(|first| *first != b'/'),
            _ => false,
        };
        let from_here = |fd: Fd| fd == Fd::WORKING_DIRECTORY || fd == Fd::NONE;
        let is_unknown = self.threads.get(&number).is_some_and(|known| known.directory == Directory::Unknown);
        let is_content = makes_symlink(decoded.call);
        let first = from_here(decoded.fd) && is_relative(&decoded.path) && !is_content;
        let second = from_here(decoded.fd2) && is_relative(&decoded.path2);
        if is_unknown && (first || second) && decoded.flags & AT_EMPTY_PATH == 0 {
            self.remarks.lacks(Lack::Directory, Some(place));
        }
        let goes_somewhere = decoded.call == Call::Chdir && decoded.outcome.is_success();
        if goes_somewhere
            && matches!(&decoded.path, StringArgument::Whole(path) if path.first() == Some(&b'/'))
        {
            self.find_directory(number);
        }
    }

    fn find_directory(&mut self, number: i32) {
        if let Some(known) = self.threads.get_mut(&number) {
            known.directory = Directory::Known;
        }
    }

    fn executed(
        &mut self,
        number: i32,
        decoded: &Decoded,
        scanned: &scan::Scanned<'_>,
        place: LogPosition,
        at: Nanos,
    ) -> Result<(), Stop> {
        let Some(&Known { process, thread, .. }) = self.threads.get(&number) else { return Ok(()) };
        let program = call::program(decoded.call, scanned);
        for _ in 0..program.cut {
            self.remarks.lacks(Lack::CutArguments, Some(place));
        }
        let name = match &decoded.path {
            StringArgument::Whole(path) if path.first() == Some(&b'/') => Some(self.sink.path(path)?),
            _ => None,
        };
        let arguments = program.arguments.iter().map(escape).collect();
        let mut variables: Vec<_> =
            program.variables.iter().filter_map(|text| search_variable(text)).collect();
        variables.sort();
        let execution = Execution { process, thread, at, program: name, arguments };
        Ok(self.sink.execution(execution, variables)?)
    }

    fn superseded(&mut self, number: i32, by: i32) {
        if let Some(known) = self.threads.remove(&by) {
            let status = None;
            self.threads.insert(number, Known { is_first: true, status, ..known });
        }
    }

    fn ended(&mut self, number: i32, at: Nanos, exit: Exit) -> Result<(), Stop> {
        let Some(known) = self.threads.remove(&number) else { return Ok(()) };
        if known.is_first {
            self.process_ended(known.process, at, Some(exit))?;
        }
        Ok(())
    }

    fn process_ended(&mut self, process: ProcessId, at: Nanos, exit: Option<Exit>) -> Result<(), Stop> {
        if process == ProcessId(0) {
            self.exit = exit;
        }
        let at = self.assembler.clock.tick(at);
        Ok(self.sink.ended(process, at, exit)?)
    }

    /// Handles calls and processes that are unfinished at the end of the log.
    fn finish<S: LogSource>(mut self, sources: &[S], survey: &Survey) -> Result<Replayed, ImportError> {
        let left = self.assembler.finish(&mut self.remarks);
        let now = self.assembler.clock.now();
        let fail = |stop: Stop| stop.explain(sources);
        for (number, begun) in left {
            let number = if number == ALONE { self.number(None) } else { number };
            self.never_returned(number, &begun, now).map_err(fail)?;
        }
        self.end_the_rest(now).map_err(fail)?;
        let times = self.assembler.clock.times();
        let names: Vec<String> = sources.iter().map(|source| name(source)).collect();
        let facts = ImportFacts {
            names: &names,
            times,
            has_durations: survey.has_durations,
            leaves_out: survey.leaves_out(),
            has_mounts: self.begin.has_mounts,
            lacking: survey.lacking(),
        };
        let took = self.assembler.clock.took();
        let (lost, notes) = (self.remarks.lost(), self.remarks.sentences(&facts));
        Ok(Replayed { processes: self.processes, exit: self.exit, took, lost, notes })
    }

    /// Without `+++ exited with 0 +++`, as with `strace -qqq`, the argument of `exit_group` is the status.
    fn end_the_rest(&mut self, now: Nanos) -> Result<(), Stop> {
        let mut statuses: HashMap<ProcessId, Option<i32>> = HashMap::new();
        for known in self.threads.values() {
            let status = statuses.entry(known.process).or_default();
            *status = (*status).or(known.status);
        }
        let mut processes: Vec<_> = statuses.into_iter().collect();
        processes.sort_unstable();
        for (process, status) in processes {
            match status {
                Some(status) => self.process_ended(process, now, Some(Exit::Status(status)))?,
                None => self.remarks.lacks(Lack::End, None),
            }
        }
        Ok(())
    }
}

/// A path in unreadable memory. Source: `errno(3)`.
const EFAULT: Errno = Errno(14);

fn is_exec(text: &[u8]) -> bool {
    matches!(scan::name(text), Some(b"execve" | b"execveat"))
}

fn name<S: LogSource>(source: &S) -> String {
    shown(source.path().file_name().unwrap_or_default())
}

/// A variable that controls searches; others are dropped.
fn search_variable(text: &[u8]) -> Option<(String, String)> {
    let (name, value) = text.split_at(text.iter().position(|&byte| byte == b'=')?);
    is_search_variable(name, &value[1..]).then(|| (escape(name), escape(&value[1..])))
}
