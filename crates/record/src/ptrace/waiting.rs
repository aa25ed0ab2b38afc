//! Processes that run on after the command has ended: the recorder waits for them, says so, and stops on Ctrl-C.

use super::leftovers::LeftoverWait;
use super::run::{TICK, TracedRun};
use crate::engine::Observation;
use crate::sys::signals::{self, Ticks};
use quell_trace::Pid;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Most processes end within this time after the command: it is said later.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time that processes have to end by themselves after Ctrl-C.
const GRACE: Duration = Duration::from_secs(1);

impl TracedRun<'_> {
    /// The command has ended.
    pub(super) fn begin_to_wait(&mut self) {
        self.forwarding.keep_interrupts();
        // A recorder without ticks waits in silence.
        let ticks = self.judge.is_none().then(|| Ticks::begin(TICK).ok()).flatten();
        ticks.iter().for_each(Ticks::unblock);
        self.leftovers =
            LeftoverWait { since: Some(Instant::now()), _ticks: ticks, ..LeftoverWait::default() };
    }

    /// Looks after the wait. True when the user ended it.
    pub(super) fn is_wait_over(&mut self) -> bool {
        let Some(since) = self.leftovers.since else { return false };
        if !self.leftovers.is_said && since.elapsed() >= PATIENCE && !self.tracees.is_empty() {
            self.leftovers.is_said = true;
            let processes: Vec<Pid> = self.processes().into_iter().collect();
            self.observer.observe(Observation::Waiting { processes: &processes });
        }
        self.forwarding.was_interrupted()
    }

    /// Ends the processes, which cannot run on without a recorder: the filter stops their calls.
    pub(super) fn end_leftovers(&mut self) {
        let asked = self.leftovers.asked;
        let signal = match asked {
            None => libc::SIGTERM,
            Some(asked) if asked.elapsed() >= GRACE => libc::SIGKILL,
            Some(_) => return,
        };
        self.leftovers.asked = asked.or_else(|| Some(Instant::now()));
        for process in self.processes() {
            // It may have ended meanwhile.
            _ = signals::send(process, signal);
        }
    }

    fn processes(&self) -> BTreeSet<Pid> {
        self.tracees.values().map(|tracee| tracee.process).collect()
    }
}
