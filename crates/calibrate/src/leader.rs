//! Leads the processes of all clients through phases, and keeps what they measured.

use super::bounds::{CalibrationBounds, Clock};
use super::series::IDLE;
use super::series::{CalibrationCase, CalibrationResults, CaseRun};
use super::setting::{CalibrationProgress, CalibrationSetting};
use super::statistics::SampleSummary;
use crate::error::CalibrateError;
use crate::operation::LoadOperation;
use crate::workers::{
    DataTransfer, EntryChange, NameOperations, PhaseResult, PhaseTask, WorkerGroup, together,
};
use quell_talk::Stop;

/// The state that all steps share.
pub(super) struct Leader<'a> {
    pub(super) ours: WorkerGroup,
    /// A process on each other client.
    pub(super) others: Vec<WorkerGroup>,
    pub(super) bounds: &'a CalibrationBounds,
    pub(super) results: CalibrationResults,
    pub(super) skipped: Vec<&'static str>,
    pub(super) notes: Vec<String>,
    /// First stats of entries of a directory that was listed before. Unit: microseconds.
    pub(super) after_listing: Vec<f64>,
    stop: Stop<'a>,
    progress: &'a mut dyn FnMut(CalibrationProgress),
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
        setting: &'a CalibrationSetting<'_>,
        ours: WorkerGroup,
        others: Vec<WorkerGroup>,
        progress: &'a mut dyn FnMut(CalibrationProgress),
    ) -> Self {
        Self {
            ours,
            others,
            bounds: &setting.bounds,
            results: CalibrationResults::default(),
            skipped: Vec::new(),
            notes: Vec::new(),
            after_listing: Vec::new(),
            stop: setting.stop,
            progress,
            clock: Clock::start(setting.bounds.total),
            serial: 0,
        }
    }

    /// True if there is time for a step; else it is noted as left out.
    pub(super) fn begins(&mut self, step: &'static str, done: f64) -> bool {
        (self.progress)(CalibrationProgress { step, done, elapsed: self.clock.elapsed() });
        self.has_time(step)
    }

    /// True if time is left; otherwise the step is named as one that was left out.
    pub(super) fn has_time(&mut self, step: &'static str) -> bool {
        let has_time = !self.clock.is_over();
        if !has_time && !self.skipped.contains(&step) {
            self.skipped.push(step);
        }
        has_time
    }

    /// Time that is left for everything.
    pub(super) fn left(&self) -> std::time::Duration {
        self.clock.left()
    }

    /// The name of a new directory.
    pub(super) fn directory(&mut self, by: ClientChoice) -> Result<String, CalibrateError> {
        Ok(self.directories(by, 1)?.swap_remove(0))
    }

    /// The names of new directories. Shape: `count` of them, at least one.
    pub(super) fn directories(
        &mut self,
        by: ClientChoice,
        count: u16,
    ) -> Result<Vec<String>, CalibrateError> {
        let first = self.serial;
        self.serial += u64::from(count.max(1));
        self.prepare(by, names(LoadOperation::MakeDirectory, ".", "d", first, self.serial - first))?;
        Ok((first..self.serial).map(|number| format!("d{number:06}")).collect())
    }

    /// Preparation without a clock: by the second client where that is wanted and there is one. Everything that was asked
    /// for is there afterwards.
    pub(super) fn prepare(&mut self, by: ClientChoice, names: NameOperations) -> Result<(), CalibrateError> {
        let (operation, wanted) = (names.operation.name(), names.count * u64::from(names.threads.max(1)));
        let made = self.one(by, PhaseTask::Names(names))?.count;
        match made < wanted {
            true => Err(CalibrateError::Slow { operation, made, wanted }),
            false => Ok(()),
        }
    }

    fn maker(&mut self, by: ClientChoice) -> &mut WorkerGroup {
        match (by, self.others.first_mut()) {
            (ClientChoice::Second, Some(second)) => second,
            (ClientChoice::Second | ClientChoice::Ours, _) => &mut self.ours,
        }
    }

    /// One task on one client.
    pub(super) fn one(&mut self, by: ClientChoice, task: PhaseTask) -> Result<PhaseResult, CalibrateError> {
        let stop = self.stop;
        self.maker(by).one(task, stop)
    }

    pub(super) fn change(&mut self, change: EntryChange) -> Result<(), CalibrateError> {
        self.one(ClientChoice::Second, PhaseTask::Change(change)).map(drop)
    }

    /// A phase of this client's first processes, kept as a repetition of `case`. Shape: one result a process.
    pub(super) fn phase(
        &mut self,
        case: CalibrationCase,
        tasks: Vec<PhaseTask>,
    ) -> Result<Vec<PhaseResult>, CalibrateError> {
        let done = self.ours.run(tasks, self.stop)?;
        self.results.add(case, CaseRun::of(&[&done]));
        Ok(done)
    }

    /// Clients, this one included.
    pub(super) fn clients(&self) -> u16 {
        u16::try_from(self.others.len()).unwrap_or(u16::MAX).saturating_add(1)
    }

    /// A phase of all clients at once, if there are several. Shape: one of `theirs` for each other client.
    pub(super) fn phase_of_all(
        &mut self,
        case: CalibrationCase,
        ours: Vec<PhaseTask>,
        theirs: Vec<PhaseTask>,
    ) -> Result<(), CalibrateError> {
        let case = CalibrationCase { clients: self.clients(), ..case };
        if case.clients == 1 {
            return Ok(());
        }
        let count = ours.len();
        let others = self.others.iter_mut().zip(theirs.into_iter().map(|task| vec![task]));
        let done = together(std::iter::once((&mut self.ours, ours)).chain(others).collect(), self.stop)?;
        let (ours, theirs) = done.split_at(count.min(done.len()));
        let nodes: Vec<&[PhaseResult]> = std::iter::once(ours).chain(theirs.chunks(1)).collect();
        self.results.add(case, CaseRun::of(&nodes));
        Ok(())
    }

    /// A phase of this client's processes that is not kept.
    pub(super) fn unkept(&mut self, tasks: Vec<PhaseTask>) -> Result<Vec<PhaseResult>, CalibrateError> {
        self.ours.run(tasks, self.stop)
    }

    /// A task on names, with the limits of a phase.
    pub(super) fn limited(&self, names: NameOperations) -> PhaseTask {
        PhaseTask::Names(NameOperations { limit_ms: self.bounds.phase_ms(), ..names })
    }

    /// The time of a request that no other delays: stats of absent names by one process.
    pub(super) fn idle_us(&self) -> Option<SampleSummary> {
        self.results.latencies(&IDLE)
    }

    /// Waits, but not when the caller wants to stop.
    pub(super) fn sleep(&self, time: std::time::Duration) -> Result<(), CalibrateError> {
        std::thread::sleep(time);
        if (self.stop)() { Err(CalibrateError::Interrupted) } else { Ok(()) }
    }

    pub(super) fn read(
        &mut self,
        by: ClientChoice,
        data: DataTransfer,
    ) -> Result<PhaseResult, CalibrateError> {
        self.one(by, PhaseTask::Data(data))
    }
}

/// One of the first two clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientChoice {
    /// This one.
    Ours,
    /// The second, if there is one.
    Second,
}

/// A task on names that one thread does without a limit but that of hanging.
pub(super) fn names(
    operation: LoadOperation,
    directory: &str,
    prefix: &str,
    first: u64,
    count: u64,
) -> NameOperations {
    NameOperations {
        operation,
        directories: vec![directory.to_owned()],
        prefix: prefix.to_owned(),
        suffix: String::new(),
        first,
        stride: 1,
        count,
        passes: 1,
        threads: 1,
        limit_ms: PREPARATION_MS,
        computing_us: 0,
    }
}

/// Longest preparation: a minute for what takes seconds.
const PREPARATION_MS: u64 = 60_000;
