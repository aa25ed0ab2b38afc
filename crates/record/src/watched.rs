//! Counts the metadata operations of watched processes, by process and by directory.
//!
//! The directory is the one in which a name was looked for, or that was listed. It is taken from the call and from `/proc`, as the
//! process sees it: links are not followed. Memory is bounded: beyond a number of names the least busy ones share one entry.

use crate::engine::{BirthKind, Observation, ObservedCall, Observer};
use crate::error::GaveWay;
use crate::facts;
use crate::pids::PidMap;
use quell_base::{escape, lock};
use quell_trace::{Call, Class, Fd, Outcome, Pid};
use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::sync::Mutex;

/// Metadata operations by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    by_class: [u64; Class::Watch as usize + 1],
    /// Those that failed because the name is absent.
    pub missed: u64,
}

impl OperationCounts {
    /// Each class that has operations, with their number. Shape: sorted by class.
    pub fn by_class(&self) -> impl Iterator<Item = (Class, u64)> {
        let classes = Call::ALL.iter().map(|call| call.class()).collect::<BTreeSet<Class>>().into_iter();
        classes.map(|class| (class, self.by_class[class as usize])).filter(|&(_, count)| count > 0)
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.by_class.iter().sum()
    }

    fn count(&mut self, class: Class, outcome: Outcome) {
        self.by_class[class as usize] += 1;
        self.missed += u64::from(outcome.errno().is_some_and(quell_trace::Errno::is_absence));
    }

    fn add(&mut self, other: &Self) {
        self.missed += other.missed;
        self.by_class.iter_mut().zip(other.by_class).for_each(|(sum, more)| *sum += more);
    }
}

/// A process and its operations in an interval.
#[derive(Clone, Debug)]
pub struct WatchedProcess {
    /// Its process ID.
    pub process: Pid,
    /// The first bytes of its command line, at most 512; escaped.
    pub command: String,
    /// Its operations.
    pub counts: OperationCounts,
}

/// A directory and the operations in it in an interval.
#[derive(Clone, Debug)]
pub struct WatchedDirectory {
    /// Its path; escaped.
    pub directory: String,
    /// The operations on names in it, and its listings.
    pub counts: OperationCounts,
}

/// The operations since the last look.
#[derive(Clone, Debug, Default)]
pub struct WatchedInterval {
    /// All of them.
    pub counts: OperationCounts,
    /// Those since the watch began.
    pub since_begin: OperationCounts,
    /// Shape: at most 1000, sorted by operations, most first, then by number.
    pub processes: Vec<WatchedProcess>,
    /// Operations of processes without an entry.
    pub other_processes: OperationCounts,
    /// Shape: at most 1000, sorted by operations, most first, then by name.
    pub directories: Vec<WatchedDirectory>,
    /// Operations in directories without an entry, and those without a directory, as on pipes.
    pub other_directories: OperationCounts,
    /// Processes that are watched.
    pub watched: usize,
    /// Calls that could not be observed, since the watch began.
    pub lost: u64,
    /// Processes that are not watched, since the watch began. Range: at most 4096.
    pub left_out: u64,
    /// The first of these with the reason. Shape: at most 8, one sentence each.
    pub notes: Vec<String>,
}

/// Directories by name in an interval, and processes that ended in it.
const MOST_NAMES: usize = 4096;
/// Rows of a table that is handed out.
const MOST_ROWS: usize = 1000;
/// Sentences on processes that are not watched.
const MOST_NOTES: usize = 8;
/// Bytes of a command.
const LONGEST_COMMAND: u64 = 512;

/// The counts since the last look.
#[derive(Debug, Default)]
pub(crate) struct WatchTables {
    interval: WatchedInterval,
    processes: HashMap<Pid, (WatchedProcess, ProcessLife)>,
    directories: HashMap<Vec<u8>, OperationCounts>,
    ended: usize,
    left_out: BTreeSet<Pid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProcessLife {
    Runs,
    Ended,
}

impl WatchTables {
    /// Ends an interval.
    pub(crate) fn take(&mut self) -> WatchedInterval {
        let kept = &self.interval;
        let next = WatchedInterval {
            since_begin: kept.since_begin,
            lost: kept.lost,
            left_out: kept.left_out,
            notes: kept.notes.clone(),
            ..WatchedInterval::default()
        };
        let mut interval = std::mem::replace(&mut self.interval, next);
        interval.processes = self.processes.values().map(|(process, _)| process.clone()).collect();
        interval.processes.sort_unstable_by_key(|row| (std::cmp::Reverse(row.counts.all()), row.process));
        let cut = interval.processes.split_off(interval.processes.len().min(MOST_ROWS));
        cut.iter().for_each(|row| interval.other_processes.add(&row.counts));
        self.processes.retain(|_, (_, life)| *life == ProcessLife::Runs);
        self.processes.values_mut().for_each(|(process, _)| process.counts = OperationCounts::default());
        self.ended = 0;
        interval.watched = self.processes.len();
        let directories = std::mem::take(&mut self.directories).into_iter();
        interval.directories = directories
            .map(|(directory, counts)| WatchedDirectory { directory: escape(directory), counts })
            .collect();
        let by_operations = |one: &WatchedDirectory, other: &WatchedDirectory| {
            other.counts.all().cmp(&one.counts.all()).then_with(|| one.directory.cmp(&other.directory))
        };
        interval.directories.sort_unstable_by(by_operations);
        let cut = interval.directories.split_off(interval.directories.len().min(MOST_ROWS));
        cut.iter().for_each(|row| interval.other_directories.add(&row.counts));
        interval
    }

