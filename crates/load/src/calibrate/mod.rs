//! A file system, measured: its servers' rates, the way to them, what its clients keep, its data, as a profile.
//!
//! ```text
//! phases   mdtest's phases, shared and unique directories, 1 to N processes  --.
//! cold     operations that no cache of this client can answer                  +--> results (series) --> profile
//! reads    data in order, scattered, mapped                                    |      statistics, fit
//! caching  lifetimes, by a second client      cost  a request's, to a program  |
//! probes   single calls: which of them ask --> habits ------------------------'
//! ```
//!
//! Without the server's counters these are figures as the client sees them. What a cache could have answered is never taken
//! for the server's rate: `habits.rs` compares its latency with that of a request.

mod bounds;
mod caching;
mod cold;
mod cost;
mod fit;
mod habits;
mod leader;
mod phases;
mod place;
mod probes;
mod profile;
mod reads;
mod series;
mod statistics;

pub use bounds::{Bounds, MOST_ITEMS};
pub use caching::{Lifetime, Verdict};
pub use cost::Cost;
pub use fit::{ClosedLaw, Point, fit};
pub use habits::{Habits, Rides};
pub use place::{PREFIX, leftovers};
pub use series::{Cache, Case, Kind, Layout, Results, Run};
pub use statistics::Summary;

use crate::crew::{Crew, Stop};
use crate::{LoadError, Operation};
use leader::Leader;
use place::{Needs, Place};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// What to measure, and by which means.
pub struct Setting<'a> {
    /// The directory to measure in. A new one is made in it, and removed.
    pub directory: &'a Path,
    /// How a worker on this client is started; it is told the working directory over its standard input.
    pub worker: Vec<OsString>,
    /// The same for one worker on a second client, if there is one.
    pub second: Option<Vec<OsString>>,
    /// How much may be done.
    pub bounds: Bounds,
    /// Asked often; when it says yes the calibration cleans up and ends as [`LoadError::Interrupted`].
    pub stop: Stop<'a>,
}

impl std::fmt::Debug for Setting<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Setting")
            .field("directory", &self.directory)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

/// Where a calibration is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What is being measured, in words.
    pub step: &'static str,
    /// How much of the step is done. Range: 0 to 1.
    pub done: f64,
    /// Since the start of all.
    pub elapsed: Duration,
}

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The limits that held.
    pub bounds: Bounds,
    /// Whether there was a second client.
    pub has_second_client: bool,
    /// Rates and latencies by case.
    pub results: Results,
    /// What the client keeps; empty where that was not measured.
    pub lifetimes: Vec<Lifetime>,
    /// Which calls cost a request.
    pub habits: Habits,
    /// What a request and data cost a program.
    pub cost: Cost,
    /// First reads of files that were just looked up. Unit: microseconds.
    pub first_read_us: Option<Summary>,
    /// Closes of files. Unit: microseconds.
    pub close_us: Option<Summary>,
    /// Steps that there was no time for.
    pub skipped: Vec<&'static str>,
    /// What else a reader should know, a sentence each.
    pub notes: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}

/// The case by which an idle request is known: one process asks for names that are not there, and nobody else asks.
pub const IDLE: Case = Case {
    kind: Kind::Metadata(Operation::StatAbsent),
    layout: Layout::Unique,
    cache: Cache::Cold,
    clients: 1,
    processes: 1,
    threads: 1,
};

/// Looks whether a directory can be measured in, and makes nothing.
///
/// **Errors**: it is `/`, missing, no directory, read-only, not ours to write to, or too full for what `bounds` allow.
pub fn check(directory: &Path, bounds: &Bounds) -> Result<(), LoadError> {
    place::check(directory, needs(bounds)).map(drop)
}

/// Measures, and leaves nothing behind.
///
/// **Errors**: as [`LoadError`]; whatever happened, what was made is removed first. [`LoadError::Interrupted`] and success
/// mean that it has been.
pub fn calibrate(
    setting: &Setting<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Calibration, LoadError> {
    let began = std::time::Instant::now();
    let place = Place::make(setting.directory, needs(&setting.bounds))?;
    let measured = measure(setting, place.path(), progress);
    progress(Progress { step: "removing what was made", done: 0.0, elapsed: began.elapsed() });
    match (measured, place.remove()) {
        (Err(error), Err(LoadError::Left { path, .. })) if !matches!(error, LoadError::Interrupted) => {
            Err(LoadError::LeftToo { path, source: Box::new(error) })
        }
        (_, Err(left)) => Err(left),
        (measured, Ok(())) => Ok(Calibration { elapsed: began.elapsed(), ..measured? }),
    }
}

fn measure(
    setting: &Setting<'_>,
    place: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Calibration, LoadError> {
    let processes = usize::from(setting.bounds.processes.max(1));
    let ours = Crew::start(&setting.worker, place, processes, "process", setting.stop)?;
    let second =
        setting.second.as_ref().map(|second| Crew::start(second, place, 1, "second client", setting.stop));
    let second = second.transpose()?;
    if second.as_ref().is_some_and(|second| second.shares_client_with(&ours)) {
        return Err(LoadError::SameClient);
    }
    let has_second_client = second.is_some();
    let mut leader = Leader::new(setting, ours, second, progress);
    // First what everything else is judged by, last what is only read.
    phases::run(&mut leader)?;
    cold::run(&mut leader)?;
    let lifetimes = caching::run(&mut leader)?;
    let probes = probes::run(&mut leader)?;
    let file = reads::write(&mut leader)?;
    let cost = cost::run(&mut leader, file.as_ref())?;
    if let Some(file) = &file {
        reads::run(&mut leader, file)?;
    }
    let habits = Habits::of(&leader.results, &leader.after_listing, &probes, is_fuse(place));
    leader.notes.extend(habits.doubts(leader.idle_us().map(|idle| idle.p50), is_fuse(place)));
    Ok(Calibration {
        bounds: setting.bounds.clone(),
        has_second_client,
        results: leader.results,
        lifetimes,
        habits,
        cost,
        first_read_us: Summary::of(probes.reads),
        close_us: Summary::of(probes.closes),
        skipped: leader.skipped,
        notes: leader.notes,
        elapsed: Duration::ZERO,
    })
}

/// Whether requests go through a daemon of this client.
fn is_fuse(place: &Path) -> bool {
    rustix::fs::statfs(place).is_ok_and(|found| found.f_type == FUSE)
}

/// `FUSE_SUPER_MAGIC` of `linux/magic.h`.
const FUSE: rustix::fs::FsWord = 0x6573_5546;

fn needs(bounds: &Bounds) -> Needs {
    let files = bounds.files();
    // An entry and an inode of an empty file take less than a KiB on any file system that was looked at.
    Needs { bytes: bounds.file_bytes.saturating_add(files.saturating_mul(1024)), files }
}
