//! Records the start of a command in a thread of its own, whose end detaches the command.
//!
//! ```text
//! this thread                         the thread that traces
//! fork (the parent stays the          PTRACE_SEIZE, releases the child
//!   same when that thread ends) ----> records until the start is over
//! joins <---------------------------- ends: the kernel detaches all
//! waits for the command, its child
//! ```

use super::attach::{self, Attached};
use super::forward::Forwarding;
use super::run::{TICK, TracedRun};
use crate::RecordError;
use crate::engine::{Observation, Observer};
use crate::filter::Rules;
use crate::started::{StartJudge, StartLimits};
use crate::sys::ptrace::{TraceeFate, Until};
use crate::sys::signals::Ticks;
use crate::sys::spawn::SpawnFailure;
use quell_trace::{Ended, Exit, Nanos};
use std::path::Path;
use std::time::{Duration, Instant};

/// The end of the tracing.
struct Traced {
    /// The thread that traced.
    tracer: i32,
    /// `None` when all processes have ended.
    left: Option<(Nanos, Ended)>,
    /// The command's end, if it has ended.
    exit: Option<Exit>,
    forwarding: Forwarding,
    failure: Option<SpawnFailure>,
}

/// Runs the command to its end, and observes its start.
pub(super) fn run(
    attached: Attached,
    program: &Path,
    began: Instant,
    limits: StartLimits,
    observer: &mut dyn Observer,
) -> Result<Exit, RecordError> {
    let (command, mask) = (attached.command(), attached.mask());
    let start = |source| RecordError::Start { action: "start the command", source };
    let traced = std::thread::scope(|scope| {
        // Nested commands know a recorder by the name of the thread that traces.
        let tracer = std::thread::Builder::new().name("quell".to_owned());
        let tracer = tracer
            .spawn_scoped(scope, || trace(attached, began, StartJudge::new(limits), &mut *observer))
            .map_err(start)?;
        tracer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let Traced { tracer, left, exit, forwarding, failure } = traced.inspect_err(|_| mask.restore())?;
    await_end(tracer);
    forwarding.move_here();
    let Some((at, ended)) = left else {
        attach::explain_failure(failure, program)?;
        return Ok(exit.unwrap_or(Exit::Status(125)));
    };
    if exit.is_none() {
        forwarding.begin_witness();
    }
    observer.observe(Observation::LeftAlone { at, ended, exit });
    match exit {
        Some(exit) => Ok(exit),
        None => forwarding.await_end(command).map_err(|source| RecordError::Start { action: "wait", source }),
    }
}

/// Traces until the start is over or all processes have ended. The end of this thread detaches those that have not.
fn trace(
    attached: Attached,
    began: Instant,
    judge: StartJudge,
    observer: &mut dyn Observer,
) -> Result<Traced, RecordError> {
    let wait = |source| RecordError::Start { action: "wait", source };
    attached.seize(TraceeFate::RunOn)?;
    let command = attached.command();
    let ticks = Ticks::begin(TICK).map_err(wait)?;
    let (mut forwarding, failure) = attached.release()?;
    ticks.unblock();
    let mut run = TracedRun::new(command, began, &mut forwarding, observer);
    run.rules = Some(Rules::native());
    run.onward = Until::Return;
    run.judge = Some(judge);
    run.placement.disable();
    let left = run.until_over().map_err(wait)?.map(|ended| (run.now(), ended));
    if let Some((at, _)) = left {
        run.leave_alone(at).map_err(wait)?;
    }
    let exit = run.exit;
    drop(run);
    let tracer = rustix::thread::gettid().as_raw_nonzero().get();
    Ok(Traced { tracer, left, exit, forwarding, failure })
}

/// Waits until a thread has left the kernel's tables. A thread is joined a moment before it detaches its tracees.
pub(super) fn await_end(thread: i32) {
    let task = format!("/proc/self/task/{thread}");
    while Path::new(&task).exists() {
        std::thread::sleep(Duration::from_micros(100));
    }
}