    /// The processes that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = Pid> {
        self.processes.iter().filter(|(_, (_, life))| *life == ProcessLife::Runs).map(|(&process, _)| process)
    }

    /// Notes why a process is not watched, once.
    pub(crate) fn leave_out(&mut self, process: Pid, sentence: String) {
        if self.left_out.len() >= MOST_NAMES || !self.left_out.insert(process) {
            return;
        }
        self.interval.left_out += 1;
        if self.interval.notes.len() < MOST_NOTES {
            self.interval.notes.push(sentence);
        }
    }

    /// A process runs, or is watched again.
    fn run(&mut self, process: Pid, command: String) {
        let entry = WatchedProcess { process, command, counts: OperationCounts::default() };
        let entry = match self.processes.remove(&process) {
            Some((earlier, life)) => {
                self.ended -= usize::from(life == ProcessLife::Ended);
                WatchedProcess { counts: earlier.counts, ..entry }
            }
            None => entry,
        };
        self.processes.insert(process, (entry, ProcessLife::Runs));
    }

    /// No process is watched for a moment.
    pub(crate) fn pause(&mut self) {
        let running: Vec<Pid> = self.running().collect();
        running.into_iter().for_each(|process| self.end(process));
    }

    fn end(&mut self, process: Pid) {
        let Some((entry, life)) = self.processes.get_mut(&process) else { return };
        if entry.counts.all() == 0 || self.ended >= MOST_NAMES {
            self.interval.other_processes.add(&entry.counts);
            self.processes.remove(&process);
        } else if *life == ProcessLife::Runs {
            *life = ProcessLife::Ended;
            self.ended += 1;
        }
    }

    fn count(&mut self, process: Option<Pid>, directory: Option<Vec<u8>>, class: Class, outcome: Outcome) {
        self.interval.counts.count(class, outcome);
        self.interval.since_begin.count(class, outcome);
        let entry = process.and_then(|process| self.processes.get_mut(&process));
        let entry = entry.map_or(&mut self.interval.other_processes, |(process, _)| &mut process.counts);
        entry.count(class, outcome);
        match directory {
            Some(directory) => {
                self.directories.entry(directory).or_default().count(class, outcome);
                if self.directories.len() > MOST_NAMES {
                    self.make_room();
                }
            }
            None => self.interval.other_directories.count(class, outcome),
        }
    }

    /// Takes the less busy half of the directories together.
    fn make_room(&mut self) {
        let mut sizes: Vec<u64> = self.directories.values().map(OperationCounts::all).collect();
        let middle = sizes.len() / 2;
        let median = *sizes.select_nth_unstable(middle).1;
        let others = &mut self.interval.other_directories;
        self.directories.retain(|_, counts| {
            let is_busy = counts.all() > median;
            if !is_busy {
                others.add(counts);
            }
            is_busy
        });
    }
}

/// Counts what an engine observes, while another thread looks.
#[derive(Debug)]
pub(crate) struct WatchCounter<'a> {
    tables: &'a Mutex<WatchTables>,
    /// The process of each thread.
    threads: PidMap<Pid>,
    pub(crate) gave_way: Option<GaveWay>,
    /// The round ended while processes ran.
    pub(crate) was_left: bool,
}

impl<'a> WatchCounter<'a> {
    pub(crate) fn new(tables: &'a Mutex<WatchTables>) -> Self {
        Self { tables, threads: PidMap::default(), gave_way: None, was_left: false }
    }

    fn change(&self, change: impl FnOnce(&mut WatchTables)) {
        change(&mut lock(self.tables));
    }

    fn called(&self, observed: &ObservedCall<'_>) {
        let class = observed.call.class();
        if class.is_metadata() {
            let process = self.threads.get(&observed.thread).copied();
            let directory = directory(observed);
            self.change(|tables| tables.count(process, directory, class, observed.outcome));
        }
    }

    fn began(&mut self, thread: Pid, process: Pid) {
        self.threads.insert(thread, process);
        let command = command(thread);
        self.change(|tables| tables.run(process, command));
    }
}

