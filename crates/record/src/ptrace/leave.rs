//! Leaves the command and its descendants alone: they run on, untraced.
//!
//! The kernel detaches all tracees of a thread at once when that thread ends, running ones and those that were just
//! created too: none can be missed, and none stays stopped. So recording a start has a thread of its own, and this is the
//! last that it does. `PTRACE_DETACH` and `PTRACE_INTERRUPT` would have to stop each thread first, which ends calls like
//! `epoll_wait` with EINTR.
//!
//! A thread that is stopped *before* a call when it is detached would begin the call with a pending wake-up, which ends
//! such calls with EINTR as well. So this thread first lets each thread run past its next call, without further stops.
//! A thread that is in a call already may be detached there, and one that computes is waited for briefly. A thread that was
//! interrupted to be seen is waited for, because its call goes on only when its stop is handled.

use super::joining::Joining;
use super::run::{TracedRun, sleeps_uninterruptibly};
use super::tracee::Tracee;
use super::waits::keep_waiting;
use crate::engine::{MemoryEnd, Observation};
use crate::sys::ptrace::{self, CallSide, ThreadChange, ThreadStop, Until, WaitResult};
use quell_trace::{Nanos, Outcome, Pid};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

/// The longest wait for threads that compute.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// The time without a stop after which the last is taken to be handled. A stop that is not handled ends the wait of its thread, and
/// one seldom comes alone: a signal to many threads stops them one after another.
const QUIET: Duration = Duration::from_millis(2);
/// The longest wait for threads that were interrupted to be seen at their calls: each stops as soon as it has a processor.
const LONGEST_WAIT_FOR_STOPS: Duration = Duration::from_secs(10);
/// The longest time for which stops are handled, however many come. A wait that is ended by a later one fails with `EINTR`.
const LONGEST_FLOOD: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(100);

impl TracedRun<'_> {
    /// Observes the state at the end of the recording, and prepares all threads for being detached. The thread that
    /// traces must end after this.
    pub(super) fn leave_alone(&mut self, at: Nanos) -> io::Result<()> {
        self.placement.release();
        self.look_at_memories();
        self.end_calls(at);
        let mut outside: BTreeSet<Pid> =
            self.tracees.iter().filter(|(_, tracee)| !tracee.is_inside).map(|(&thread, _)| thread).collect();
        let mut interrupted: BTreeSet<Pid> = self.joining.iter().flat_map(Joining::awaited).collect();
        let began = Instant::now();
        let mut changed = began;
        loop {
            match ptrace::poll()? {
                WaitResult::Changed(thread, change) => {
                    changed = Instant::now();
                    outside.remove(&thread);
                    interrupted.remove(&thread);
                    self.let_go(thread, change)?;
                    if interrupted.is_empty() && began.elapsed() >= LONGEST_FLOOD
                        || began.elapsed() >= LONGEST_WAIT_FOR_STOPS
                    {
                        return Ok(());
                    }
                }
                WaitResult::AllEnded => return Ok(()),
                WaitResult::Nothing => {
                    interrupted.retain(|&thread| !sleeps_uninterruptibly(thread));
                    let waits = !outside.is_empty() || changed.elapsed() < QUIET;
                    let waits = waits && began.elapsed() < LONGEST_WAIT;
                    if !waits && (interrupted.is_empty() || began.elapsed() >= LONGEST_WAIT_FOR_STOPS) {
                        return Ok(());
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Every process shows the pages that it touched.
    fn look_at_memories(&mut self) {
        let threads = self.tracees.iter().filter(|(_, tracee)| tracee.memory.is_some());
        let processes: BTreeMap<Pid, Pid> =
            threads.map(|(&thread, tracee)| (tracee.process, thread)).collect();
        for thread in processes.into_values() {
            self.observer.observe(Observation::Leaving { thread, reason: MemoryEnd::Alone });
        }
    }

    /// The outcome of calls that have not ended is unknown.
    fn end_calls(&mut self, at: Nanos) {
        let mut threads: Vec<_> = self.tracees.iter_mut().collect();
        threads.sort_unstable_by_key(|(thread, _)| **thread);
        for (&thread, tracee) in threads {
            if let Some(call) = tracee.leave(thread, Outcome::Unfinished, at) {
                self.observer.observe(Observation::Called(call));
            }
        }
    }

    /// Resumes a thread so that it does not stop before its next call.
    fn let_go(&mut self, thread: Pid, change: ThreadChange) -> io::Result<()> {
        let mut tracee = self.tracees.get_mut(&thread);
        // From here on the start of its calls is not seen.
        let mut wait = tracee.as_mut().and_then(|tracee| tracee.wait.take());
        let is_inside = tracee.as_ref().is_some_and(|tracee| tracee.is_inside);
        let until = tracee.as_ref().map_or(Until::NextStop, |tracee| tracee.until_restored());
        match change {
            ThreadChange::Ended(exit) => {
                self.tracees.remove(&thread);
                self.exit = self.exit.or(Some(exit).filter(|_| thread == self.command));
                Ok(())
            }
            ThreadChange::Stopped(ThreadStop::Return(stopped)) => match stopped.side(is_inside) {
                Some(CallSide::Begin(stopped, _)) => stopped.resume(until),
                Some(CallSide::End(stopped, _)) => {
                    restore(tracee, &stopped);
                    stopped.resume(Until::NextStop)
                }
                None => Ok(()),
            },
            ThreadChange::Stopped(ThreadStop::Pause(stopped)) => {
                keep_waiting(&stopped, &mut wait);
                restore(tracee, &stopped);
                stopped.resume(Until::NextStop)
            }
            ThreadChange::Stopped(ThreadStop::Group(stopped, _)) => stopped.listen(),
            ThreadChange::Stopped(ThreadStop::Delivery(stopped, signal)) => {
                keep_waiting(&stopped, &mut wait);
                stopped.deliver(signal, until)
            }
            ThreadChange::Stopped(ThreadStop::Making(stopped)) => stopped.resume(until),
            ThreadChange::Stopped(ThreadStop::Entry(stopped)) => stopped.resume(until),
            ThreadChange::Stopped(ThreadStop::Replaced(stopped)) => stopped.resume(until),
            ThreadChange::Stopped(ThreadStop::Leaving(stopped)) => stopped.resume(until),
        }
    }
}

fn restore<Kind>(tracee: Option<&mut Tracee>, stopped: &ptrace::Stopped<Kind>) {
    if let Some(tracee) = tracee {
        tracee.restore(stopped);
    }
}
