//! The first pass over the logs: checks that strace wrote them in one run, and finds the creator of each thread.
//!
//! A child's lines may precede the end of the call that created it, so creators are found before anything is written.

use crate::assemble::{ALONE, Assembler, LineEvent};
use crate::call::{self, CreatedThread};
use crate::clock::{Clock, Relative};
use crate::lines::RawLine;
use crate::others::{self, OtherTool};
use crate::prefix::{self, PrintedTime};
use crate::remarks::{LackingThreads, LogPosition, Remarks};
use crate::source::{ImportError, LogSource, lines};
use crate::{scan, symbols, value};
use quell_base::escape;
use quell_trace::{Call, Class, Exit, Fd, Nanos};
use std::collections::{HashMap, VecDeque};

/// The result of the first pass.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// By the child's number, in order; numbers may be reused.
    pub(crate) births: HashMap<i32, VecDeque<Birth>>,
    /// Shape: one entry a log.
    pub(crate) logs: Vec<LogFacts>,
    /// The start of the log, where the log has absolute times. Unit: since 1970.
    pub(crate) began: Option<Nanos>,
    pub(crate) has_durations: bool,
    saw_exit_call: bool,
    saw_end: bool,
    saw_other: bool,
}

/// The creator of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birth {
    /// The position at which its call ended.
    pub(crate) place: LogPosition,
    /// Its number; [`ALONE`] if strace followed a single thread then.
    pub(crate) maker: i32,
    pub(crate) made: CreatedThread,
}

/// The result of the first pass for one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogFacts {
    /// The only thread in this log.
    pub(crate) thread: Option<i32>,
    /// The time of its first line, as printed; 0 where there is none.
    pub(crate) first: Nanos,
    /// True when its first call is an `execve` that succeeded.
    pub(crate) begins_run: bool,
    /// The first program of its first thread, with its arguments; empty where the log does not begin with one.
    pub(crate) command: Vec<String>,
    /// The initial working directory of its first thread, where the log contains it.
    pub(crate) directory: Option<Vec<u8>>,
    /// True when its lines name their threads.
    pub(crate) names_threads: bool,
}

/// A log contains a line of strace within this many lines; tables and headings are shorter. Unit: lines.
const PATIENCE: u64 = 1000;
/// The maximum length of a quoted line. Unit: bytes.
const QUOTED: usize = 40;

impl Survey {
    /// Reads every log once.
    ///
    /// # Errors
    /// All variants of [`ImportError`] that do not concern writing.
    pub(crate) fn of<S: LogSource>(sources: &[S]) -> Result<Self, ImportError> {
        let mut survey = Self::default();
        for (index, source) in sources.iter().enumerate() {
            survey.read(index, source, sources.len() > 1)?;
        }
        survey.check_that_it_is_one_run(sources)?;
        Ok(survey)
    }

    /// True when calls that every process makes are missing.
    pub(crate) fn leaves_out(&self) -> bool {
        (self.saw_end && !self.saw_exit_call) || !self.saw_other
    }

    /// Threads that were created and are in no log. A log whose lines name threads has all of them.
    pub(crate) fn lacking(&self) -> Option<LackingThreads> {
        if self.logs.iter().any(|log| log.names_threads) {
            return None;
        }
        let is_here = |child: &i32| self.logs.iter().any(|log| log.thread == Some(*child));
        let absent = self.births.iter().filter(|(child, _)| !is_here(child));
        let count = absent.map(|(_, births)| births.len() as u64).sum();
        let is_separate = self.logs.iter().any(|log| log.thread.is_some());
        (count > 0).then_some(LackingThreads { count, is_separate })
    }

    /// The log of the command among several: the first whose thread has no creator.
    pub(crate) fn first_log(&self) -> usize {
        let is_root = |facts: &LogFacts| facts.thread.is_none_or(|thread| !self.births.contains_key(&thread));
        let roots = self.logs.iter().enumerate().filter(|(_, facts)| is_root(facts));
        let key = |facts: &LogFacts| (!facts.begins_run, facts.first, facts.thread);
        roots.min_by_key(|(_, facts)| key(facts)).map_or(0, |(index, _)| index)
    }

