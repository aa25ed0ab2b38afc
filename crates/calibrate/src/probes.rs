//! Single calls on files and directories of the second client, timed by one process while no other asks: what the first open
//! after a lookup costs, and how long after it; what reading a file does to its attributes; what opening a directory costs.

use super::leader::{ClientChoice, Leader};
use super::statistics::SampleSummary;
use crate::error::CalibrateError;
use crate::workers::{CallSteps, CallSubject, DirectoryStep, FileStep, PhaseResult, PhaseTask};
use quell_predict::profile::COMPUTING_US;

const STEP: &str = "which calls ask";

/// Files, and directories, of each measurement.
const COUNT: u64 = 12;

/// The rest of names between lookup and open. Unit: milliseconds.
const RESTS: [u64; 5] = [0, 300, 800, 1200, 2500];

/// The time for which answers that come with a lookup are still known. Unit: milliseconds.
const SOON_MS: u64 = 300;

/// The time of each step. Unit: microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Probes {
    /// Of files. Shape: ascending in the time between lookup and open.
    pub(super) files: Vec<FileSteps>,
    pub(super) directories: Option<DirectorySteps>,
    /// Of first reads soon after the file's lookup.
    pub(super) reads: Vec<f64>,
    /// Of calls after some computing that a daemon may answer.
    pub(super) own_answers: OwnAnswers,
    /// The same in a row.
    pub(super) own_answers_in_a_row: OwnAnswers,
}

/// The time of calls that a daemon may answer by itself. Unit: microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OwnAnswers {
    /// Of closes.
    pub(super) closes: Vec<f64>,
    /// Of looks at names that were just found to be absent.
    pub(super) absences: Vec<f64>,
}

/// Medians of the steps of a file. Unit: microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FileSteps {
    /// Between lookup and open. Unit: seconds.
    pub(super) rest: f64,
    pub(super) open: f64,
    pub(super) look: f64,
    pub(super) read: f64,
    pub(super) look_again: f64,
}

/// Medians of the steps of a directory. Unit: microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct DirectorySteps {
    pub(super) open: f64,
    pub(super) list: f64,
    /// Of a directory in it, whose name was never asked for.
    pub(super) look_within: f64,
}

/// Nothing without a second client: this one would know what it has made.
pub(super) fn run(leader: &mut Leader<'_>) -> Result<Probes, CalibrateError> {
    let mut probes = Probes::default();
    if leader.others.is_empty() {
        return Ok(probes);
    }
    let longest = u64::try_from(leader.bounds.cache_wait.as_millis()).unwrap_or(u64::MAX);
    let rests: Vec<u64> = RESTS.into_iter().filter(|rest| *rest <= longest).collect();
    for (number, rest_ms) in rests.iter().enumerate() {
        if !leader.begins(STEP, number as f64 / rests.len() as f64) {
            return Ok(probes);
        }
        let directory = leader.directory(ClientChoice::Second)?;
        let steps = |of, rest_ms, computing_us| {
            let directory = directory.clone();
            PhaseTask::Steps(CallSteps { of, directory, count: COUNT, rest_ms, computing_us })
        };
        leader.one(ClientChoice::Second, steps(CallSubject::New, 0, 0))?;
        let done = leader.one(ClientChoice::Ours, steps(CallSubject::Files, *rest_ms, COMPUTING_US))?;
        if *rest_ms <= SOON_MS {
            probes.reads.extend(of_files(&done, FileStep::Read));
        }
        probes.own_answers.closes.extend(of_files(&done, FileStep::Close));
        let steps_timed = [FileStep::Open, FileStep::Look, FileStep::Read, FileStep::LookAgain];
        if let [Some(open), Some(look), Some(read), Some(look_again)] =
            steps_timed.map(|step| median(of_files(&done, step)))
        {
            let rest = *rest_ms as f64 / 1e3;
            probes.files.push(FileSteps { rest, open, look, read, look_again });
        }
        if number == 0 {
            let done = leader.one(ClientChoice::Ours, steps(CallSubject::Directories, 0, COMPUTING_US))?;
            probes.directories = directories(&done);
            probes.own_answers.absences = of_directories(&done, DirectoryStep::LookAtAbsent).collect();
            let done = leader.one(ClientChoice::Ours, steps(CallSubject::Directories, 0, 0))?;
            probes.own_answers_in_a_row.absences =
                of_directories(&done, DirectoryStep::LookAtAbsent).collect();
            let done = leader.one(ClientChoice::Ours, steps(CallSubject::Files, 0, 0))?;
            probes.own_answers_in_a_row.closes = of_files(&done, FileStep::Close).collect();
        }
    }
    Ok(probes)
}

fn directories(done: &PhaseResult) -> Option<DirectorySteps> {
    let median = |step| median(of_directories(done, step));
    Some(DirectorySteps {
        open: median(DirectoryStep::Open)?,
        list: median(DirectoryStep::List)?,
        look_within: median(DirectoryStep::LookWithin)?,
    })
}

/// The latencies of a step of all files. Unit: microseconds.
fn of_files(done: &PhaseResult, step: FileStep) -> impl Iterator<Item = f64> {
    every(done, FileStep::COUNT, step as usize)
}

/// The same of directories.
fn of_directories(done: &PhaseResult, step: DirectoryStep) -> impl Iterator<Item = f64> {
    every(done, DirectoryStep::COUNT, step as usize)
}

/// Every `period`th latency from `first` on. Unit: microseconds.
fn every(done: &PhaseResult, period: usize, first: usize) -> impl Iterator<Item = f64> {
    done.latencies.iter().skip(first).step_by(period).map(|nanoseconds| *nanoseconds as f64 / 1e3)
}

fn median(latencies: impl Iterator<Item = f64>) -> Option<f64> {
    SampleSummary::of(latencies).map(|summary| summary.p50)
}
