//! Watches the metadata operations of processes that run already, without a trace.
//!
//! ```text
//! the caller: takes what was counted, as often as it likes
//! this thread: rounds --> the engine of `record -p`, which counts
//! a thread of its own: looks for processes that were started since, once a second
//! ```
//!
//! A round ends before a call that a tracer hinders. The process that makes it is left out from then on, and the others are
//! watched again a moment later. The look for new processes is not in the thread that traces: `/proc` may let it wait for a process that
//! waits for a file system.

use crate::error::{GaveWay, RecordError};
use crate::facts;
use crate::ptrace::join;
use crate::ptrace::joining::{JoinedScope, ancestors};
use crate::watched::{WatchCounter, WatchTables, WatchedInterval};
use quell_base::{ProcessStat, batch_job, lock};
use quell_trace::Pid;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The processes to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchScope {
    /// These and their descendants, as long as any of them runs.
    Listed(Vec<Pid>),
    /// Those of a user, by number, later ones too. Not those above the watching process.
    OfUser(u32),
    /// Those of a batch job, later ones too, by the number that the batch system gave it, with or without its step. Not those
    /// above the watching process, and not Slurm's own.
    OfJob(String),
}

/// A watch that other threads look at.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    tables: Arc<Mutex<WatchTables>>,
    others: Arc<Mutex<BTreeSet<Pid>>>,
    ends: Arc<AtomicBool>,
}

/// The time after a round, in which a process makes the call for which the round ended.
const PAUSE: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(50);

impl Watch {
    /// Watches until [`Watch::end`], the end of this process's parent, or until none of the listed processes runs. The processes run on.
    ///
    /// # Errors
    /// [`RecordError`] where a listed process cannot be watched. None is watched then.
    pub fn run(&self, scope: &WatchScope) -> Result<(), RecordError> {
        let mut joined = JoinedScope { ends: Arc::clone(&self.ends), ..JoinedScope::default() };
        match scope {
            WatchScope::Listed(processes) => {
                joined.processes.clone_from(processes);
                joined.with_descendants = true;
            }
            _ => {
                joined.others = Some(Arc::clone(&self.others));
                // The first look is made before the thread starts: a round without processes ends at once, and the first interval would
                // be empty. It cannot deadlock, because no process is stopped yet.
                *lock(&self.others) = scope.find();
                self.begin_to_look(scope.clone())?;
            }
        }
        let parent = std::os::unix::process::parent_id();
        let is_orphan = || std::os::unix::process::parent_id() != parent;
        loop {
            // A number that is free again may be that of a process to watch.
            joined.except.retain(|&process| ProcessStat::read(process).is_some());
            let mut counter = WatchCounter::new(&self.tables);
            join::run(&joined, Instant::now(), &mut counter)?;
            if let Some(GaveWay { process, call }) = counter.gave_way {
                joined.except.insert(process);
                self.tables().leave_out(process, format!("process {process} {call}"));
            } else if counter.was_left {
                return Ok(());
            }
            if joined.with_descendants {
                let mut running: BTreeSet<Pid> = self.tables().running().collect();
                running.retain(|process| !joined.except.contains(process));
                joined.processes.clear();
                *lock(&self.others) = running;
                joined.others = Some(Arc::clone(&self.others));
            }
            self.tables().pause();
            let may_come = !joined.with_descendants || !lock(&self.others).is_empty();
            if self.ends.load(Ordering::Relaxed) || !may_come || is_orphan() || !self.rest() || is_orphan() {
                self.end();
                return Ok(());
            }
        }
    }

    /// The operations since the last call of this function.
    pub fn take(&self) -> WatchedInterval {
        self.tables().take()
    }

    /// Ends the watch, within half a second.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
    }

    fn tables(&self) -> MutexGuard<'_, WatchTables> {
        lock(&self.tables)
    }

    /// Waits a moment; false when the watch ended meanwhile.
    fn rest(&self) -> bool {
        let began = Instant::now();
        while began.elapsed() < PAUSE && !self.ends.load(Ordering::Relaxed) {
            std::thread::sleep(STEP);
        }
        !self.ends.load(Ordering::Relaxed)
    }

    /// Looks for processes of the scope once a second in a thread of its own.
    fn begin_to_look(&self, scope: WatchScope) -> Result<(), RecordError> {
        let watch = self.clone();
        let look = move || {
            while watch.rest() {
                let found = scope.find();
                *lock(&watch.others) = found;
            }
        };
        let begun = std::thread::Builder::new().name("look".to_owned()).spawn(look);
        begun.map(drop).map_err(|source| RecordError::Start { action: "create a thread", source })
    }
}

impl WatchScope {
    /// The processes of the scope that run now. A process in uninterruptible sleep is left for a later look: attaching to it may
    /// block.
    fn find(&self) -> BTreeSet<Pid> {
        let ourselves = facts::ourselves();
        let above = ancestors(ourselves);
        let all = facts::processes().into_iter().map(|(process, _)| process);
        let sleeps = |process| ProcessStat::read(process).is_none_or(|stat| stat.state() == Some('D'));
        all.filter(|&process| process != ourselves && !above.contains(&process))
            .filter(|&process| self.has(process) && !sleeps(process))
            .collect()
    }

    fn has(&self, process: Pid) -> bool {
        match self {
            Self::Listed(processes) => processes.contains(&process),
            Self::OfUser(user) => facts::owner(process) == Some(*user),
            Self::OfJob(job) => !facts::name(process).starts_with("slurmstepd") && is_of_job(process, job),
        }
    }
}

/// True for a process whose variables or control group name the job.
fn is_of_job(process: Pid, job: &str) -> bool {
    let variables = facts::strings(process, "environ");
    let variable = |name: &str| {
        let value = |text: &Vec<u8>| {
            let value = text.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            String::from_utf8(value.to_vec()).ok()
        };
        variables.iter().find_map(value)
    };
    batch_job(variable).is_some_and(|known| is_part(&known, job))
        || is_group(&std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default(), job)
}

/// True for a job itself and for a step of it, such as `7.0` of 7.
fn is_part(known: &str, job: &str) -> bool {
    known.strip_prefix(job).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// True for a group as Slurm names it: `0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0`.
fn is_group(groups: &str, job: &str) -> bool {
    groups.lines().flat_map(|line| line.split('/')).any(|part| part.strip_prefix("job_") == Some(job))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_its_steps_and_no_other_job() {
        assert!(
            is_part("7", "7") && is_part("7.0", "7") && is_part("7.0", "7.0") && is_part("7.server", "7")
        );
        assert!(!is_part("77", "7") && !is_part("7", "77") && !is_part("7.1", "7.0"));
        let groups = "1:cpu:/slurm/uid_4/job_7/step_0/task_0\n0::/user.slice";
        assert!(is_group(groups, "7") && !is_group(groups, "77") && !is_group(groups, "4"));
    }
}
