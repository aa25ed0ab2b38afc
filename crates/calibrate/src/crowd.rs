//! An answer of the client's daemon while all processes ask at once.
//!
//! ```text
//! one process, in a row                                        25 to 30 us of a core  (two cores, a FUSE client)
//! 8 processes, each with its own names, in a row               33
//! 8 processes, each with its own names, 50 us of computing     50
//! 8 processes, the same names, 50 us of computing              58 to 73
//! ```
//!
//! A daemon that is asked in a row stays awake. Where processes compute in between and no core is free, each answer wakes the daemon and
//! the program, and each of them waits for a core. Looks at one name wait for each other in the kernel.

use super::leader::{ClientChoice, Leader, names};
use super::probes::OwnAnswers;
use super::series::CaseRun;
use crate::error::CalibrateError;
use crate::operation::LoadOperation;
use crate::workers::{NameOperations, PhaseTask};

const STEP: &str = "what a daemon's answer costs on busy cores";

/// Repetitions, each with new names: a client may forget absent ones within a second.
const ROUNDS: u32 = 6;
/// Names, the same for all processes as ranks have it; few enough to be asked for again before they are forgotten.
const NAMES: u64 = 50;
/// Looks at each name. Together they take much longer than the processes take to begin.
const PASSES: u16 = 10;
/// Computing before each look, as programs have it. Unit: microseconds.
const BETWEEN_LOOKS_US: u64 = 50;

/// The time for which a look at a name that was just found to be absent keeps a core, where the client's daemon answers it. Shape: one
/// a repetition; no closes, which need an open each.
pub(super) fn run(leader: &mut Leader<'_>) -> Result<OwnAnswers, CalibrateError> {
    let processes = leader.bounds.processes.max(1);
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(processes.into());
    let mut found = OwnAnswers::default();
    for round in 0..ROUNDS {
        if !leader.begins(STEP, f64::from(round) / f64::from(ROUNDS)) {
            break;
        }
        let directory = leader.directory(ClientChoice::Ours)?;
        let look = names(LoadOperation::StatAbsent, &directory, "n", 0, NAMES);
        leader.one(ClientChoice::Ours, PhaseTask::Names(look.clone()))?;
        let looks = NameOperations { passes: PASSES, computing_us: BETWEEN_LOOKS_US, ..look };
        let again = leader.unkept(vec![PhaseTask::Names(looks); processes.into()])?;
        let computed = again.iter().map(|done| done.computed).sum::<u64>() as f64 / 1e9;
        let CaseRun { count, seconds, .. } = CaseRun::of(&[&again]);
        let kept = cores as f64 * seconds - computed;
        found.absences.extend((count > 0 && kept > 0.0).then(|| 1e6 * kept / count as f64));
    }
    Ok(found)
}