impl Observer for WatchCounter<'_> {
    fn observe(&mut self, observation: Observation<'_>) {
        match observation {
            Observation::Called(observed) => self.called(&observed),
            Observation::Joined { birth, process, .. } => match birth.parent {
                Some(_) => _ = self.threads.insert(birth.thread, process),
                None => self.began(birth.thread, process),
            },
            Observation::Born(birth) => {
                let parent = birth.parent.and_then(|parent| self.threads.get(&parent)).copied();
                match parent.filter(|_| birth.kind == BirthKind::Thread) {
                    Some(process) => _ = self.threads.insert(birth.thread, process),
                    None => self.began(birth.thread, birth.thread),
                }
            }
            Observation::Executed { thread, .. } => {
                let (process, command) = (self.threads.get(&thread), command(thread));
                self.change(|tables| {
                    let entry = process.and_then(|process| tables.processes.get_mut(process));
                    entry.into_iter().for_each(|(entry, _)| entry.command.clone_from(&command));
                });
            }
            Observation::Renamed { from, to } => {
                if let Some(process) = self.threads.remove(&from) {
                    self.threads.insert(to, process);
                }
            }
            Observation::Ended { thread, .. } => {
                if let Some(process) = self.threads.remove(&thread).filter(|&process| process == thread) {
                    self.change(|tables| tables.end(process));
                }
            }
            Observation::LeftOut { process, barrier } => {
                self.change(|tables| tables.leave_out(process, format!("process {process}: {barrier}")));
            }
            Observation::GaveWay(gave_way) => self.gave_way = Some(gave_way),
            Observation::Lost(_) => self.change(|tables| tables.interval.lost += 1),
            Observation::LeftAlone { .. } => self.was_left = true,
            Observation::Leaving { .. } | Observation::Waiting { .. } => {}
        }
    }
}

/// The first bytes of a process's command line, or its name.
fn command(thread: Pid) -> String {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(format!("/proc/{thread}/cmdline"));
    // A process that is gone has no command.
    _ = file.and_then(|file| file.take(LONGEST_COMMAND).read_to_end(&mut bytes));
    bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    let text = escape(bytes.trim_ascii());
    if text.is_empty() { facts::name(thread) } else { text }
}

/// The directory that a call is counted in; `None` for calls on what has none, such as pipes.
fn directory(observed: &ObservedCall<'_>) -> Option<Vec<u8>> {
    let ObservedCall { thread, call, arguments, .. } = *observed;
    // `symlink` creates its second name.
    let (path, fd) = match call {
        Call::Symlink | Call::Symlinkat => (observed.path2, arguments.fd2),
        _ => (observed.path, arguments.fd),
    };
    let of = |fd: Fd| {
        let name = fd.number().map_or_else(|| "cwd".to_owned(), |fd| format!("fd/{fd}"));
        facts::link(thread, &name).filter(|target| target.first() == Some(&b'/'))
    };
    match path.filter(|path| !path.is_empty()) {
        // The working directory is the new one already.
        _ if call.class() == Class::Directory && observed.outcome.is_success() => of(Fd::WORKING_DIRECTORY),
        Some(path) if path[0] == b'/' => Some(parent(path)),
        Some(path) => Some(parent(&[&of(fd)?, &b"/"[..], path].concat())),
        None if call.class() == Class::List => of(fd),
        None if fd == Fd::NONE => None,
        None => Some(parent(&of(fd)?)),
    }
}

/// The directory of an absolute path, without `.` and doubled slashes.
fn parent(path: &[u8]) -> Vec<u8> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    let mut names: Vec<&[u8]> = names.collect();
    names.pop();
    [b"/", &names.join(&b'/')[..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_path_is_without_ornament() {
        for (path, directory) in
            [("/a/b/c", "/a/b"), ("//a/./b//", "/a"), ("/a", "/"), ("/", "/"), ("/a/../b/c", "/a/../b")]
        {
            assert_eq!(parent(path.as_bytes()), directory.as_bytes());
        }
    }

    #[test]
    fn names_are_bounded_and_no_operation_is_lost() {
        let (mut tables, absent) = (WatchTables::default(), Outcome::Failure(quell_trace::Errno(2)));
        let process = |number: usize| Pid(number as i32 + 1);
        for number in 0..3 * MOST_NAMES {
            tables.run(process(number), String::new());
            for directory in ["/hot".to_owned(), "/hot".to_owned(), format!("/{number}")] {
                tables.count(Some(process(number)), Some(directory.into_bytes()), Class::Stat, absent);
            }
            tables.end(process(number));
        }
        let operations = 9 * MOST_NAMES as u64;
        let interval = tables.take();
        assert_eq!((interval.counts.all(), interval.counts.missed), (operations, operations));
        let sum = |counts: &mut dyn Iterator<Item = OperationCounts>| counts.map(|counts| counts.all()).sum();
        let directories: u64 = sum(&mut interval.directories.iter().map(|row| row.counts));
        let processes: u64 = sum(&mut interval.processes.iter().map(|row| row.counts));
        assert_eq!(directories + interval.other_directories.all(), operations);
        assert_eq!(processes + interval.other_processes.all(), operations);
        assert!(interval.directories.len() <= MOST_ROWS && interval.processes.len() <= MOST_ROWS);
        let hottest = &interval.directories[0];
        assert_eq!((hottest.directory.as_str(), hottest.counts.all()), ("/hot", 6 * MOST_NAMES as u64));
        let next = tables.take();
        assert_eq!((next.counts.all(), next.processes.len(), next.since_begin.all()), (0, 0, operations));
    }
}
