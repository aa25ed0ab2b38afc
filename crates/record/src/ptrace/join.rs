//! Records processes that run already, in a thread of its own, whose end detaches them.
//!
//! The way is that of a recorded start (`start.rs`): every call stops twice, and the processes run on when the recorder ends or is
//! killed. `joining.rs` finds the threads, `leave.rs` leaves them alone.

use super::attach;
use super::forward::Forwarding;
use super::joining::{JoinedScope, Joining, ancestors, barrier};
use super::run::{TICK, TracedRun};
use super::start::await_end;
use super::tracee::Tracee;
use super::waits::keep_waiting;
use crate::RecordError;
use crate::engine::{BirthKind, Observation, Observer, ThreadBirth};
use crate::error::JoinBarrier;
use crate::facts;
use crate::filter::Rules;
use crate::sys::memory;
use crate::sys::ptrace::{ThreadChange, ThreadStop, Until};
use crate::sys::signals::{Mask, Ticks};
use quell_base::ProcessStat;
use quell_trace::{Ended, Exit, Nanos, Pid};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// `PF_KTHREAD` of `include/linux/sched.h`, in the ninth field of `/proc/PID/stat`.
const THREAD_OF_KERNEL: u64 = 0x0020_0000;

/// The processes of these numbers, each once.
///
/// # Errors
/// [`RecordError::NoProcess`], and [`RecordError::Unjoinable`] for what is known to be refused.
pub(crate) fn processes(numbers: &[Pid]) -> Result<Vec<Pid>, RecordError> {
    let mut processes: Vec<Pid> = Vec::new();
    for &number in numbers {
        let process = facts::process_of(number).ok_or(RecordError::NoProcess { process: number })?;
        let thread = facts::living_thread(process).ok_or(RecordError::NoProcess { process: number })?;
        if let Some(barrier) = known_barrier(process, thread) {
            return Err(RecordError::Unjoinable { process, barrier, source: None });
        }
        // The kernel asks the same of a tracer.
        memory::verify_access(thread).map_err(|source| RecordError::Unjoinable {
            process,
            barrier: barrier(process, &source),
            source: Some(source),
        })?;
        if facts::serves_fuse(process) {
            return Err(RecordError::Unjoinable { process, barrier: JoinBarrier::ServesFuse, source: None });
        }
        if !processes.contains(&process) {
            processes.push(process);
        }
    }
    Ok(processes)
}

fn known_barrier(process: Pid, thread: Pid) -> Option<JoinBarrier> {
    let ourselves = facts::ourselves();
    if ProcessStat::read(thread)?.field(9).is_some_and(|flags| flags & THREAD_OF_KERNEL != 0) {
        return Some(JoinBarrier::KernelThread);
    }
    if process == ourselves {
        return Some(JoinBarrier::Ourselves);
    }
    if ancestors(ourselves).contains(&process) {
        return Some(JoinBarrier::Ancestor);
    }
    attach::other_tracer(thread).map(JoinBarrier::Trace)
}

/// Records until all processes have ended, the time is over, or the user ends it. Returns the end of the first process, if it was
/// seen.
///
/// # Errors
/// [`RecordError`] when a process refuses. No process is left attached then.
pub(crate) fn run(
    scope: &JoinedScope,
    began: Instant,
    observer: &mut dyn Observer,
) -> Result<Option<Exit>, RecordError> {
    let mask = Mask::block_all();
    let traced = std::thread::scope(|scoped| {
        // Other recorders know a recorder by the name of the thread that traces.
        let tracer = std::thread::Builder::new().name("quell".to_owned());
        let tracer = tracer
            .spawn_scoped(scoped, || trace(scope, began, mask, &mut *observer))
            .map_err(|source| RecordError::Start { action: "create a thread", source })?;
        tracer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let Traced { tracer, left, exit, forwarding } = traced.inspect_err(|_| mask.restore())?;
    await_end(tracer);
    forwarding.move_here();
    // An interrupt may come while the tracing ends for another reason.
    if forwarding.was_interrupted() {
        scope.ends.store(true, Ordering::Relaxed);
    }
    if let Some((at, ended)) = left {
        observer.observe(Observation::LeftAlone { at, ended, exit: None });
    }
    Ok(exit)
}

/// The end of the tracing.
struct Traced {
    /// The thread that traced.
    tracer: i32,
    /// `None` when all processes have ended.
    left: Option<(Nanos, Ended)>,
    exit: Option<Exit>,
    forwarding: Forwarding,
}

fn trace(
    scope: &JoinedScope,
    began: Instant,
    mask: Mask,
    observer: &mut dyn Observer,
) -> Result<Traced, RecordError> {
    let wait = |source| RecordError::Start { action: "wait", source };
    let processes = processes(&scope.processes)?;
    let ticks = Ticks::begin(TICK).map_err(wait)?;
    let mut forwarding = Forwarding::begin_without_command(mask).map_err(wait)?;
    ticks.unblock();
    let until = scope.longest.and_then(|longest| began.checked_add(longest));
    let joining = Joining::begin(&processes, scope, until).map_err(|(process, source)| {
        RecordError::Unjoinable { process, barrier: barrier(process, &source), source: Some(source) }
    })?;
    let mut run = TracedRun::without_command(began, &mut forwarding, observer);
    run.joining = Some(joining);
    run.rules = Some(Rules::native());
    run.onward = Until::Return;
    run.placement.disable();
    let left = run.until_over().map_err(wait)?.map(|ended| (run.now(), ended));
    if let Some((at, _)) = left {
        run.leave_alone(at).map_err(wait)?;
    }
    let exit = run.exit;
    drop(run);
    let tracer = rustix::thread::gettid().as_raw_nonzero().get();
    Ok(Traced { tracer, left, exit, forwarding })
}

impl TracedRun<'_> {
    /// Looks for threads until all are known.
    pub(super) fn find_threads(&mut self) {
        if let Some(joining) = &mut self.joining {
            joining.look(&|thread| self.tracees.contains_key(&thread));
            for (process, barrier) in joining.take_refused() {
                self.observer.observe(Observation::LeftOut { process, barrier });
            }
        }
    }

    /// True when the time is over, or the user ended the recording.
    pub(super) fn is_asked_to_leave(&self) -> bool {
        self.forwarding.was_interrupted() || self.joining.as_ref().is_some_and(Joining::is_over)
    }

    /// Registers a thread at its first stop. False for one that ended before.
    pub(super) fn join(&mut self, thread: Pid, change: &ThreadChange) -> bool {
        let Some(joining) = &mut self.joining else { return true };
        let Some((process, is_last)) = joining.stopped(thread) else { return true };
        if matches!(change, ThreadChange::Ended(_)) {
            return false;
        }
        let sibling = self.tracees.iter().find(|(_, tracee)| tracee.process == process);
        let shared = sibling.and_then(|(_, sibling)| sibling.memory);
        let parent = sibling.map(|(&sibling, _)| sibling);
        let birth = ThreadBirth {
            thread,
            parent,
            kind: if parent.is_some() { BirthKind::Thread } else { BirthKind::Process },
            shares_files: parent.is_some(),
            shares_directory: parent.is_some(),
            shares_memory: parent.is_some(),
            at: self.now(),
        };
        let memory = self.memories.begin(process, shared);
        let mut tracee = Tracee::new(process, memory);
        if let ThreadChange::Stopped(ThreadStop::Pause(stopped)) = change {
            keep_waiting(stopped, &mut tracee.wait);
        }
        self.tracees.insert(thread, tracee);
        self.observer.observe(Observation::Joined { birth, process, is_last });
        true
    }
}