    fn read<S: LogSource>(
        &mut self,
        log: usize,
        source: &S,
        is_one_of_several: bool,
    ) -> Result<(), ImportError> {
        let mut reading = Reading::new(log, source.thread());
        let mut input = lines(source)?;
        let failed = |error| ImportError::of_line(source.path(), error);
        while let Some(raw) = input.next().map_err(failed)? {
            if reading.take(&raw, self) == Goes::Over {
                break;
            }
            reading.check(source)?;
        }
        reading.is_over(source)?;
        let is_single = reading.thread.is_some() && reading.threads == Threads::Unnamed;
        if is_one_of_several && !is_single {
            return Err(ImportError::NotOfSeveral { path: source.path().to_owned() });
        }
        let names_threads = reading.threads == Threads::Named;
        self.logs.push(LogFacts {
            thread: reading.thread.filter(|_| is_single),
            names_threads,
            ..reading.facts
        });
        self.began = match (self.began, reading.assembler.clock.began()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Ok(())
    }

    fn check_that_it_is_one_run<S: LogSource>(&self, sources: &[S]) -> Result<(), ImportError> {
        let stem = |source: &S| {
            let name = source.name();
            name.iter().rposition(|&byte| byte == b'.').map_or(&[][..], |at| &name[..at]).to_vec()
        };
        let two = |first: usize, second: usize| {
            let path = |index: usize| sources[index].path().to_owned();
            Err(ImportError::TwoRuns { first: path(first), second: path(second) })
        };
        let root = self.first_log();
        for (index, facts) in self.logs.iter().enumerate().filter(|(index, _)| *index != root) {
            if stem(&sources[root]) != stem(&sources[index]) {
                return two(root.min(index), root.max(index));
            }
            let has_no_creator = facts.thread.is_some_and(|thread| !self.births.contains_key(&thread));
            // Logs without calls that create processes give no evidence.
            if has_no_creator && facts.begins_run && !self.births.is_empty() {
                return two(root, index);
            }
        }
        Ok(())
    }
}

/// Tells the caller to continue or to stop reading a log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    Over,
}

/// The presence of thread numbers in the lines of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    Unnamed,
    Named,
}

/// One log while it is read for the first time.
#[derive(Debug)]
struct Reading {
    log: usize,
    thread: Option<i32>,
    threads: Threads,
    facts: LogFacts,
    assembler: Assembler,
    remarks: Remarks,
    /// Lines of strace.
    known: u64,
    /// The number of other lines that are not empty.
    unknown: u64,
    /// The first of those lines.
    quote: Option<(u64, String)>,
    is_summary: bool,
    /// The tool of which the log has lines that strace does not print.
    tool: Option<OtherTool>,
    /// Calls of library functions, as ltrace prints them.
    library: u64,
    /// Calls that quell records.
    system: u64,
    /// The first thread. Its working directory is the command's until the thread changes it.
    root: Option<i32>,
    root_moved: bool,
    calls: u64,
}

impl Reading {
    fn new(log: usize, thread: Option<i32>) -> Self {
        Self {
            log,
            thread,
            threads: Threads::Unnamed,
            facts: LogFacts::default(),
            assembler: Assembler::new(Clock::new(Relative::Counts)),
            remarks: Remarks::default(),
            known: 0,
            unknown: 0,
            quote: None,
            is_summary: false,
            tool: None,
            library: 0,
            system: 0,
            root: None,
            root_moved: false,
            calls: 0,
        }
    }

    fn take(&mut self, raw: &RawLine<'_>, survey: &mut Survey) -> Goes {
        let stamp = prefix::split(raw.text).0.stamp;
        let item = self.assembler.take(None, self.log, raw, &mut self.remarks);
        match item.what {
            LineEvent::Foreign => {
                self.unknown += 1;
                self.tool = self.tool.or_else(|| others::of_foreign(raw.text));
                self.quote.get_or_insert_with(|| (raw.number, quote(raw.text)));
                return Goes::On;
            }
            LineEvent::Summary => {
                self.is_summary = true;
                return Goes::Over;
            }
            LineEvent::Part if raw.text.trim_ascii().is_empty() => return Goes::On,
            LineEvent::Part => {
                self.quote.get_or_insert_with(|| (raw.number, quote(raw.text)));
            }
            LineEvent::Talk | LineEvent::Begun | LineEvent::Superseded(_) => {
                self.known += 1;
                self.talk(raw.text);
            }
            LineEvent::Exited(exit) => {
                self.known += 1;
                survey.saw_end |= matches!(exit, Exit::Status(_));
            }
            LineEvent::Call(ref text, _) => {
                let thread = item.thread;
                self.call(text, item.place, thread, survey);
            }
        }
        if let Some(PrintedTime::Epoch(at) | PrintedTime::Day(at)) = stamp
            && self.facts.first == Nanos(0)
        {
            self.facts.first = at;
        }
        if item.thread.is_some() {
            self.threads = Threads::Named;
        }
        Goes::On
    }

