//! Leads the processes of both clients through phases, and keeps what they measured.

use super::bounds::{Bounds, Clock};
use super::series::{Case, Results, Run};
use super::statistics::Summary;
use super::{IDLE, Progress, Setting};
use crate::crew::{Change, Crew, Data, Done, Names, Stop, Task, together};
use crate::{LoadError, Operation};

/// What every step works with.
pub(super) struct Leader<'a> {
    pub(super) ours: Crew,
    pub(super) second: Option<Crew>,
    pub(super) bounds: &'a Bounds,
    pub(super) results: Results,
    pub(super) skipped: Vec<&'static str>,
    pub(super) notes: Vec<String>,
    /// First stats of entries of a directory that was listed before. Unit: microseconds.
    pub(super) after_listing: Vec<f64>,
    stop: Stop<'a>,
    progress: &'a mut dyn FnMut(Progress),
    clock: Clock,
    /// Number of the next directory.
    serial: u64,
}

impl std::fmt::Debug for Leader<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Leader").field("serial", &self.serial).finish_non_exhaustive()
    }
}

impl<'a> Leader<'a> {
    pub(super) fn new(
        setting: &'a Setting<'_>,
        ours: Crew,
        second: Option<Crew>,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Self {
        Self {
            ours,
            second,
            bounds: &setting.bounds,
            results: Results::default(),
            skipped: Vec::new(),
            notes: Vec::new(),
            after_listing: Vec::new(),
            stop: setting.stop,
            progress,
            clock: Clock::start(setting.bounds.total),
            serial: 0,
        }
    }

    /// Whether there is time for a step that takes about so many seconds; else it is noted as left out.
    pub(super) fn begins(&mut self, step: &'static str, done: f64) -> bool {
        (self.progress)(Progress { step, done, elapsed: self.clock.elapsed() });
        let begins = !self.clock.is_over();
        if !begins && !self.skipped.contains(&step) {
            self.skipped.push(step);
        }
        begins
    }

    /// Time that is left for everything.
    pub(super) fn left(&self) -> std::time::Duration {
        self.clock.left()
    }

    /// The name of a new directory.
    pub(super) fn directory(&mut self, by: By) -> Result<String, LoadError> {
        Ok(self.directories(by, 1)?.swap_remove(0))
    }

    /// The names of new directories. Shape: `count` of them, at least one.
    pub(super) fn directories(&mut self, by: By, count: u16) -> Result<Vec<String>, LoadError> {
        let first = self.serial;
        self.serial += u64::from(count.max(1));
        self.prepare(by, names(Operation::MakeDirectory, ".", "d", first, self.serial - first))?;
        Ok((first..self.serial).map(|number| format!("d{number:06}")).collect())
    }

    /// Preparation that nobody times: by the second client where that is wanted and there is one. Everything that was asked
    /// for is there afterwards.
    pub(super) fn prepare(&mut self, by: By, names: Names) -> Result<(), LoadError> {
        let (operation, wanted) = (names.operation.name(), names.count * u64::from(names.threads.max(1)));
        let made = self.one(by, Task::Names(names))?.count;
        match made < wanted {
            true => Err(LoadError::Slow { operation, made, wanted }),
            false => Ok(()),
        }
    }

    fn maker(&mut self, by: By) -> &mut Crew {
        match (by, &mut self.second) {
            (By::Second, Some(second)) => second,
            (By::Second | By::Ours, _) => &mut self.ours,
        }
    }

    /// One task on one client.
    pub(super) fn one(&mut self, by: By, task: Task) -> Result<Done, LoadError> {
        let stop = self.stop;
        self.maker(by).one(task, stop)
    }

    pub(super) fn change(&mut self, change: Change) -> Result<(), LoadError> {
        self.one(By::Second, Task::Change(change)).map(drop)
    }

    /// A phase of this client's first processes, kept as a repetition of `case`. Shape: one result a process.
    pub(super) fn phase(&mut self, case: Case, tasks: Vec<Task>) -> Result<Vec<Done>, LoadError> {
        let done = self.ours.run(tasks, self.stop)?;
        self.results.add(case, Run::of(&[&done]));
        Ok(done)
    }

    /// The same of both clients at once.
    pub(super) fn phase_of_both(
        &mut self,
        case: Case,
        ours: Vec<Task>,
        theirs: Vec<Task>,
    ) -> Result<(), LoadError> {
        let Some(second) = &mut self.second else { return Ok(()) };
        let count = ours.len();
        let done = together(vec![(&mut self.ours, ours), (second, theirs)], self.stop)?;
        let (ours, theirs) = done.split_at(count.min(done.len()));
        self.results.add(case, Run::of(&[ours, theirs]));
        Ok(())
    }

    /// A phase of this client's processes that is not kept.
    pub(super) fn unkept(&mut self, tasks: Vec<Task>) -> Result<Vec<Done>, LoadError> {
        self.ours.run(tasks, self.stop)
    }

    /// A task on names, with the limits of a phase.
    pub(super) fn limited(&self, names: Names) -> Task {
        Task::Names(Names { limit_ms: self.bounds.phase_ms(), ..names })
    }

    /// How long a request takes that nobody else's delays: stats of absent names by one process.
    pub(super) fn idle_us(&self) -> Option<Summary> {
        self.results.latencies(&IDLE)
    }

    /// Waits, but not when the caller wants to stop.
    pub(super) fn sleep(&self, time: std::time::Duration) -> Result<(), LoadError> {
        std::thread::sleep(time);
        if (self.stop)() { Err(LoadError::Interrupted) } else { Ok(()) }
    }

    pub(super) fn read(&mut self, by: By, data: Data) -> Result<Done, LoadError> {
        self.one(by, Task::Data(data))
    }
}

/// Which client does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// This one.
    Ours,
    /// The second, if there is one.
    Second,
}

/// A task on names that one thread does without a limit but that of hanging.
pub(super) fn names(operation: Operation, directory: &str, prefix: &str, first: u64, count: u64) -> Names {
    Names {
        operation,
        directories: vec![directory.to_owned()],
        prefix: prefix.to_owned(),
        suffix: String::new(),
        first,
        stride: 1,
        count,
        threads: 1,
        limit_ms: PREPARATION_MS,
        computing_us: 0,
    }
}

/// Longest preparation: a minute for what takes seconds.
const PREPARATION_MS: u64 = 60_000;
