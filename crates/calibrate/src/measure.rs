//! One calibration from begin to end: a directory of its own, the workers, the steps, and what was made removed.

use super::bounds::CalibrationBounds;
use super::calibration::Calibration;
use super::habits::ClientHabits;
use super::leader::Leader;
use super::probes::OwnAnswers;
use super::setting::{CalibrationProgress, CalibrationSetting, ClientLink};
use super::statistics::SampleSummary;
use super::work_directory::{self, Needs, WorkDirectory};
use super::{caching, cold, cost, crowd, phases, probes, reads};
use crate::error::CalibrateError;
use crate::workers::WorkerGroup;
use std::path::Path;
use std::time::Duration;

/// Looks whether a directory can be measured in, and makes nothing.
///
/// **Errors**: it is `/`, missing, no directory, read-only, not ours to write to, or too full for what `bounds` allow one client.
pub fn check(directory: &Path, bounds: &CalibrationBounds) -> Result<(), CalibrateError> {
    work_directory::check(directory, needs(bounds, 1)).map(drop)
}

/// Measures, and leaves nothing behind.
///
/// **Errors**: as [`CalibrateError`]; whatever happened, what was made is removed first. [`CalibrateError::Interrupted`] and success
/// mean that it has been.
pub fn calibrate(
    setting: &CalibrationSetting<'_>,
    progress: &mut dyn FnMut(CalibrationProgress),
) -> Result<Calibration, CalibrateError> {
    let began = std::time::Instant::now();
    let clients = 1 + setting.others.len() as u64;
    let place = WorkDirectory::make(setting.directory, needs(&setting.bounds, clients))?;
    let measured = measure(setting, place.path(), progress);
    progress(CalibrationProgress { step: "removing what was made", done: 0.0, elapsed: began.elapsed() });
    match (measured, place.remove()) {
        (Err(error), Err(CalibrateError::Left { path, .. }))
            if !matches!(error, CalibrateError::Interrupted) =>
        {
            Err(CalibrateError::LeftToo { path, source: Box::new(error) })
        }
        (_, Err(left)) => Err(left),
        (measured, Ok(())) => Ok(Calibration { elapsed: began.elapsed(), ..measured? }),
    }
}

fn measure(
    setting: &CalibrationSetting<'_>,
    place: &Path,
    progress: &mut dyn FnMut(CalibrationProgress),
) -> Result<Calibration, CalibrateError> {
    let processes = usize::from(setting.bounds.processes.max(1));
    let ours = WorkerGroup::start(&setting.worker, place, processes, "process", setting.stop)?;
    let mut others: Vec<WorkerGroup> = Vec::new();
    for link in &setting.others {
        let number = others.len() + 2;
        let name = if number == 2 { "second client".to_owned() } else { format!("client {number}") };
        let other = match link {
            ClientLink::Command(words) => WorkerGroup::start(words, place, 1, &name, setting.stop)?,
            ClientLink::Connection(stream) => WorkerGroup::over(stream, place, name.clone(), setting.stop)?,
        };
        let is_known = std::iter::once(&ours).chain(&others).any(|known| other.shares_client_with(known));
        match (is_known, link) {
            (false, _) => others.push(other),
            (true, ClientLink::Command(_)) => {
                return Err(CalibrateError::SameClient { process: name });
            }
            // A launcher starts several ranks a node.
            (true, ClientLink::Connection(_)) => {}
        }
    }
    let mut leader = Leader::new(setting, ours, others, progress);
    // First what everything else is judged by. Where time is short, what comes last is left out.
    phases::run(&mut leader)?;
    cold::run(&mut leader)?;
    let lifetimes = caching::run(&mut leader)?;
    let probes = probes::run(&mut leader)?;
    let habits = ClientHabits::of(&leader.results, &leader.after_listing, &probes, is_fuse(place));
    let file = reads::write(&mut leader)?;
    let cost = cost::run(&mut leader, file.as_ref())?;
    let of_crowd = match habits.absences_ask_daemon {
        Some(true) => crowd::run(&mut leader)?,
        _ => OwnAnswers::default(),
    };
    if let Some(file) = &file {
        reads::run(&mut leader, file)?;
    }
    leader.notes.extend(habits.doubts(leader.idle_us().map(|idle| idle.p50), is_fuse(place)));
    Ok(Calibration {
        bounds: setting.bounds.clone(),
        clients: leader.clients(),
        results: leader.results,
        lifetimes,
        habits,
        cost,
        own_answer_us: habits.own_answers(&probes.own_answers),
        own_answer_in_a_row_us: habits.own_answers(&probes.own_answers_in_a_row),
        own_answer_shared_us: habits.own_answers(&of_crowd),
        first_read_us: SampleSummary::of(probes.reads),
        skipped: leader.skipped,
        notes: leader.notes,
        elapsed: Duration::ZERO,
    })
}

/// True if requests go through a daemon of this client.
fn is_fuse(place: &Path) -> bool {
    rustix::fs::statfs(place).is_ok_and(|found| found.f_type == FUSE)
}

/// `FUSE_SUPER_MAGIC` of `linux/magic.h`.
const FUSE: rustix::fs::FsWord = 0x6573_5546;

fn needs(bounds: &CalibrationBounds, clients: u64) -> Needs {
    let files = bounds.files(clients);
    // An entry and an inode of an empty file take less than a KiB on any file system that was looked at.
    Needs { bytes: bounds.file_bytes.saturating_add(files.saturating_mul(1024)), files }
}