    fn talk(&mut self, line: &[u8]) {
        let text = prefix::split(line).1;
        let is_ltrace = others::is_end_of_ltrace(text) || scan::name(text).is_some_and(others::is_of_ltrace);
        self.tool = self.tool.or(is_ltrace.then_some(OtherTool::Ltrace));
    }

    fn call(&mut self, text: &[u8], place: LogPosition, thread: Option<i32>, survey: &mut Survey) {
        let Some(scanned) = scan::scan(text).filter(|scanned| scanned.result.is_some()) else { return };
        let thread = thread.or(self.thread).unwrap_or(ALONE);
        self.known += 1;
        self.calls += 1;
        survey.has_durations |=
            scanned.result.is_some_and(|result| result.ends_with(b">") && result.contains(&b' '))
                && scanned.result.and_then(value::returned).is_some_and(|returned| returned.took.is_some());
        match symbols::call(scanned.name) {
            Some(call) => {
                self.system += 1;
                self.recorded(call, &scanned, thread);
            }
            None if others::is_of_ltrace(scanned.name) => self.tool = Some(OtherTool::Ltrace),
            None => {
                self.library += u64::from(others::is_library_function(scanned.name));
                survey.saw_exit_call |= matches!(scanned.name, b"exit" | b"exit_group");
                survey.saw_other |= !matches!(scanned.name, b"exit" | b"exit_group");
                if let Some(made) = call::made(&scanned) {
                    let birth = Birth { place, maker: thread, made };
                    survey.births.entry(made.child).or_default().push_back(birth);
                }
            }
        }
    }

    /// Looks for the command and its working directory.
    fn recorded(&mut self, call: Call, scanned: &scan::Scanned<'_>, thread: i32) {
        let call::Reading::Recorded(decoded) = call::read(scanned, call::Return::Expected) else { return };
        let is_start = call.class() == Class::Exec && decoded.outcome.is_success();
        if self.calls == 1 {
            self.facts.begins_run = is_start;
        }
        let root = *self.root.get_or_insert(thread);
        if root != thread || self.root_moved {
            return;
        }
        if is_start && self.facts.command.is_empty() {
            let program = call::program(call, scanned);
            self.facts.command = program.arguments.iter().map(quell_base::text::kept).collect();
        }
        let seen = decoded.seen.iter().find(|(place, _)| *place == Fd::WORKING_DIRECTORY);
        if let Some((_, directory)) = seen.filter(|(_, directory)| !directory.is_empty()) {
            self.facts.directory.get_or_insert_with(|| directory.clone());
        }
        self.root_moved = call.class() == Class::Directory && decoded.outcome.is_success();
    }

    /// Stops early at a file that is no log.
    fn check<S: LogSource>(&self, source: &S) -> Result<(), ImportError> {
        match self.known == 0 && self.unknown >= PATIENCE {
            true => self.is_over(source),
            false => Ok(()),
        }
    }

    fn is_over<S: LogSource>(&self, source: &S) -> Result<(), ImportError> {
        let path = source.path().to_owned();
        let is_ltrace = self.tool == Some(OtherTool::Ltrace) || self.library > self.system;
        match &self.quote {
            _ if is_ltrace => Err(ImportError::OfAnotherTool { path, tool: OtherTool::Ltrace }),
            _ if self.known > 0 => Ok(()),
            _ if self.is_summary => Err(ImportError::Summary { path }),
            Some(_) if self.tool.is_some() => Err(ImportError::OfAnotherTool { path, tool: OtherTool::Perf }),
            Some((line, text)) => Err(ImportError::NotALog { path, line: *line, text: text.clone() }),
            None => Err(ImportError::Empty { path }),
        }
    }
}

fn quote(text: &[u8]) -> String {
    let text = text.trim_ascii();
    match text.get(..QUOTED) {
        Some(begin) if text.len() > QUOTED => format!("{}...", escape(begin)),
        _ => escape(text),
    }
}
